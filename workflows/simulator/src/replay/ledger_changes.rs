//! Reads changes from the ledger (admissions, victims, evictions, spared victims) and applies them to the simulated
//! cluster.

use crate::{
    replay::{Replay, ReplayError, ReplayEvent, demand::DemandPhase as At, event_log},
    scenario::Scenario,
    trace::Demand,
};
use std::collections::BTreeMap;
use workflows::{
    platform::GpuSet,
    scheduling::admission::ObservedKind,
    tenancy::{
        Admission, AdmissionVerdict, Cohort, GpuKind, NodeId, Placed, Resource, Workload, WorkloadClass,
        WorkloadState,
    },
};

impl Replay<'_> {
    /// Processes all changes of the ledger since the last call.
    pub(crate) async fn catch_up(&mut self) -> Result<(), ReplayError> {
        let tenant = self.scene.tenant.as_str();
        let version = self.stage.version::<Cohort>(tenant).await?;
        if version == self.version {
            return Ok(());
        }
        self.version = version;
        let Some(cohort) = self.stage.shared::<Cohort>(tenant).await? else { return Ok(()) };
        let before = std::mem::replace(&mut self.cohort, cohort);
        let now = self.stage.now();
        self.notice_victims(&before);
        self.follow_victims().await?;
        while self.seen < self.cohort.decisions {
            self.seen += 1;
            let key = Admission::key(&self.scene.tenant, self.seen);
            if let Some(admission) = self.stage.get::<Admission>(&key).await? {
                self.decided(&admission).await?;
            }
        }
        self.gauge.account(now, &self.cohort);
        self.checks.account(now, &self.cohort);
        Ok(())
    }

    /// Records new victims.
    fn notice_victims(&mut self, before: &Cohort) {
        let now = self.stage.now();
        let mut told = Vec::new();
        for (resource, reclaim) in &self.cohort.reclaims {
            for victim in &reclaim.victims {
                let Some(number) = self.names.get(victim.as_str()).copied() else { continue };
                if self.called.insert(number) {
                    told.push((number, resource.clone(), reclaim.clone()));
                }
            }
        }
        for (number, resource, reclaim) in told {
            let (Some(demand), Some(life)) = (self.scene.demands.get(number), self.lives.get_mut(number))
            else {
                continue;
            };
            life.called = true;
            life.for_demand = reclaim.workload.is_some();
            let wanted = reclaim.beneficiaries().map(|served| served.wanted).fold(0, u64::saturating_add);
            self.evicts(reclaim.execution, wanted as f64 * crate::replay::measures::weight_of(&resource));
            self.checks.victim(now, before, &reclaim, &resource, demand);
            let whom = reclaim.workload.clone().unwrap_or_else(|| "queued workloads".into());
            self.story.tell(now, || {
                let what = event_log::amount(demand.gpus, &demand.kind);
                format!(
                    "{} ({what}, borrowed by {}) is reclaimed: {} needs them for {whom}, by {}",
                    demand.name,
                    demand.workspace,
                    reclaim.workspace,
                    event_log::clock(reclaim.deadline)
                )
            });
        }
    }

    /// Follows the state of victims.
    async fn follow_victims(&mut self) -> Result<(), ReplayError> {
        let now = self.stage.now();
        for number in self.called.clone() {
            let Some(demand) = self.scene.demands.get(number) else { continue };
            let key = Workload::key(&self.scene.tenant, &demand.name);
            let Some(workload) = self.stage.get::<Workload>(&key).await? else { continue };
            let known = self.lives.get(number).map_or(0, |life| life.evictions);
            let evicted = workload.evictions > known;
            match &workload.state {
                WorkloadState::Reclaimed { .. } if !evicted => continue,
                WorkloadState::Admitted if !evicted => {
                    self.story.tell(now, || format!("{} is spared and continues", demand.name));
                }
                WorkloadState::Finished => {}
                WorkloadState::Rejected if !evicted => {}
                // Evicted: it is queued again, runs again, or was rejected in the same commit.
                WorkloadState::Waiting
                | WorkloadState::Admitted
                | WorkloadState::Reclaimed { .. }
                | WorkloadState::Rejected => {
                    self.evicted(number, demand, workload.evictions).await?;
                }
            }
            self.called.remove(&number);
            if let Some(life) = self.lives.get_mut(number) {
                life.called = false;
            }
        }
        Ok(())
    }

    async fn evicted(&mut self, number: usize, demand: &Demand, evictions: u32) -> Result<(), ReplayError> {
        let now = self.stage.now();
        self.vacate(number);
        let Some(life) = self.lives.get_mut(number) else { return Ok(()) };
        let (since, before) = (life.since, life.evicted);
        let saves = demand.checkpoint != workflows::tenancy::Checkpoint::None;
        let lost = life.evict(now, saves);
        let for_demand = life.for_demand;
        life.evictions = evictions;
        self.gauge.evicted(demand, for_demand, before, now, lost);
        self.gauge.wants(now, demand, true);
        self.story.tell(now, || {
            let after = event_log::span(now.since(since));
            let work = if saves { "its work is saved" } else { "its work is lost" };
            format!("{} left its GPUs after {after}, {work}, and is queued again", demand.name)
        });
        // Its GPUs were released in the ledger, so they must be free in the cluster (I-10).
        let of = self.stage.known_as(self.scene, &demand.workspace, &demand.name);
        if self.stage.lingers(&of).await? {
            let what = format!("the GPUs of {} were released while it still used them", demand.name);
            self.checks.note(now, "I-10", what);
        }
        Ok(())
    }

    async fn decided(&mut self, admission: &Admission) -> Result<(), ReplayError> {
        let Some(number) = self.names.get(admission.workload.as_str()).copied() else { return Ok(()) };
        let Some(demand) = self.scene.demands.get(number) else { return Ok(()) };
        let now = self.stage.now();
        match admission.answer {
            AdmissionVerdict::Admit => self.admitted(number, demand, admission).await,
            AdmissionVerdict::Queue => {
                self.story.tell(now, || format!("{} is queued: {}", demand.name, why(admission)));
                Ok(())
            }
            AdmissionVerdict::Reject => {
                if let Some(life) = self.lives.get_mut(number) {
                    life.stage = At::Rejected;
                }
                self.gauge.rejected();
                self.gauge.wants(now, demand, false);
                self.story.tell(now, || format!("{} is rejected: {}", demand.name, why(admission)));
                let inside = self.lives.get(number).is_some_and(|life| life.inside);
                if inside {
                    self.kept(demand);
                    let what =
                        format!("{} was rejected inside its reservation: {}", demand.name, why(admission));
                    self.checks.note(now, "S-32", what);
                }
                Ok(())
            }
        }
    }

    async fn admitted(
        &mut self,
        number: usize,
        demand: &Demand,
        admission: &Admission,
    ) -> Result<(), ReplayError> {
        let now = self.stage.now();
        let key = Workload::key(&self.scene.tenant, &demand.name);
        let Some(workload) = self.stage.get::<Workload>(&key).await? else { return Ok(()) };
        let Some(life) = self.lives.get_mut(number) else { return Ok(()) };
        self.checks.admitted(now, demand, admission, life);
        if life.stage == At::Running {
            let what = format!("{} was admitted while it was already running", demand.name);
            self.checks.note(now, "I-4", what);
            return Ok(());
        }
        let (first, asked, since) = (!life.ran, life.asked, life.since);
        let inside = life.inside;
        if let Some(end) = life.begin(now) {
            let run = life.run;
            self.plan(end, ReplayEvent::Done { demand: number, run });
        }
        self.gauge.wants(now, demand, false);
        self.gauge.works(now, demand, true);
        if first {
            self.gauge.ran(now.since(asked), inside);
        }
        if first && inside {
            self.kept(demand);
        }
        self.occupy(demand, &workload.placed, true);
        self.checks.placed(now, demand, &workload);
        self.story.tell(now, || runs(demand, &workload.placed, admission, now.since(since)));
        let of = self.stage.known_as(self.scene, &demand.workspace, &demand.name);
        let service = workload.class == WorkloadClass::Service;
        self.stage.run(&of, &gpu_set(&workload.placed), service).await
    }

    /// Releases a workload's GPUs.
    pub(crate) fn vacate(&mut self, number: usize) {
        let Some(demand) = self.scene.demands.get(number) else { return };
        self.gauge.works(self.stage.now(), demand, false);
        if let Some(placed) = self.checks.vacated(&demand.name) {
            self.occupy(demand, &placed, false);
        }
    }

    fn occupy(&mut self, demand: &Demand, placed: &[Placed], more: bool) {
        for part in placed {
            let pieces: u64 = part.gpus.values().map(|slices| u64::from(*slices)).sum();
            let kinds = self.platform.get_mut(&part.node);
            if let Some(seen) = kinds.and_then(|kinds| kinds.get_mut(&demand.kind)) {
                seen.busy = if more { seen.busy + pieces } else { seen.busy.saturating_sub(pieces) };
            }
        }
    }
}

/// Returns the observation of a cluster in which nothing runs.
pub(crate) fn idle(scene: &Scenario) -> BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>> {
    let machines = scene.machines.iter().map(|machine| {
        let mut kinds: BTreeMap<GpuKind, ObservedKind> = BTreeMap::new();
        for profile in &machine.gpus {
            let kind = GpuKind { model: scene.model.clone(), profile: profile.clone() };
            let pieces = profile.as_ref().map_or(1, |p| u64::from(crate::trace::openb::per_gpu(p.as_str())));
            kinds.entry(kind).or_insert(ObservedKind { usable: 0, busy: 0 }).usable += pieces;
        }
        (machine.node.clone(), kinds)
    });
    machines.collect()
}

fn gpu_set(placed: &[Placed]) -> GpuSet {
    let mut set = GpuSet::new();
    for part in placed {
        set.entry(part.node.to_string()).or_default().extend(part.gpus.keys().copied());
    }
    set
}

/// Returns the reasons against a workload's admission.
fn why(admission: &Admission) -> String {
    let against = admission.weighed.iter().filter(|finding| finding.answer != AdmissionVerdict::Admit);
    let reasons: Vec<&str> = against.map(|finding| finding.why.as_str()).collect();
    reasons.join("; ")
}

fn runs(demand: &Demand, placed: &[Placed], admission: &Admission, waited: std::time::Duration) -> String {
    let resource = Resource::Gpu(demand.kind.clone());
    let ground = admission.grounds.resources.get(&resource);
    let own = ground.map_or(0, |ground| ground.allowance.nominal.saturating_sub(ground.taken));
    let beyond = demand.gpus.saturating_sub(own);
    let whose = if beyond == 0 {
        format!("within the quota of {}", demand.workspace)
    } else {
        format!("{} borrows {}", demand.workspace, event_log::amount(beyond, &demand.kind))
    };
    let wait =
        if waited.is_zero() { String::new() } else { format!(" after waiting {}", event_log::span(waited)) };
    format!("{} runs on {}{wait}: {whose}", demand.name, event_log::places(placed))
}
