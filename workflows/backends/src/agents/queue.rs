//! One queue per node: pending orders, orders in progress, and the callers that wait for their results.

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

/// How long after its last request an agent counts as present. It polls again within milliseconds, unless it restarts.
const PRESENT: Duration = Duration::from_secs(5);
/// How often the presence of the agent is checked.
const LOOK: Duration = Duration::from_millis(500);
/// The longest wait of a poll for orders.
const LONGEST: Duration = Duration::from_secs(30);

/// The agents of all clusters that have agents.
#[derive(Debug, Default)]
pub struct Agents {
    clusters: BTreeMap<String, AgentsTarget>,
    nodes: Mutex<BTreeMap<(String, String), Arc<CommandQueue>>>,
}

/// An agent in the list of agents.
#[derive(Clone, Debug, Serialize)]
pub struct AgentEntry {
    /// The cluster.
    pub cluster: String,
    /// The node.
    pub node: String,
    /// The version of the agent program.
    pub version: String,
    /// True if the agent polls for orders.
    pub present: bool,
    /// Milliseconds since its last request.
    pub silent_ms: u64,
    /// Orders that are not delivered yet.
    pub waiting: usize,
    /// Orders that are delivered but not answered.
    pub handed_over: usize,
    /// The agent's last report about its node.
    pub seen: Option<NodeReport>,
    /// Milliseconds since that report.
    pub seen_ms: Option<u64>,
}

impl Agents {
    /// Creates the registry for these clusters.
    #[must_use]
    pub fn of(clusters: BTreeMap<String, AgentsTarget>) -> Self {
        Self { clusters, nodes: Mutex::default() }
    }

    /// Returns the key hashes of a cluster's agents. Empty for a cluster without agents.
    ///
    /// # Errors
    ///
    /// A message if the hashes cannot be read.
    pub fn hashes(&self, cluster: &str) -> Result<Vec<String>, String> {
        self.clusters.get(cluster).map_or(Ok(Vec::new()), AgentsTarget::hashes)
    }

    /// Returns the clusters that have agents.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        self.clusters.keys().map(String::as_str)
    }

    fn mailbox(&self, cluster: &str, node: &str) -> Arc<CommandQueue> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.entry((cluster.to_owned(), node.to_owned())).or_default().clone()
    }

    /// Sends a command to the agent of a node and waits for the answer until the stamp's deadline.
    ///
    /// # Errors
    ///
    /// The error that the agent returns. `platform.unavailable` (transient) if no agent polls for the order.
    /// `platform.no_answer` (unknown) if the agent took the order but did not answer and the command can have changed
    /// something.
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
                // The answer arrived at this moment.
                None | Some(_) => {}
            }
        }
    }

    /// Delivers the pending orders of a node to its agent. Waits for new orders up to the requested time.
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

    /// Accepts an answer. Returns false if no caller waits for it.
    pub fn answer(&self, cluster: &str, node: &str, answer: Answer) -> bool {
        let mailbox = self.mailbox(cluster, node);
        let mut state = mailbox.state();
        state.withdrawn.remove(&answer.id);
        state.heard_now();
        let Some(taken) = state.orders.remove(&answer.id) else { return false };
        let changing = taken.order.changes();
        taken.reply.send(answer.outcome.map_err(|error| checked(error, changing))).is_ok()
    }

    /// Stores the agent's report about its node.
    pub fn see(&self, cluster: &str, node: &str, seen: NodeReport) {
        let mailbox = self.mailbox(cluster, node);
        let mut state = mailbox.state();
        state.heard_now();
        state.seen = Some((seen, Instant::now()));
    }

    /// Records that an agent stops. Orders that it has not begun wait for the next agent.
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

    /// Returns every agent that has called since the server started, ordered by cluster and node.
    #[must_use]
    pub fn list(&self) -> Vec<AgentEntry> {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        nodes.into_iter().filter_map(|((cluster, node), mailbox)| mailbox.listed(cluster, node)).collect()
    }
}

fn absent(place: &str) -> ActionError {
    let why = format!("no agent fetches the orders of {place}: check that it runs and can reach this server");
    ActionError::transient(codes::UNAVAILABLE, why)
}

fn silent(place: &str, changing: bool) -> ActionError {
    let why = format!("the agent of {place} fetched the order, but did not answer in time");
    if changing {
        ActionError::unknown(codes::NO_ANSWER, why)
    } else {
        ActionError::transient(codes::UNAVAILABLE, why)
    }
}

/// The queue of one node.
#[derive(Debug, Default)]
struct CommandQueue {
    state: Mutex<State>,
    /// Notified when the agent has something to fetch.
    bell: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Orders by id.
    orders: BTreeMap<String, PendingCommand>,
    /// Delivered orders whose callers have gone. The agent is informed once.
    withdrawn: BTreeSet<String>,
    agent: Option<Agent>,
    last: Option<(String, Instant)>,
    seen: Option<(NodeReport, Instant)>,
}

/// An order whose caller waits for an answer.
#[derive(Debug)]
struct PendingCommand {
    order: IssuedCommand,
    until: Instant,
    /// The agent process that has the order.
    with: Option<String>,
    reply: oneshot::Sender<Result<Output, ActionError>>,
}

/// The agent process that polls for orders.
#[derive(Debug)]
struct Agent {
    instance: String,
    /// The number of its open polls.
    pulls: usize,
}

impl State {
    /// Updates the time of the agent's last request.
    fn heard_now(&mut self) {
        if let Some((_, at)) = &mut self.last {
            *at = Instant::now();
        }
    }
}

/// Removes the order from the queue when its caller is dropped.
struct WithdrawOnDrop<'a> {
    mailbox: &'a CommandQueue,
    id: &'a str,
}

impl WithdrawOnDrop<'_> {
    /// Returns true if the order is delivered, and `None` once it is answered.
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

/// Counts a poll while it is open.
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

    /// Queues an order. Returns `None` if no agent is present.
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

    /// Registers a poll. Orders that an earlier process of the agent took and did not answer fail.
    fn arrive(&self, cluster: &str, node: &str, pull: &PullRequest) -> OpenPull<'_> {
        let mut state = self.state();
        state.last = Some((pull.version.clone(), Instant::now()));
        let known = state.agent.as_ref().is_some_and(|agent| agent.instance == pull.instance);
        if !known {
            if state.agent.as_ref().is_some_and(|agent| agent.pulls > 0) {
                tracing::warn!(cluster, node, "two agents of this node fetch orders; run only one");
            }
            tracing::info!(cluster, node, version = pull.version, "an agent fetches orders");
            state.agent = Some(Agent { instance: pull.instance.clone(), pulls: 0 });
            state.withdrawn.clear();
            let lost =
                |order: &PendingCommand| order.with.as_ref().is_some_and(|with| *with != pull.instance);
            let ids: Vec<String> =
                state.orders.iter().filter(|(_, order)| lost(order)).map(|(id, _)| id.clone()).collect();
            for order in ids.iter().filter_map(|id| state.orders.remove(id)) {
                let place = format!("node {node} of cluster {cluster}, restarted since,");
                // The caller may have gone.
                let _ = order.reply.send(Err(silent(&place, order.order.changes())));
            }
        }
        if let Some(agent) = &mut state.agent {
            agent.pulls += 1;
        }
        OpenPull { mailbox: self, instance: pull.instance.clone() }
    }

    /// Returns the orders for this process: undelivered ones, and those delivered to it that never arrived.
    fn hand_over(&self, pull: &PullRequest) -> PullResponse {
        let mut state = self.state();
        let now = Instant::now();
        if state.agent.as_ref().is_none_or(|agent| agent.instance != pull.instance) {
            // A newer agent process now receives the orders.
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
