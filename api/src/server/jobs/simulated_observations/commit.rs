//! Commits the facts of one look at a tenant's nodes.

use super::source::{Source, stamp};
use crate::state::ServerState;
use std::{collections::BTreeSet, time::Duration};
use store::{CompositeKey, Timestamp};
use workflows::{
    observed::{Proof, Term, lease},
    platform::WorkloadRef,
    reclaim::ledger::start_reclaims,
    scheduling::admission::{self, Rules},
    tenancy::{ClusterId, Occupancy, SeenWorkload, Workload, WorkloadState},
};

/// A simulated platform tells at each look which processes run, so one look proves that a GPU is unused.
const PROOF: Proof = Proof { looks: 1, apart: Duration::ZERO, fresh: engine::MINUTE };

/// Looks at the nodes of a tenant, and commits the facts if `term` still observes the cluster.
pub(super) async fn observe(
    app: &ServerState,
    source: &mut Source,
    occupancy: &Occupancy,
    (term, at): (Term, Timestamp),
) -> Result<(), String> {
    let stocks = source.look(app, occupancy, (term, at)).await?;
    let Some(facts) = source.index.facts(&stocks, at, PROOF) else {
        return Err("the nodes are not listed completely".to_owned());
    };
    end_finished(app, occupancy, (&facts.running, at)).await?;
    let tenant = &occupancy.tenant;
    let (seen, running) = (&facts.seen, &facts.running);
    let mut more = apply(app, (&occupancy.cluster, term), |view| {
        Ok(admission::observe_running(view, tenant, seen, running)?.news)
    })
    .await?;
    while more {
        more = apply(app, (&occupancy.cluster, term), |view| admission::admit_queued(view, tenant)).await?;
    }
    Ok(())
}

/// Renews the freshness of a cluster after a look at all its nodes, for as long as policy uses observations.
pub(super) async fn renew(app: &ServerState, cluster: &ClusterId, term: Term) -> Result<(), String> {
    let renewed = app.engine.transact(true, |view| {
        let life = Rules::in_force(view)?.max_staleness;
        lease::renew(view, cluster, term, life)
    });
    renewed.await.map_err(|e| e.to_string())
}

/// Changes the account and starts the resulting executions, if `term` still observes the cluster. Returns true if more workloads can be admitted.
async fn apply(
    app: &ServerState,
    (cluster, term): (&ClusterId, Term),
    mut change: impl FnMut(&mut engine::View) -> Result<admission::AdmissionEffects, engine::Undecided>,
) -> Result<bool, String> {
    let changed = app.engine.transact(true, |view| {
        if !lease::is_current(view, cluster, term)? {
            return Ok(None);
        }
        let news = change(view)?;
        start_reclaims(view, &news)?;
        Ok(Some(news.more))
    });
    let more = changed.await.map_err(|e| e.to_string())?;
    more.ok_or_else(|| "another server observes the cluster now".to_owned())
}

/// Ends workloads in the simulated cluster that have finished in the ledger: a workload may have ended while it was being started.
async fn end_finished(
    app: &ServerState,
    occupancy: &Occupancy,
    (running, at): (&[SeenWorkload], Timestamp),
) -> Result<(), String> {
    let names: BTreeSet<&str> = running.iter().map(|seen| seen.workload.as_str()).collect();
    for name in names {
        let key = Workload::key(&occupancy.tenant, name);
        let read = app.engine.transact(false, |view| view.get::<Workload>(&key)).await;
        let finished = read.map_err(|e| e.to_string())?.filter(|it| it.state == WorkloadState::Finished);
        let Some(workload) = finished else { continue };
        let of = WorkloadRef {
            cluster: occupancy.cluster.to_string(),
            tenant: occupancy.tenant.to_string(),
            workspace: workload.workspace.to_string(),
            name: workload.name,
        };
        let stamp = stamp("EndWorkload", String::from(CompositeKey::of(&[&"ended", &of.full_name(), &at.0])));
        app.engine.platform().workloads.notify_ended(&of, &stamp).await.map_err(|e| e.message)?;
    }
    Ok(())
}
