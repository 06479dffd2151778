//! The environment of a replay: a store in memory, a clock that jumps, a simulated platform, and an onboarded tenant.

use crate::{
    replay::{baseline::Baseline, outcome::ReplayError},
    scenario::Scenario,
    trace::openb::per_gpu,
};
use backends::simulated::{LocalWorld, simulated_platform};
use engine::{Clock as _, Engine, Entity, ManualClock, Undecided, View};
use serde::de::DeserializeOwned;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::{Epoch, ExecutionId, Key, Memory, Sequence, Timestamp};
use workflows::{
    platform::{CallMetadata, GpuSet, Platform, WorkloadRef},
    policy::{PlatformPolicy, PolicyRef, in_force, publish},
    scheduling::admission,
    tenancy::{
        AccountReservation, AllocatedNode, Buffer, Cluster, ClusterId, ClusterKind, Gpu, Gpus, Isolation,
        Jurisdiction, Node, NodeAllocation, NodeId, NodeState, OwnerEpoch, Quota, Region, RegionId,
        RegionIndex, Reservation, Residency, Tenancy, Tenant, TenantState, Tier, Workspace, WorkspaceName,
    },
};

/// The number of nodes per commit.
const AT_ONCE: usize = 128;
/// The deadline of calls to the simulated cluster.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// CPUs of a node, in thousandths. Replays request only GPUs.
const CPU_MILLI: u64 = 192_000;
/// See [`CPU_MILLI`].
const MEMORY_MIB: u64 = 1 << 21;

/// The environment of a replay.
pub(crate) struct Environment {
    pub(crate) engine: Engine<Platform>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) world: Arc<LocalWorld>,
    pub(crate) cluster: ClusterId,
    pub(crate) policy: PlatformPolicy,
    platform: Platform,
    stamps: u64,
}

/// Returns the default policy of a replay: the built-in one with the scenario's terms, in which all classes of
/// workspaces may borrow, because traces do not distinguish classes.
pub(crate) fn usual_policy(scene: &Scenario) -> String {
    let terms = &scene.terms;
    let span = workflows::policy::duration::show;
    format!(
        "policy: platform\nversion: {}\nlending:\n  classes: [production, research, batch, dev]\n  cool_down: {}\n\
         reclaim:\n  deadline: {}\n  grace: {}\n",
        PlatformPolicy::built_in().map_or(1, |policy| policy.reference.version + 1),
        span(terms.cooldown),
        span(terms.deadline),
        span(terms.grace),
    )
}

/// Returns the policy without fill-back, so that victims stay victims.
pub(crate) fn without_fill_back(text: &str) -> String {
    let key = "fill_back: false";
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    match lines.iter_mut().find(|line| line.starts_with("reclaim:")) {
        Some(line) if line.contains('{') => *line = line.replacen('{', &format!("{{{key}, "), 1),
        Some(line) => *line = format!("{line}\n  {key}"),
        None => lines.push(format!("reclaim: {{{key}}}")),
    }
    lines.join("\n")
}

impl Environment {
    /// Creates the environment for a scenario.
    ///
    /// # Errors
    ///
    /// An error of the engine or the ledger, such as an invalid policy.
    pub(crate) async fn set(scene: &Scenario, policy: &str, baseline: Baseline) -> Result<Self, ReplayError> {
        let clock = Arc::new(ManualClock::starting_at(scene.starts));
        let world = Arc::new(LocalWorld::new());
        let platform = simulated_platform(world.clone());
        let engine = Engine::new(Arc::new(Memory::new()), clock.clone(), platform.clone());
        let engine = super::reclaimer::register(engine)?;
        let cluster: ClusterId = name("simulated")?;
        let reference = engine.transact(true, |view| publish(view, policy, "simulate")).await?.reference;
        let policy = engine.transact(false, in_force).await?;
        let stage = Self { engine, clock, world, cluster, policy, platform, stamps: 0 };
        stage.settle(scene, &reference, baseline).await?;
        Ok(stage)
    }

    async fn settle(
        &self,
        scene: &Scenario,
        policy: &PolicyRef,
        baseline: Baseline,
    ) -> Result<(), ReplayError> {
        let setter = ExecutionId::new(scene.starts, self.clock.entropy());
        let place =
            Place { region: name("eu-west")?, law: name("eu")?, cluster: self.cluster.clone(), setter };
        let tenant = &scene.tenant;
        self.engine.transact(true, |view| found(view, scene, policy, &place)).await?;
        for some in scene.machines.chunks(AT_ONCE) {
            let ids: Vec<NodeId> = some.iter().map(|machine| machine.node.clone()).collect();
            self.engine.transact(true, |view| own(view, scene, some, &place)).await?;
            self.engine.transact(true, |view| admission::serve_nodes(view, tenant, &ids)).await?;
        }
        self.cut(scene).await?;
        let borrows = baseline.borrows();
        let given: BTreeMap<_, _> = scene
            .workspaces
            .iter()
            .map(|(workspace, portion)| {
                let mut allowances = portion.allowances.clone();
                if !borrows {
                    allowances.values_mut().for_each(|allowance| allowance.borrowing_limit = Some(0));
                }
                (workspace.clone(), (portion.class, allowances))
            })
            .collect();
        self.engine.transact(true, |view| admission::set_allowances(view, tenant, &given)).await?;
        for (workspace, portion) in &scene.workspaces {
            let allowances =
                given.get(workspace).map(|(_, allowances)| allowances.clone()).unwrap_or_default();
            let quota = Quota {
                tenant: tenant.clone(),
                workspace: workspace.clone(),
                allowances,
                version: 1,
                set_by: setter,
                ends: None,
            };
            let reservations = self.reservations(scene, workspace, &portion.reserved);
            self.engine
                .transact(true, |view| {
                    view.put(&quota)?;
                    reservations.iter().try_for_each(|reservation| view.put(reservation))?;
                    admission::set_promises(view, tenant, workspace, promises(&reservations))
                })
                .await?;
        }
        Ok(())
    }

    fn reservations(
        &self,
        scene: &Scenario,
        workspace: &WorkspaceName,
        reserved: &BTreeMap<workflows::tenancy::GpuKind, u64>,
    ) -> Vec<Reservation> {
        let some = reserved.iter().filter(|(_, count)| **count > 0);
        some.map(|(kind, count)| Reservation {
            name: format!("reserved-{}", kind.profile.as_ref().map_or("whole", |profile| profile.as_str())),
            tenant: scene.tenant.clone(),
            workspace: workspace.clone(),
            kind: kind.clone(),
            count: *count,
            from: scene.starts,
            to: None,
            reclaim_deadline: self.policy.reclaim.deadline,
            grace: self.policy.reclaim.grace,
        })
        .collect()
    }

    /// Partitions the GPUs as the scenario defines.
    async fn cut(&self, scene: &Scenario) -> Result<(), ReplayError> {
        for machine in &scene.machines {
            let mut cuts: BTreeMap<_, BTreeSet<u16>> = BTreeMap::new();
            for (index, profile) in (0_u16..).zip(&machine.gpus) {
                if let Some(profile) = profile {
                    cuts.entry(profile.clone()).or_default().insert(index);
                }
            }
            for (profile, gpus) in cuts {
                let cut = Some((&profile, per_gpu(profile.as_str())));
                let node = &machine.node;
                let tenant = &scene.tenant;
                self.engine
                    .transact(true, |view| admission::cut_gpus(view, tenant, node, &gpus, cut))
                    .await?;
            }
        }
        Ok(())
    }

    /// Reads a document, if it exists.
    pub(crate) async fn get<T: Entity + DeserializeOwned>(&self, id: &str) -> Result<Option<T>, ReplayError> {
        let found =
            self.engine.store().document(&Key::new(T::COLLECTION, id)).await.map_err(engine::Error::from)?;
        let parsed = found.map(|document| serde_json::from_slice(&document.body)).transpose();
        parsed.map_err(|error| ReplayError::Unreadable(format!("{}/{id}: {error}", T::COLLECTION)))
    }

    /// Reads a document without a copy, for large documents.
    pub(crate) async fn shared<T: Entity>(&self, id: &str) -> Result<Option<Arc<T>>, ReplayError> {
        let found =
            self.engine.store().document(&Key::new(T::COLLECTION, id)).await.map_err(engine::Error::from)?;
        let parsed = found.map(|document| self.engine.parse_document::<T>(&document)).transpose();
        parsed.map_err(|error| ReplayError::Unreadable(format!("{}/{id}: {error}", T::COLLECTION)))
    }

    /// Returns the version of a document, if it exists.
    pub(crate) async fn version<T: Entity>(&self, id: &str) -> Result<Option<Sequence>, ReplayError> {
        let found = self.engine.store().document(&Key::new(T::COLLECTION, id)).await;
        Ok(found.map_err(engine::Error::from)?.map(|document| document.version))
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates the metadata of a call to the cluster by its own scheduler.
    fn stamp(&mut self, action: &'static str, of: &str) -> CallMetadata {
        self.stamps += 1;
        let step = format!("scheduler/{of}/{}", self.stamps);
        let (key, epoch, deadline) = (step.clone(), Epoch(1), ANSWER_WITHIN);
        CallMetadata { action, step, key, epoch, undo: false, deadline, dry_run: false }
    }

    /// Returns the cluster's reference to a workload.
    pub(crate) fn known_as(
        &self,
        scene: &Scenario,
        workspace: &WorkspaceName,
        workload: &str,
    ) -> WorkloadRef {
        WorkloadRef {
            cluster: self.cluster.to_string(),
            tenant: scene.tenant.to_string(),
            workspace: workspace.to_string(),
            name: workload.to_owned(),
        }
    }

    /// Starts a workload in the cluster.
    pub(crate) async fn run(
        &mut self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        service: bool,
    ) -> Result<(), ReplayError> {
        let stamp = self.stamp("StartWorkload", &of.name);
        let mut tries = 0;
        loop {
            match self.platform.workloads.start(of, gpus, service, &stamp).await {
                Ok(()) => return Ok(()),
                Err(error) if tries == 20 => return Err(ReplayError::World(error.to_string())),
                Err(_) => tries += 1,
            }
        }
    }

    /// Ends a workload in the cluster and removes it.
    pub(crate) async fn leave(&mut self, of: &WorkloadRef) -> Result<(), ReplayError> {
        for _ in 0..20 {
            let stamp = self.stamp("Leave", &of.name);
            let Ok(seen) = self.platform.workloads.observe(of, &stamp).await else { continue };
            match seen.filter(|seen| seen.pods) {
                None => return Ok(()),
                Some(seen) => {
                    let stamp = self.stamp("Leave", &of.name);
                    // A finished workload ends even if it ignores signals. The result is not needed: it is observed
                    // until it is gone.
                    let _ = self.platform.workloads.force_remove(of, &seen.uid, &stamp).await;
                }
            }
        }
        Err(ReplayError::World(format!("{} does not leave the simulated cluster", of.name)))
    }

    /// Returns true if the cluster still has pods of a workload.
    pub(crate) async fn lingers(&mut self, of: &WorkloadRef) -> Result<bool, ReplayError> {
        let stamp = self.stamp("Look", &of.name);
        let seen = self.platform.workloads.observe(of, &stamp).await;
        seen.map(|seen| seen.is_some_and(|seen| seen.pods))
            .map_err(|error| ReplayError::World(error.to_string()))
    }
}

/// Parses a name from a constant.
fn name<T: std::str::FromStr>(text: &str) -> Result<T, ReplayError> {
    text.parse().map_err(|_| ReplayError::Unreadable(format!("{text} is not a valid name")))
}

struct Place {
    region: RegionId,
    law: Jurisdiction,
    cluster: ClusterId,
    setter: ExecutionId,
}

/// Writes the region, the cluster, the tenant and its workspaces.
fn found(view: &mut View, scene: &Scenario, policy: &PolicyRef, place: &Place) -> Result<(), Undecided> {
    let keys = scene.workspaces.keys().map(|name| workflows::tenancy::workspace_key(&scene.tenant, name));
    view.prefetch::<Workspace>(keys)?;
    view.put(&RegionIndex { regions: BTreeSet::from([place.region.clone()]) })?;
    view.put(&Region {
        id: place.region.clone(),
        jurisdiction: place.law.clone(),
        buffer: Buffer::default(),
        clusters: BTreeSet::from([place.cluster.clone()]),
    })?;
    view.put(&Cluster {
        id: place.cluster.clone(),
        region: place.region.clone(),
        provider: "simulated".into(),
        kind: ClusterKind::Kubernetes,
        tenancy: Tenancy::Shared,
        backend: Cluster::SIMULATED.into(),
        models: BTreeSet::from([scene.model.clone()]),
        unready: Vec::new(),
    })?;
    view.put(&Tenant {
        id: scene.tenant.clone(),
        tier: Tier::Enterprise,
        isolation: Isolation::SharedSlices,
        data_residency: Residency::Any,
        allow_preemption: true,
        allow_gpu_sharing: true,
        compliance: BTreeSet::new(),
        policy: policy.clone(),
        state: TenantState::Active,
        workspaces: scene.workspaces.keys().cloned().collect(),
        cluster: Some(place.cluster.clone()),
        onboarded_by: place.setter,
        created_at: scene.starts,
        activated_at: Some(scene.starts),
        closed_at: None,
        multitenancy: None,
    })?;
    let held =
        |machine: &crate::scenario::NodeSpec| AllocatedNode { gpus: gpus(machine), epoch: OwnerEpoch(1) };
    view.put(&NodeAllocation {
        tenant: scene.tenant.clone(),
        claimed_by: place.setter,
        cluster: place.cluster.clone(),
        region: place.region.clone(),
        model: scene.model.clone(),
        nodes: scene.machines.iter().map(|machine| (machine.node.clone(), held(machine))).collect(),
        quarantined: BTreeSet::new(),
    })?;
    scene.workspaces.iter().try_for_each(|(name, portion)| {
        view.put(&Workspace { tenant: scene.tenant.clone(), name: name.clone(), class: portion.class })
    })
}

fn gpus(machine: &crate::scenario::NodeSpec) -> Gpus {
    Gpus(u32::try_from(machine.gpus.len()).unwrap_or(u32::MAX))
}

/// Writes nodes that belong to the tenant and are in service.
fn own(
    view: &mut View,
    scene: &Scenario,
    machines: &[crate::scenario::NodeSpec],
    place: &Place,
) -> Result<(), Undecided> {
    view.prefetch::<Node>(machines.iter().map(|machine| machine.node.to_string()))?;
    machines.iter().try_for_each(|machine| {
        view.put(&Node {
            id: machine.node.clone(),
            cluster: place.cluster.clone(),
            region: place.region.clone(),
            gpu: Gpu { model: scene.model.clone(), count: gpus(machine) },
            cpu_milli: CPU_MILLI,
            memory_mib: MEMORY_MIB,
            chunk: 0,
            owner: Some(scene.tenant.clone()),
            owner_epoch: OwnerEpoch(1),
            claimed_by: Some(place.setter),
            state: NodeState::InService,
            driver_version: None,
        })
    })
}

fn promises(reservations: &[Reservation]) -> BTreeMap<String, AccountReservation> {
    let promise = |reservation: &Reservation| AccountReservation {
        resource: workflows::tenancy::Resource::Gpu(reservation.kind.clone()),
        count: reservation.count,
        from: reservation.from,
        to: reservation.to,
        reclaim_deadline: reservation.reclaim_deadline,
        grace: reservation.grace,
    };
    reservations.iter().map(|reservation| (reservation.name.clone(), promise(reservation))).collect()
}
