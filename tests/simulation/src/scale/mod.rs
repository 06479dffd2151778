//! A thousand nodes and ten million executions on one database, simulated: `cargo run --release -p simulation --bin scale`.
//!
//! Unlike the rest of this crate, this module runs neither the engine nor a store. It models both with measured costs
//! (`costs.rs`), for sizes that need more machines. It keeps the protocol: the queries of each node and their times, the waits,
//! and the refusals. The same seed gives the same run.

pub mod batches;
pub mod clockwork;
pub mod costs;
pub mod faults;
pub mod laws;
pub mod nodes;
pub mod server;
pub mod size;
pub mod tasks;
pub mod told;
pub mod work;

use crate::dice::Dice;
use clockwork::{Clockwork, MILLI, Moment, SECOND};
use costs::BEAT;
use laws::Laws;
use nodes::Node;
use server::{JobId, Lock, Log, Processors};
pub use size::{Broken, Design, Size, parse};
use tasks::Tasks;
use told::Told;
use work::{Work, WorkId};

/// A future event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A request reaches the server.
    Asked(JobId),
    /// A statement may be complete, unless others have started since.
    Carried(u32),
    /// The log is synced.
    Synced,
    /// An answer reaches its node.
    Answered(JobId),
    /// A node's pause is over, unless it was ended earlier.
    Wake(u16, u32),
    /// Every node is notified of work.
    Ring,
    /// An action is over.
    Acted(WorkId, u32),
    /// A lease needs to be extended.
    Renew(WorkId, u32),
    /// A lease may expire.
    Lapse(WorkId, u32),
    /// A heartbeat of a node.
    Beat(u16),
    /// Other work of a node.
    Aside(u16),
    /// A transaction is idle for too long.
    BreakOff(JobId, u32),
    /// Time advances.
    Tick,
    /// Everything is checked.
    Sweep,
    /// Nodes die.
    Die,
    /// Nodes pause for a while.
    Freeze,
    /// The database pauses, or continues.
    Still(bool),
}

/// The times of the faults, in thousandths of the run.
const DIE_AT: u64 = 150;
const FREEZE_AT: u64 = 300;
const STILL_AT: u64 = 450;
const HERD_AT: u64 = 650;
const HERD_FOR: Moment = 60 * SECOND;
const TICK: Moment = 10 * MILLI;

/// The state of the model.
pub(crate) struct Model {
    pub(crate) size: Size,
    pub(crate) end: Moment,
    pub(crate) clock: Clockwork<Event>,
    pub(crate) dice: Dice,
    pub(crate) processors: Processors,
    pub(crate) carried: u32,
    pub(crate) log: Log,
    pub(crate) lock: Lock,
    pub(crate) still_until: Moment,
    pub(crate) jobs: Vec<nodes::Job>,
    pub(crate) idle_jobs: Vec<JobId>,
    pub(crate) works: Vec<Work>,
    pub(crate) idle_works: Vec<WorkId>,
    pub(crate) serial: u32,
    pub(crate) nodes: Vec<Node>,
    pub(crate) tasks: Tasks,
    pub(crate) laws: Laws,
    pub(crate) told: Told,
}

/// Runs the model, and returns the observations.
#[must_use]
pub fn run(size: &Size) -> Told {
    let mut model = Model::new(*size);
    model.begin();
    while let Some(event) = model.clock.go_on() {
        if model.clock.now() >= model.end {
            break;
        }
        model.happen(event);
    }
    model.finish()
}

/// Returns the due time of an execution's timer and its later steps: most are due late.
fn timer(size: &Size, end: Moment, id: tasks::Id) -> (Moment, u8) {
    // The random generator, for one number: SplitMix64.
    let mut z = (u64::from(id) ^ size.seed.rotate_left(32)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    let base = size.rate * end / SECOND;
    if u64::from(id) < base {
        return (z % end, work::TIMER | size.steps);
    }
    if u64::from(id) < base + u64::from(size.herd) {
        return (end * HERD_AT / 1_000 + z % HERD_FOR, work::TIMER);
    }
    (2 * end, work::TIMER)
}

impl Model {
    fn new(size: Size) -> Self {
        let end = size.minutes * 60 * SECOND;
        let mut tasks = Tasks::new(size.executions, size.tenants, end, |id| timer(&size, end, id));
        tasks.forget_lapse = size.broken == Broken::Lapse;
        Self {
            size,
            end,
            clock: Clockwork::default(),
            dice: Dice::new(size.seed, "scale"),
            processors: Processors::new(size.costs.processors),
            carried: 0,
            log: Log::default(),
            lock: Lock::default(),
            still_until: 0,
            jobs: Vec::new(),
            idle_jobs: Vec::new(),
            works: Vec::new(),
            idle_works: Vec::new(),
            serial: 0,
            nodes: (0..size.nodes).map(|_| Node::new(size.places)).collect(),
            tasks,
            laws: Laws::new(size.executions),
            told: Told::default(),
        }
    }

    fn begin(&mut self) {
        if self.size.writers > 0 {
            return self.only_commit(self.size.writers);
        }
        for node in 0..self.size.nodes {
            // They did not all start at the same time.
            self.clock.after(self.dice.below(SECOND), Event::Wake(node, 0));
            self.clock.after(self.dice.below(SECOND), Event::Aside(node));
            let beat = u64::try_from(BEAT.as_micros()).unwrap();
            self.clock.after(self.dice.below(beat), Event::Beat(node));
        }
        self.clock.after(TICK, Event::Tick);
        self.clock.after(60 * SECOND, Event::Sweep);
        if self.size.trouble {
            self.clock.after(self.end * DIE_AT / 1_000, Event::Die);
            self.clock.after(self.end * FREEZE_AT / 1_000, Event::Freeze);
            self.clock.after(self.end * STILL_AT / 1_000, Event::Still(true));
        }
    }

    fn happen(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Asked(job) => self.asked(job),
            Event::Carried(count) => {
                if count == self.carried {
                    self.carry();
                }
            }
            Event::Synced => self.synced(),
            Event::Answered(job) => self.answered(job),
            Event::Wake(node, pause) => self.awake(node, pause),
            Event::Ring => (0..self.size.nodes).for_each(|node| self.ring(node)),
            Event::Acted(work, serial) => self.acted(work, serial),
            Event::Renew(work, serial) => self.renew(work, serial),
            Event::Lapse(work, serial) => self.lapse(work, serial),
            Event::Beat(node) => self.beat(node),
            Event::Aside(node) => self.aside(node),
            Event::BreakOff(job, tried) => self.break_off(job, tried),
            Event::Tick => {
                self.tasks.reach(now);
                self.told.waiting(now, self.tasks.due_count());
                self.clock.after(TICK, Event::Tick);
            }
            Event::Sweep => {
                let lost = self.tasks.lost();
                self.laws.lost(&lost, now);
                self.clock.after(60 * SECOND, Event::Sweep);
            }
            Event::Die => self.die(),
            Event::Freeze => self.freeze(),
            Event::Still(still) => self.stand_still(still),
        }
    }

    fn finish(mut self) -> Told {
        let now = self.end;
        let lost = self.tasks.lost();
        self.laws.lost(&lost, now);
        self.laws.end(now);
        let (broken, count) = self.laws.verdict();
        self.told.broken = broken.to_vec();
        self.told.broken_count = count;
        self.told.seconds = now / SECOND;
        self.told.made = self.laws.made;
        self.told.refused = self.laws.refused;
        self.told.takeovers = std::mem::take(&mut self.laws.takeovers);
        self.told.events = self.clock.count();
        self.told.left = self.tasks.due_count();
        self.told.locked = self.lock.held();
        self.told.busy = self.processors.busy();
        self.told.processors = self.size.costs.processors;
        self.told
    }
}
