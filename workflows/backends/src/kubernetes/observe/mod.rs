//! Observes the nodes, pods and Kueue workloads of one cluster, as batches for an index.
//!
//! Invariant: only a complete list says that an object is absent. A refusal, a broken list or an object that cannot be decoded is a finding, and the index keeps
//! its state. Read-only: needs `list` and `watch`.

mod decode;
mod stream;
#[cfg(test)]
mod tests;

use crate::kubernetes::{
    client::discovery::WORKLOAD,
    cluster::KubernetesCluster,
    observe::{
        decode::Names,
        stream::{Stream, StreamSettings},
    },
};
use std::{sync::Arc, time::Duration};
use store::Timestamp;
use tokio::{sync::mpsc::Sender, time::Instant};
use workflows::observed::{Batch, NodeObject, PodObject, Term, WorkloadObject};

/// What a source of one kind of object gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent<T> {
    /// Events. An empty batch says that nothing has changed.
    Batch(Batch<T>),
    /// The source gives no events now.
    Finding(Finding),
}

/// The reason why a source gives no events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The credentials do not permit it.
    #[error("the account may not list or watch: {0}")]
    Denied(String),
    /// The cluster does not serve the kind.
    #[error("the cluster does not serve it: {0}")]
    Unserved(String),
    /// The server does not answer, or not completely.
    #[error("no complete answer: {0}")]
    Unanswered(String),
    /// An object is not in a known form.
    #[error("an object cannot be decoded: {0}")]
    Undecoded(String),
    /// The watch gave no event and no bookmark for longer than the server allows.
    #[error("the watch is silent")]
    Silent,
}

/// The term of an observer, and the store's clock.
#[derive(Clone)]
pub struct ObserverContext {
    /// The term, from the lease of the cluster.
    pub term: Term,
    /// Returns the time by the store's clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

/// How long the discovery of a version may take.
const DISCOVERY: Duration = Duration::from_secs(30);

impl KubernetesCluster {
    /// Sends the nodes and their changes until the receiver is dropped.
    pub async fn observe_nodes(&self, context: ObserverContext, to: Sender<SourceEvent<NodeObject>>) {
        self.stream(context, to).run("/api/v1/nodes", decode::node).await;
    }

    /// Sends all pods and their changes until the receiver is dropped. A label selector would hide pods that bypass the queues.
    pub async fn observe_pods(&self, context: ObserverContext, to: Sender<SourceEvent<PodObject>>) {
        self.stream(context, to).run("/api/v1/pods", decode::pod).await;
    }

    /// Sends the Kueue workloads and their changes until the receiver is dropped.
    pub async fn observe_workloads(&self, context: ObserverContext, to: Sender<SourceEvent<WorkloadObject>>) {
        let settings = StreamSettings::default();
        loop {
            let why = match self.version_of(WORKLOAD, Instant::now() + DISCOVERY).await {
                Ok(Some(version)) => {
                    let path = WORKLOAD.everywhere(&version);
                    return self.stream(context, to).run(&path, decode::workload).await;
                }
                Ok(None) => Finding::Unserved("install Kueue".to_owned()),
                Err(error) => Finding::Unanswered(error.message),
            };
            if to.send(SourceEvent::Finding(why)).await.is_err() {
                return;
            }
            tokio::time::sleep(settings.longest_pause).await;
        }
    }

    fn stream<T>(&self, context: ObserverContext, to: Sender<SourceEvent<T>>) -> Stream<'_, T> {
        let names = Names::new(&self.marks, &self.target.gpu_resource);
        Stream::new(&self.client, names, (context, to), StreamSettings::default())
    }
}
