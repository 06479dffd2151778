//! The systems that a check queries, each with the credentials of the verifier and of the platform.

use super::certified::ClosedTenant;
use crate::{
    destruction::UnansweredSource,
    platform::{CallMetadata, ObservedResource, Observer, SYSTEMS, TenantResource, TenantResources},
    signing::Moment,
};
use engine::{ActionError, Class};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{CompositeKey, Epoch};

/// The timeout of one query of a source.
const WITHIN: Duration = Duration::from_secs(20);
/// Both observers, in the order of their queries. A resource created in between is found by the second.
const OBSERVERS: [Observer; 2] = [Observer::Verifier, Observer::Platform];
/// The maximum number of silent sources that one check names.
const MOST_UNANSWERED: usize = 50;

/// The sources that did not answer in one run. They are not queried again in this run, so that it ends in time.
#[derive(Clone, Debug, Default)]
pub struct SilentSources(BTreeMap<(String, &'static str), String>);

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

/// Queries every system for resources with the tenant's mark, and for these resources by name.
pub(super) async fn ask(
    resources: &dyn TenantResources,
    closed: &ClosedTenant,
    names: &BTreeSet<TenantResource>,
    at: Moment,
    silent: &mut SilentSources,
) -> Answers {
    let mut answers = Answers::default();
    for system in SYSTEMS {
        let mut complete = true;
        for eyes in OBSERVERS {
            complete &= survey(resources, closed, (system, eyes), at, silent, &mut answers).await;
        }
        if complete {
            answers.surveyed.insert(system.to_owned());
        }
    }
    for thing in names {
        read(resources, closed, thing, at, silent, &mut answers).await;
    }
    answers
}

/// Lists resources with the tenant's mark in a system. Returns true if the system answered.
async fn survey(
    resources: &dyn TenantResources,
    closed: &ClosedTenant,
    (system, eyes): (&str, Observer),
    at: Moment,
    silent: &mut SilentSources,
    answers: &mut Answers,
) -> bool {
    if silent.skips(system, eyes, answers) {
        return false;
    }
    let tenant = closed.tenant.as_str();
    let stamp = stamp(CompositeKey::of(&[&"closed", &tenant, &system, &name(eyes), &at]).into());
    match resources.survey(system, tenant, eyes, &stamp).await {
        Ok(listed) => {
            answers.seen.extend(listed.into_iter().map(|seen| (seen.thing.clone(), seen)));
            true
        }
        Err(error) => {
            // A system that does not support a survey answers at once, so it is queried again.
            silent.note(system, eyes, &error, error.message.clone(), answers);
            false
        }
    }
}

/// Reads a resource by name, unless it was listed.
async fn read(
    resources: &dyn TenantResources,
    closed: &ClosedTenant,
    thing: &TenantResource,
    at: Moment,
    silent: &mut SilentSources,
    answers: &mut Answers,
) {
    if answers.seen.contains_key(thing) {
        return;
    }
    let mut absent = 0;
    for eyes in OBSERVERS {
        if silent.skips(&thing.system, eyes, answers) {
            continue;
        }
        let stamp = stamp(CompositeKey::of(&[&"closed", &closed.tenant, thing, &name(eyes), &at]).into());
        match resources.read_resource(thing, eyes, &stamp).await {
            Ok(Some(seen)) if closed.owns(&seen) => {
                answers.seen.insert(thing.clone(), seen);
                return;
            }
            Ok(Some(_) | None) => absent += 1,
            Err(error) => {
                silent.note(&thing.system, eyes, &error, format!("{thing}: {}", error.message), answers)
            }
        }
    }
    if absent == OBSERVERS.len() {
        answers.absent.insert(thing.clone());
    }
}

impl SilentSources {
    /// Returns true, and adds the source to the unanswered ones, if it did not answer earlier in this run.
    fn skips(&self, system: &str, eyes: Observer, answers: &mut Answers) -> bool {
        let Some(why) = self.0.get(&(system.to_owned(), name(eyes))) else { return false };
        answers.lack(system, eyes, why.clone());
        true
    }

    /// Records that a source did not answer. A source that rejects one query permanently still gets the next query.
    fn note(
        &mut self,
        system: &str,
        eyes: Observer,
        error: &ActionError,
        why: String,
        answers: &mut Answers,
    ) {
        if error.class != Class::Permanent {
            self.0.insert((system.to_owned(), name(eyes)), why.clone());
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
fn stamp(key: String) -> CallMetadata {
    CallMetadata {
        action: "LookAtClosedTenant",
        step: key.clone(),
        key,
        epoch: Epoch(0),
        undo: false,
        deadline: WITHIN,
        dry_run: false,
    }
}
