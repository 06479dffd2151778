//! Submits the demands of a replay, and ends them when their work is done.

use super::{Replay, demand::DemandPhase as At, event_log, outcome::ReplayError};
use crate::{
    scenario::Scenario,
    trace::{self, Demand, Treatment},
};
use std::collections::BTreeSet;
use workflows::{
    reclaim::ledger::start_reclaims,
    scheduling::admission::{self, WorkloadRequest},
    tenancy::{Amounts, GpuKind, Resource, WorkloadClass, WorkspaceName},
};

impl Replay<'_> {
    /// Records that a demand inside its workspace's reservation has run or was rejected.
    pub(super) fn kept(&mut self, demand: &Demand) {
        if let Some(promised) = self.promised.get_mut(&promised_of(demand)) {
            *promised = promised.saturating_sub(demand.gpus);
        }
    }

    pub(super) async fn ask(&mut self, number: usize) -> Result<(), ReplayError> {
        let Some(demand) = self.scene.demands.get(number) else { return Ok(()) };
        let now = self.stage.now();
        let resource = Resource::Gpu(demand.kind.clone());
        let account = self.cohort.accounts.get(&demand.workspace);
        let inside = account.is_some_and(|account| {
            let taken = account.balance(&resource).in_use();
            // Demands before it in the queue also count.
            let ahead = self.promised.get(&promised_of(demand)).copied().unwrap_or(0);
            taken + ahead + demand.gpus <= account.reserved(&resource, now)
        });
        if let Some(life) = self.lives.get_mut(number) {
            (life.stage, life.asked, life.since, life.inside) = (At::Waiting, now, now, inside);
        }
        if inside {
            *self.promised.entry(promised_of(demand)).or_default() += demand.gpus;
        }
        self.gauge.asked(demand, inside);
        self.gauge.wants(now, demand, true);
        self.story.tell(now, || asks(demand));
        let request = request(self.scene, demand, resource);
        let submitted = self
            .stage
            .engine
            .transact(true, |view| {
                let submitted = admission::submit(view, &request)?;
                start_reclaims(view, &submitted.news)?;
                Ok(submitted)
            })
            .await;
        match submitted {
            Ok(submitted) => self.hear(&submitted.news).await,
            Err(engine::Error::Undecided(error)) if error.code == admission::codes::LINE_FULL => {
                self.checks.note(now, "S-42", format!("{}: {}", demand.name, error.message));
                self.catch_up().await
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn done(&mut self, number: usize, run: u32) -> Result<(), ReplayError> {
        let (Some(demand), Some(life)) = (self.scene.demands.get(number), self.lives.get_mut(number)) else {
            return Ok(());
        };
        if life.run != run || life.stage != At::Running {
            return Ok(());
        }
        let of = self.stage.known_as(self.scene, &demand.workspace, &demand.name);
        // A demand evicted just now could not finish; the ledger will show its eviction.
        if life.called && !self.stage.lingers(&of).await? {
            return Ok(());
        }
        let now = self.stage.now();
        let (since, asked) = (life.since, life.asked);
        life.stage = At::Done;
        self.called.remove(&number);
        self.vacate(number);
        self.gauge.finished();
        self.story.tell(now, || {
            format!(
                "{} has finished, {} after its request",
                demand.name,
                event_log::span(now.since(asked.min(since)))
            )
        });
        self.stage.leave(&of).await?;
        let tenant = &self.scene.tenant;
        let finished = self
            .stage
            .engine
            .transact(true, |view| {
                let finished = admission::finish(view, tenant, &demand.name)?;
                start_reclaims(view, &finished.news)?;
                Ok(finished)
            })
            .await?;
        self.hear(&finished.news).await
    }
}

fn request(scene: &Scenario, demand: &Demand, resource: Resource) -> WorkloadRequest {
    let (class, preemptible, priority) = match demand.standing {
        Treatment::Given { class, preemptible, priority } => (class, preemptible, priority),
        Treatment::ByShare => (WorkloadClass::Batch, true, trace::BATCH),
    };
    WorkloadRequest {
        tenant: scene.tenant.clone(),
        workspace: demand.workspace.clone(),
        name: demand.name.clone(),
        class,
        priority,
        preemptible,
        checkpoint: demand.checkpoint,
        requests: Amounts::from([(resource, demand.gpus)]),
        together: demand.together,
        labels: BTreeSet::new(),
    }
}

fn promised_of(demand: &Demand) -> (WorkspaceName, GpuKind) {
    (demand.workspace.clone(), demand.kind.clone())
}

fn asks(demand: &Demand) -> String {
    let who = demand.by.as_deref().unwrap_or("the trace");
    let what = event_log::amount(demand.gpus, &demand.kind);
    format!("{who} requests {what} in {} for {}", demand.workspace, demand.name)
}
