//! The offboarding of a tenant with a real drive in one of its nodes. The engine runs in this process; everything but the drive is
//! simulated.

use super::{
    stamp,
    stand_in::Drive,
    vm::{CLUSTER, NODE, Vm},
};
use async_trait::async_trait;
use backends::{drives::LocalMachine, simulated::simulated_platform};
use engine::{ActionError, Engine, Error, ManualClock, Person, Request as Asked, Verdict};
use simulator::verification::ready;
use std::sync::Arc;
use store::{Commit, ExecutionId, Memory, Store, Timestamp};
use tempfile::TempDir;
use workflows::{
    destruction::{
        Method, SanitisationOutcome, SanitisationRecord, Technique,
        certificate::{ErasureBasis, LegalBasis, StoredCertificate, Verification, certificate_file, verify},
    },
    offboarding::Offboarding,
    platform::{
        CallMetadata, Devices, DriveTechnique, Environment, FilledGpu, Machines, Platform, Reset, Samples,
        SanitiseLog, Segment,
    },
    policy::{PlatformPolicy, publish},
    signing::Moment,
    tenancy::{Node, NodeState},
};

const SECRET: &str = "the weights of acme, 9";
const BEGIN: Timestamp = Timestamp(1_767_225_600_000);

/// A simulated machine with real drives.
#[derive(Debug)]
struct Mixed {
    rest: Arc<dyn Machines>,
    drives: LocalMachine,
}

#[async_trait]
impl Machines for Mixed {
    fn backend(&self) -> &'static str {
        "drives, and a simulated machine around them"
    }

    fn is_simulated(&self, _: &str, _: &str) -> bool {
        false
    }

    async fn devices(
        &self,
        at: &str,
        node: &str,
        gpus: u64,
        stamp: &CallMetadata,
    ) -> Result<Devices, ActionError> {
        let devices = self.rest.devices(at, node, gpus, stamp).await?;
        Ok(Devices { drives: self.drives.drives(&patient(stamp)).await?, ..devices })
    }

    async fn set_network(
        &self,
        at: &str,
        node: &str,
        to: Segment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.rest.set_network(at, node, to, stamp).await
    }

    async fn boot(
        &self,
        at: &str,
        node: &str,
        into: Environment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.rest.boot(at, node, into, stamp).await
    }

    async fn scrub_gpu(
        &self,
        at: &str,
        node: &str,
        uuid: &str,
        reset: bool,
        stamp: &CallMetadata,
    ) -> Result<FilledGpu, ActionError> {
        self.rest.scrub_gpu(at, node, uuid, reset, stamp).await
    }

    async fn sanitise(
        &self,
        at: &str,
        node: &str,
        serial: &str,
        technique: DriveTechnique,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.drives.sanitise(at, node, serial, technique, &patient(stamp)).await
    }

    async fn sanitize_log(
        &self,
        at: &str,
        node: &str,
        serial: &str,
        stamp: &CallMetadata,
    ) -> Result<SanitiseLog, ActionError> {
        self.drives.sanitize_log(at, node, serial, &patient(stamp)).await
    }

    async fn sample_sectors(
        &self,
        at: &str,
        node: &str,
        serial: &str,
        seed: &str,
        stamp: &CallMetadata,
    ) -> Result<Samples, ActionError> {
        self.drives.sample_sectors(at, node, serial, seed, &patient(stamp)).await
    }

    async fn reset(&self, at: &str, node: &str, stamp: &CallMetadata) -> Result<Reset, ActionError> {
        self.rest.reset(at, node, stamp).await
    }
}

/// An emulated machine on a busy one is slower than any node.
fn patient(of: &CallMetadata) -> CallMetadata {
    CallMetadata { deadline: stamp("").deadline, ..of.clone() }
}

/// A tenant with one node, during its offboarding.
struct Leaving {
    engine: Engine<Platform>,
    store: Arc<Memory>,
    clock: Arc<ManualClock>,
    id: ExecutionId,
    _state: Option<TempDir>,
}

impl Leaving {
    /// Starts it; `policy` are changes of the built-in policy.
    async fn begin(vm: &Vm, policy: &[(&str, &str)]) -> Self {
        let (drives, state) = vm.machine();
        Self { _state: Some(state), ..Self::with(drives, policy).await }
    }

    async fn with(drives: LocalMachine, policy: &[(&str, &str)]) -> Self {
        let ready = ready("A100", 1).await.unwrap();
        let (store, clock) = (Arc::new(Memory::new()), Arc::new(ManualClock::starting_at(BEGIN)));
        store.commit(Commit { documents: ready.documents.clone(), ..Commit::default() }).await.unwrap();
        let mut platform = simulated_platform(Arc::new(ready.world.fork()));
        platform.machines = Arc::new(Mixed { rest: platform.machines.clone(), drives });
        let engine =
            Engine::new(store.clone(), clock.clone(), platform).with_workflow::<Offboarding>().unwrap();
        if !policy.is_empty() {
            let text = PlatformPolicy::amended(policy).unwrap();
            engine.transact(true, |view| publish(view, &text, "rita")).await.unwrap();
        }
        let basis = LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 7".into() };
        let asked =
            Offboarding::new(ready.tenant, basis, "rita".into(), Moment::from(BEGIN), "the end".into());
        let by = Asked::by(&Person::new("rita", ["platform_ops", "compliance", "security"]));
        let id = engine.start(asked, by).await.unwrap().id;
        Self { engine, store, clock, id, _state: None }
    }

    /// Runs until it has ended; returns its final state.
    async fn to_rest(&self) -> String {
        for _ in 0..5_000 {
            let record = self.engine.record(self.id).await.unwrap();
            assert_ne!(record.phase, "parked", "{:#}", self.engine.execution(self.id).await.unwrap().1.body);
            if record.phase == "finished" {
                return record.state;
            }
            self.step().await;
        }
        panic!("it does not end");
    }

    async fn step(&self) {
        if self.engine.work_next().await.unwrap() {
            return;
        }
        if let Some(case) = self.engine.approval(self.id).await.unwrap() {
            for (number, seat) in case.seats.iter().enumerate() {
                for count in 0..seat.count {
                    let person = Person::new(format!("voter-{number}-{count}"), seat.any_of.clone());
                    let vote =
                        self.engine.vote(self.id, &person, Verdict::Approve, &case.digest, "seen").await;
                    assert!(matches!(vote, Ok(_) | Err(Error::Refused(_))), "{vote:?}");
                }
            }
            return;
        }
        match self.store.next_due().await.unwrap() {
            Some(next) => self.clock.advance_to(next),
            None => self.clock.advance(engine::MINUTE),
        }
    }

    async fn all<T: engine::Entity>(&self) -> Vec<T> {
        let page = self.store.documents(T::COLLECTION, "", None, 10_000).await.unwrap();
        page.items.iter().map(|document| serde_json::from_slice(&document.body).unwrap()).collect()
    }

    /// Returns the certificate, verified with the issuer's public key, and its number of exceptions.
    async fn certificate(&self) -> (Verification, usize) {
        let id = self.id;
        let file = self.engine.transact(false, |view| certificate_file(view, id)).await.unwrap().unwrap();
        let (_, key) = self.engine.platform().signer.sign(b"any").await.unwrap();
        let found = verify(file.as_bytes(), &[key]);
        assert_eq!(found.problems, []);
        (found, self.all::<StoredCertificate>().await[0].exceptions)
    }

    async fn node(&self) -> NodeState {
        let all: Vec<Node> = self.all().await;
        all.iter().find(|node| node.id.as_str() == NODE && node.cluster.as_str() == CLUSTER).unwrap().state
    }
}

fn drive(of: &Verification) -> SanitisationRecord {
    let entry = of.assets.iter().find(|entry| entry.asset.serial.as_deref() == Some("LEAVE001")).unwrap();
    entry.record.clone().unwrap()
}

/// Policy requires a purge by default; the drive only supports a format, which clears.
#[tokio::test]
async fn a_node_with_an_unsanitisable_drive_is_quarantined_and_an_exception_on_the_certificate() {
    let Some(vm) = Vm::in_memory() else { return };
    let turn = vm.turn().await;
    vm.fill(&vm.device("LEAVE001"), SECRET, 1);
    let leaving = Leaving::begin(&vm, &[]).await;

    assert_eq!(leaving.to_rest().await, "ClosedWithExceptions");

    assert_eq!(leaving.node().await, NodeState::Quarantined);
    let (certificate, exceptions) = leaving.certificate().await;
    assert!(exceptions > 0);
    let record = drive(&certificate);
    assert!(record.passes().is_err());
    let SanitisationOutcome::Failed { reason } = &record.result else { panic!("{record:?}") };
    assert!(reason.contains("no technique that policy accepts"), "{reason}");
    assert!(vm.scan("LEAVE001", SECRET) > 0, "the data remains, as the certificate says");
    drop(turn);
}

#[tokio::test]
async fn a_node_with_a_sanitisable_drive_is_certified_with_method_technique_and_tools() {
    let Some(vm) = Vm::in_memory() else { return };
    let turn = vm.turn().await;
    vm.fill(&vm.device("LEAVE001"), SECRET, 64);
    let leaving = Leaving::begin(&vm, &[("nvme: purge", "nvme: clear")]).await;

    assert_eq!(leaving.to_rest().await, "Closed");

    assert_ne!(leaving.node().await, NodeState::Quarantined);
    assert_eq!(vm.scan("LEAVE001", SECRET), 0, "the certificate is right");
    let (certificate, exceptions) = leaving.certificate().await;
    assert_eq!(exceptions, 0);
    let record = drive(&certificate);
    assert_eq!(record.passes(), Ok(()));
    assert_eq!((record.method, record.technique), (Some(Method::Clear), Technique::Format));
    assert_eq!(record.device.model.as_deref(), Some("QEMU NVMe Ctrl"));
    let version = vm.says(&["nvme", "version"]);
    assert_eq!(record.tool.name, "nvme-cli");
    assert!(version.contains(&format!("nvme version {} ", record.tool.version)), "{:?}", record.tool);
    let verification = record.verification.unwrap();
    assert_eq!((verification.tool.name.as_str(), verification.mismatches), ("dd", 0));
    assert!(verification.checked > 100 && verification.seed.is_some());
    drop(turn);
}

/// A controller's claim is no evidence: it listed the technique and then refused the command.
#[tokio::test]
async fn a_drive_that_rejects_sanitize_is_quarantined_whatever_its_capabilities_say() {
    let drive = Drive::called("LEAVE001");
    drive.refuses();
    let leaving = Leaving::with(LocalMachine::connect(CLUSTER, NODE, drive.target()).unwrap(), &[]).await;

    assert_eq!(leaving.to_rest().await, "ClosedWithExceptions");

    assert!(!drive.words().is_empty(), "the drive received commands");
    assert_eq!(leaving.node().await, NodeState::Quarantined);
    let (certificate, exceptions) = leaving.certificate().await;
    assert!(exceptions > 0);
    let record = self::drive(&certificate);
    let SanitisationOutcome::Failed { reason } = &record.result else { panic!("{record:?}") };
    assert!(reason.contains("did not take the command") && record.passes().is_err(), "{reason}");
}
