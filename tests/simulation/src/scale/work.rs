//! A task that a node has leased: read, performed while its lease is extended, and committed.

use super::{
    Event, Model,
    batches::Commit,
    clockwork::{MILLI, Moment, SECOND},
    laws::lease,
    nodes::Ask,
    tasks::{Id, Taken},
};

/// The id of work in progress.
pub type WorkId = u32;

/// A value of a task's steps: the task only records that a timer is due.
pub(crate) const TIMER: u8 = 0x80;

/// The id of consecutive commits without leases.
const BARE: WorkId = WorkId::MAX;

/// One task that a node works on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Distinguishes it from other users of this place; 0 when it is over.
    pub(crate) serial: u32,
    pub(crate) node: u16,
    pub(crate) life: u16,
    pub(crate) id: Id,
    pub(crate) epoch: u32,
    steps: u8,
    /// The last confirmed renewal of the lease, by the time of its request.
    heard: Moment,
    acting: bool,
    /// The end of its action.
    pub(crate) acted: Moment,
}

/// Returns the part of a lease that the node uses.
fn ours() -> Moment {
    lease() / 10 * 9
}

impl Model {
    pub(crate) fn begin_work(&mut self, node: u16, taken: Taken) {
        self.serial += 1;
        let (now, it) = (self.clock.now(), self.node(node));
        it.places -= 1;
        let work = Work {
            serial: 0,
            node,
            life: it.life,
            id: taken.id,
            epoch: taken.epoch,
            steps: self.tasks.steps(taken.id),
            heard: now,
            acting: false,
            acted: now,
        };
        let work = Work { serial: self.serial, ..work };
        let place = match self.idle_works.pop() {
            Some(place) => {
                self.works[place as usize] = work;
                place
            }
            None => {
                self.works.push(work);
                u32::try_from(self.works.len() - 1).unwrap()
            }
        };
        let load = self.size.costs.load;
        self.ask(node, Ask::Load(place, work.serial), load);
    }

    /// Makes every node commit continuously, with `writers` writers in parallel, as `cargo bench -p tests --bench
    /// postgres` does.
    pub(crate) fn only_commit(&mut self, writers: u16) {
        let bare =
            Commit { work: BARE, serial: 0, id: 0, epoch: 0, steps: 0, settles: false, accepted: false };
        for node in 0..self.size.nodes {
            (0..writers).for_each(|_| self.commit(node, bare));
        }
    }

    /// Returns the work of that id, if it is still the same and on the node that began it.
    fn current(&mut self, work: WorkId, serial: u32) -> Option<Work> {
        let found = self.works[work as usize];
        let life = self.node(found.node).life;
        (found.serial == serial && found.life == life).then_some(found)
    }

    /// The record was read: a timer is recorded at once, an action takes some time.
    pub(crate) fn loaded(&mut self, place: WorkId, serial: u32) {
        let Some(work) = self.current(place, serial) else { return };
        let now = self.clock.now();
        if work.steps & TIMER != 0 {
            return self.result(place, serial);
        }
        // Most actions are short calls; one in twenty is long.
        let span = if self.dice.below(20) == 0 {
            20 * SECOND + self.dice.below(40 * SECOND)
        } else {
            50 * MILLI + self.dice.below(900 * MILLI)
        };
        self.works[place as usize].acting = true;
        self.works[place as usize].heard = now;
        self.clock.after(span, Event::Acted(place, serial));
        if span > lease() / 3 {
            self.clock.after(lease() / 3, Event::Renew(place, serial));
            self.clock.after(ours(), Event::Lapse(place, serial));
        }
    }

    pub(crate) fn acted(&mut self, place: WorkId, serial: u32) {
        let node = self.works[place as usize].node;
        if self.frozen(node, Event::Acted(place, serial)) {
            return;
        }
        if self.current(place, serial).is_some_and(|work| work.acting) {
            self.result(place, serial);
        }
    }

    fn result(&mut self, place: WorkId, serial: u32) {
        let now = self.clock.now();
        let work = &mut self.works[place as usize];
        (work.acting, work.acted) = (false, now);
        let (node, id, epoch, steps) = (work.node, work.id, work.epoch, work.steps & !TIMER);
        self.commit(node, Commit { work: place, serial, id, epoch, steps, settles: true, accepted: false });
    }

    pub(crate) fn renew(&mut self, place: WorkId, serial: u32) {
        let node = self.works[place as usize].node;
        if self.frozen(node, Event::Renew(place, serial)) {
            return;
        }
        if self.current(place, serial).is_some_and(|work| work.acting) {
            let work = self.size.costs.renew;
            self.ask(node, Ask::Renew(place, serial), work);
            self.clock.after(lease() / 3, Event::Renew(place, serial));
        }
    }

    /// A renewal was answered: it counts if it was in time, and ends the attempt if another node has the lease.
    pub(crate) fn renewed(&mut self, place: WorkId, serial: u32, asked: Moment) {
        let now = self.clock.now();
        let Some(work) = self.current(place, serial).filter(|work| work.acting) else { return };
        if !self.tasks.stands(work.id, work.epoch) {
            self.give_up(place);
        } else if now - asked < lease() / 4 {
            self.works[place as usize].heard = asked;
        }
    }

    pub(crate) fn lapse(&mut self, place: WorkId, serial: u32) {
        let node = self.works[place as usize].node;
        if self.frozen(node, Event::Lapse(place, serial)) {
            return;
        }
        let Some(work) = self.current(place, serial).filter(|work| work.acting) else { return };
        let (now, until) = (self.clock.now(), work.heard + ours());
        if until > now {
            self.clock.after(until - now, Event::Lapse(place, serial));
        } else {
            self.give_up(place);
        }
    }

    /// The lease cannot be extended: the attempt ends, and the history records it.
    fn give_up(&mut self, place: WorkId) {
        let work = &mut self.works[place as usize];
        work.acting = false;
        let (node, id, epoch, serial) = (work.node, work.id, work.epoch, work.serial);
        self.told.given_up += 1;
        let commit = Commit { work: place, serial, id, epoch, steps: 0, settles: false, accepted: false };
        self.commit(node, commit);
    }

    /// A commit was answered: counts a refusal, and frees the place after success.
    pub(crate) fn committed(&mut self, node: u16, commit: Commit) {
        let place = commit.work;
        if place == BARE {
            self.laws.made += 1;
            return self.commit(node, commit);
        }
        let Some(work) = self.current(place, commit.serial) else { return };
        let now = self.clock.now();
        if commit.settles && !commit.accepted {
            // The history records the late result.
            return self.commit(work.node, Commit { settles: false, ..commit });
        }
        if commit.settles {
            self.told.committed.note(now - work.acted);
        }
        self.works[place as usize].serial = 0;
        self.idle_works.push(place);
        let it = self.node(work.node);
        it.places += 1;
        let full = it.places == 1;
        if full || !self.size.design.content || (commit.settles && commit.steps > 0) {
            self.wake(work.node);
        }
    }
}
