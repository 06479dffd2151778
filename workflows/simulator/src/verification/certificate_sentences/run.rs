//! Runs one offboarding to its end. Scenario, faults and human decisions are drawn from a seed.

use super::{
    super::offboarding::{BEGIN, Ready, left_behind},
    journal::{Journal, Tap},
    withheld::Withheld,
};
use backends::simulated::{Fault, FaultKind, LocalWorld, Script, local_world, simulated_platform};
use engine::{Attribution, Engine, Error, Event, ManualClock, Options, Person, Repair, Request, Verdict};
use serde_json::{Value, json};
use std::sync::{Arc, PoisonError};
use store::{Commit, ExecutionId, Filter, Memory, Store};
use workflows::{
    destruction::certificate::{ErasureBasis, LegalBasis, Statement, certificate_file, statements, verify},
    offboarding::Offboarding,
    platform::{Platform, TenantResource},
    signing::Moment,
};

/// The limit of moves, which is more than a terminating run needs.
const MOVES: usize = 3_000;
/// The limit of approvals and repairs, which is more than a terminating run needs.
const ANSWERS: usize = 40;

/// The end of a run.
#[derive(Debug)]
pub(super) struct Ended {
    /// The statements of the certificate, if there is one.
    pub(super) said: Option<Vec<Statement>>,
    /// The error of the certificate itself, if any.
    pub(super) failed: Option<String>,
    pub(super) journal: Journal,
    /// The state and the phase at the end.
    pub(super) rest: String,
    /// True if the answer was withheld at least once.
    pub(super) withheld: bool,
}

struct Scene {
    engine: Engine<Platform>,
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
    id: ExecutionId,
    rng: fastrand::Rng,
    tap: Arc<Tap>,
    answers: usize,
    abstained: bool,
}

/// Runs `seed` without the withheld answers.
pub(super) async fn run(ready: &Ready, seed: u64, withheld: Option<Withheld>) -> Result<Ended, Error> {
    let mut scene = Scene::begin(ready, seed, withheld).await?;
    for _ in 0..MOVES {
        if scene.answers > ANSWERS || !scene.go_on().await? {
            break;
        }
    }
    scene.end(&ready.tenant).await
}

impl Scene {
    async fn begin(ready: &Ready, seed: u64, withheld: Option<Withheld>) -> Result<Self, Error> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let world = ready.world.fork();
        furnish(&world, ready.tenant.as_str(), &mut rng);
        world.script(Script { faults: faults(&mut rng), random: None });
        let memory = Arc::new(Memory::new());
        memory.commit(Commit { documents: ready.documents.clone(), ..Commit::default() }).await?;
        let store: Arc<dyn Store> = memory;
        let clock = Arc::new(ManualClock::starting_at(BEGIN));
        let tap = Arc::new(Tap { withheld, ..Tap::default() });
        let options = Options { fault_injector: Some(tap.clone()), ..Options::default() };
        let engine = Engine::new(store.clone(), clock.clone(), simulated_platform(Arc::new(world)));
        let engine = engine.with_options(options).with_workflow::<Offboarding>();
        let engine = engine.map_err(|error| super::super::offboarding::wrong("workflow.unsound", error))?;
        let basis = LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 7".into() };
        let asked = Offboarding::new(
            ready.tenant.clone(),
            basis,
            "rita".into(),
            Moment::from(BEGIN),
            "the contract has ended".into(),
        );
        let id = engine.start(asked, Request::by(&Person::new("rita", ["platform_ops"]))).await?.id;
        Ok(Self { engine, store, clock, id, rng, tap, answers: 0, abstained: false })
    }

    /// Makes one move. Returns false if the run has ended.
    async fn go_on(&mut self) -> Result<bool, Error> {
        if self.engine.work_next().await? {
            return Ok(true);
        }
        let record = self.engine.record(self.id).await?;
        // No operator classifies or stops writes; the workflow would wait every day.
        if !record.open || ["AwaitingClassification", "AwaitingWriteStop"].contains(&record.state.as_str()) {
            return Ok(false);
        }
        let all = self.store.list(&Filter::default(), None, 1_000).await?.items;
        if let Some(record) = all.iter().find(|record| record.open && record.phase == "parked") {
            self.answers += 1;
            return self.repair(record.id).await;
        }
        if let Some(case) = self.engine.approval(self.id).await? {
            self.answers += 1;
            let withheld = self.tap.withheld.clone();
            for (number, seat) in case.seats.iter().enumerate() {
                for count in 0..seat.count {
                    let name = format!("voter-{number}-{count}");
                    if withheld.as_ref().is_some_and(|withheld| withheld.is_vote(&case.state, &name)) {
                        self.abstained = true;
                        return Ok(false);
                    }
                    let person = Person::new(name, seat.any_of.clone());
                    match self.engine.vote(self.id, &person, Verdict::Approve, &case.digest, "seen").await {
                        Ok(_) | Err(Error::Refused(_)) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            return Ok(true);
        }
        match self.store.next_due().await? {
            Some(next) => self.clock.advance_to(next),
            None => self.clock.advance(engine::MINUTE),
        }
        Ok(true)
    }

    /// Repairs a parked execution as an operator would.
    async fn repair(&mut self, id: ExecutionId) -> Result<bool, Error> {
        let body = self.engine.execution(id).await?.1.body;
        let slots = body.get("slots").and_then(Value::as_array).cloned().unwrap_or_default();
        let code =
            |slot: &Value| slot.pointer("/settled/Err/code").and_then(Value::as_str).map(str::to_owned);
        let failed = (0_u32..).zip(&slots).find_map(|(number, slot)| Some((number, code(slot)?)));
        let (slot, code) = failed.unwrap_or_default();
        if code == Withheld::CODE {
            let answer = self.tap.withheld.as_ref().and_then(|withheld| withheld.answer.clone());
            let output = answer.map(|answer| answer.output).unwrap_or_default();
            let stated = Repair::MarkDone { slot, output, evidence: "a person saw it".into() };
            return Ok(
                self.repaired(id, stated).await? || self.repaired(id, Repair::Skip { slot: None }).await?
            );
        }
        // After many repairs, operators accept a failed verification.
        let draw = if self.answers > 8 { 4 } else { self.rng.u8(..10) };
        let stated = match draw {
            0..4 => self.repaired(id, self.statement(id, slot)).await?,
            4..7 => self.repaired(id, Repair::Skip { slot: None }).await?,
            _ => false,
        };
        if stated {
            return Ok(true);
        }
        if let Some(world) = local_world(self.engine.platform()) {
            world.script(Script::default());
        }
        let order = Attribution { by: "olga".into(), reason: "again".into() };
        match self.engine.deliver(id, Event::RetryRequested(order)).await {
            Ok(_) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns an operator's statement that the work of a failed slot is done.
    fn statement(&self, id: ExecutionId, slot: u32) -> Repair {
        let attempts = self.tap.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = attempts.iter().rev().find(|tried| tried.execution == id && tried.slot == slot);
        let thing = tried.and_then(|tried| tried.arguments.get("thing")).cloned().unwrap_or_default();
        let output = match tried.map(|tried| tried.action.as_str()) {
            Some("RemoveThing") => json!({ "thing": thing, "fate": "gone" }),
            Some("ShredKey") => {
                json!({ "thing": thing, "decrypt_fails": true, "transcript": "seen", "seen": true })
            }
            _ => Value::Null,
        };
        Repair::MarkDone { slot, output, evidence: "ticket 4711".into() }
    }

    async fn repaired(&self, id: ExecutionId, repair: Repair) -> Result<bool, Error> {
        let order = Attribution { by: "olga".into(), reason: "I looked".into() };
        match self.engine.deliver(id, Event::Repaired { repair, order }).await {
            Ok(_) => Ok(true),
            Err(Error::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn end(self, tenant: &workflows::tenancy::TenantId) -> Result<Ended, Error> {
        let all = self.store.list(&Filter::default(), None, 1_000).await?.items;
        let mut entries = Vec::new();
        for record in &all {
            entries.extend(self.engine.journal(record.id).await?);
        }
        let attempts = self.tap.attempts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let journal = Journal::read(&entries, &attempts);
        let hits = *self.tap.hits.lock().unwrap_or_else(PoisonError::into_inner);
        let withheld = hits > 0 || self.abstained;
        let id = self.id;
        let file = self.engine.transact(false, |view| certificate_file(view, id)).await?;
        let (mut said, mut failed) = (None, None);
        if let Some(file) = file {
            let found = verify(file.as_bytes(), &[]);
            let wrong = found.problems.iter().find(|problem| !problem.field.contains("keyid"));
            failed = wrong.map(|wrong| format!("{tenant}: {}: {}", wrong.field, wrong.problem));
            match found.certificate.as_ref().map(|certificate| statements(certificate, &found.assets)) {
                Some(Ok(all)) => said = Some(all),
                Some(Err(problems)) => failed = Some(format!("{problems:?}")),
                None => failed = Some("the certificate cannot be read".into()),
            }
        }
        let record = self.engine.record(id).await?;
        let rest = format!("{}, {}", record.state, record.phase);
        let ids: Vec<String> = all.iter().map(|record| record.id.to_string()).collect();
        let said = said.map(|said| said.into_iter().map(|said| said.without(&ids)).collect());
        Ok(Ended { said, failed, journal, rest, withheld })
    }
}

/// Adds objects that a tenant can leave behind, including unusual ones.
fn furnish(world: &LocalWorld, tenant: &str, rng: &mut fastrand::Rng) {
    if rng.u8(..10) > 0 {
        left_behind(world, tenant);
    }
    let own = format!("t-{tenant}");
    let put = |system, place, kind, name: &str, spec| {
        world.furnish(&TenantResource::new(system, place, kind, name), tenant, spec);
    };
    for number in 0..rng.u8(..3) {
        let name = format!("odd-{number}");
        match rng.u8(..8) {
            0 => put(
                "objects",
                "eu-west",
                "Bucket",
                &name,
                json!({ "class": "workload", "versions": 1, "locked": 2,
                "locked_until": "2031-05-01T00:00:00.000Z", "key": own }),
            ),
            1 => put(
                "backups",
                "eu-west",
                "Backup",
                &name,
                json!({ "class": "backup", "kept_until": "2026-03-01T00:00:00.000Z" }),
            ),
            2 => put(
                "backups",
                "eu-west",
                "Backup",
                &name,
                json!({ "class": "backup", "key": "elsewhere",
                "kept_until": "2026-04-01T00:00:00.000Z" }),
            ),
            3 => put("keys", "", "Key", &name, json!({ "class": "secret", "exportable": true })),
            4 => put("storage", "eu-west", "Snapshot", &name, json!({ "class": "workload", "key": own })),
            5 => put("logs", "eu-west", "Stream", &name, json!({ "class": "billing", "key": own })),
            6 => put("registry", "eu-west", "Model", &name, json!({ "class": "model" })),
            _ => put("network", "eu-west", "Record", &name, json!({ "class": "configuration" })),
        }
    }
}

/// Returns up to three faults.
fn faults(rng: &mut fastrand::Rng) -> Vec<Fault> {
    const DEEDS: [&str; 8] = [
        "RemoveThing",
        "RemoveThing",
        "ShredKey",
        "RewrapThing",
        "BeginSanitise",
        "ScrubGpu",
        "ResetMachine",
        "ReimageNode",
    ];
    const KINDS: [FaultKind; 5] = [
        FaultKind::FailBefore,
        FaultKind::FailAfter,
        FaultKind::RefuseBefore,
        FaultKind::RefuseAfter,
        FaultKind::AnswerLost,
    ];
    const ODD: [(&str, FaultKind); 5] = [
        ("ScrubGpu", FaultKind::ScrubFallsShort),
        ("BeginSanitise", FaultKind::DriveFails),
        ("BeginSanitise", FaultKind::DriveLies),
        ("ResetMachine", FaultKind::Flawed),
        ("ShredKey", FaultKind::Flawed),
    ];
    let count = rng.u32(..4);
    let one = |_| {
        let nth = 1 + rng.u32(..3);
        let deed = DEEDS.get(rng.usize(..DEEDS.len())).copied().unwrap_or("RemoveThing");
        let kind = KINDS.get(rng.usize(..KINDS.len())).copied().unwrap_or(FaultKind::FailBefore);
        let (deed, kind) = match ODD.get(rng.usize(..12)) {
            Some((deed, kind)) => (*deed, *kind),
            None => (deed, kind),
        };
        Fault::on(deed, kind).nth(nth).times(1 + nth % 2 * 50)
    };
    (0..count).map(one).collect()
}
