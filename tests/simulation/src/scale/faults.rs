//! Faults: nodes die, nodes pause, the database pauses.

use super::{
    Event, Model,
    clockwork::{Moment, SECOND},
};

/// How long the database pauses.
const STILL_FOR: Moment = 30 * SECOND;
/// How long paused nodes pause: longer than a lease.
const FROZEN_FOR: Moment = 45 * SECOND;

impl Model {
    /// Returns `count` random living nodes.
    fn some(&self, count: u16) -> Vec<u16> {
        let mut living: Vec<u16> =
            (0..self.size.nodes).filter(|node| self.nodes[usize::from(*node)].alive).collect();
        let draw = |living: &mut Vec<u16>| {
            let place = self.dice.below(living.len() as u64);
            living.swap_remove(usize::try_from(place).unwrap())
        };
        (0..usize::from(count).min(living.len())).map(|_| draw(&mut living)).collect()
    }

    /// One node in ten is lost: the machine, not only the process.
    pub(crate) fn die(&mut self) {
        for node in self.some(self.size.nodes.div_ceil(10)) {
            let it = self.node(node);
            it.alive = false;
            it.life += 1;
            it.inbox.clear();
            self.abandon(node);
            self.told.died += 1;
        }
        let now = self.clock.now();
        for work in 0..self.works.len() {
            let work = self.works[work];
            if work.serial != 0 && self.nodes[usize::from(work.node)].life != work.life {
                self.laws.orphaned(work.id, work.epoch, now);
            }
        }
    }

    /// One node in fifty pauses for longer than a lease, and then continues unaware of it.
    pub(crate) fn freeze(&mut self) {
        let until = self.clock.now() + FROZEN_FOR;
        for node in self.some(self.size.nodes.div_ceil(50)) {
            self.node(node).frozen = until;
            self.abandon(node);
            self.told.froze += 1;
        }
    }

    /// The database pauses, or continues.
    pub(crate) fn stand_still(&mut self, still: bool) {
        let now = self.clock.now();
        self.processors.stand_still(now, still);
        if still {
            self.still_until = now + STILL_FOR;
            self.laws.stood_still(now, self.still_until);
            self.clock.after(STILL_FOR, Event::Still(false));
        } else {
            self.next_carried();
        }
    }
}
