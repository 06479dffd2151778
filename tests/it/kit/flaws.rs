//! Backends that each break one promise, as a proof that every case detects it.

use super::simulated::{Capability, Through};
use async_trait::async_trait;
use engine::{ActionError, Class};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use store::Epoch;
use tests::kit::{self, Subject, Trouble};
use workflows::platform::{CallMetadata, FoundObject, codes};

/// The flaw of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Reports a creation that did not happen.
    MakesNothing,
    /// Reports a change that did not happen.
    ChangesNothing,
    /// Reports a removal that did not happen.
    RemovesNothing,
    /// Reports an undo that did not happen.
    UndoesNothing,
    /// Every answer contains a new identity.
    NewIdentities,
    /// Changes without comparing the amount.
    ChangesBlindly,
    /// Sets the amount of an existing object, instead of refusing.
    Overwrites,
    /// Creates an object instead of failing to change it.
    MakesOnChange,
    /// Removes any object with the name.
    RemovesByName,
    /// Fails if there is nothing to remove.
    FailsOnAbsent,
    /// Removes another object too.
    RemovesMore,
    /// Reports a failed read as an absence.
    TakesFailuresForAbsence,
    /// Returns cached observations.
    SeesWhatWas,
    /// Fails for an absent object.
    AbsenceFails,
    /// Reports every unknown outcome as a failure.
    SaysFailed,
    /// Accepts every call, without comparing epochs.
    ForgetsCallers,
    /// Refuses the same holder a second time.
    FencesEquals,
    /// Compares the epochs of different steps.
    FencesAcross,
    /// Continues after its caller has gone.
    GoesOn,
    /// Does not pass on the retry delay.
    ForgetsTheWait,
    /// Performs dry runs.
    DoesDryRuns,
    /// Reports success for every dry run.
    PraisesDryRuns,
    /// Treats a dry run as the call itself.
    RemembersDryRuns,
    /// Fails a slow call early.
    GivesUpEarly,
    /// Permanently refuses one of two concurrent calls.
    RefusesTwins,
}

/// The cases that must detect each flaw. Together these are all cases.
const FOUND_OUT: &[(Flaw, &[&str])] = &[
    (
        Flaw::MakesNothing,
        &[
            "make.makes",
            "make.foreign",
            "repeat.make_unequal",
            "repeat.key_reused",
            "lost_answer.make",
            "lost_answer.make_undo",
            "lost_request.make",
            "half_done.make_repeat",
            "twins.make_rivals",
            "fence.make",
            "down.make",
            "down.back",
            "deny.make",
            "throttle.make",
            "garbage.make",
            "unsupported.make",
            "slow.make",
            "slow.make_too",
            "dry_run.make_refused",
        ],
    ),
    (
        Flaw::ChangesNothing,
        &[
            "change.changes",
            "change.absent",
            "change.gone",
            "repeat.change",
            "lost_answer.change",
            "lost_request.change",
            "fence.change",
            "fence.equal",
            "fence.per_step",
            "cancel.change",
            "twins.change",
            "slow.change_too",
            "down.change",
            "deny.change",
            "throttle.change",
            "garbage.change",
            "dry_run.change",
        ],
    ),
    (
        Flaw::RemovesNothing,
        &[
            "remove.removes",
            "remove.again",
            "repeat.remove",
            "lost_answer.remove",
            "lost_request.remove",
            "half_done.make_undo",
            "fence.remove",
            "cancel.remove",
            "twins.remove",
            "down.remove",
            "deny.remove",
        ],
    ),
    (Flaw::UndoesNothing, &["undo.change"]),
    (
        Flaw::NewIdentities,
        &[
            "make.marks",
            "look.harmless",
            "repeat.make",
            "repeat.make_later",
            "repeat.make_equal",
            "repeat.undo",
            "lost_answer.make_repeat",
            "cancel.make",
            "twins.make",
        ],
    ),
    (
        Flaw::ChangesBlindly,
        &["change.stale", "change.drifted", "repeat.change_by_other", "twins.change_rivals"],
    ),
    (Flaw::Overwrites, &["repeat.make_old", "repeat.make_unequal"]),
    (Flaw::MakesOnChange, &["change.absent", "change.gone"]),
    (Flaw::RemovesByName, &["remove.replaced"]),
    (Flaw::FailsOnAbsent, &["remove.absent", "undo.never_ran"]),
    (Flaw::RemovesMore, &["remove.neighbour"]),
    (
        Flaw::TakesFailuresForAbsence,
        &["down.look", "deny.look", "garbage.look", "throttle.look", "slow.look_too"],
    ),
    (Flaw::SeesWhatWas, &["look.gone"]),
    (Flaw::AbsenceFails, &["look.absent"]),
    (
        Flaw::SaysFailed,
        &["lost_answer.make", "lost_request.make", "lost_answer.change", "lost_request.remove"],
    ),
    (Flaw::ForgetsCallers, &["fence.undone", "fence.make", "fence.change", "fence.remove", "undo.own"]),
    (Flaw::FencesEquals, &["fence.equal"]),
    (Flaw::FencesAcross, &["fence.per_step"]),
    (Flaw::GoesOn, &["cancel.ends"]),
    (Flaw::ForgetsTheWait, &["throttle.make", "throttle.look", "throttle.change"]),
    (Flaw::DoesDryRuns, &["dry_run.make", "dry_run.change", "dry_run.remove"]),
    (Flaw::PraisesDryRuns, &["dry_run.make_refused", "dry_run.change_refused"]),
    (Flaw::RemembersDryRuns, &["dry_run.make_then"]),
    (Flaw::GivesUpEarly, &["slow.make"]),
    (Flaw::RefusesTwins, &["twins.make"]),
];

/// The simulated platform with a flaw.
pub(super) struct Flawed {
    inner: Arc<Through>,
    flaw: Flaw,
    count: AtomicU64,
    newest: AtomicU64,
    seen: Mutex<BTreeMap<String, FoundObject>>,
    keys: Mutex<BTreeSet<String>>,
}

impl Flawed {
    pub(super) fn with(flaw: Flaw) -> Self {
        let inner = Arc::new(Through::in_process(Capability::Kubernetes));
        let (count, newest) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner, flaw, count, newest, seen: Mutex::default(), keys: Mutex::default() }
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn invented(&self, stamp: &CallMetadata) -> FoundObject {
        let (tenant, step) = ("acme".to_owned(), stamp.step.clone());
        FoundObject { uid: "invented".into(), tenant, step, spec: Value::Null, terminating: false }
    }

    /// Returns the metadata as this backend sees it.
    fn taken(&self, stamp: &CallMetadata) -> Result<CallMetadata, ActionError> {
        let mut stamp = stamp.clone();
        if self.is(Flaw::ForgetsCallers) {
            let nth = self.count.fetch_add(1, Ordering::SeqCst);
            (stamp.key, stamp.step) = (format!("{}~{nth}", stamp.key), format!("{}~{nth}", stamp.step));
        }
        stamp.dry_run &= !self.is(Flaw::DoesDryRuns);
        let fenced = || Err(ActionError::permanent(codes::FENCED, "late"));
        if self.is(Flaw::FencesEquals) && !self.keys.lock().unwrap().insert(stamp.step.clone()) {
            return fenced();
        }
        let newest = self.newest.fetch_max(stamp.epoch.0, Ordering::SeqCst);
        if self.is(Flaw::FencesAcross) && Epoch(newest) > stamp.epoch {
            return fenced();
        }
        Ok(stamp)
    }

    fn told<T>(&self, answer: Result<T, ActionError>) -> Result<T, ActionError> {
        answer.map_err(|mut error| {
            if self.is(Flaw::SaysFailed) && error.class == Class::Unknown {
                error.class = Class::Permanent;
            }
            if self.is(Flaw::ForgetsTheWait) {
                error.retry_after = None;
            }
            error
        })
    }

    fn identified(&self, mut found: FoundObject) -> FoundObject {
        if self.is(Flaw::NewIdentities) {
            found.uid = format!("{}~{}", found.uid, self.count.fetch_add(1, Ordering::SeqCst));
        }
        found
    }
}

#[async_trait]
impl Subject for Flawed {
    fn name(&self) -> &'static str {
        "flawed"
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        let praised = self.is(Flaw::PraisesDryRuns) && stamp.dry_run;
        let new = self.keys.lock().unwrap().insert(stamp.key.clone());
        let remembered = self.is(Flaw::RemembersDryRuns) && !new;
        if self.is(Flaw::MakesNothing) || praised || remembered {
            return Ok(self.invented(stamp));
        }
        if self.is(Flaw::RefusesTwins) && !new {
            return Err(ActionError::permanent(codes::REFUSED, "it is being made"));
        }
        let stamp = self.taken(stamp)?;
        if self.is(Flaw::Overwrites) && self.inner.really(thing).await.is_some_and(|now| now != amount) {
            self.inner.tamper(thing, amount).await.unwrap();
        }
        if self.is(Flaw::GoesOn) {
            let (inner, thing) = (self.inner.clone(), thing.to_owned());
            return tokio::spawn(async move { inner.make(&thing, amount, &stamp).await }).await.unwrap();
        }
        let making = self.inner.make(thing, amount, &stamp);
        if self.is(Flaw::GivesUpEarly) {
            let given_up = tokio::time::timeout(std::time::Duration::from_millis(5), making).await;
            return given_up.unwrap_or_else(|_| Err(ActionError::transient(codes::UNAVAILABLE, "slow")));
        }
        self.told(making.await).map(|found| self.identified(found))
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        let looked = self.told(self.inner.look(thing, stamp).await);
        if self.is(Flaw::TakesFailuresForAbsence) && looked.is_err() {
            return Ok(None);
        }
        let found = looked?;
        if self.is(Flaw::AbsenceFails) && found.is_none() {
            return Err(ActionError::permanent(codes::OBJECT_MISSING, "it is not there"));
        }
        let mut seen = self.seen.lock().unwrap();
        let was = found.clone().and_then(|found| seen.insert(thing.to_owned(), found));
        let was = was.or_else(|| seen.get(thing).cloned());
        let found = if self.is(Flaw::SeesWhatWas) { found.or(was) } else { found };
        Ok(found.map(|found| self.identified(found)))
    }

    async fn change(
        &self,
        thing: &str,
        from: u64,
        to: u64,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let praised = self.is(Flaw::PraisesDryRuns) && stamp.dry_run;
        let undone = self.is(Flaw::UndoesNothing) && stamp.undo;
        if self.is(Flaw::ChangesNothing) || praised || undone {
            return Ok(self.invented(stamp));
        }
        let stamp = self.taken(stamp)?;
        let is = self.inner.really(thing).await;
        if self.is(Flaw::MakesOnChange) && is.is_none() {
            return self.inner.make(thing, to, &stamp).await;
        }
        if self.is(Flaw::ChangesBlindly) {
            self.inner.tamper(thing, to).await.unwrap();
            return Ok(self.invented(&stamp));
        }
        let changed = self.inner.change(thing, from, to, &stamp).await;
        self.told(changed).map(|found| self.identified(found))
    }

    async fn remove(
        &self,
        thing: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        if self.is(Flaw::RemovesNothing) {
            return Ok(());
        }
        let stamp = self.taken(stamp)?;
        let there = self.inner.really(thing).await.is_some();
        if self.is(Flaw::FailsOnAbsent) && !there {
            return Err(ActionError::permanent(codes::OBJECT_MISSING, "it is not there"));
        }
        if self.is(Flaw::RemovesMore) {
            self.inner.vanish(&format!("{thing}-0")).await.unwrap();
        }
        if self.is(Flaw::RemovesByName) {
            return self.inner.vanish(thing).await.map_err(|e| ActionError::permanent(codes::REFUSED, e));
        }
        let uid = found.uid.split('~').next().unwrap_or_default().to_owned();
        let removed = self.inner.remove(thing, &FoundObject { uid, ..found.clone() }, &stamp).await;
        self.told(removed)
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        self.inner.really(thing).await
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        self.inner.trouble(next).await
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        self.inner.excused(case)
    }

    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        self.inner.plant(thing, amount).await
    }

    async fn tamper(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        self.inner.tamper(thing, amount).await
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        self.inner.vanish(thing).await
    }
}

/// Every case fails for a backend that breaks its promise.
///
/// The clock is paused and there is no socket, so every wait ends at once.
#[tokio::test(start_paused = true)]
async fn every_case_detects_a_backend_that_violates_it() {
    // Most of them wait: run all in parallel.
    let mut at_once = tokio::task::JoinSet::new();
    for (flaw, cases) in FOUND_OUT {
        at_once.spawn(async move {
            let flawed = Flawed::with(*flaw);
            let table = kit::run_some(&flawed, |name| cases.contains(&name)).await;
            let held =
                cases.iter().filter(|case| !matches!(table.cell("flawed", case), Some(kit::Cell::Broken(_))));
            held.map(|case| format!("{flaw:?} is not found out by {case}")).collect::<Vec<_>>()
        });
    }
    let missed = at_once.join_all().await.concat();
    assert_eq!(missed, [""; 0]);

    let found_out: BTreeSet<&str> = FOUND_OUT.iter().flat_map(|(_, cases)| cases.iter().copied()).collect();
    let all: BTreeSet<&str> = kit::cases().iter().map(|case| case.name).collect();
    assert_eq!(all.difference(&found_out).collect::<Vec<_>>(), Vec::<&&str>::new(), "no flaw breaks these");
    assert_eq!(
        found_out.difference(&all).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "these cases do not exist"
    );
}
