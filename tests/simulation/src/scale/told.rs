//! The result of a run, and its report.

use super::clockwork::{Moment, SECOND, Spans};
use std::fmt;

/// The kinds of the server's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Batches of commits.
    Batch,
    /// Queries of due tasks.
    Look,
    /// Leasing tasks.
    Take,
    /// Extending leases.
    Renew,
    /// Returning the next due time.
    Next,
    /// Notifications of listeners.
    Told,
    /// Reading records.
    Load,
    /// Other requests of nodes.
    Aside,
    /// The nodes' own work on a shared machine.
    Own,
}

const KINDS: [(Kind, &str); 9] = [
    (Kind::Batch, "batches"),
    (Kind::Look, "looks for work"),
    (Kind::Take, "leases"),
    (Kind::Renew, "renewals"),
    (Kind::Next, "what is due next"),
    (Kind::Told, "notifications"),
    (Kind::Load, "records read"),
    (Kind::Aside, "beats and the like"),
    (Kind::Own, "the nodes' own"),
];

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Simulated seconds.
    pub seconds: u64,
    /// Transitions.
    pub made: u64,
    /// Late results that were refused.
    pub refused: u64,
    /// Attempts that were abandoned because their lease could not be extended.
    pub given_up: u64,
    /// Batches, and commits in them.
    pub batches: (u64, u64),
    /// The maximum of transitions in one second.
    pub best: u64,
    /// The time from a task's due time to its lease, in microseconds.
    pub lateness: Spans,
    /// The time from the end of an action to the acknowledgement of its result.
    pub committed: Spans,
    /// The time from a death until another node had the task.
    pub takeovers: Spans,
    /// Nodes that died.
    pub died: u64,
    /// Nodes that paused.
    pub froze: u64,
    /// Transactions that were idle while they held the lock.
    pub broken_off: u64,
    /// The maximum of due tasks without a lease, and its time in seconds.
    pub backlog: (usize, u64),
    /// Due tasks without a lease at the end.
    pub left: usize,
    /// Attempted leases, empty ones, found tasks, and leased tasks.
    pub takes: (u64, u64, u64, u64),
    /// The time for which the lock was held, in microseconds.
    pub locked: u64,
    /// Processor time of the server's machine, in microseconds.
    pub busy: u128,
    /// The processors of the server's machine.
    pub processors: u64,
    /// The used time, by kind.
    pub used: [u64; 9],
    /// Statements, by kind.
    pub asked: [u64; 9],
    /// Events.
    pub events: u64,
    /// The first broken laws.
    pub broken: Vec<String>,
    /// Their total number.
    pub broken_count: u64,
    second: (u64, u64),
}

impl Told {
    pub(crate) fn used(&mut self, kind: Kind, work: u64) {
        self.used[kind as usize] += work;
        self.asked[kind as usize] += 1;
    }

    pub(crate) fn late(&mut self, now: Moment, due: Moment) {
        self.lateness.note(now.saturating_sub(due));
    }

    pub(crate) fn took(&mut self, found: usize, taken: usize) {
        let (calls, vain, all, got) = self.takes;
        self.takes = (calls + 1, vain + u64::from(taken == 0), all + found as u64, got + taken as u64);
    }

    pub(crate) fn batch(&mut self, commits: usize) {
        self.batches = (self.batches.0 + 1, self.batches.1 + commits as u64);
    }

    pub(crate) fn commits(&mut self, now: Moment, count: usize) {
        if now / SECOND != self.second.0 {
            self.second = (now / SECOND, 0);
        }
        self.second.1 += count as u64;
        self.best = self.best.max(self.second.1);
    }

    pub(crate) fn waiting(&mut self, now: Moment, due: usize) {
        if due > self.backlog.0 {
            self.backlog = (due, now / SECOND);
        }
    }

    /// Returns the average transitions a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.made as f64 / self.seconds as f64
    }

    /// Returns the fraction of processor time that leases and their queries used.
    #[must_use]
    pub fn leases(&self) -> f64 {
        let of = [Kind::Look, Kind::Take, Kind::Renew, Kind::Next, Kind::Told];
        let used: u64 = of.iter().map(|kind| self.used[*kind as usize]).sum();
        used as f64 / self.used.iter().sum::<u64>().max(1) as f64
    }
}

fn three(f: &mut fmt::Formatter<'_>, what: &str, spans: &Spans) -> fmt::Result {
    let second = |span: u64| span as f64 / SECOND as f64;
    writeln!(
        f,
        "{what}: p50 {:.3} s, p99 {:.3} s, at most {:.3} s, of {}",
        second(spans.quantile(500)),
        second(spans.quantile(990)),
        second(spans.most()),
        spans.total()
    )
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.seconds * SECOND;
        writeln!(
            f,
            "{} transitions in {} s: {:.0}/s, {}/s at best",
            self.made,
            self.seconds,
            self.rate(),
            self.best
        )?;
        let (batches, commits) = self.batches;
        writeln!(
            f,
            "{batches} batches of {:.2} commits; the lock was held {:.1} % of the time, the processors were busy {:.1} %",
            commits as f64 / batches.max(1) as f64,
            100.0 * self.locked as f64 / span as f64,
            100.0 * self.busy as f64 / (u128::from(span) * u128::from(self.processors.max(1))) as f64
        )?;
        three(f, "delay of due tasks", &self.lateness)?;
        three(f, "from an action's end to its acknowledgement", &self.committed)?;
        three(f, "takeover after a death", &self.takeovers)?;
        writeln!(
            f,
            "due and not leased: {} at the most (after {} s), {} at the end",
            self.backlog.0, self.backlog.1, self.left
        )?;
        let (calls, vain, all, got) = self.takes;
        writeln!(
            f,
            "{calls} leases, {:.0} % in vain; of {all} tasks found {got} were taken",
            100.0 * vain as f64 / calls.max(1) as f64
        )?;
        let all = self.used.iter().sum::<u64>().max(1) as f64;
        for (kind, name) in KINDS {
            let (asked, used) = (self.asked[kind as usize], self.used[kind as usize]);
            writeln!(
                f,
                "  {name:<20} {:>9.1} per second, {:>5.1} % of the server's work",
                asked as f64 / self.seconds as f64,
                100.0 * used as f64 / all
            )?;
        }
        writeln!(
            f,
            "{} nodes crashed, {} stalled, {} transactions were aborted; {} attempts were given up, {} late results were refused",
            self.died, self.froze, self.broken_off, self.given_up, self.refused
        )?;
        writeln!(
            f,
            "{} events; leases, checks and notifications were {:.1} % of the server's work",
            self.events,
            100.0 * self.leases()
        )?;
        for law in &self.broken {
            writeln!(f, "BROKEN: {law}")?;
        }
        match self.broken_count {
            0 => write!(f, "no law was broken"),
            count => write!(f, "laws were broken {count} times"),
        }
    }
}
