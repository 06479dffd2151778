//! A tenant ready for offboarding, an engine, and approvers.

use backends::simulated::{Fault, LocalWorld, Script, local_world, simulated_platform};
use engine::{Engine, Error, Event, ManualClock, Person, Request as Asked, Verdict};
use simulator::verification::{left_behind, ready};
use std::sync::Arc;
use store::{Commit, Document, ExecutionId, Memory, Store, Timestamp};
use workflows::{
    destruction::{
        Hold, HoldKind, HoldRefused, HoldScope, PlaceHold, ReleaseHold, SanitisationRecord,
        certificate::{ErasureBasis, LegalBasis, StoredCertificate},
    },
    offboarding::{HOLD_RELEASED, Offboarding},
    platform::Platform,
    signing::Moment,
    tenancy::TenantId,
};

async fn ask(engine: &Engine<Platform>, tenant: &TenantId) -> ExecutionId {
    let basis = LegalBasis { basis: ErasureBasis::ContractEnd, reference: "contract 7".into() };
    let at = Moment::from(Timestamp(1_767_225_600_000));
    let asked = Offboarding::new(tenant.clone(), basis, "rita".into(), at, "the end".into());
    engine.start(asked, Asked::by(&requester())).await.unwrap().id
}

pub struct Stage {
    pub engine: Engine<Platform>,
    pub store: Arc<dyn Store>,
    pub clock: Arc<ManualClock>,
    pub tenant: TenantId,
    pub id: ExecutionId,
}

pub fn requester() -> Person {
    Person::new("rita", ["platform_ops", "compliance", "security"])
}

impl Stage {
    /// `acme` on Kubernetes with two nodes and a leftover of each kind; `more` changes the simulated platform.
    pub async fn kubernetes(more: impl Fn(&LocalWorld)) -> Self {
        Self::of("H100", 2, more).await
    }

    /// `acme` on Slurm with one node.
    pub async fn slurm(more: impl Fn(&LocalWorld)) -> Self {
        Self::of("A100", 1, more).await
    }

    pub async fn of(model: &str, nodes: u32, more: impl Fn(&LocalWorld)) -> Self {
        let ready = ready(model, nodes).await.unwrap();
        left_behind(&ready.world, "acme");
        more(&ready.world);
        Self::from(&ready).await
    }

    pub async fn from(ready: &simulator::verification::Ready) -> Self {
        Self::on(ready, Arc::new(Memory::new()), |platform, _| platform).await
    }

    /// The same on a separate store, with a platform that is changed before use.
    pub async fn on(
        ready: &simulator::verification::Ready,
        store: Arc<dyn Store>,
        change: impl FnOnce(Platform, Arc<ManualClock>) -> Platform,
    ) -> Self {
        store.commit(Commit { documents: ready.documents.clone(), ..Commit::default() }).await.unwrap();
        let clock = Arc::new(ManualClock::starting_at(Timestamp(1_767_225_600_000)));
        let platform = change(simulated_platform(Arc::new(ready.world.fork())), clock.clone());
        let engine =
            Engine::new(store.clone(), clock.clone(), platform).with_workflow::<Offboarding>().unwrap();
        let id = ask(&engine, &ready.tenant).await;
        let store = engine.store().clone();
        Self { engine, store, clock, tenant: ready.tenant.clone(), id }
    }

    /// The same, with another offboarding of the tenant.
    pub async fn again(self) -> Self {
        let id = ask(&self.engine, &self.tenant).await;
        Self { id, ..self }
    }

    pub fn world(&self) -> &LocalWorld {
        local_world(self.engine.platform()).unwrap()
    }

    pub fn script(&self, fault: Fault) {
        self.world().script(Script { faults: vec![fault], random: None });
    }

    pub async fn state(&self) -> (String, String) {
        let record = self.engine.record(self.id).await.unwrap();
        (record.state, record.phase)
    }

    /// Makes one move: due work, else votes, else time.
    pub async fn step(&self) {
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

    /// Runs until the execution has ended, is parked, or is in `state`.
    pub async fn until(&self, state: &str) -> (String, String) {
        for _ in 0..5_000 {
            let (at, phase) = self.state().await;
            if at == state && !self.engine.work_next().await.unwrap()
                || phase == "finished"
                || phase == "parked"
            {
                return (at, phase);
            }
            self.step().await;
        }
        panic!("it never comes to {state}: {:?}", self.state().await);
    }

    pub async fn to_rest(&self) -> (String, String) {
        self.until("nowhere").await
    }

    pub async fn place_hold(&self) -> Result<Hold, HoldRefused> {
        let hold = PlaceHold {
            tenant: self.tenant.clone(),
            id: "case-9".into(),
            kind: HoldKind::Legal,
            scope: HoldScope::Tenant,
            reason: "litigation".into(),
            placed_by: "lena".into(),
            placed_from: None,
            review_at: None,
        };
        self.engine.transact(true, |view| hold.place(view)).await.unwrap()
    }

    pub async fn release_hold(&self) {
        let (tenant, id) = (self.tenant.clone(), "case-9".into());
        let (released_by, reason) = ("carl".into(), "settled".into());
        let release = ReleaseHold { tenant, id, released_by, reason };
        self.engine.transact(true, |view| release.release(view)).await.unwrap().unwrap();
        self.engine.deliver(self.id, Event::Signalled { name: HOLD_RELEASED.into() }).await.ok();
    }

    pub async fn all<T: engine::Entity>(&self) -> Vec<T> {
        let page = self.store.documents(T::COLLECTION, "", None, 10_000).await.unwrap();
        page.items.iter().map(|document: &Document| serde_json::from_slice(&document.body).unwrap()).collect()
    }

    pub async fn records(&self) -> Vec<SanitisationRecord> {
        self.all().await
    }

    pub async fn certificate(&self) -> StoredCertificate {
        let all: Vec<StoredCertificate> = self.all().await;
        all.into_iter().next().expect("a certificate")
    }

    /// Returns the objects that still carry the tenant's label.
    pub fn left(&self) -> Vec<String> {
        let mentions = |value: &serde_json::Value| value.to_string().contains("\"acme\"");
        self.world().snapshot().into_iter().filter(|(_, v)| mentions(v)).map(|(address, _)| address).collect()
    }

    /// Returns the reason of the parking.
    pub async fn trouble(&self) -> String {
        self.engine.execution(self.id).await.unwrap().1.body["phase"].to_string()
    }
}
