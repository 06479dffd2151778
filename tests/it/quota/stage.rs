//! A tenant in service, with an engine on an in-memory store and an observable platform.

use backends::simulated::{LocalWorld, World, local_world, simulated_platform};
use engine::{Engine, Error, ManualClock, Person, Request as Asked, Verdict, View, Workflow};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use store::{Commit, Document, ExecutionId, Key, Memory, Store, Timestamp};
use tests::books::{Books, account::job, rows};
use workflows::{
    incident::IncidentResponse,
    offboarding::Offboarding,
    onboarding::Onboarding,
    platform::Platform,
    policy::OnboardingRequest,
    quota_change::{QuotaRequest, decrease::QuotaDecrease, increase::QuotaIncrease},
    reclaim::Reclaim,
    scheduling::admission::{self, Observation, ObservedKind},
    sla_change::SlaChange,
    tenancy::*,
    workload_start::WorkloadStart,
};

const SITES: &str = "
regions: [{id: eu-west, jurisdiction: eu}]
clusters:
  - {id: west-1, region: eu-west}
  - {id: slurm-1, region: eu-west, kind: slurm}
";
/// 2026-01-01.
pub(crate) const BEGIN: Timestamp = Timestamp(1_767_225_600_000);

pub(crate) struct Stage {
    pub(crate) engine: Engine<Platform>,
    pub(crate) store: Arc<Memory>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Stage {
    /// Tenant acme with 8 GPUs of `model`, workspaces research and production with 2 GPUs each.
    pub(crate) async fn with_tenant(model: &str) -> Self {
        Self::on(model, Arc::new(Memory::new()), Arc::new(LocalWorld::new())).await
    }

    /// The same stage, on a store and in a world that the caller also observes.
    pub(crate) async fn on(model: &str, store: Arc<Memory>, world: Arc<dyn World>) -> Self {
        let fleet = [
            ("west-1", "eu-west", &*rows("w", 4, 8, "H100")),
            ("slurm-1", "eu-west", &*rows("s", 4, 8, "A100")),
        ];
        let books = Books::with_fleet(SITES, &fleet);
        store.commit(Commit { documents: books.puts(), ..Commit::default() }).await.unwrap();
        let clock = Arc::new(ManualClock::starting_at(BEGIN));
        let engine = Engine::new(store.clone(), clock.clone(), simulated_platform(world));
        let engine = engine.with_workflow::<Onboarding>().unwrap().with_workflow::<QuotaIncrease>().unwrap();
        let engine = engine.with_workflow::<QuotaDecrease>().unwrap().with_workflow::<SlaChange>().unwrap();
        let engine =
            engine.with_workflow::<Offboarding>().unwrap().with_workflow::<IncidentResponse>().unwrap();
        let engine = engine.with_workflow::<Reclaim>().unwrap().with_workflow::<WorkloadStart>().unwrap();
        let stage = Self { engine, store, clock };
        let text = format!(
            "name: acme\ntenant: {{tier: research, isolation: dedicated, data_residency: eu-only, \
             allow_preemption: true, allow_gpu_sharing: false}}\n\
             workspaces:\n\
             - {{name: research, class: research, quotas: {{gpus: 2, borrowing_limit: 1, lending_limit: 1, pods: 100, memory_mib: 65536}}}}\n\
             - {{name: production, class: production, quotas: {{gpus: 2}}}}\n\
             entitlement: {{gpu_model: {model}, gpus: 8}}\n"
        );
        let onboarding =
            stage.begin(Onboarding::new(OnboardingRequest::from_yaml(&text).unwrap(), None)).await.unwrap();
        assert_eq!(stage.state(onboarding).await, "Active");
        stage
    }

    pub(crate) async fn begin<W: Workflow<Platform = Platform>>(
        &self,
        data: W,
    ) -> Result<ExecutionId, Error> {
        let asked = Asked::by(&Person::new("rita", ["platform_ops"]));
        let id = self.engine.start(data, asked).await?.id;
        self.engine.run_until_idle().await.unwrap();
        Ok(id)
    }

    pub(crate) async fn increase(&self, asks: &str) -> ExecutionId {
        self.begin(QuotaIncrease::new(request(asks))).await.unwrap()
    }

    pub(crate) async fn decrease(&self, asks: &str) -> ExecutionId {
        self.begin(QuotaDecrease::new(request(asks))).await.unwrap()
    }

    pub(crate) async fn approve(&self, id: ExecutionId) {
        let case = self.engine.approval(id).await.unwrap().unwrap();
        for (number, seat) in case.seats.iter().enumerate() {
            let person = Person::new(format!("voter-{number}"), seat.any_of.clone());
            self.engine.vote(id, &person, Verdict::Approve, &case.digest, "looks right").await.unwrap();
        }
        self.engine.run_until_idle().await.unwrap();
    }

    pub(crate) async fn state(&self, id: ExecutionId) -> String {
        self.engine.record(id).await.unwrap().state
    }

    /// Advances the clock and performs due work.
    pub(crate) async fn pass(&self, span: Duration) {
        self.clock.advance(span);
        self.engine.run_until_idle().await.unwrap();
    }

    pub(crate) async fn all<T: engine::Entity>(&self) -> Vec<T> {
        let page = self.store.documents(T::COLLECTION, "", None, 10_000).await.unwrap();
        page.items.iter().map(|document: &Document| serde_json::from_slice(&document.body).unwrap()).collect()
    }

    pub(crate) async fn find<T: engine::Entity>(&self, id: &str) -> Option<T> {
        let found = self.store.document(&Key::new(T::COLLECTION, id)).await.unwrap();
        found.map(|document| serde_json::from_slice(&document.body).unwrap())
    }

    pub(crate) async fn quota(&self, workspace: &str) -> Quota {
        self.find(&format!("acme/{workspace}")).await.unwrap()
    }

    /// Admits a workload of `gpus` H100s, on recently observed nodes.
    pub(crate) async fn runs(&self, workspace: &str, name: &str, gpus: u64) {
        self.sees().await;
        let job = job(workspace, name, gpus);
        let submitted = self.engine.transact(true, |view| admission::submit(view, &job)).await.unwrap();
        assert_eq!(submitted.admission.answer, AdmissionVerdict::Admit, "{:?}", submitted.admission.weighed);
    }

    /// Sends an observation that equals the ledger.
    pub(crate) async fn sees(&self) {
        let tenant = "acme".parse().unwrap();
        let observe = |view: &mut View| {
            let occupancy = view.require::<Occupancy>("acme")?;
            let seen =
                |room: &NodeRoom| ObservedKind { usable: room.capacity, busy: room.capacity - room.free };
            let kinds = |kinds: &std::collections::BTreeMap<GpuKind, NodeRoom>| {
                kinds.iter().map(|(kind, room)| (kind.clone(), seen(room))).collect()
            };
            let nodes = occupancy.nodes.iter().map(|(node, rooms)| (node.clone(), kinds(rooms))).collect();
            admission::observe(view, &tenant, &Observation { at: view.now(), nodes })
        };
        self.engine.transact(true, observe).await.unwrap();
    }

    /// Ends a workload.
    pub(crate) async fn ends(&self, name: &str) {
        let tenant = "acme".parse().unwrap();
        self.engine.transact(true, |view| admission::finish(view, &tenant, name)).await.unwrap();
    }

    /// Returns the H100 balance of workspace research.
    pub(crate) async fn balance(&self) -> Balance {
        let cohort: Cohort = self.find("acme").await.unwrap();
        cohort.accounts[&"research".parse().unwrap()].balances[&gpu("H100")]
    }

    pub(crate) fn world(&self) -> &LocalWorld {
        local_world(self.engine.platform()).unwrap()
    }

    /// Returns the content of an object of the simulated platform.
    pub(crate) fn spec(&self, address: &str) -> Value {
        let snapshot = self.world().snapshot();
        snapshot.get(address).unwrap_or_else(|| panic!("no {address} in {:?}", snapshot.keys()))["spec"]
            .clone()
    }
}

/// A request of workspace research for H100, with these additional fields.
pub(crate) fn request(asks: &str) -> QuotaRequest {
    let fixed = [("workspace", "research"), ("resource", "gpu/H100"), ("reason", "a benchmark")];
    let missing = fixed.iter().filter(|(field, _)| !asks.contains(&format!("{field}:")));
    let text: String = missing.map(|(field, value)| format!("{field}: {value}\n")).collect();
    QuotaRequest::from_yaml(&format!("tenant: acme\n{text}{asks}\n")).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn gpu(model: &str) -> Resource {
    Resource::gpus(model.parse().unwrap())
}
