//! Onboarding, from request to service, and undone from every state.

use backends::simulated::{LocalWorld, local_world, simulated_platform};
use engine::{
    Engine, Error, ManualClock, Person, PlanDigest, Refusal, Request as Asked, Verdict, Workflow, check,
    diagram,
};
use serde_json::json;
use std::{env, fs, sync::Arc};
use store::{Commit, Document, ExecutionId, Memory, Sequence, Store, Timestamp};
use tests::books::{Books, rows};
use workflows::{
    onboarding::{CAPACITY_FREED, Onboarding, preview},
    platform::Platform,
    policy::{Decision, OnboardingRequest, PlatformPolicy},
    tenancy::*,
};

const SITES: &str = "
regions: [{id: eu-west, jurisdiction: eu}]
clusters:
  - {id: west-1, region: eu-west}
  - {id: own-1, region: eu-west, tenancy: dedicated}
  - {id: slurm-1, region: eu-west, kind: slurm}
  - {id: metal-1, region: eu-west, kind: bare_metal}
";
const ACME: &str = "
name: acme
tenant: {tier: standard, isolation: dedicated, data_residency: eu-only, allow_preemption: true, allow_gpu_sharing: false}
entitlement: {gpu_model: H100, gpus: 16}
compliance: [soc2]
";

fn fleet() -> Books {
    Books::with_fleet(
        SITES,
        &[
            ("west-1", "eu-west", &rows("w", 4, 8, "H100")),
            ("own-1", "eu-west", &rows("o", 2, 4, "H100")),
            ("slurm-1", "eu-west", &rows("s", 3, 4, "A100")),
            ("metal-1", "eu-west", &rows("m", 1, 8, "T4")),
        ],
    )
}

fn request(text: &str) -> OnboardingRequest {
    OnboardingRequest::from_yaml(text).unwrap_or_else(|invalid| panic!("{invalid}"))
}

#[test]
fn the_check_finds_no_error_in_onboarding() {
    assert_eq!(check::<Onboarding>(), []);
}

/// Every action and every undo fails before and after its effect, runs twice, or loses its answer. There is a crash at
/// every commit, and a cancel and a pause between any two. Every approval gets every answer.
#[tokio::test]
async fn onboarding_survives_every_fault_crash_and_interruption() {
    let report = simulator::verification::onboarding().await.unwrap();

    println!("{report}");
    assert!(report.passed(), "{report}");
}

/// An engine on an in-memory store with the fleet imported.
struct Stage {
    engine: Engine<Platform>,
    store: Arc<Memory>,
}

impl Stage {
    async fn new() -> Self {
        let store = Arc::new(Memory::new());
        store.commit(Commit { documents: fleet().puts(), ..Commit::default() }).await.unwrap();
        let clock = Arc::new(ManualClock::starting_at(Timestamp(1_767_225_600_000)));
        let platform = simulated_platform(Arc::new(LocalWorld::new()));
        let engine = Engine::new(store.clone(), clock, platform).with_workflow::<Onboarding>().unwrap();
        Self { engine, store }
    }

    async fn ask(&self, text: &str) -> Result<ExecutionId, Error> {
        let asked = Asked::by(&requester());
        self.engine.start(Onboarding::new(request(text), None), asked).await.map(|started| started.id)
    }

    async fn begin(&self, text: &str) -> ExecutionId {
        let id = self.ask(text).await.unwrap();
        self.engine.run_until_idle().await.unwrap();
        id
    }

    async fn vote(&self, id: ExecutionId, person: &Person, digest: &PlanDigest) -> Result<(), Error> {
        let vote = self.engine.vote(id, person, Verdict::Approve, digest, "looks right").await;
        self.engine.run_until_idle().await.unwrap();
        vote.map(drop)
    }

    async fn approve(&self, id: ExecutionId) {
        let case = self.engine.approval(id).await.unwrap().unwrap();
        for (number, seat) in case.seats.iter().enumerate() {
            let person = Person::new(format!("voter-{number}"), seat.any_of.clone());
            self.vote(id, &person, &case.digest).await.unwrap();
        }
    }

    async fn state(&self, id: ExecutionId) -> (String, String) {
        let record = self.engine.record(id).await.unwrap();
        (record.state, record.phase)
    }

    async fn all<T: engine::Entity>(&self) -> Vec<T> {
        let page = self.store.documents(T::COLLECTION, "", None, 10_000).await.unwrap();
        page.items.iter().map(|document: &Document| serde_json::from_slice(&document.body).unwrap()).collect()
    }
}

fn requester() -> Person {
    Person::new("rita", ["platform_ops", "security"])
}

#[tokio::test]
async fn a_tenant_becomes_active_after_its_plan_is_approved() {
    let stage = Stage::new().await;
    let id = stage.begin(ACME).await;
    assert_eq!(stage.state(id).await.0, "AwaitingApproval");
    let case = stage.engine.approval(id).await.unwrap().unwrap();
    assert_eq!(case.plan.title, "onboard acme: 16 H100 in eu-west");
    assert_eq!(case.plan.decides["simulated"], json!(true));
    assert_eq!(case.plan.placement["proposed"]["nodes"].as_object().unwrap().len(), 2);

    stage.approve(id).await;

    assert_eq!(stage.state(id).await, ("Active".into(), "finished".into()));
    let tenants: Vec<Tenant> = stage.all().await;
    assert_eq!(
        (tenants[0].state, tenants[0].cluster.as_ref().unwrap().as_str()),
        (TenantState::Active, "west-1")
    );
    let world = local_world(stage.engine.platform()).unwrap();
    assert_eq!(world.violations(), Vec::<String>::new());
    for node in stage.all::<Node>().await {
        let outside =
            world.owners().get(&format!("{}/{}", node.cluster, node.id)).and_then(|o| o.tenant.clone());
        assert_eq!(outside, node.owner.as_ref().map(ToString::to_string), "{}", node.id);
        assert_eq!(node.owner.is_some(), node.state == NodeState::InService);
    }
    assert!(world.all_effects().values().all(|times| *times == 1));
    let after = stage.engine.execution(id).await.unwrap().1;
    assert_eq!(after.digest, case.digest, "the approved plan was executed");
}

/// I-16.
#[tokio::test]
async fn votes_of_the_requester_duplicates_and_votes_for_another_plan_do_not_count() {
    let stage = Stage::new().await;
    let id = stage.begin(ACME).await;
    let digest = stage.engine.approval(id).await.unwrap().unwrap().digest;
    let ada = Person::new("ada", ["platform_ops"]);
    let refusal = |result: Result<(), Error>| match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };

    let own = refusal(stage.vote(id, &requester(), &digest).await);
    let stale = refusal(stage.vote(id, &ada, &PlanDigest("sha256:0".into())).await);
    stage.vote(id, &ada, &digest).await.unwrap();
    let twice = refusal(stage.vote(id, &ada, &digest).await);

    assert!(matches!(own, Refusal::OwnRequest { .. }), "{own}");
    assert!(matches!(stale, Refusal::PlanChanged { .. }), "{stale}");
    assert!(matches!(twice, Refusal::VotedBefore { .. }), "{twice}");
    assert_eq!(stage.state(id).await.0, "AwaitingApproval", "security has not approved yet");
}

/// I-15.
#[tokio::test]
async fn a_tenant_has_one_open_lifecycle_at_a_time() {
    let stage = Stage::new().await;
    stage.begin(ACME).await;

    let second = stage.ask(ACME).await;

    assert!(matches!(second, Err(Error::Store(store::Error::Busy { .. }))), "{second:?}");
}

/// I-21.
#[tokio::test]
async fn every_change_of_state_is_one_line_of_the_history() {
    let stage = Stage::new().await;
    let id = stage.begin(ACME).await;
    stage.approve(id).await;

    let journal = stage.engine.journal(id).await.unwrap();

    let mut at = None;
    let mut last = Sequence(0);
    for entry in &journal {
        assert!(at.as_ref().is_none_or(|at| *at == entry.from) || entry.from.is_empty(), "{entry:?}");
        at = Some(entry.to.clone());
        assert!(entry.sequence >= last, "{entry:?}");
        last = entry.sequence;
        assert!(!entry.actor.is_empty());
    }
    let end = journal.last().map(|entry| (entry.from.as_str(), entry.to.as_str()));
    assert_eq!(end, Some(("Active", "[*]")));
}

#[tokio::test]
async fn an_onboarding_without_enough_capacity_waits_and_continues_when_capacity_is_freed() {
    let stage = Stage::new().await;
    let first = stage.begin(&ACME.replace("gpus: 16", "gpus: 32")).await;
    stage.approve(first).await;
    let second = stage.begin(&ACME.replace("acme", "beta")).await;
    let plan = stage.engine.approval(second).await.unwrap().unwrap().plan;
    assert_eq!(plan.placement["short"]["free"], json!(0));
    stage.approve(second).await;
    assert_eq!(stage.state(second).await.0, "Waitlisted");
    let (region, model) = ("eu-west".parse().unwrap(), "H100".parse().unwrap());
    let woken = || stage.engine.transact(false, |view| workflows::ledger::waiting(view, &region, &model));
    assert_eq!(woken().await.unwrap(), None, "no GPU is free");

    let rows = workflows::fleet::parse_nodes(&format!(
        "sn,cpu_milli,memory_mib,gpu,model\n{}",
        rows("x", 2, 8, "H100")
    ));
    let (rows, cluster) = (rows.unwrap(), "west-1".parse().unwrap());
    stage
        .engine
        .transact(true, |view| workflows::fleet::import_nodes(view, &rows, &cluster, &region))
        .await
        .unwrap();
    assert_eq!(woken().await.unwrap(), Some(second));
    stage.engine.signal(second, CAPACITY_FREED).await.unwrap();
    stage.engine.run_until_idle().await.unwrap();

    assert_eq!(stage.state(second).await.0, "Active");
    assert!(stage.all::<Waitlist>().await.iter().all(|list| list.waiters.is_empty()));
}

#[tokio::test]
async fn a_dry_run_shows_the_plan_for_the_approval_and_changes_nothing() {
    let stage = Stage::new().await;
    let policy = PlatformPolicy::built_in().unwrap();
    let before = stage.store.documents("nodes", "", None, 1_000).await.unwrap().items;

    let shown = stage.engine.transact(false, |view| preview(view, &request(ACME), &policy)).await.unwrap();

    assert_eq!(stage.store.documents("nodes", "", None, 1_000).await.unwrap().items, before);
    let id = stage.begin(ACME).await;
    let case = stage.engine.approval(id).await.unwrap().unwrap();
    assert_eq!((shown.digest, shown.plan), (case.digest, case.plan));
}

#[tokio::test]
async fn a_request_that_policy_rejects_ends_with_its_reasons() {
    let stage = Stage::new().await;
    let id = stage.begin(&ACME.replace("eu-only", "[jp]")).await;

    assert_eq!(stage.state(id).await.0, "Rejected");
    let body = stage.engine.execution(id).await.unwrap().1.body;
    let reasons = body["data"]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|r| r["rule"] == "placement.data_residency" && r["line"] == 3), "{reasons:?}");
    let decisions: Vec<Decision> = stage.all().await;
    assert_eq!(decisions[0].facts_digest, decisions[0].facts.digest());
}

/// S-22: the created objects depend on the isolation level, and the plan lists them beforehand.
#[test]
fn each_isolation_level_and_each_kind_of_cluster_has_its_own_set_of_objects() {
    let books = fleet();
    let policy = PlatformPolicy::built_in().unwrap();
    let objects = |text: String| {
        let (shown, _, _) = books.weigh(|view| preview(view, &request(&text), &policy)).unwrap();
        let objects = shown.plan.decides["objects"].as_array().unwrap().clone();
        let kinds = objects.iter().map(|object| object.as_object().unwrap().keys().next().unwrap().clone());
        (kinds.collect::<Vec<_>>().join(" "), shown.plan.decides["gpu_layout"].clone())
    };
    let small = ACME.replace("gpus: 16", "gpus: 8");
    let walls = "key identity namespace cohort flavor queue resource_quota isolation bucket";
    let slices = small.replace("dedicated,", "shared_slices,").replace("sharing: false", "sharing: true");

    assert_eq!(objects(small.clone()), (walls.into(), json!("all-disabled")));
    assert_eq!(objects(slices), (walls.into(), json!("all-1g.10gb")));
    let own = small.replace("dedicated,", "dedicated_cluster,");
    assert_eq!(objects(own), (format!("{walls} cluster_key"), json!("all-disabled")));
    assert_eq!(objects(small.replace("H100", "A100")).0, "key identity account bucket");
    assert_eq!(objects(small.replace("H100", "T4")).0, "key identity bucket");
}

/// S-54, S-122: the plan names the tier's class with the value of the current policy, and the container limit.
#[test]
fn the_plan_shows_the_priority_of_pods_and_the_largest_container() {
    let books = fleet();
    let object = |tier: &str, policy: &PlatformPolicy, kind: &str| {
        let text = ACME.replace("tier: standard", &format!("tier: {tier}")).replace("gpus: 16", "gpus: 8");
        let text = format!(
            "{text}workspaces: [{{name: prod, class: production, quotas: {{gpus: 8, cpu_milli: 64000}}}}]\n"
        );
        let (shown, _, _) = books.weigh(|view| preview(view, &request(&text), policy)).unwrap();
        let objects = shown.plan.decides["objects"].as_array().unwrap().clone();
        objects.iter().find_map(|object| object.get(kind).cloned()).unwrap()
    };
    let policy = PlatformPolicy::built_in().unwrap();
    let classed = |tier, policy: &PlatformPolicy| object(tier, policy, "namespace")["priority_class"].clone();

    assert_eq!(classed("standard", &policy), json!({ "name": "tenure-standard-200", "value": 200 }));
    let other = PlatformPolicy::amended(&[("standard: 200", "standard: 250")]).unwrap();
    let other = PlatformPolicy::from_yaml(&other).unwrap();
    assert_eq!(classed("standard", &other), json!({ "name": "tenure-standard-250", "value": 250 }));
    let containers = json!({ "request": { "cpu": 1, "memory": 4u64 << 30 }, "max": { "cpu": 64 } });
    assert_eq!(object("research", &policy, "resource_quota")["containers"], containers);
}

/// An onboarding that was approved before limit ranges and classes existed keeps its plan, and creates neither.
#[test]
fn an_onboarding_of_an_earlier_version_creates_exactly_what_was_approved() {
    let books = fleet();
    let small = request(&ACME.replace("gpus: 16", "gpus: 8"));
    let policy = PlatformPolicy::built_in().unwrap();
    let (shown, _, _) = books.weigh(|view| preview(view, &small, &policy)).unwrap();
    let mut onboarding = Onboarding::new(small, None);
    onboarding.terms = shown.decision.terms.clone();
    let mut body = serde_json::to_value(&onboarding).unwrap();
    let terms = body["terms"].as_object_mut().unwrap();
    assert!(terms.remove("priority_class").is_some() && terms.remove("container_request").is_some());

    let before: Onboarding = serde_json::from_value(body.clone()).unwrap();
    let plan = before.plan().decides.to_string();

    assert!(!plan.contains("priority_class") && !plan.contains("containers"), "{plan}");
    assert_eq!(serde_json::to_value(&before).unwrap(), body);
}

/// Run with `BLESS=1` to write the diagram into the page.
#[test]
fn the_documented_diagram_matches_the_workflow() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/workflows/onboarding.md");
    let (begin, end) = ("<!-- diagram:begin -->\n", "<!-- diagram:end -->");
    let page = fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    let drawn = format!(
        "{head}{begin}```mermaid\n{}\n```\n{end}{tail}",
        diagram::<Onboarding>().mermaid(None).trim_end()
    );

    if env::var_os("BLESS").is_some() {
        fs::write(PAGE, &drawn).unwrap();
    }
    assert_eq!(
        fs::read_to_string(PAGE).unwrap(),
        drawn,
        "run the tests with BLESS=1 and review the difference"
    );
}

/// The page names every state.
#[test]
fn the_page_describes_every_state() {
    let page = include_str!("../../docs/workflows/onboarding.md");
    let table = page.split("## States").nth(1).unwrap();
    for state in diagram::<Onboarding>().states {
        assert!(table.contains(&format!("`{}`", state.name)), "{} is not in the table", state.name);
    }
    assert_eq!(Onboarding::NAME, "onboarding");
}
