//! Folds similar refusals: the first is recorded at once, further ones of the same minute as one entry with their count.

use std::collections::{BTreeMap, VecDeque};
use store::Timestamp;
use workflows::audit::{Denial, Denied};

/// How long similar refusals are folded, in milliseconds.
const MINUTE: u64 = 60_000;
/// The interval of checks for finished folds, in milliseconds.
const SECOND: u64 = 1_000;
/// The maximum number of waiting entries; further refusals share entries.
const MOST_WAITING: usize = 8_192;
/// Limits of separate entries for known callers: burst, and rate per minute.
const KNOWN: (u64, u64) = (4_096, 256);
/// Limits for unknown callers: they create at most 50,000 entries a day.
const UNKNOWN: (u64, u64) = (512, 32);

/// The fields that make refusals similar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FoldKey {
    who: String,
    tenant: String,
    from: String,
    asked: String,
    code: String,
}

impl FoldKey {
    fn of(denial: &Denial) -> Self {
        Self {
            who: denial.who.clone(),
            tenant: denial.tenant.clone(),
            from: denial.what.from.clone(),
            asked: denial.what.asked.clone(),
            code: denial.code.clone(),
        }
    }
}

/// The remaining number of separate entries.
#[derive(Debug)]
struct Budget {
    most: u64,
    each: u64,
    left: u64,
    since: Timestamp,
}

impl Budget {
    const fn of((most, each): (u64, u64)) -> Self {
        Self { most, each, left: most, since: Timestamp(0) }
    }

    fn spend(&mut self, now: Timestamp) -> bool {
        let minutes = now.0.saturating_sub(self.since.0) / MINUTE;
        if minutes > 0 {
            self.left = self.left.saturating_add(minutes.saturating_mul(self.each)).min(self.most);
            self.since = now;
        }
        let spent = self.left.checked_sub(1);
        self.left = spent.unwrap_or(0);
        spent.is_some()
    }
}

/// Refusals that are not written yet.
#[derive(Debug)]
pub(super) struct FoldedDenials {
    /// Open folds by key, with the count after the first refusal; `times` is 0 until there is one.
    open: BTreeMap<FoldKey, (Timestamp, Denial)>,
    ready: VecDeque<Denial>,
    known: Budget,
    unknown: Budget,
    closed: Timestamp,
}

impl Default for FoldedDenials {
    fn default() -> Self {
        let (known, unknown) = (Budget::of(KNOWN), Budget::of(UNKNOWN));
        Self { open: BTreeMap::new(), ready: VecDeque::new(), known, unknown, closed: Timestamp(0) }
    }
}

impl FoldedDenials {
    /// Adds a refusal of a caller that is `known` or not. Returns true for the first of similar ones.
    pub(super) fn note(&mut self, denial: &Denial, known: bool, now: Timestamp) -> bool {
        self.close(now);
        if self.fold(&FoldKey::of(denial), denial, now) {
            return false;
        }
        let budget = if known { &mut self.known } else { &mut self.unknown };
        if self.ready.len() < MOST_WAITING && budget.spend(now) {
            self.begin(denial.clone(), now);
            return true;
        }
        let several = several(denial);
        if !self.fold(&FoldKey::of(&several), &several, now) {
            self.open.insert(FoldKey::of(&several), (now, several));
        }
        false
    }

    /// Returns the next entries to write, at most `most`; with `last`, also open folds.
    pub(super) fn take(&mut self, most: usize, last: bool, now: Timestamp) -> Vec<Denial> {
        if last {
            self.ready.extend(std::mem::take(&mut self.open).into_values().filter_map(grown));
        } else {
            self.close(now);
        }
        let most = most.min(self.ready.len());
        self.ready.drain(..most).collect()
    }

    /// Takes back entries that could not be written, to be written first.
    pub(super) fn give_back(&mut self, batch: Vec<Denial>) {
        for denial in batch.into_iter().rev() {
            self.ready.push_front(denial);
        }
    }

    /// Returns the number of refusals that are not recorded.
    pub(super) fn left(&self) -> u64 {
        let open = self.open.values().map(|(_, denial)| denial);
        self.ready.iter().chain(open).map(|denial| denial.what.times).sum()
    }

    /// Records the first refusal, and opens a fold.
    fn begin(&mut self, denial: Denial, now: Timestamp) {
        let nothing = Denied { times: 0, ..denial.what.clone() };
        self.open.insert(FoldKey::of(&denial), (now, Denial { what: nothing, ..denial.clone() }));
        self.ready.push_back(denial);
    }

    /// Adds to an open fold, if there is one.
    fn fold(&mut self, alike: &FoldKey, denial: &Denial, now: Timestamp) -> bool {
        let Some((_, fold)) = self.open.get_mut(alike) else { return false };
        if fold.what.times == 0 {
            fold.what = denial.what.clone();
            fold.path.clone_from(&denial.path);
        } else {
            fold.what.times = fold.what.times.saturating_add(denial.what.times);
            fold.what.until = now.into();
        }
        true
    }

    /// Closes folds that are a minute old.
    fn close(&mut self, now: Timestamp) {
        if now.0.saturating_sub(self.closed.0) < SECOND {
            return;
        }
        self.closed = now;
        let over = |(since, _): &(Timestamp, Denial)| now.0.saturating_sub(since.0) >= MINUTE;
        let (over, open) = std::mem::take(&mut self.open).into_iter().partition(|(_, fold)| over(fold));
        self.open = open;
        for fold in BTreeMap::into_values(over) {
            // Without space for an entry, the fold stays open, and its entry covers a longer period.
            match grown(fold) {
                Some(denial) if self.ready.len() >= MOST_WAITING => {
                    let several = several(&denial);
                    if !self.fold(&FoldKey::of(&several), &several, now) {
                        self.open.insert(FoldKey::of(&several), (now, several));
                    }
                }
                Some(denial) => self.ready.push_back(denial),
                None => {}
            }
        }
    }
}

/// Returns the entry of a fold, if it is not empty.
fn grown((_, denial): (Timestamp, Denial)) -> Option<Denial> {
    (denial.what.times > 0).then_some(denial)
}

/// Returns the refusal without fields of unbounded variety.
fn several(denial: &Denial) -> Denial {
    let star = || Denial::SEVERAL.to_owned();
    Denial {
        who: star(),
        tenant: String::new(),
        path: String::new(),
        code: denial.code.clone(),
        why: String::new(),
        what: Denied { from: star(), asked: star(), token: None, request: None, ..denial.what.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(who: &str, from: &str, at: u64) -> Denial {
        Denial {
            who: who.into(),
            tenant: String::new(),
            path: "/v1/users/x".into(),
            code: "auth.forbidden".into(),
            why: "no".into(),
            what: Denied {
                from: from.into(),
                asked: "DELETE /v1/users/{name}".into(),
                token: None,
                request: None,
                times: 1,
                since: Timestamp(at).into(),
                until: Timestamp(at).into(),
            },
        }
    }

    fn times(of: &[Denial]) -> Vec<u64> {
        of.iter().map(|denial| denial.what.times).collect()
    }

    #[test]
    fn the_first_refusal_is_recorded_at_once_and_those_of_its_minute_as_one_entry() {
        let mut folds = FoldedDenials::default();
        for at in 0..5 {
            assert_eq!(folds.note(&denial("ada", "10.0.0.7", at), true, Timestamp(at)), at == 0);
        }
        assert!(folds.note(&denial("bob", "10.0.0.7", 9), true, Timestamp(9)), "another refusal is separate");
        assert_eq!(times(&folds.take(9, false, Timestamp(10))), [1, 1]);
        assert!(folds.take(9, false, Timestamp(58_000)).is_empty());
        let folded = folds.take(9, false, Timestamp(60_000));
        assert_eq!(times(&folded), [4]);
        assert_eq!((folded[0].what.since, folded[0].what.until), (Timestamp(1).into(), Timestamp(4).into()));
        assert!(
            folds.note(&denial("ada", "10.0.0.7", 60_001), true, Timestamp(60_001)),
            "a minute later it is recorded again"
        );
    }

    #[test]
    fn a_flood_of_refusals_is_bounded_and_counted_completely() {
        let mut folds = FoldedDenials::default();
        let (mut written, mut entries) = (0, 0);
        let all = 100_000;
        for n in 0..all {
            // Half an hour, from another address each time.
            let now = Timestamp(n * 18);
            folds.note(
                &denial(Denial::UNKNOWN, &format!("10.{}.{}.{}", n >> 16, (n >> 8) & 255, n & 255), now.0),
                false,
                now,
            );
            assert!(folds.open.len() < 1_000 && folds.ready.len() <= MOST_WAITING);
            for told in folds.take(10_000, n + 1 == all, now) {
                written += told.what.times;
                entries += 1;
            }
        }
        assert_eq!((written, folds.left()), (all, 0));
        assert!(entries < 512 + 32 * 31 + 31, "{entries}");
        let known = folds.note(&denial("ada", "10.0.0.7", 0), true, Timestamp(all * 18));
        assert!(known, "unknown callers do not hide known ones");
    }

    #[test]
    fn unwritten_refusals_are_kept_and_bounded() {
        let mut folds = FoldedDenials::default();
        let all = 3_000_000;
        for n in (0..all).step_by(100) {
            let now = Timestamp(n * 60);
            folds.note(&denial(&format!("user-{n}"), "10.0.0.7", now.0), true, now);
            let batch = folds.take(256, false, now);
            folds.give_back(batch);
        }
        assert!(folds.ready.len() <= MOST_WAITING && folds.open.len() <= 1_000);
        assert_eq!(folds.left(), all / 100);
    }
}
