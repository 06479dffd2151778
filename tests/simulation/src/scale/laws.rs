//! Invariants of leases, tasks and commits, separate from the model of the store that they check.

use super::{
    clockwork::{MILLI, Moment, SECOND, Spans},
    costs::LEASE,
    tasks::Id,
};
use std::collections::HashMap;

/// The time beyond a lease within which another node must continue.
const GRACE: Moment = 5 * SECOND;
/// The maximum number of reported violations.
const MOST: usize = 20;

/// Returns the term of a lease, in microseconds.
#[must_use]
pub fn lease() -> Moment {
    u64::try_from(LEASE.as_micros()).unwrap()
}

/// The observations so far.
#[derive(Debug)]
pub struct Laws {
    /// The valid lease of each task; 0 means no lease.
    epochs: Vec<u32>,
    /// The end of the lease, in milliseconds.
    until: Vec<u32>,
    last: u32,
    /// Tasks of dead holders, with the time of death.
    orphans: HashMap<Id, Moment>,
    /// The times in which the store did not answer.
    still: Vec<(Moment, Moment)>,
    /// How long it took until other nodes continued the tasks of dead ones.
    pub takeovers: Spans,
    /// Refused late results.
    pub refused: u64,
    /// Completed transitions.
    pub made: u64,
    broken: Vec<String>,
    count: u64,
}

impl Laws {
    /// Laws for `executions` executions.
    #[must_use]
    pub fn new(executions: u32) -> Self {
        Self {
            epochs: vec![0; executions as usize],
            until: vec![0; executions as usize],
            last: 0,
            orphans: HashMap::new(),
            still: Vec::new(),
            takeovers: Spans::default(),
            refused: 0,
            made: 0,
            broken: Vec::new(),
            count: 0,
        }
    }

    fn hold(&mut self, holds: bool, told: impl FnOnce() -> String) {
        if !holds {
            self.count += 1;
            if self.broken.len() < MOST {
                self.broken.push(told());
            }
        }
    }

    /// A lease was given. No epoch is given twice, and none while another lease is valid.
    pub fn given(&mut self, id: Id, epoch: u32, now: Moment, until: Moment, to_the_dead: bool) {
        let last = self.last;
        self.hold(epoch > last, || format!("epoch {epoch} was given after {last}"));
        self.last = epoch;
        let before = u64::from(self.until[id as usize]) * MILLI;
        let stands = self.epochs[id as usize] != 0 && before > now;
        self.hold(!stands, || {
            format!(
                "task {id} was given under {epoch} at {now} us, {} us before its lease lapsed",
                before - now
            )
        });
        self.epochs[id as usize] = epoch;
        self.until[id as usize] = u32::try_from(until / MILLI).unwrap();
        if let Some(died) = self.orphans.remove(&id)
            && !to_the_dead
        {
            let stood = self.still.iter().map(|(from, to)| to.min(&now).saturating_sub(*from.max(&died)));
            let stood: Moment = stood.sum();
            let took = now - died;
            self.takeovers.note(took);
            self.hold(took <= lease() + GRACE + stood, || {
                format!("task {id} was taken over {} ms after its holder died", took / MILLI)
            });
        } else if to_the_dead {
            self.orphans.insert(id, now);
        }
    }

    /// A lease was extended.
    pub fn prolonged(&mut self, id: Id, epoch: u32, until: Moment) {
        let stands = self.epochs[id as usize];
        self.hold(stands == epoch, || {
            format!("task {id} was renewed under {epoch}, and is held under {stands}")
        });
        self.until[id as usize] = self.until[id as usize].max(u32::try_from(until / MILLI).unwrap());
    }

    /// A result was accepted: it must belong to the valid lease, and be its only one.
    pub fn settled(&mut self, id: Id, epoch: u32) {
        let stands = self.epochs[id as usize];
        self.hold(stands == epoch, || {
            format!("a result of task {id} under {epoch} was taken, and it is held under {stands}")
        });
        self.epochs[id as usize] = 0;
        self.orphans.remove(&id);
        self.made += 1;
    }

    /// The holder of a task died.
    pub fn orphaned(&mut self, id: Id, epoch: u32, now: Moment) {
        if self.epochs[id as usize] == epoch {
            self.orphans.insert(id, now);
        }
    }

    /// The store did not answer for a while.
    pub fn stood_still(&mut self, from: Moment, to: Moment) {
        self.still.push((from, to));
    }

    /// Reports executions without a place.
    pub fn lost(&mut self, lost: &[Id], now: Moment) {
        self.hold(lost.is_empty(), || {
            format!(
                "{} executions have neither task, lease nor timer after {} s, as {}",
                lost.len(),
                now / SECOND,
                lost[0]
            )
        });
    }

    /// At the end, each task of a dead holder has another one, if the death was long enough ago.
    pub fn end(&mut self, now: Moment) {
        let limit = lease() + GRACE + self.still.iter().map(|(from, to)| to - from).sum::<Moment>();
        let left = self.orphans.values().filter(|died| **died + limit < now).count();
        self.hold(left == 0, || format!("{left} tasks of killed processes were never taken over"));
    }

    /// Returns the first broken laws, and their total number.
    #[must_use]
    pub fn verdict(&self) -> (&[String], u64) {
        (&self.broken, self.count)
    }
}
