//! Tenants of hundreds of nodes come in and leave, on a store that takes no row of more than 64 KiB.
//!
//! `TENURE_TEST_NODES` sets another number of nodes, such as 4000. With `--nocapture` the test prints what each took.

use backends::simulated::{LocalWorld, simulated_platform};
use engine::{
    ActionError, Engine, Entity as _, ManualClock, Person, Request, Stopwatch, Undecided, Verdict, View,
};
use std::sync::Arc;
use store::{ExecutionId, Memory, Store, Timestamp};
use workflows::{
    destruction::certificate::{ErasureBasis, LegalBasis, StoredCertificate},
    fleet::{import_nodes, import_sites, parse_nodes, parse_sites},
    offboarding::Offboarding,
    onboarding::Onboarding,
    platform::Platform,
    policy::{Invalid, OnboardingRequest},
    signing::Moment,
};

const BEGIN: Timestamp = Timestamp(1_767_225_600_000);
const ROW: usize = 64 << 10;
const GPUS: u32 = 2;
const SITES: &str = "
regions: [{id: eu-west, jurisdiction: eu}]
clusters: [{id: west-1, region: eu-west}]
";

struct Stage {
    engine: Engine<Platform>,
    store: Arc<Memory>,
    clock: Arc<ManualClock>,
}

fn fleet(view: &mut View, nodes: u32) -> Result<(), Undecided> {
    let wrong = |invalid: Invalid| ActionError::permanent("policy.invalid", invalid);
    import_sites(view, &parse_sites(SITES).map_err(wrong)?)?;
    let mut text = String::from("sn,cpu_milli,memory_mib,gpu,model\n");
    for number in 0..nodes {
        text.push_str(&format!("gpu-rack-{:02}-node-{number:05},96000,786432,{GPUS},H100\n", number % 40));
    }
    let rows = parse_nodes(&text).map_err(wrong)?;
    import_nodes(view, &rows, &"west-1".parse().unwrap(), &"eu-west".parse().unwrap())?;
    Ok(())
}

impl Stage {
    async fn with_nodes(nodes: u32) -> Self {
        let store = Arc::new(Memory::with_row_limit(ROW));
        let clock = Arc::new(ManualClock::starting_at(BEGIN));
        let platform = simulated_platform(Arc::new(LocalWorld::new()));
        let engine = Engine::new(store.clone(), clock.clone(), platform);
        let engine = engine.with_workflow::<Onboarding>().unwrap().with_workflow::<Offboarding>().unwrap();
        engine.transact(true, |view| fleet(view, nodes + nodes / 2 + 8)).await.unwrap();
        Self { engine, store, clock }
    }

    async fn onboard(&self, nodes: u32) -> ExecutionId {
        let text = format!(
            "name: acme\ntenant: {{tier: standard, isolation: dedicated, data_residency: eu-only, allow_preemption: true, \
             allow_gpu_sharing: false}}\nentitlement: {{gpu_model: H100, gpus: {}}}\n",
            nodes * GPUS
        );
        let request = OnboardingRequest::from_yaml(&text).unwrap();
        let by = Request::by(&Person::new("rita", ["platform_ops"]));
        self.engine.start(Onboarding::new(request, None), by).await.unwrap().id
    }

    async fn offboard(&self) -> ExecutionId {
        let basis = LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 7".into() };
        let (tenant, at) = ("acme".parse().unwrap(), Moment::from(BEGIN));
        let asked = Offboarding::new(tenant, basis, "rita".into(), at, "the end".into());
        self.engine.start(asked, Request::by(&Person::new("rita", ["platform_ops"]))).await.unwrap().id
    }

    /// Works, agrees and lets time pass until the execution has ended. Nothing may be parked.
    async fn to_end(&self, id: ExecutionId) -> String {
        for _ in 0..20_000 {
            self.engine.run_until_idle().await.unwrap();
            let record = self.engine.record(id).await.unwrap();
            if record.phase == "parked" {
                panic!("{} {}", record.state, self.engine.execution(id).await.unwrap().1.body["phase"]);
            }
            if !record.open {
                return record.state;
            }
            if let Some(case) = self.engine.approval(id).await.unwrap() {
                for (number, seat) in case.seats.iter().enumerate() {
                    for count in 0..seat.count {
                        let person = Person::new(format!("voter-{number}-{count}"), seat.any_of.clone());
                        let vote =
                            self.engine.vote(id, &person, Verdict::Approve, &case.digest, "it looks right");
                        _ = vote.await;
                    }
                }
                continue;
            }
            match self.store.next_due().await.unwrap() {
                Some(next) => self.clock.advance_to(next),
                None => self.clock.advance(engine::MINUTE),
            }
        }
        panic!("it never ends: {:?}", self.engine.record(id).await.unwrap().state);
    }

    async fn parked(&self) -> usize {
        let all = self.store.list(&store::Filter::default(), None, 100_000).await.unwrap().items;
        all.iter().filter(|record| record.phase == "parked").count()
    }
}

#[tokio::test]
async fn a_tenant_of_hundreds_of_nodes_comes_in_and_leaves_and_no_row_is_larger_than_64_kib() {
    let nodes = std::env::var("TENURE_TEST_NODES").ok().and_then(|nodes| nodes.parse().ok()).unwrap_or(300);
    let stage = Stage::with_nodes(nodes).await;

    let began = Stopwatch::start();
    let id = stage.onboard(nodes).await;
    assert_eq!(stage.to_end(id).await, "Active");
    println!("{nodes} nodes onboarded in {:?}", began.elapsed());

    let began = Stopwatch::start();
    let id = stage.offboard().await;
    assert_eq!(stage.to_end(id).await, "Closed");
    println!("{nodes} nodes offboarded in {:?}", began.elapsed());

    let certificates =
        stage.engine.store().documents(StoredCertificate::COLLECTION, "", None, 10).await.unwrap().items;
    assert_eq!(certificates.len(), 1);
    assert_eq!(stage.parked().await, 0);
}
