//! A node as the database sees it: its queries for work, and its other requests. As in `engine/src/runtime/worker/task.rs`, it leases until there
//! is no more work. Then it pauses until a task is due, a notification arrives, or a place is free.

use super::{
    Broken, Event, Model,
    clockwork::{MILLI, Moment, SECOND},
    costs::BEAT,
    laws::lease,
    server::JobId,
    tasks::{Id, Taken},
    told::Kind,
    work::WorkId,
};

/// The longest pause.
const MINUTE: Moment = 60 * SECOND;

/// A request to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Nothing: free for another request.
    Nothing,
    /// Queries due tasks, up to this number.
    Look(usize),
    /// Leases these tasks, as they were found.
    Take(Vec<(Id, u16)>),
    /// The next due time.
    Next,
    /// Reads the record of an execution.
    Load(WorkId, u32),
    /// Extends a lease.
    Renew(WorkId, u32),
    /// A heartbeat.
    Beat,
    /// Other requests.
    Aside,
    /// A statement of a batch, by its position.
    Batch(u64),
    /// No statement: a node's own work on its batch, on a machine shared with the server.
    Own,
}

/// A request in progress.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) node: u16,
    pub(crate) life: u16,
    /// The time of the request.
    pub(crate) at: Moment,
    pub(crate) ask: Ask,
    /// The work, in microseconds of a processor.
    pub(crate) work: u64,
    /// The number of rows that a query returns.
    pub(crate) rows: u64,
    /// The tasks that the query found and the node will lease.
    pub(crate) found: Vec<(Id, u16)>,
    /// The leased tasks.
    pub(crate) taken: Vec<Taken>,
    /// The number of the transaction's attempt.
    pub(crate) tried: u32,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) alive: bool,
    /// Increases when it dies, so that old answers are recognised.
    pub(crate) life: u16,
    /// The end of its pause.
    pub(crate) frozen: Moment,
    pub(crate) places: usize,
    looking: bool,
    rung: bool,
    pause: u32,
    /// The tasks of the current lease so far.
    got: Vec<Taken>,
    wanted: usize,
    turn: u16,
    pub(crate) inbox: std::collections::VecDeque<super::batches::Commit>,
    pub(crate) batch: Option<super::batches::Batch>,
}

impl Node {
    /// A node with `places` places.
    pub(crate) fn new(places: usize) -> Self {
        Self {
            alive: true,
            life: 0,
            frozen: 0,
            places,
            looking: false,
            rung: false,
            pause: 0,
            got: Vec::new(),
            wanted: 0,
            turn: 0,
            inbox: std::collections::VecDeque::new(),
            batch: None,
        }
    }
}

impl Model {
    pub(crate) fn node(&mut self, node: u16) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    /// Returns true if `node` is paused; the event is then repeated when it continues.
    pub(crate) fn frozen(&mut self, node: u16, event: Event) -> bool {
        let (now, until) = (self.clock.now(), self.node(node).frozen);
        if until > now {
            self.clock.after(until - now, event);
        }
        until > now
    }

    /// Stores a job; returns its id.
    pub(crate) fn job(&mut self, node: u16, ask: Ask, work: u64) -> JobId {
        let (life, at) = (self.node(node).life, self.clock.now());
        let job = Job { node, life, at, ask, work, rows: 0, found: Vec::new(), taken: Vec::new(), tried: 0 };
        if let Some(free) = self.idle_jobs.pop() {
            self.jobs[free as usize] = job;
            return free;
        }
        self.jobs.push(job);
        u32::try_from(self.jobs.len() - 1).unwrap()
    }

    /// Sends a request to the server; the answer takes at least a round trip and the work.
    pub(crate) fn ask(&mut self, node: u16, ask: Ask, work: u64) -> JobId {
        let job = self.job(node, ask, work);
        let wire = self.wire();
        self.clock.after(wire, Event::Asked(job));
        job
    }

    /// Returns the latency of one direction: half a round trip, plus or minus an eighth of it.
    pub(crate) fn wire(&self) -> Moment {
        let half = self.size.costs.round_trip / 2;
        half - half / 8 + self.dice.below(half / 4 + 1)
    }

    pub(crate) fn forget(&mut self, job: JobId) {
        self.jobs[job as usize].ask = Ask::Nothing;
        self.idle_jobs.push(job);
    }

    /// A reason to look for work: a notification, or a free place.
    pub(crate) fn wake(&mut self, node: u16) {
        let it = self.node(node);
        if !it.alive || it.places == 0 {
            return;
        }
        if it.looking {
            it.rung = true;
        } else {
            self.dispatch(node);
        }
    }

    /// Returns the maximum pause of a node between queries.
    fn pause(&self) -> Moment {
        self.size.design.pause * u64::from(self.size.nodes)
    }

    /// Notifies a node of new work.
    pub(crate) fn ring(&mut self, node: u16) {
        let pause = self.pause();
        let it = self.node(node);
        if pause == 0 || !it.alive {
            return self.wake(node);
        }
        if !it.rung {
            it.rung = true;
            if it.looking {
                return;
            }
            let wait = self.dice.below(pause);
            let pause = self.node(node).pause;
            self.clock.after(wait, Event::Wake(node, pause));
        }
    }

    pub(crate) fn awake(&mut self, node: u16, pause: u32) {
        if self.frozen(node, Event::Wake(node, pause)) {
            return;
        }
        let it = self.node(node);
        if it.alive && it.pause == pause && !it.looking {
            self.dispatch(node);
        }
    }

    fn dispatch(&mut self, node: u16) {
        let it = self.node(node);
        it.rung = false;
        it.pause = it.pause.wrapping_add(1);
        if it.places == 0 {
            return self.rest(node, MINUTE);
        }
        it.looking = true;
        it.wanted = it.places;
        self.look(node);
    }

    fn look(&mut self, node: u16) {
        let it = self.node(node);
        let wanted = it.wanted.saturating_sub(it.got.len());
        let costs = self.size.costs;
        let due = self.tasks.due_count();
        // Every tenant is visited, as each has waiting executions; up to `wanted` rows of each are returned.
        let (tenants, rows) = match self.size.design.lean {
            true if due <= wanted => (0, due as u64),
            true => (u64::from(self.size.tenants), wanted as u64),
            false => (u64::from(self.size.tenants), (self.tasks.wanting() * wanted as u64).min(due as u64)),
        };
        let mut work = costs.look + costs.look_tenant * tenants + costs.look_row * rows / 1_000;
        if self.size.design.at_once {
            work += costs.take_task * rows.min(wanted as u64);
        }
        let job = self.ask(node, Ask::Look(wanted), work);
        self.jobs[job as usize].rows = rows;
    }

    /// A lease is complete: its tasks are started.
    fn leased(&mut self, node: u16) {
        let it = self.node(node);
        let got = std::mem::take(&mut it.got);
        let none = got.is_empty();
        let less = got.len() < it.wanted;
        for taken in got {
            self.begin_work(node, taken);
        }
        let places = self.node(node).places;
        if !none && places > 0 && !(less && self.size.design.content) {
            self.node(node).wanted = places;
            return self.look(node);
        }
        if places == 0 {
            return self.rest(node, MINUTE);
        }
        let work = self.size.costs.next;
        self.ask(node, Ask::Next, work);
    }

    fn rest(&mut self, node: u16, wait: Moment) {
        let most = self.pause();
        let it = self.node(node);
        it.looking = false;
        let rung = it.rung && it.places > 0;
        if rung && most == 0 {
            return self.dispatch(node);
        }
        let wait = if rung { 0 } else { wait } + self.dice.below(most);
        let pause = self.node(node).pause;
        self.clock.after(wait.clamp(MILLI, MINUTE), Event::Wake(node, pause));
    }

    /// A query sees the tasks at its start.
    pub(crate) fn snapshot(&mut self, job: JobId) {
        let Job { node, at, ask, .. } = &self.jobs[job as usize];
        if let (Ask::Look(wanted), false) = (ask, self.size.design.at_once) {
            let (node, at, wanted) = (*node, *at, *wanted);
            let mut turn = self.node(node).turn;
            let found = self.tasks.look(wanted, &mut turn, at);
            self.node(node).turn = turn;
            self.jobs[job as usize].found = found;
        }
    }

    /// The server has executed a statement of a transaction: applies its effect.
    pub(crate) fn effect(&mut self, job: JobId) {
        let Job { node, life, at, ask, .. } = self.jobs[job as usize].clone();
        match ask {
            Ask::Look(wanted) if self.size.design.at_once => {
                let mut turn = self.node(node).turn;
                let found = self.tasks.look(wanted, &mut turn, at);
                self.node(node).turn = turn;
                self.take(job, node, life, at, &found);
            }
            Ask::Take(found) => self.take(job, node, life, at, &found),
            Ask::Renew(work, serial) => {
                let work = self.works[work as usize];
                let until = at + lease();
                if work.serial == serial && self.tasks.renew(work.id, work.epoch, until) {
                    self.laws.prolonged(work.id, work.epoch, until);
                }
            }
            Ask::Look(_) | Ask::Nothing | Ask::Next | Ask::Load(..) | Ask::Beat | Ask::Aside => {}
            Ask::Batch(_) | Ask::Own => {}
        }
    }

    fn take(&mut self, job: JobId, node: u16, life: u16, at: Moment, found: &[(Id, u16)]) {
        let (now, anyway) = (self.clock.now(), self.size.broken == Broken::TakeCheck);
        let until = at + lease();
        let dead = self.node(node).life != life;
        let mut taken = Vec::new();
        for (id, moved) in found {
            if let Some(task) = self.tasks.take(*id, *moved, now, node, until, anyway) {
                self.laws.given(*id, task.epoch, now, until, dead);
                if task.before.is_none() {
                    self.told.late(now, u64::from(task.available) * MILLI);
                }
                taken.push(task);
            }
        }
        self.told.took(found.len(), taken.len());
        self.jobs[job as usize].taken = taken;
    }

    /// An answer has arrived.
    pub(crate) fn answered(&mut self, job: JobId) {
        let Job { node, life, at, ask, .. } = self.jobs[job as usize].clone();
        if self.frozen(node, Event::Answered(job)) {
            return;
        }
        let batch = matches!(ask, Ask::Batch(_) | Ask::Own);
        match (self.node(node).life == life, batch) {
            // The lock may still refer to its id.
            (false, true) => return,
            (false, false) => return self.forget(job),
            (true, true) => return self.batch_answered(job),
            (true, false) => {}
        }
        let taken = std::mem::take(&mut self.jobs[job as usize].taken);
        let found = std::mem::take(&mut self.jobs[job as usize].found);
        self.forget(job);
        match ask {
            Ask::Look(_) if !self.size.design.at_once => {
                if found.is_empty() {
                    return self.leased(node);
                }
                let work = self.size.costs.take + self.size.costs.take_task * found.len() as u64;
                self.ask(node, Ask::Take(found), work);
            }
            Ask::Look(_) | Ask::Take(_) => {
                let it = self.node(node);
                let none = taken.is_empty();
                it.got.extend(taken);
                if none || it.got.len() >= it.wanted || self.size.design.content {
                    self.leased(node);
                } else {
                    self.look(node);
                }
            }
            Ask::Next => {
                let now = self.clock.now();
                let wait = self.tasks.next_due().map_or(MINUTE, |next| next.saturating_sub(now));
                self.rest(node, wait);
            }
            Ask::Load(work, serial) => self.loaded(work, serial),
            Ask::Renew(work, serial) => self.renewed(work, serial, at),
            Ask::Beat | Ask::Aside | Ask::Nothing | Ask::Batch(_) | Ask::Own => {}
        }
    }

    pub(crate) fn beat(&mut self, node: u16) {
        if !self.node(node).alive || self.frozen(node, Event::Beat(node)) {
            return;
        }
        let work = self.size.costs.idle_each;
        self.ask(node, Ask::Beat, work);
        self.clock.after(u64::try_from(BEAT.as_micros()).unwrap(), Event::Beat(node));
    }

    pub(crate) fn aside(&mut self, node: u16) {
        if !self.node(node).alive || self.frozen(node, Event::Aside(node)) {
            return;
        }
        let work = self.size.costs.idle_each * self.size.costs.idle;
        self.ask(node, Ask::Aside, work);
        self.clock.after(SECOND, Event::Aside(node));
    }
}

/// Returns the kind of the request.
pub(crate) fn kind(ask: &Ask) -> Kind {
    match ask {
        Ask::Look(_) => Kind::Look,
        Ask::Take(_) => Kind::Take,
        Ask::Next => Kind::Next,
        Ask::Load(..) => Kind::Load,
        Ask::Renew(..) => Kind::Renew,
        Ask::Beat | Ask::Aside | Ask::Nothing => Kind::Aside,
        Ask::Batch(_) => Kind::Batch,
        Ask::Own => Kind::Own,
    }
}
