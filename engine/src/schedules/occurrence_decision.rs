//! Decides whether one occurrence starts now, waits, or is dropped. A part of [`decide`](super::decide).

use super::{
    decide::{Decider, EndRequest, MAX_RUNNING, OccurrenceDecision, StartOutcome, attributed_reason},
    occurrence::Fate,
    times::utc,
};
use crate::{CatchUp, MAX_BUFFERED, Occurrence, Origin, Overlap};
use std::time::Duration;
use store::Timestamp;

/// An occurrence that is less late than this is on time: engines check every few seconds.
pub(crate) const ON_TIME: Duration = Duration::from_secs(60);

impl Decider<'_> {
    pub(crate) fn verdict(&mut self, occurrence: &Occurrence, recorded: bool) -> OccurrenceDecision {
        match self.preferred_decision(occurrence) {
            OccurrenceDecision::Wait(..) if !recorded && self.is_full() => {
                let why = format!("{MAX_BUFFERED} occurrences already wait, which is the limit");
                OccurrenceDecision::Drop(Fate::Skipped, why)
            }
            verdict => verdict,
        }
    }

    fn preferred_decision(&mut self, occurrence: &Occurrence) -> OccurrenceDecision {
        let by_clock = occurrence.origin == Origin::Clock;
        if occurrence.due() > self.facts.now {
            return OccurrenceDecision::Wait(Fate::Pending, String::new());
        }
        if by_clock && let Some(paused) = &self.status.paused {
            return match occurrence.fate {
                Fate::Pending => {
                    OccurrenceDecision::Drop(Fate::Paused, attributed_reason(&paused.by, &paused.reason))
                }
                fate => OccurrenceDecision::Wait(fate, occurrence.reason.clone()),
            };
        }
        if by_clock
            && occurrence.fate == Fate::Pending
            && let Some(why) = self.too_late(occurrence)
        {
            return OccurrenceDecision::Drop(Fate::Missed, why);
        }
        match self.beside_others(occurrence) {
            OccurrenceDecision::Start => self.at_once(occurrence),
            other => other,
        }
    }

    /// Decides for an occurrence without open runs.
    fn at_once(&self, occurrence: &Occurrence) -> OccurrenceDecision {
        if !self.facts.starting {
            return OccurrenceDecision::Wait(occurrence.fate, occurrence.reason.clone());
        }
        let patient = occurrence.origin == Origin::Backfill || occurrence.fate == Fate::Buffered;
        match self.facts.tried.get(&occurrence.nominal) {
            None | Some(StartOutcome::Known(_)) => OccurrenceDecision::Start,
            Some(StartOutcome::Later) => OccurrenceDecision::Wait(occurrence.fate, occurrence.reason.clone()),
            Some(StartOutcome::Refused(why)) => OccurrenceDecision::Drop(Fate::Failed, why.clone()),
            Some(StartOutcome::Busy(_)) if patient => {
                OccurrenceDecision::Wait(Fate::Buffered, occurrence.reason.clone())
            }
            Some(StartOutcome::Busy(why)) => OccurrenceDecision::Drop(Fate::Skipped, why.clone()),
        }
    }

    /// Applies the overlap policy to the open runs.
    fn beside_others(&mut self, occurrence: &Occurrence) -> OccurrenceDecision {
        let schedule = self.facts.schedule;
        let running = self.status.running.len();
        let open = match (self.status.running.first(), self.facts.tried.get(&occurrence.nominal)) {
            (Some(first), _) => {
                let which = first.execution.map(|id| id.to_string()).unwrap_or_default();
                format!("execution {which} of {} is open", utc(first.nominal))
            }
            (None, Some(StartOutcome::Busy(why))) => why.clone(),
            (None, None | Some(StartOutcome::Refused(_) | StartOutcome::Later | StartOutcome::Known(_))) => {
                return OccurrenceDecision::Start;
            }
        };
        if schedule.overlap == Overlap::Allow && running < MAX_RUNNING {
            return OccurrenceDecision::Start;
        }
        // An occurrence that already waits keeps its turn, even if the schedule has changed.
        if occurrence.origin == Origin::Backfill || occurrence.fate == Fate::Buffered {
            return OccurrenceDecision::Wait(Fate::Buffered, occurrence.reason.clone());
        }
        let buffered = self.status.waiting.iter().filter(|other| is_buffered(other));
        match schedule.overlap {
            Overlap::Allow => OccurrenceDecision::Drop(
                Fate::Skipped,
                format!("{running} runs are open, which is the limit"),
            ),
            Overlap::Skip => OccurrenceDecision::Drop(Fate::Skipped, open),
            Overlap::BufferOne => match buffered.map(|other| other.nominal).next() {
                None => OccurrenceDecision::Wait(Fate::Buffered, open),
                Some(other) => OccurrenceDecision::Drop(
                    Fate::Merged,
                    format!("into the waiting occurrence of {}", utc(other)),
                ),
            },
            Overlap::BufferAll => {
                let waiting = buffered.count();
                if waiting < usize::try_from(schedule.buffer).unwrap_or(usize::MAX) {
                    OccurrenceDecision::Wait(Fate::Buffered, open)
                } else {
                    OccurrenceDecision::Drop(
                        Fate::Skipped,
                        format!("{waiting} occurrences already wait, which is the limit"),
                    )
                }
            }
            Overlap::CancelOther => self.make_room(occurrence, EndRequest::Cancel, open),
            Overlap::TerminateOther => self.make_room(occurrence, EndRequest::Terminate, open),
        }
    }

    /// Ends every earlier run, once each, and lets the latest occurrence wait for that.
    fn make_room(&mut self, occurrence: &Occurrence, ask: EndRequest, open: String) -> OccurrenceDecision {
        let (merged, waiting) =
            std::mem::take(&mut self.status.waiting).into_iter().partition::<Vec<_>, _>(is_buffered);
        self.status.waiting = waiting;
        for earlier in merged {
            let reason = format!("into the later occurrence of {}", utc(occurrence.nominal));
            self.close_occurrence(earlier, Fate::Merged, reason);
        }
        for id in self.status.running.iter().filter_map(|run| run.execution) {
            if self.status.asked_to_end.insert(id) {
                self.orders.push((id, ask));
            }
        }
        OccurrenceDecision::Wait(Fate::Buffered, open)
    }

    /// Returns why an occurrence is too late to start, if it is.
    fn too_late(&mut self, occurrence: &Occurrence) -> Option<String> {
        let schedule = self.facts.schedule;
        let late = self.facts.now.since(occurrence.due());
        if late < ON_TIME {
            return None;
        }
        let by = format!("{} s late", late.as_secs());
        if let Some(window) = schedule.window.filter(|window| late > *window) {
            return Some(format!("{by}; the limit is {} s", window.as_secs()));
        }
        match schedule.catch_up {
            CatchUp::None => Some(format!("{by}; missed occurrences are not started")),
            CatchUp::All => None,
            // It was the latest when the schedule changed; the new expression says nothing about that time.
            CatchUp::Latest if occurrence.version != schedule.version => None,
            CatchUp::Latest => {
                let later = self.next_due_after(occurrence.nominal)?;
                Some(format!("{by}, and the occurrence of {} was also due", utc(later)))
            }
        }
    }

    /// Returns the next moment after `nominal` that is also due and not excluded.
    fn next_due_after(&mut self, nominal: Timestamp) -> Option<Timestamp> {
        if self.late.is_none_or(|known| known <= nominal) {
            self.late = self.facts.schedule.next_eligible(self.facts.times, nominal);
        }
        self.late.filter(|next| *next <= self.facts.now)
    }
}

/// Returns true if it waits for an earlier run, and may be merged into another.
fn is_buffered(occurrence: &Occurrence) -> bool {
    occurrence.fate == Fate::Buffered && occurrence.origin != Origin::Backfill
}
