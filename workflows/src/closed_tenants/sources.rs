//! The systems that a check queries, each with the credentials of the verifier and of the platform.

use super::certified::ClosedTenant;
use crate::{
    destruction::UnansweredSource,
    platform::{CallMetadata, ObservedResource, Observer, SYSTEMS, TenantResource, TenantResources},
    signing::Moment,
    tenancy::TenantId,
};
use engine::{ActionError, Class, Stopwatch};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{CompositeKey, Epoch};

/// The time for one check. Sources that were not queried by then count as unanswered.
pub(super) const LOOK_WITHIN: Duration = Duration::from_secs(180);
/// The timeout of one survey of a system.
const SURVEY_WITHIN: Duration = Duration::from_secs(60);
/// The timeout of one query by name.
const READ_WITHIN: Duration = Duration::from_secs(20);
/// A source that did not answer for this number of tenants is not queried again in the same run.
const SILENT_FOR_TENANTS: usize = 2;
/// The reason for a source that was not queried in time.
const NOT_ASKED: &str = "not asked: the time limit of this check was reached";
/// Both observers, in the order of their queries. A resource created in between is found by the second.
const OBSERVERS: [Observer; 2] = [Observer::Verifier, Observer::Platform];
/// The maximum number of silent sources that one check names.
const MOST_UNANSWERED: usize = 50;

/// The sources that did not answer in one run. A source is not queried again for the same tenant, nor in this run after it failed for
/// two tenants, so that the run ends in time.
#[derive(Clone, Debug, Default)]
pub struct SilentSources(BTreeMap<(String, &'static str), Silence>);

/// The tenants for which a source did not answer, and the last error.
#[derive(Clone, Debug, Default)]
struct Silence {
    tenants: BTreeSet<TenantId>,
    why: String,
}

/// The answers of the sources.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// The resources that were found.
    pub(super) seen: BTreeMap<TenantResource, ObservedResource>,
    /// The systems that both observers listed completely.
    pub(super) surveyed: BTreeSet<String>,
    /// The resources that both observers looked for by name and did not find.
    pub(super) absent: BTreeSet<TenantResource>,
    /// The sources that did not answer.
    pub(super) unanswered: BTreeSet<UnansweredSource>,
}

/// One check of one tenant, with the time that is left for it.
struct Asking<'a> {
    resources: &'a dyn TenantResources,
    closed: &'a ClosedTenant,
    at: Moment,
    watch: Stopwatch,
    within: Duration,
}

/// Queries every system for resources with the tenant's mark, and for these resources by name, and stops after the time `within`.
pub(super) async fn ask(
    resources: &dyn TenantResources,
    closed: &ClosedTenant,
    names: &BTreeSet<TenantResource>,
    (at, within): (Moment, Duration),
    silent: &mut SilentSources,
) -> Answers {
    let asking = Asking { resources, closed, at, watch: Stopwatch::start(), within };
    let mut answers = Answers::default();
    for system in SYSTEMS {
        let mut complete = true;
        for eyes in OBSERVERS {
            complete &= asking.survey(system, eyes, silent, &mut answers).await;
        }
        if complete {
            answers.surveyed.insert(system.to_owned());
        }
    }
    for thing in names {
        asking.read(thing, silent, &mut answers).await;
    }
    answers
}

impl Asking<'_> {
    /// Lists resources with the tenant's mark in a system. Returns true if the system answered.
    async fn survey(
        &self,
        system: &str,
        eyes: Observer,
        silent: &mut SilentSources,
        answers: &mut Answers,
    ) -> bool {
        let Some(deadline) = self.deadline(SURVEY_WITHIN, (system, eyes), silent, answers) else {
            return false;
        };
        let tenant = self.closed.tenant.as_str();
        let key = CompositeKey::of(&[&"closed", &tenant, &system, &name(eyes), &self.at]).into();
        match self.resources.survey(system, tenant, eyes, &stamp(key, deadline)).await {
            Ok(listed) => {
                answers.seen.extend(listed.into_iter().map(|seen| (seen.thing.clone(), seen)));
                true
            }
            Err(error) => {
                // A system that does not support a survey answers at once, so it is queried again.
                silent.note(self, (system, eyes), &error, error.message.clone(), answers);
                false
            }
        }
    }

    /// Reads a resource by name, unless it was listed.
    async fn read(&self, thing: &TenantResource, silent: &mut SilentSources, answers: &mut Answers) {
        if answers.seen.contains_key(thing) {
            return;
        }
        let mut absent = 0;
        for eyes in OBSERVERS {
            let source = (thing.system.as_str(), eyes);
            let Some(deadline) = self.deadline(READ_WITHIN, source, silent, answers) else { continue };
            let key =
                CompositeKey::of(&[&"closed", &self.closed.tenant, thing, &name(eyes), &self.at]).into();
            match self.resources.read_resource(thing, eyes, &stamp(key, deadline)).await {
                Ok(Some(seen)) if self.closed.owns(&seen) => {
                    answers.seen.insert(thing.clone(), seen);
                    return;
                }
                Ok(Some(_) | None) => absent += 1,
                Err(error) => {
                    silent.note(self, source, &error, format!("{thing}: {}", error.message), answers)
                }
            }
        }
        if absent == OBSERVERS.len() {
            answers.absent.insert(thing.clone());
        }
    }

    /// Returns the time for one query, at most `most`. Returns `None` and adds the source to the unanswered ones if it is not queried now.
    fn deadline(
        &self,
        most: Duration,
        (system, eyes): (&str, Observer),
        silent: &SilentSources,
        answers: &mut Answers,
    ) -> Option<Duration> {
        if let Some(why) = silent.skips(system, eyes, &self.closed.tenant) {
            answers.lack(system, eyes, why.to_owned());
            return None;
        }
        let left = self.left();
        if left.is_zero() {
            answers.lack(system, eyes, NOT_ASKED.to_owned());
            return None;
        }
        Some(left.min(most))
    }

    fn left(&self) -> Duration {
        self.within.saturating_sub(self.watch.elapsed())
    }
}

impl SilentSources {
    /// Returns the error of a source that is not queried for this tenant.
    fn skips(&self, system: &str, eyes: Observer, tenant: &TenantId) -> Option<&str> {
        let silence = self.0.get(&(system.to_owned(), name(eyes)))?;
        let skips = silence.tenants.len() >= SILENT_FOR_TENANTS || silence.tenants.contains(tenant);
        skips.then_some(silence.why.as_str())
    }

    /// Records that a source did not answer. A source that rejects one query permanently still gets the next query. An error at the end of the
    /// time for the check says nothing about the source.
    fn note(
        &mut self,
        asking: &Asking<'_>,
        (system, eyes): (&str, Observer),
        error: &ActionError,
        why: String,
        answers: &mut Answers,
    ) {
        if error.class != Class::Permanent && !asking.left().is_zero() {
            let silence = self.0.entry((system.to_owned(), name(eyes))).or_default();
            silence.tenants.insert(asking.closed.tenant.clone());
            silence.why.clone_from(&why);
        }
        answers.lack(system, eyes, why);
    }
}

impl Answers {
    fn lack(&mut self, system: &str, eyes: Observer, why: String) {
        if self.unanswered.len() < MOST_UNANSWERED {
            let (system, eyes) = (system.to_owned(), name(eyes).to_owned());
            self.unanswered.insert(UnansweredSource { system, eyes, why });
        }
    }
}

fn name(eyes: Observer) -> &'static str {
    eyes.into()
}

/// Returns the metadata of a read-only call.
fn stamp(key: String, deadline: Duration) -> CallMetadata {
    CallMetadata {
        action: "LookAtClosedTenant",
        step: key.clone(),
        key,
        epoch: Epoch(0),
        undo: false,
        deadline,
        dry_run: false,
    }
}
