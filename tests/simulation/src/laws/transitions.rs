//! Laws about one change of one execution: its trail, results, deadlines, signals, votes and pivot.

use super::{Laws, list, number, text};
use crate::cast::{ANSWER_WITHIN, Demolition, soonest};
use engine::{Execution, Workflow};
use serde_json::Value;
use std::collections::BTreeSet;
use store::{Commit, Entry, Record, Timestamp};

/// The number of seats of an approval.
const QUORUM: usize = 2;

/// One change of one execution.
pub(super) struct Turn<'a> {
    pub(super) id: String,
    pub(super) before: &'a Record,
    pub(super) after: &'a Record,
    pub(super) old: &'a Value,
    pub(super) new: &'a Value,
    pub(super) told: &'a Value,
    pub(super) ways: &'a [Value],
}

impl Laws {
    /// The trail only grows, its marks only advance, and the latest action is undone first.
    pub(super) fn trail(&self, turn: &Turn<'_>) {
        let (old, new) = (list(turn.old, "trail"), list(turn.new, "trail"));
        self.hold(new.len() >= old.len(), || format!("{}: the trail has become shorter", turn.id));
        for (place, mark) in new.iter().enumerate() {
            let before = old.get(place);
            let was = before.map_or("", |before| text(before, "fate"));
            let is = text(mark, "fate");
            let rank = |fate: &str| match fate {
                "begun" => 0,
                "done" | "failed" => 1,
                _ => 2,
            };
            self.hold(before.is_none() || rank(was) <= rank(is), || {
                format!("{}: a mark went from {was} to {is}", turn.id)
            });
            if rank(is) == 2 && rank(was) < 2 {
                let later = new.iter().find(|other| {
                    number(other, "entered") > number(mark, "entered") && rank(text(other, "fate")) < 2
                });
                self.hold(later.is_none(), || {
                    format!(
                        "{}: {} of {} is undone before {} of {}",
                        turn.id,
                        text(mark, "action"),
                        text(mark, "state"),
                        text(later.unwrap(), "action"),
                        text(later.unwrap(), "state")
                    )
                });
            }
        }
    }

    /// A result is accepted by the visit that requested it, and once.
    pub(super) fn tickets(&self, turn: &Turn<'_>) {
        let kinds = ["settled", "probed", "held"];
        let Some(told) = kinds.iter().find_map(|kind| turn.told.get(*kind)) else { return };
        let (visit, slot) = (number(&told["ticket"], "visit"), number(&told["ticket"], "slot"));
        self.hold(visit == number(turn.old, "visit"), || {
            format!("{}: a result of visit {visit} was taken in visit {}", turn.id, number(turn.old, "visit"))
        });
        let before = list(turn.old, "slots").get(usize::try_from(slot).unwrap());
        let open = before.is_some_and(|slot| slot["begun"] == true && slot["settled"].is_null());
        self.hold(open, || format!("{}: slot {slot} was settled twice, or never begun", turn.id));
        let (was, is) = (list(&turn.old["data"], "noted").len(), list(&turn.new["data"], "noted"));
        for made in is.iter().skip(was) {
            let right = text(made, "state") == turn.before.state
                && number(made, "entered") == number(turn.old, "entered");
            self.hold(right, || format!("{}: {made} was noted in {}", turn.id, turn.before.state));
        }
    }

    /// A deadline passes once, for the visit that set it, and not early.
    pub(super) fn deadlines(&self, turn: &Turn<'_>, entries: &[&Entry]) {
        if let Some(told) = turn.told.get("deadline_passed") {
            let (visit, current) = (number(told, "visit"), number(turn.old, "visit"));
            self.hold(visit == current, || {
                format!("{}: the deadline of visit {visit} fired in visit {current}", turn.id)
            });
        }
        // If the execution is paused, the consequences may be delayed; the passing is recorded once, at the right time.
        let passed = turn.new["overdue"] == true
            || (turn.old["ballot"]["ruling"].is_null() && turn.new["ballot"]["ruling"] == "expired")
            || turn.ways.first().is_some_and(|way| !way["by"].is_null());
        let Some(entry) = entries.first().filter(|_| passed && turn.told.get("deadline_passed").is_some())
        else {
            return;
        };
        let since = Timestamp(number(turn.old, "since"));
        let within = soonest(&turn.before.workflow, &turn.before.state, &turn.old["data"]);
        self.hold(within.is_none_or(|within| entry.at >= since.after(within)), || {
            format!("{}: {} was over after {:?}", turn.id, turn.before.state, entry.at.since(since))
        });
    }

    /// A signal is stored until a wait takes it.
    pub(super) fn signals(&self, turn: &Turn<'_>) {
        let kept = |body: &Value| list(body, "signals").iter().any(|signal| signal == "go");
        let told = turn.told.get("signalled").is_some();
        let taken = turn.ways.iter().any(|way| text(way, "by") == "signal go");
        let over = !turn.after.open;
        self.hold(!(told || kept(turn.old)) || taken || kept(turn.new) || over, || {
            format!("{}: a signal was lost in {}", turn.id, turn.before.state)
        });
        let expired = turn.before.state != turn.after.state
            && text(turn.ways.first().unwrap_or(&Value::Null), "by") == "deadline";
        let listens =
            soonest(&turn.before.workflow, &turn.before.state, &turn.old["data"]) == Some(ANSWER_WITHIN);
        self.hold(!(expired && listens && kept(turn.old)), || {
            format!("{}: it gave up a wait though the signal was there", turn.id)
        });
    }

    /// Votes: each on the current plan, none on an own request, enough of them, each once.
    pub(super) fn votes(&self, turn: &Turn<'_>, commit: &Commit) {
        let vote = turn.told.get("voted");
        let closed = || commit.documents.iter().find(|put| put.key.collection == "approvals-closed");
        let case: Value =
            closed().and_then(|put| serde_json::from_slice(put.body.as_deref()?).ok()).unwrap_or_default();
        let ballot = if turn.new["ballot"].is_null() { &case } else { &turn.new["ballot"] };
        if let Some(vote) = vote {
            self.hold(vote["digest"] == ballot["digest"], || {
                format!("{}: a vote for {} counts for {}", turn.id, vote["digest"], ballot["digest"])
            });
        }
        if !turn.ways.iter().any(|way| text(way, "by") == "approved") {
            return;
        }
        let yes = list(&case, "votes").iter().filter(|vote| vote["verdict"] == "approve");
        let people: BTreeSet<&str> = yes
            .filter(|vote| list(&vote["person"], "roles").iter().any(|role| role == "boss"))
            .map(|vote| text(&vote["person"], "name"))
            .filter(|name| *name != turn.before.requested_by)
            .collect();
        self.hold(people.len() >= QUORUM, || format!("{}: approved only by {people:?}", turn.id));
    }

    /// After the pivot there is no undo, and nothing is destroyed without approval.
    pub(super) fn pivots(&self, turn: &Turn<'_>) {
        let passed = |body: &Value| !body["pivot"].is_null();
        if passed(turn.old) {
            let phase = &turn.new["phase"];
            let ending = phase["finished"]["outcome"].as_str();
            let back = !phase["compensating"].is_null()
                || matches!(ending, Some("rolled_back" | "cancelled" | "refused" | "expired"));
            self.hold(!back, || format!("{}: it turned back past its pivot: {phase}", turn.id));
            self.hold(passed(turn.new), || format!("{}: it forgot its pivot", turn.id));
        }
        if turn.after.workflow == Demolition::NAME && passed(turn.new) && !passed(turn.old) {
            let execution: Execution<Demolition> = serde_json::from_slice(&turn.after.body).unwrap();
            let plan = execution.digest();
            let agreed = execution.authorisation.as_ref();
            self.hold(agreed.is_some_and(|given| given.digest == plan && given.by.is_people()), || {
                format!("{}: it destroys by {plan}, and {agreed:?} was agreed to", turn.id)
            });
        }
    }
}
