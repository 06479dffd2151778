//! A platform in memory with one tenant: engine, counting store, clock and fleet.

use super::{Failure, counted::Counted};
use backends::simulated::{LocalWorld, simulated_platform};
use engine::{ActionError, Engine, MINUTE, ManualClock, Person, Request, Undecided, Verdict, View, Workflow};
use std::sync::Arc;
use store::{ExecutionId, Filter, Store as _, Timestamp};
use workflows::{
    destruction::certificate::{ErasureBasis, LegalBasis},
    fleet::{import_nodes, import_sites, parse_nodes, parse_sites},
    offboarding::Offboarding,
    onboarding::Onboarding,
    platform::Platform,
    policy::{Invalid, OnboardingRequest},
    quota_change::{QuotaRequest, increase::QuotaIncrease},
    signing::Moment,
    tenancy::{NameError, TenantId},
};

const BEGIN: Timestamp = Timestamp(1_767_225_600_000);
/// GPUs per node.
const GPUS: u32 = 2;
const SITES: &str = "
regions: [{id: eu-west, jurisdiction: eu}]
clusters: [{id: west-1, region: eu-west}]
";
/// The number of time steps after which an execution counts as stuck.
const MAX_ROUNDS: usize = 50_000;

pub(super) struct Stage {
    pub(super) engine: Engine<Platform>,
    pub(super) store: Arc<Counted>,
    clock: Arc<ManualClock>,
}

fn fleet(view: &mut View, nodes: u32) -> Result<(), Undecided> {
    let wrong = |invalid: Invalid| ActionError::permanent("policy.invalid", invalid);
    let name = |error: NameError| ActionError::permanent("policy.invalid", error);
    import_sites(view, &parse_sites(SITES).map_err(wrong)?)?;
    let mut text = String::from("sn,cpu_milli,memory_mib,gpu,model\n");
    for number in 0..nodes {
        text.push_str(&format!("gpu-rack-{:02}-node-{number:05},96000,786432,{GPUS},H100\n", number % 40));
    }
    let rows = parse_nodes(&text).map_err(wrong)?;
    import_nodes(view, &rows, &"west-1".parse().map_err(name)?, &"eu-west".parse().map_err(name)?)?;
    Ok(())
}

impl Stage {
    /// Creates a fleet in which a tenant with `nodes` nodes can grow by twice `more`.
    pub(super) async fn with_nodes(nodes: u32, more: u32) -> Result<Self, Failure> {
        let store = Arc::new(Counted::new());
        let clock = Arc::new(ManualClock::starting_at(BEGIN));
        let platform = simulated_platform(Arc::new(LocalWorld::new()));
        let engine = Engine::new(store.clone(), clock.clone(), platform)
            .with_workflow::<Onboarding>()?
            .with_workflow::<QuotaIncrease>()?
            .with_workflow::<Offboarding>()?;
        engine.transact(true, |view| fleet(view, nodes + 2 * more + 8)).await?;
        Ok(Self { engine, store, clock })
    }

    pub(super) async fn onboard(&self, nodes: u32) -> Result<(), Failure> {
        let text = format!(
            "name: acme\ntenant: {{tier: standard, isolation: dedicated, data_residency: eu-only, allow_preemption: true, \
             allow_gpu_sharing: false}}\nworkspaces:\n- {{name: research, class: research, quotas: {{gpus: {gpus}}}}}\n\
             entitlement: {{gpu_model: H100, gpus: {gpus}}}\n",
            gpus = nodes * GPUS
        );
        self.to_end(Onboarding::new(OnboardingRequest::from_yaml(&text)?, None), "Active").await
    }

    /// Requests more nodes than the entitlement, for a limited time.
    pub(super) async fn grow(&self, nodes: u32) -> Result<(), Failure> {
        let text = format!(
            "tenant: acme\nworkspace: research\nresource: gpu/H100\nby: {}\nexception: true\n\
             until: 2026-12-01T00:00:00Z\nreason: more to do\n",
            nodes * GPUS
        );
        self.to_end(QuotaIncrease::new(QuotaRequest::from_yaml(&text)?), "Effective").await
    }

    pub(super) async fn offboard(&self) -> Result<(), Failure> {
        let basis = LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 7".into() };
        let tenant: TenantId = "acme".parse()?;
        let at = Moment::from(BEGIN);
        let leaves = Offboarding::new(tenant, basis, "rita".into(), at, "the end".into());
        self.to_end(leaves, "Closed").await
    }

    /// Works, votes and advances the clock until the execution ends in `state`. Fails if an execution is parked.
    async fn to_end<W: Workflow<Platform = Platform>>(&self, data: W, state: &str) -> Result<(), Failure> {
        let id = self.engine.start(data, Request::by(&Person::new("rita", ["platform_ops"]))).await?.id;
        for _ in 0..MAX_ROUNDS {
            self.engine.run_until_idle().await?;
            let record = self.engine.record(id).await?;
            if record.phase == "parked" {
                let execution = self.engine.execution(id).await?.1.body;
                return Err(format!("parked in {}: {:?}", record.state, execution.get("phase")).into());
            }
            if !record.open {
                let ended = format!("it ended in {}, not in {state}", record.state);
                return if record.state == state { Ok(()) } else { Err(ended.into()) };
            }
            if !self.vote(id).await? {
                match self.store.next_due().await? {
                    Some(next) => self.clock.advance_to(next),
                    None => self.clock.advance(MINUTE),
                }
            }
        }
        Err(format!("it does not end: it is in {}", self.engine.record(id).await?.state).into())
    }

    /// Grants the open approval, if any.
    async fn vote(&self, id: ExecutionId) -> Result<bool, Failure> {
        let Some(case) = self.engine.approval(id).await? else { return Ok(false) };
        for (number, seat) in case.seats.iter().enumerate() {
            for count in 0..seat.count {
                let person = Person::new(format!("voter-{number}-{count}"), seat.any_of.clone());
                // Rejected after the other votes have decided.
                _ = self.engine.vote(id, &person, Verdict::Approve, &case.digest, "it looks right").await;
            }
        }
        Ok(true)
    }

    /// Returns the number of executions that wait for an operator.
    pub(super) async fn parked(&self) -> Result<usize, Failure> {
        let all = self.store.list(&Filter::default(), None, 100_000).await?.items;
        Ok(all.iter().filter(|record| record.phase == "parked").count())
    }
}
