//! One mailbox a node: what is to be done there, what was handed over, and who waits for the answer.

use crate::agents::{
    protocol::{
        Answer, Command, IssuedCommand, NodeReport, Output, PullRequest, PullResponse, checked, millis,
    },
    settings::AgentsTarget,
};
use engine::ActionError;
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep_until},
};
use workflows::platform::{CallMetadata, codes};

/// How long after its last word an agent counts as there. It comes back within milliseconds, unless it was restarted.
const PRESENT: Duration = Duration::from_secs(5);
/// How often it is looked whether it still is.
const LOOK: Duration = Duration::from_millis(500);
/// The longest that an agent is kept waiting for orders.
const LONGEST: Duration = Duration::from_secs(30);

/// The agents of every cluster that has some.
#[derive(Debug, Default)]
pub struct Agents {
    clusters: BTreeMap<String, AgentsTarget>,
    nodes: Mutex<BTreeMap<(String, String), Arc<CommandQueue>>>,
}

/// An agent, as it is listed.
#[derive(Clone, Debug, Serialize)]
pub struct AgentEntry {
    /// Its cluster.
    pub cluster: String,
    /// Its node.
    pub node: String,
    /// The version of its program.
    pub version: String,
    /// Whether it comes for orders.
    pub present: bool,
    /// How long ago it was heard, in milliseconds.
    pub silent_ms: u64,
    /// Orders that wait to be handed over.
    pub waiting: usize,
    /// Orders that were handed over and not answered yet.
    pub handed_over: usize,
    /// What it saw last, if it has said so.
    pub seen: Option<NodeReport>,
    /// How long ago, in milliseconds.
    pub seen_ms: Option<u64>,
}

impl Agents {
    /// The agents of these clusters.
    #[must_use]
    pub fn of(clusters: BTreeMap<String, AgentsTarget>) -> Self {
        Self { clusters, nodes: Mutex::default() }
    }

    /// The hashes of the keys of a cluster's agents; none where it has none.
    ///
    /// # Errors
    /// In words, that they cannot be read.
    pub fn hashes(&self, cluster: &str) -> Result<Vec<String>, String> {
        self.clusters.get(cluster).map_or(Ok(Vec::new()), AgentsTarget::hashes)
    }

    /// The clusters that have agents.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.keys().map(String::as_str)
    }

    fn mailbox(&self, cluster: &str, node: &str) -> Arc<CommandQueue> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.entry((cluster.to_owned(), node.to_owned())).or_default().clone()
    }

    /// Has the agent of a node carry out a command, and waits for the answer until the stamp's deadline.
    ///
    /// # Errors
    /// What the agent failed with. `platform.unavailable`, transient, when it does not come for the order; when it does and does not
    /// answer, `platform.no_answer`, unknown, if something can have changed.
    pub async fn ask(
        &self,
        cluster: &str,
        node: &str,
        command: Command,
        stamp: &CallMetadata,
    ) -> Result<Output, ActionError> {
        let mailbox = self.mailbox(cluster, node);
        let until = Instant::now() + stamp.deadline;
        let order = IssuedCommand::of(format!("{:016x}", fastrand::u64(..)), command, stamp);
        let place = format!("node {node} of cluster {cluster}");
        let (id, changing) = (order.id.clone(), order.changes());
        let mut reply = mailbox.post(order, until).ok_or_else(|| absent(&place))?;
        let posted = WithdrawOnDrop { mailbox: &mailbox, id: &id };
        loop {
            tokio::select! {
                answer = &mut reply => {
                    return answer.unwrap_or_else(|_| Err(silent(&place, changing)));
                }
                () = sleep_until(until.min(Instant::now() + LOOK)) => {}
            }
            let late = Instant::now() >= until;
            match posted.is_handed_over() {
                Some(true) if late => return Err(silent(&place, changing)),
                Some(false) if late || !mailbox.is_present() => return Err(absent(&place)),
                // It was answered in this very moment.
                None | Some(_) => {}
            }
        }
    }

    /// Hands the orders of a node over to its agent, as soon as there are some, within the time that it waits.
    pub async fn pull(&self, cluster: &str, node: &str, pull: &PullRequest) -> PullResponse {
        let mailbox = self.mailbox(cluster, node);
        let until = Instant::now() + Duration::from_millis(pull.wait_ms).min(LONGEST);
        let _pulling = mailbox.arrive(cluster, node, pull);
        loop {
            let rung = mailbox.bell.notified();
            tokio::pin!(rung);
            rung.as_mut().enable();
            let pulled = mailbox.hand_over(pull);
            if pulled != PullResponse::default() {
                return pulled;
            }
            tokio::select! {
                () = rung => {}
                () = sleep_until(until) => return PullResponse::default(),
            }
        }
    }

    /// Takes an answer; false when nobody waits for it any more.
    pub fn answer(&self, cluster: &str, node: &str, answer: Answer) -> bool {
        let mailbox = self.mailbox(cluster, node);
        let mut state = mailbox.state();
        state.withdrawn.remove(&answer.id);
        state.heard_now();
        let Some(taken) = state.orders.remove(&answer.id) else { return false };
        let changing = taken.order.changes();
        taken.reply.send(answer.outcome.map_err(|error| checked(error, changing))).is_ok()
    }

    /// Keeps what an agent saw.
    pub fn see(&self, cluster: &str, node: &str, seen: NodeReport) {
        let mailbox = self.mailbox(cluster, node);
        let mut state = mailbox.state();
        state.heard_now();
        state.seen = Some((seen, Instant::now()));
    }

    /// Hears that an agent comes for no more orders. What it had not begun waits for the next one.
    pub fn leave(&self, cluster: &str, node: &str, leaving: &PullRequest) {
        let mailbox = self.mailbox(cluster, node);
        let mut state = mailbox.state();
        for order in state.orders.values_mut() {
            if order.with.as_deref() == Some(&leaving.instance) && !leaving.holding.contains(&order.order.id)
            {
                order.with = None;
            }
        }
        if state.agent.as_ref().is_some_and(|agent| agent.instance == leaving.instance) {
            state.agent = None;
        }
    }

    /// Every agent that was heard since this process began, in the order of cluster and node.
    #[must_use]
    pub fn list(&self) -> Vec<AgentEntry> {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        nodes.into_iter().filter_map(|((cluster, node), mailbox)| mailbox.listed(cluster, node)).collect()
    }
}

fn absent(place: &str) -> ActionError {
    let why = format!("no agent comes for the orders of {place}: see that it runs and reaches this server");
    ActionError::transient(codes::UNAVAILABLE, why)
}

fn silent(place: &str, changing: bool) -> ActionError {
    let why = format!("the agent of {place} has taken the order and has not answered in time");
    if changing {
        ActionError::unknown(codes::NO_ANSWER, why)
    } else {
        ActionError::transient(codes::UNAVAILABLE, why)
    }
}

/// Of one node.
#[derive(Debug, Default)]
struct CommandQueue {
    state: Mutex<State>,
    /// Rung whenever there is something for the agent.
    bell: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By id.
    orders: BTreeMap<String, PendingCommand>,
    /// Handed over, and nobody waits any more; told to the agent once.
    withdrawn: BTreeSet<String>,
    agent: Option<Agent>,
    last: Option<(String, Instant)>,
    seen: Option<(NodeReport, Instant)>,
}

/// An order for whose answer somebody waits.
#[derive(Debug)]
struct PendingCommand {
    order: IssuedCommand,
    until: Instant,
    /// To which process it was handed over.
    with: Option<String>,
    reply: oneshot::Sender<Result<Output, ActionError>>,
}

/// The process that comes for orders.
#[derive(Debug)]
struct Agent {
    instance: String,
    /// How many of its requests for orders are open.
    pulls: usize,
}

impl State {
    /// Writes down that the agent was heard.
    fn heard_now(&mut self) {
        if let Some((_, at)) = &mut self.last {
            *at = Instant::now();
        }
    }
}

/// Takes the order out of the mailbox when nobody waits for its answer any more.
struct WithdrawOnDrop<'a> {
    mailbox: &'a CommandQueue,
    id: &'a str,
}

impl WithdrawOnDrop<'_> {
    /// Nothing once it was answered.
    fn is_handed_over(&self) -> Option<bool> {
        self.mailbox.state().orders.get(self.id).map(|order| order.with.is_some())
    }
}

impl Drop for WithdrawOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.mailbox.state();
        let handed_over = state.orders.remove(self.id).is_some_and(|order| order.with.is_some());
        if handed_over {
            state.withdrawn.insert(self.id.to_owned());
            self.mailbox.bell.notify_waiters();
        }
    }
}

/// Counts a request for orders for as long as it is open.
struct OpenPull<'a> {
    mailbox: &'a CommandQueue,
    instance: String,
}

impl Drop for OpenPull<'_> {
    fn drop(&mut self) {
        let mut state = self.mailbox.state();
        state.heard_now();
        if let Some(agent) = state.agent.as_mut().filter(|agent| agent.instance == self.instance) {
            agent.pulls = agent.pulls.saturating_sub(1);
        }
    }
}

impl CommandQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_present(&self) -> bool {
        let state = self.state();
        let heard = state.last.as_ref().is_some_and(|(_, at)| at.elapsed() < PRESENT);
        state.agent.as_ref().is_some_and(|agent| agent.pulls > 0 || heard)
    }

    /// Lays an order in; nothing when there is no agent to come for it.
    fn post(
        &self,
        order: IssuedCommand,
        until: Instant,
    ) -> Option<oneshot::Receiver<Result<Output, ActionError>>> {
        if !self.is_present() {
            return None;
        }
        let (reply, answer) = oneshot::channel();
        self.state().orders.insert(order.id.clone(), PendingCommand { order, until, with: None, reply });
        self.bell.notify_waiters();
        Some(answer)
    }

    /// An agent asks for orders. What an earlier process of it has taken and not answered is lost with that process.
    fn arrive(&self, cluster: &str, node: &str, pull: &PullRequest) -> OpenPull<'_> {
        let mut state = self.state();
        state.last = Some((pull.version.clone(), Instant::now()));
        let known = state.agent.as_ref().is_some_and(|agent| agent.instance == pull.instance);
        if !known {
            if state.agent.as_ref().is_some_and(|agent| agent.pulls > 0) {
                tracing::warn!(
                    cluster,
                    node,
                    "another agent of this node came while one was waiting; there should be one"
                );
            }
            tracing::info!(cluster, node, version = pull.version, "an agent comes for orders");
            state.agent = Some(Agent { instance: pull.instance.clone(), pulls: 0 });
            state.withdrawn.clear();
            let lost =
                |order: &PendingCommand| order.with.as_ref().is_some_and(|with| *with != pull.instance);
            let ids: Vec<String> =
                state.orders.iter().filter(|(_, order)| lost(order)).map(|(id, _)| id.clone()).collect();
            for order in ids.iter().filter_map(|id| state.orders.remove(id)) {
                let place = format!("node {node} of cluster {cluster}, started anew since,");
                // Whoever does not wait any more needs no answer.
                let _ = order.reply.send(Err(silent(&place, order.order.changes())));
            }
        }
        if let Some(agent) = &mut state.agent {
            agent.pulls += 1;
        }
        OpenPull { mailbox: self, instance: pull.instance.clone() }
    }

    /// What there is for this process: orders that nobody has, and its own that never came to it.
    fn hand_over(&self, pull: &PullRequest) -> PullResponse {
        let mut state = self.state();
        let now = Instant::now();
        if state.agent.as_ref().is_none_or(|agent| agent.instance != pull.instance) {
            // Another process has come since, and has them.
            return PullResponse::default();
        }
        let mut orders = Vec::new();
        for order in state.orders.values_mut().filter(|order| order.until > now) {
            let is_for_it = match &order.with {
                None => true,
                Some(with) => *with == pull.instance && !pull.holding.contains(&order.order.id),
            };
            if is_for_it {
                order.with = Some(pull.instance.clone());
                let deadline_ms = millis(order.until.saturating_duration_since(now));
                orders.push(IssuedCommand { deadline_ms, ..order.order.clone() });
            }
        }
        let mut withdrawn = std::mem::take(&mut state.withdrawn);
        withdrawn.retain(|id| pull.holding.contains(id));
        PullResponse { orders, withdrawn }
    }

    fn listed(&self, cluster: String, node: String) -> Option<AgentEntry> {
        let present = self.is_present();
        let state = self.state();
        let (version, at) = state.last.as_ref()?;
        let waiting = state.orders.values().filter(|order| order.with.is_none()).count();
        Some(AgentEntry {
            cluster,
            node,
            version: version.clone(),
            present,
            silent_ms: millis(at.elapsed()),
            waiting,
            handed_over: state.orders.len() - waiting,
            seen: state.seen.as_ref().map(|(seen, _)| seen.clone()),
            seen_ms: state.seen.as_ref().map(|(_, at)| millis(at.elapsed())),
        })
    }
}
