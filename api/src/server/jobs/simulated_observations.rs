//! Observes simulated clusters, so that admission has facts. Real clusters push their facts with their own key to `/v1/clusters/{id}/facts`.
//!
//! One server observes a cluster, by the lease of [`lease`]. The nodes of each tenant are one source, with an index of its own. Invariant: each look is one commit,
//! which fails if another server has taken over.

mod commit;
mod source;

use crate::state::{ServerState, SharedState};
use engine::Entity as _;
use source::Source;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::Timestamp;
use tokio::sync::watch;
use workflows::{
    observed::{
        Term,
        lease::{self, Claim, Claimant, LEASE, Observer},
    },
    tenancy::{Cluster, ClusterId, LastObservation, Occupancy, TenantId},
};

/// The number of documents read at once.
const PAGE: usize = 500;
/// New nodes are observed soon after they enter service.
const PAUSE: Duration = Duration::from_millis(500);
/// The interval of observations, well below the two minutes after which admission ignores old facts.
const EVERY: Duration = Duration::from_secs(30);
/// The lease where no other server can use the store: it is not written at every pause.
const LEASE_ALONE: Duration = engine::HOUR;
/// How often the lease is renewed during a long look.
const RENEWAL: Duration = Duration::from_secs(5);
/// How long a server that stops tries to end its leases. They end by themselves.
const RELEASE: Duration = Duration::from_secs(5);

/// What this server observes.
#[derive(Default)]
struct Observers {
    clusters: BTreeMap<ClusterId, Observed>,
    /// The time of the last search for clusters without nodes.
    rested_at: Option<Timestamp>,
}

/// The tenants with nodes in a simulated cluster.
#[derive(Default)]
struct ClusterTenants {
    all: BTreeSet<TenantId>,
    /// Those whose last observation is old.
    due: Vec<Occupancy>,
}

/// A simulated cluster.
#[derive(Default)]
struct Observed {
    term: Option<Term>,
    sources: BTreeMap<TenantId, Source>,
    /// The last renewal of the freshness.
    renewed_at: Option<Timestamp>,
}

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    if !app.config.simulated.observe {
        // Facts are pushed, so clusters that were observed before are not silent.
        if app.free(&mut stop).await
            && let Err(why) = rest(&app, &BTreeSet::new()).await
        {
            tracing::warn!(why, "cannot end the observation of the simulated clusters");
        }
        return;
    }
    let clock = app.engine.clock().clone();
    let mut observers = Observers::default();
    loop {
        if !app.free(&mut stop).await {
            break;
        }
        let look = async {
            if let Err(why) = observers.observe_all(&app).await {
                tracing::warn!(why, "cannot observe the simulated clusters; trying again");
            }
            clock.sleep_until(clock.now().after(PAUSE)).await;
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => break,
            () = look => {}
        }
    }
    if tokio::time::timeout(RELEASE, observers.release(&app)).await.is_err() {
        tracing::debug!("cannot release the observation of the clusters; the leases end by themselves");
    }
}

impl Observers {
    /// Observes every tenant whose nodes have old facts. A tenant whose observation fails does not keep the others from theirs.
    async fn observe_all(&mut self, app: &ServerState) -> Result<(), String> {
        let found = tenants(app).await?;
        for (cluster, tenants) in &found {
            let observed = self.clusters.entry(cluster.clone()).or_default();
            observed.sources.retain(|tenant, _| tenants.all.contains(tenant));
            if let Err(why) = observed.observe(app, cluster, &tenants.due).await {
                tracing::warn!(%cluster, why, "cannot observe a simulated cluster; trying again");
            }
        }
        self.clusters.retain(|cluster, observed| {
            let stays = found.contains_key(cluster);
            if !stays {
                observed.forget(app, cluster);
            }
            stays
        });
        let now = app.engine.clock().now();
        if self.rested_at.is_none_or(|at| !at.is_recent(EVERY, now)) {
            rest(app, &found.keys().collect()).await?;
            self.rested_at = Some(now);
        }
        Ok(())
    }

    /// Ends the leases, so that another server takes over at once.
    async fn release(self, app: &ServerState) {
        if !app.storage.is_shared() {
            return;
        }
        for (cluster, observed) in self.clusters {
            let Some(term) = observed.term else { continue };
            let released = app.engine.transact(true, |view| lease::release(view, &cluster, term)).await;
            if let Err(error) = released {
                tracing::debug!(%error, %cluster, "cannot release the observation of a cluster; its lease ends by itself");
                return;
            }
        }
    }
}

impl Observed {
    async fn observe(
        &mut self,
        app: &ServerState,
        cluster: &ClusterId,
        due: &[Occupancy],
    ) -> Result<(), String> {
        let Some(term) = self.claim(app, cluster).await? else {
            self.forget(app, cluster);
            return Ok(());
        };
        let looked = tokio::select! {
            looked = self.look(app, term, due) => looked,
            lost = keep(app, cluster, term) => Err(lost),
        };
        self.measure(app, cluster);
        looked?;
        // Without a due tenant, all have a recent observation, such as one that was pushed.
        let now = app.engine.clock().now();
        if due.is_empty() && self.renewed_at.is_some_and(|at| at.is_recent(EVERY, now)) {
            return Ok(());
        }
        commit::renew(app, cluster, term).await?;
        self.renewed_at = Some(now);
        Ok(())
    }

    async fn look(&mut self, app: &ServerState, term: Term, due: &[Occupancy]) -> Result<(), String> {
        let mut failed = None;
        for occupancy in due {
            let now = app.engine.clock().now();
            let source = self.sources.entry(occupancy.tenant.clone()).or_default();
            if let Err(why) = commit::observe(app, source, occupancy, (term, now)).await {
                failed = Some(format!("tenant {}: {why}", occupancy.tenant));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Forgets the index: this server does not observe the cluster.
    fn forget(&mut self, app: &ServerState, cluster: &ClusterId) {
        if !self.sources.is_empty() {
            self.sources.clear();
            self.measure(app, cluster);
        }
    }

    /// Exports what this server received of the cluster.
    fn measure(&mut self, app: &ServerState, cluster: &ClusterId) {
        let (mut nodes, mut pods) = (0, 0);
        for source in self.sources.values_mut() {
            (nodes, pods) = (nodes + source.index.nodes().len(), pods + source.index.pods().len());
            let now = [source.index.nodes().counts(), source.index.pods().counts()];
            let before = std::mem::replace(&mut source.measured, now);
            for (source, counts) in ["nodes", "pods"].into_iter().zip(before.into_iter().zip(now)) {
                app.observations.add((cluster.as_str(), source), counts, 0, Duration::ZERO);
            }
        }
        app.observations.objects(cluster.as_str(), "nodes", nodes);
        app.observations.objects(cluster.as_str(), "pods", pods);
    }

    /// Claims or renews the lease. Returns the term, or `None` if another server observes.
    async fn claim(&mut self, app: &ServerState, cluster: &ClusterId) -> Result<Option<Term>, String> {
        self.term = match claim(app, cluster, self.term).await? {
            Claim::Observes(term) => Some(term),
            Claim::Other { .. } => None,
        };
        Ok(self.term)
    }
}

async fn claim(app: &ServerState, cluster: &ClusterId, term: Option<Term>) -> Result<Claim, String> {
    let holder = app.storage.holder();
    let is_alone = !app.storage.is_shared();
    let lease = if is_alone { LEASE_ALONE } else { LEASE };
    let claimant = Claimant { holder: &holder, term, lease, is_alone };
    let claimed = app.engine.transact(true, |view| lease::claim(view, cluster, claimant)).await;
    claimed.map_err(|e| e.to_string())
}

/// Keeps the lease of `term` during a look. Returns the reason once it is lost.
async fn keep(app: &ServerState, cluster: &ClusterId, term: Term) -> String {
    let clock = app.engine.clock().clone();
    loop {
        clock.sleep_until(clock.now().after(RENEWAL)).await;
        match claim(app, cluster, Some(term)).await {
            Ok(Claim::Observes(current)) if current == term => {}
            Ok(Claim::Observes(_) | Claim::Other { .. }) => {
                return "the lease ended during the look".to_owned();
            }
            Err(why) => tracing::warn!(%cluster, why, "cannot renew the lease of a cluster; trying again"),
        }
    }
}

/// Returns the tenants of simulated clusters.
async fn tenants(app: &ServerState) -> Result<BTreeMap<ClusterId, ClusterTenants>, String> {
    let (mut found, mut known) = (BTreeMap::<ClusterId, ClusterTenants>::new(), BTreeMap::new());
    let mut after = None;
    loop {
        let store = app.engine.store();
        let page = store.documents(Occupancy::COLLECTION, "", after.as_deref(), PAGE).await;
        let page = page.map_err(|e| e.to_string())?;
        for document in &page.items {
            let occupancy: Occupancy = serde_json::from_slice(&document.body)
                .map_err(|e| format!("cannot read {}: {e}", document.key))?;
            let cluster = occupancy.cluster.clone();
            let simulated = match known.get(&cluster) {
                Some(simulated) => *simulated,
                None => {
                    let simulated = is_simulated(app, &cluster).await?;
                    known.insert(cluster.clone(), simulated);
                    simulated
                }
            };
            if !simulated {
                continue;
            }
            let tenants = found.entry(cluster).or_default();
            tenants.all.insert(occupancy.tenant.clone());
            if is_due(app, &occupancy.tenant).await? {
                tenants.due.push(occupancy);
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

async fn is_simulated(app: &ServerState, cluster: &ClusterId) -> Result<bool, String> {
    let read = app.engine.transact(false, |view| view.get::<Cluster>(cluster.as_str())).await;
    Ok(read.map_err(|e| e.to_string())?.is_some_and(|cluster| cluster.is_simulated()))
}

async fn is_due(app: &ServerState, tenant: &TenantId) -> Result<bool, String> {
    let now = app.engine.clock().now();
    let read = app.engine.transact(false, |view| view.get::<LastObservation>(tenant.as_str())).await;
    let last = read.map_err(|e| e.to_string())?;
    Ok(!last.is_some_and(|last| last.at.is_recent(EVERY, now)))
}

/// Ends the observation of clusters that are not `occupied`: they have no nodes of a tenant any more, or are no longer simulated. The lease of another server
/// must have ended.
async fn rest(app: &ServerState, occupied: &BTreeSet<&ClusterId>) -> Result<(), String> {
    let mut after = None;
    loop {
        let store = app.engine.store();
        let page = store.documents(Observer::COLLECTION, "", after.as_deref(), PAGE).await;
        let page = page.map_err(|e| e.to_string())?;
        for document in &page.items {
            let observer: Observer = serde_json::from_slice(&document.body)
                .map_err(|e| format!("cannot read {}: {e}", document.key))?;
            let cluster = &observer.cluster;
            let has_ended = !app.storage.is_shared() || observer.until <= app.engine.clock().now();
            if observer.since.is_some() && has_ended && !occupied.contains(cluster) {
                let rested = app.engine.transact(true, |view| lease::rest(view, cluster)).await;
                rested.map_err(|e| e.to_string())?;
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(());
        }
    }
}
