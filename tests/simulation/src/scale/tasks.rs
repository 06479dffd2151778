//! The tasks of all executions, one each, as the database has them: their due times and leases.
//!
//! Due tasks are ordered by tenant and time, as in the index of the table; the others are in time slots until they are due.

use super::clockwork::{MILLI, Moment};
use std::collections::BTreeSet;

/// The id of an execution and its one task.
pub type Id = u32;
/// Width of a time slot.
const SLOT: Moment = 10 * MILLI;
/// No node.
const NOBODY: u16 = u16::MAX;

/// A task.
#[derive(Clone, Copy, Debug)]
struct Task {
    /// In milliseconds.
    due: u32,
    available: u32,
    /// The latest lease; 0 means no lease.
    epoch: u32,
    holder: u16,
    tenant: u16,
    /// How often it was moved, so that an old entry of a slot is recognised as stale.
    moved: u16,
    leased: bool,
    /// True while an unfinished batch names it.
    locked: bool,
    /// The steps given to [`Tasks::settle`].
    steps: u8,
}

/// All of them.
#[derive(Debug)]
pub struct Tasks {
    all: Vec<Task>,
    due: Vec<BTreeSet<(u32, Id)>>,
    /// One bit for each tenant: true if a task of it is due.
    wanting: Vec<u64>,
    slots: Vec<Vec<(Id, u16)>>,
    /// Entries in each slot that are not stale.
    live: Vec<u32>,
    reached: usize,
    epochs: u32,
    due_count: usize,
    /// A deliberate defect: the expiry of a new lease is not scheduled.
    pub forget_lapse: bool,
}

/// A leased task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its execution.
    pub id: Id,
    /// The token of the lease.
    pub epoch: u32,
    /// When it was due, in milliseconds.
    pub due: u32,
    /// The node of its earlier lease, if that one did not end with a result.
    pub before: Option<u16>,
    /// The time from which it was available, in milliseconds.
    pub available: u32,
}

fn millis(at: Moment) -> u32 {
    u32::try_from(at / MILLI).unwrap_or(u32::MAX)
}

impl Tasks {
    /// Room for `executions` of `tenants` tenants, until `end`; `of` returns the due time and the number of steps of
    /// each.
    pub fn new(executions: u32, tenants: u16, end: Moment, of: impl Fn(Id) -> (Moment, u8)) -> Self {
        let slots = usize::try_from(end / SLOT).unwrap() + 2;
        let mut tasks = Self {
            all: Vec::with_capacity(executions as usize),
            due: vec![BTreeSet::new(); usize::from(tenants)],
            wanting: vec![0; usize::from(tenants).div_ceil(64)],
            slots: vec![Vec::new(); slots],
            live: vec![0; slots],
            reached: 0,
            epochs: 0,
            due_count: 0,
            forget_lapse: false,
        };
        for id in 0..executions {
            let (due, steps) = of(id);
            let tenant = u16::try_from(id % u32::from(tenants)).unwrap();
            let due = millis(due);
            let fresh = Task {
                due,
                available: due,
                epoch: 0,
                holder: NOBODY,
                tenant,
                moved: 0,
                leased: false,
                locked: false,
                steps,
            };
            tasks.all.push(fresh);
            tasks.place(id);
        }
        tasks
    }

    fn slot(&self, available: u32) -> usize {
        usize::try_from(u64::from(available) * MILLI / SLOT).unwrap().min(self.slots.len() - 1)
    }

    /// Puts a task into the place of its due time.
    fn place(&mut self, id: Id) {
        let task = self.all[id as usize];
        let slot = self.slot(task.available);
        if slot < self.reached {
            self.due[usize::from(task.tenant)].insert((task.available, id));
            self.wanting[usize::from(task.tenant) / 64] |= 1 << (task.tenant % 64);
            self.due_count += 1;
        } else if slot + 1 < self.slots.len() {
            self.slots[slot].push((id, task.moved));
            self.live[slot] += 1;
        }
    }

    /// Removes a task from its place.
    fn displace(&mut self, id: Id) {
        let task = self.all[id as usize];
        let tenant = usize::from(task.tenant);
        if self.due[tenant].remove(&(task.available, id)) {
            self.due_count -= 1;
            if self.due[tenant].is_empty() {
                self.wanting[tenant / 64] &= !(1 << (tenant % 64));
            }
        } else {
            let slot = self.slot(task.available);
            if slot >= self.reached && slot + 1 < self.slots.len() {
                self.live[slot] = self.live[slot].saturating_sub(1);
            }
        }
        self.all[id as usize].moved = task.moved.wrapping_add(1);
    }

    fn move_to(&mut self, id: Id, available: u32) {
        self.displace(id);
        self.all[id as usize].available = available;
        self.place(id);
    }

    /// Advances time to `now`.
    pub fn reach(&mut self, now: Moment) {
        let until = usize::try_from(now / SLOT).unwrap().min(self.slots.len() - 1);
        while self.reached < until {
            let entries = std::mem::take(&mut self.slots[self.reached]);
            self.reached += 1;
            for (id, moved) in entries {
                if self.all[id as usize].moved == moved {
                    self.place(id);
                }
            }
        }
    }

    /// Returns when the next task becomes available, in microseconds.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        if self.due_count > 0 {
            return Some(0);
        }
        let slot = (self.reached..self.live.len()).find(|slot| self.live[*slot] > 0)?;
        Some((slot as u64 + 1) * SLOT)
    }

    /// Returns the number of due tasks.
    #[must_use]
    pub fn due_count(&self) -> usize {
        self.due_count
    }

    /// Returns the number of tenants with due tasks.
    #[must_use]
    pub fn wanting(&self) -> u64 {
        self.wanting.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Returns up to `limit` tasks that were due at `now`, by the caller's clock: one of each tenant in turn, from `turn`
    /// on, the earliest first. Advances `turn`.
    #[must_use]
    pub fn look(&self, limit: usize, turn: &mut u16, now: Moment) -> Vec<(Id, u16)> {
        let mut found = Vec::with_capacity(limit.min(self.due_count));
        let mut depth = 0;
        let tenants = u16::try_from(self.due.len()).unwrap();
        while found.len() < limit {
            let before = found.len();
            for tenant in self.ring(*turn) {
                let found_at = self.due[usize::from(tenant)].iter().nth(depth);
                if let Some((_, id)) = found_at.filter(|(available, _)| *available <= millis(now)) {
                    found.push((*id, self.all[*id as usize].moved));
                    if found.len() == limit {
                        *turn = (tenant + 1) % tenants;
                        return found;
                    }
                }
            }
            if found.len() == before {
                break;
            }
            depth += 1;
        }
        found
    }

    /// Returns the tenants with due tasks, starting at `turn`.
    fn ring(&self, turn: u16) -> impl Iterator<Item = u16> + '_ {
        let words = self.wanting.len();
        let first = usize::from(turn / 64);
        (0..=words).flat_map(move |step| {
            let word = (first + step) % words;
            let mut bits = self.wanting[word];
            let below = (1_u64 << (turn % 64)) - 1;
            if step == 0 {
                bits &= !below;
            } else if step == words {
                bits &= below;
            }
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros();
                bits = bits.checked_sub(1).map(|less| bits & less)?;
                Some(u16::try_from(word * 64).unwrap() + u16::try_from(bit).unwrap())
            })
        })
    }

    /// Leases a task that is as it was found; refuses if it has been moved since, unless `anyway`.
    pub fn take(
        &mut self,
        id: Id,
        found: u16,
        now: Moment,
        node: u16,
        until: Moment,
        anyway: bool,
    ) -> Option<Taken> {
        let task = self.all[id as usize];
        if task.locked || (task.moved != found && !anyway) {
            return None;
        }
        let before = task.leased.then_some(task.holder);
        let available = task.available.min(millis(now));
        self.epochs += 1;
        if self.forget_lapse {
            self.displace(id);
        } else {
            self.move_to(id, millis(until).max(task.due));
        }
        let task = &mut self.all[id as usize];
        (task.epoch, task.holder, task.leased) = (self.epochs, node, true);
        Some(Taken { id, epoch: self.epochs, due: task.due, before, available })
    }

    /// Returns true if the lease with that token is still valid.
    #[must_use]
    pub fn stands(&self, id: Id, epoch: u32) -> bool {
        let task = self.all[id as usize];
        task.leased && task.epoch == epoch
    }

    /// Locks or unlocks a task.
    pub fn lock(&mut self, id: Id, locked: bool) {
        self.all[id as usize].locked = locked;
    }

    /// Extends a lease; returns true if it was valid.
    pub fn renew(&mut self, id: Id, epoch: u32, until: Moment) -> bool {
        let stands = self.stands(id, epoch);
        if stands {
            let later = millis(until).max(self.all[id as usize].available);
            self.move_to(id, later);
        }
        stands
    }

    /// The transition: the task is done, and the next is due at `due`; `steps` more steps follow.
    pub fn settle(&mut self, id: Id, due: Moment, steps: u8) {
        let due = millis(due);
        self.all[id as usize].due = due;
        self.move_to(id, due);
        let task = &mut self.all[id as usize];
        (task.leased, task.holder, task.steps) = (false, NOBODY, steps);
    }

    /// Returns the steps that follow the last transition.
    #[must_use]
    pub fn steps(&self, id: Id) -> u8 {
        self.all[id as usize].steps
    }

    /// Returns executions that are neither due nor in a slot. There must be none.
    #[must_use]
    pub fn lost(&self) -> Vec<Id> {
        let mut stands = vec![false; self.all.len()];
        for (_, id) in self.due.iter().flatten() {
            stands[*id as usize] = true;
        }
        for (id, moved) in self.slots.iter().flatten() {
            if self.all[*id as usize].moved == *moved {
                stands[*id as usize] = true;
            }
        }
        let last = self.slots.len() - 1;
        let after = |id: usize| self.slot(self.all[id].available) == last;
        (0..self.all.len())
            .filter(|id| !stands[*id] && !after(*id))
            .map(|id| u32::try_from(id).unwrap())
            .collect()
    }
}
