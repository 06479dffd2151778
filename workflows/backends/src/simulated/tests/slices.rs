//! Tests that account, node layout and simulated node agree after any history of slices.

use crate::simulated::{LocalWorld, simulated_platform, tests::Books};
use engine::{ActionError, Undecided, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::{Epoch, ExecutionId, Timestamp};
use workflows::{
    platform::{ANSWER_WITHIN, CallMetadata, Platform, StartWorkload, WorkloadRef, codes},
    policy::PlatformPolicy,
    reclaim::ledger::start_command,
    scheduling::admission::{self, Observation, ObservedKind, WorkloadRequest},
    tenancy::*,
};

const CLUSTER: &str = "west-1";
const GPUS: u32 = 2;
const NODES: usize = 2;

/// A tenant's account, and its nodes in a simulated cluster.
struct History {
    books: Books,
    now: Timestamp,
    platform: Platform,
    calls: u64,
    drawn: u64,
    names: Vec<String>,
}

/// A node of the tenant, in service.
fn bought_node(number: usize, model: &GpuModel, by: ExecutionId) -> Node {
    Node {
        id: node(number),
        cluster: CLUSTER.parse().unwrap(),
        region: "eu-west".parse().unwrap(),
        gpu: Gpu { model: model.clone(), count: Gpus(GPUS) },
        cpu_milli: 64_000,
        memory_mib: 262_144,
        chunk: 0,
        owner: Some(acme()),
        owner_epoch: OwnerEpoch(1),
        claimed_by: Some(by),
        state: NodeState::InService,
        driver_version: None,
    }
}

fn acme() -> TenantId {
    "acme".parse().unwrap()
}
fn node(number: usize) -> NodeId {
    format!("n-{number}").parse().unwrap()
}

/// The layouts of a tenant: whole GPUs, or slices of two sizes.
fn slicing(number: u64) -> Option<GpuSlicing> {
    let cut = |profile: &str, per_gpu| Some(GpuSlicing { profile: profile.parse().unwrap(), per_gpu });
    match number % 3 {
        0 => None,
        1 => cut("1g.10gb", 7),
        _ => cut("2g.20gb", 3),
    }
}

impl History {
    async fn new(seed: u64) -> Self {
        let world = Arc::new(LocalWorld::new());
        let mut history = Self {
            books: Books::default(),
            now: Timestamp(1_768_435_200_000),
            platform: simulated_platform(world),
            calls: 0,
            drawn: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            names: Vec::new(),
        };
        let first = slicing(history.draw(3));
        history.buy(first.clone());
        history.cut_nodes(first.as_ref()).await;
        let ids: Vec<_> = (0..NODES).map(node).collect();
        history.decide(|view| admission::serve_nodes(view, &acme(), &ids)).unwrap();
        history.share();
        history.observe().await;
        history
    }

    /// Returns a number below `most`, by xorshift.
    fn draw(&mut self, most: u64) -> u64 {
        self.drawn ^= self.drawn << 13;
        self.drawn ^= self.drawn >> 7;
        self.drawn ^= self.drawn << 17;
        self.drawn % most
    }

    fn decide<T>(&mut self, decide: impl FnMut(&mut View) -> Result<T, Undecided>) -> Result<T, ActionError> {
        self.books.decide(self.now, decide)
    }

    fn all<T: engine::Entity>(&self) -> Vec<T> {
        self.books.all()
    }

    fn entitlement(&self) -> Entitlement {
        self.all::<Entitlement>().remove(0)
    }

    /// Creates the tenant, its entitlement and its nodes.
    fn buy(&mut self, slicing: Option<GpuSlicing>) {
        let by = ExecutionId::from_bytes([1; 16]);
        let model: GpuModel = "H100".parse().unwrap();
        let gpus = Gpus(GPUS * u32::try_from(NODES).unwrap());
        let now = self.now;
        self.decide(|view| {
            view.put(&Tenant {
                id: acme(),
                tier: Tier::Standard,
                isolation: Isolation::SharedSlices,
                data_residency: Residency::Any,
                allow_preemption: true,
                allow_gpu_sharing: true,
                compliance: BTreeSet::new(),
                policy: PlatformPolicy::built_in().unwrap().reference,
                state: TenantState::Active,
                workspaces: Vec::new(),
                cluster: Some(CLUSTER.parse().unwrap()),
                onboarded_by: by,
                created_at: now,
                closed_at: None,
                multitenancy: None,
                activated_at: Some(now),
            })?;
            view.put(&Entitlement {
                tenant: acme(),
                gpu_model: model.clone(),
                gpus,
                slicing: slicing.clone(),
                region: None,
                from: None,
                to: None,
            })?;
            let held = AllocatedNode { gpus: Gpus(GPUS), epoch: OwnerEpoch(1) };
            view.put(&NodeAllocation {
                tenant: acme(),
                claimed_by: by,
                cluster: CLUSTER.parse().unwrap(),
                region: "eu-west".parse().unwrap(),
                model: model.clone(),
                nodes: (0..NODES).map(|number| (node(number), held.clone())).collect(),
                quarantined: BTreeSet::new(),
            })?;
            for number in 0..NODES {
                view.put(&bought_node(number, &model, by))?;
            }
            Ok(())
        })
        .unwrap();
    }

    /// Gives each of two workspaces half of the entitlement, in units of the nodes' offer.
    fn share(&mut self) {
        let bought = self.entitlement();
        let nominal = bought.pieces() / 2;
        let line = Allowance { nominal, borrowing_limit: None, lending_limit: None };
        let lines: admission::Allowances = [(bought.offer().resource(), line)].into();
        let all = ["a", "b"].map(|name| (name.parse().unwrap(), (WorkspaceClass::Batch, lines.clone())));
        self.decide(|view| admission::set_allowances(view, &acme(), &all.clone().into())).unwrap();
    }

    fn stamp(&mut self) -> CallMetadata {
        self.calls += 1;
        let key = format!("call {}", self.calls);
        CallMetadata {
            action: "Test",
            step: key.clone(),
            key,
            epoch: Epoch(0),
            undo: false,
            deadline: ANSWER_WITHIN,
            dry_run: false,
        }
    }

    async fn layout(&mut self, number: usize) -> String {
        let stamp = self.stamp();
        self.platform.gpus.layout(CLUSTER, node(number).as_str(), &stamp).await.unwrap().hardware
    }

    async fn cut_nodes(&mut self, slicing: Option<&GpuSlicing>) {
        let layout = slicing.map_or_else(|| "all-disabled".to_owned(), GpuSlicing::layout);
        for number in 0..NODES {
            let stamp = self.stamp();
            self.platform.gpus.set_layout(CLUSTER, node(number).as_str(), &layout, &stamp).await.unwrap();
            // Reading advances the simulated MIG manager.
            while self.layout(number).await != layout {}
        }
    }

    /// Writes the nodes' offers to the account, as the server's observer does.
    async fn observe(&mut self) {
        let mut seen = Observation { at: self.now, nodes: BTreeMap::new() };
        for occupancy in self.all::<Occupancy>() {
            for number in 0..NODES {
                let layout = self.layout(number).await;
                let rooms = occupancy.nodes.get(&node(number)).cloned().unwrap_or_default();
                let of = |(kind, room): (GpuKind, NodeRoom)| {
                    let offered = layout_offers(&layout, kind.profile.as_ref().map(Name::as_str));
                    let usable = if offered { room.capacity } else { 0 };
                    (kind, ObservedKind { usable, busy: room.capacity.saturating_sub(room.free).min(usable) })
                };
                seen.nodes.insert(node(number), rooms.into_iter().map(of).collect());
            }
        }
        self.decide(|view| admission::observe(view, &acme(), &seen)).unwrap();
    }

    fn submit(&mut self, resource: Resource, amount: u64) {
        let name = format!("w-{}", self.names.len());
        let workspace = ["a", "b"][usize::try_from(self.draw(2)).unwrap()];
        let request = WorkloadRequest {
            tenant: acme(),
            workspace: workspace.parse().unwrap(),
            name: name.clone(),
            class: WorkloadClass::Batch,
            priority: 0,
            preemptible: true,
            checkpoint: Checkpoint::None,
            requests: [(resource, amount)].into(),
            together: 0,
            labels: BTreeSet::new(),
        };
        self.decide(|view| admission::submit(view, &request)).unwrap();
        self.names.push(name);
    }

    async fn finish(&mut self) {
        if self.names.is_empty() {
            return;
        }
        let most = u64::try_from(self.names.len()).unwrap();
        let drawn = usize::try_from(self.draw(most)).unwrap();
        let name = self.names[drawn].clone();
        let of = self.decide(|view| start_command(view, &acme(), &name)).unwrap();
        self.decide(|view| admission::finish(view, &acme(), &name)).unwrap();
        if let Some(start) = of {
            let stamp = self.stamp();
            self.platform.workloads.notify_ended(&start.workload, &stamp).await.unwrap();
        }
    }

    /// Changes nodes and account to another layout while nothing runs, as a change of the service level does.
    async fn recut(&mut self) {
        for name in self.names.clone() {
            self.decide(|view| admission::finish(view, &acme(), &name)).unwrap();
        }
        let next = slicing(self.draw(3));
        self.cut_nodes(next.as_ref()).await;
        let bought = Entitlement { slicing: next.clone(), ..self.entitlement() };
        self.decide(|view| view.put(&bought)).unwrap();
        let cut = next.as_ref().map(|slicing| (&slicing.profile, slicing.per_gpu));
        let gpus: BTreeSet<u16> = (0..u16::try_from(GPUS).unwrap()).collect();
        for number in 0..NODES {
            self.decide(|view| admission::cut_gpus(view, &acme(), &node(number), &gpus, cut)).unwrap();
        }
        self.share();
    }

    async fn step(&mut self) {
        let offer = self.entitlement().offer();
        match self.draw(6) {
            0 => {
                let amount = 1 + self.draw(3);
                self.submit(Resource::gpus(offer.kind.model), amount);
            }
            1 | 2 => {
                let amount = 1 + self.draw(9);
                self.submit(offer.resource(), amount);
            }
            3 => self.submit("gpu/H100/3g.40gb".parse().unwrap(), 1),
            4 => self.finish().await,
            _ => self.recut().await,
        }
        self.observe().await;
    }

    /// Checks that the account, the layout's offer and the node's limits agree.
    async fn check(&mut self, told: &str) {
        let offer = self.entitlement().offer();
        for uses in self.all::<NodeUse>() {
            let number = (0..NODES).find(|number| node(*number) == uses.node).unwrap();
            let layout = self.layout(number).await;
            for gpu in &uses.gpus {
                let profile = gpu.profile.as_ref().map(Name::as_str);
                assert!(
                    layout_offers(&layout, profile),
                    "{told}: {profile:?} in the books, {layout} on the node"
                );
                assert_eq!((gpu.profile.as_ref(), gpu.slices), (offer.kind.profile.as_ref(), offer.per_gpu));
                let used: u16 = gpu.users.iter().map(|user| user.slices).sum();
                assert!(used <= gpu.slices, "{told}: {used} of {} slices", gpu.slices);
            }
        }
        for name in self.names.clone() {
            let key = Workload::key(&acme(), &name);
            let workload = self.decide(|view| view.require::<Workload>(&key)).unwrap();
            if workload.state != WorkloadState::Admitted {
                continue;
            }
            assert!(workload.requests.contains_key(&offer.resource()), "{told}: {workload:?} on {offer:?}");
            let start = self.decide(|view| start_command(view, &acme(), &name)).unwrap().unwrap();
            self.run(&start).await.unwrap_or_else(|error| panic!("{told}: {name} cannot start: {error:?}"));
        }
        self.refuses_what_is_not_offered(&offer, told).await;
    }

    /// Checks that a node starts nothing that it does not offer.
    async fn refuses_what_is_not_offered(&mut self, offer: &GpuOffer, told: &str) {
        let offered = offer.kind.profile.as_ref().map(Name::as_str);
        for asked in [None, Some("1g.10gb"), Some("2g.20gb")].into_iter().filter(|asked| *asked != offered) {
            let workload = WorkloadRef {
                cluster: CLUSTER.into(),
                tenant: "acme".into(),
                workspace: "a".into(),
                name: "stray".into(),
            };
            let start = StartWorkload {
                workload,
                gpus: [("n-0".to_owned(), [0].into())].into(),
                service: false,
                profiles: asked.map(|profile| ("n-0".to_owned(), profile.to_owned())).into_iter().collect(),
            };
            let refused = self.run(&start).await.unwrap_err();
            assert_eq!(refused.code, codes::NOT_OFFERED, "{told}: {asked:?} on {offer:?}");
        }
    }

    async fn run(&mut self, start: &StartWorkload) -> Result<(), ActionError> {
        let stamp = self.stamp();
        let workloads = &self.platform.workloads;
        if start.profiles.is_empty() {
            return workloads.start(&start.workload, start.gpus.as_set(), start.service, &stamp).await;
        }
        let (gpus, profiles) = (start.gpus.as_set(), &start.profiles);
        workloads.start_on_slices(&start.workload, gpus, profiles, start.service, &stamp).await
    }
}

/// S-44: slices are bought, assigned, lent and returned as slices, and a whole GPU of a partitioned node is never
/// assigned.
#[tokio::test]
async fn ledger_layout_and_node_agree_after_any_sequence_of_slice_operations() {
    for seed in 1..=1_000 {
        let mut history = History::new(seed).await;
        history.check(&format!("seed {seed}, before its first step")).await;
        for step in 0..8 {
            history.step().await;
            history.check(&format!("seed {seed}, step {step}")).await;
        }
    }
}

/// A tenant's slices are lent to its other workspace and returned when the loan ends.
#[tokio::test]
async fn slices_are_borrowed_and_returned() {
    let mut history = History::new(1).await;
    while history.entitlement().slicing != slicing(1) {
        history.recut().await;
    }
    history.observe().await;
    let resource = history.entitlement().offer().resource();
    let all = history.entitlement().pieces();

    history.submit(resource.clone(), all / 2 + 3);
    let lent = |history: &History| {
        let cohort = history.all::<Cohort>().remove(0);
        cohort.accounts.values().map(|account| account.balance(&resource).lent).sum::<u64>()
    };
    assert_eq!(lent(&history), 3);

    let name = history.names.last().cloned().unwrap();
    history.decide(|view| admission::finish(view, &acme(), &name)).unwrap();
    assert_eq!(lent(&history), 0);
}
