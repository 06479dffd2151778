//! The lease of an observer.

use super::{
    at,
    lease::{Claim, Claimant, LEASE, Observer, claim, is_current, release, renew, rest},
};
use crate::{observed::Term, tenancy::ClusterId};
use engine::{Clock as _, Engine, ManualClock};
use std::{sync::Arc, time::Duration};
use store::Memory;

struct Servers {
    engine: Engine<()>,
    clock: Arc<ManualClock>,
}

fn cluster() -> ClusterId {
    "c-1".parse().unwrap()
}

fn one(holder: &str, term: Option<u64>) -> Claimant<'_> {
    Claimant { holder, term: term.map(Term), lease: LEASE, is_alone: false }
}

impl Servers {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::starting_at(at(0)));
        Self { engine: Engine::new(Arc::new(Memory::new()), clock.clone(), ()), clock }
    }

    async fn claim(&self, by: Claimant<'_>) -> Claim {
        self.engine.transact(true, |view| claim(view, &cluster(), by)).await.unwrap()
    }

    async fn is_current(&self, term: u64) -> bool {
        self.engine.transact(false, |view| is_current(view, &cluster(), Term(term))).await.unwrap()
    }

    async fn observer(&self) -> Observer {
        let found = self.engine.transact(false, |view| view.get::<Observer>("c-1")).await;
        found.unwrap().unwrap()
    }

    fn pass(&self, span: Duration) {
        self.clock.set(self.clock.now().after(span));
    }
}

#[tokio::test]
async fn one_server_observes_a_cluster_and_each_new_holder_has_a_higher_term() {
    let servers = Servers::new();
    assert_eq!(servers.claim(one("a", None)).await, Claim::Observes(Term(1)));
    let other = Claim::Other { holder: "a".into(), until: at(15) };
    assert_eq!(servers.claim(one("b", None)).await, other);

    servers.pass(LEASE);
    assert!(!servers.is_current(1).await, "the lease is over");
    assert_eq!(servers.claim(one("b", None)).await, Claim::Observes(Term(2)));
    assert!(!servers.is_current(1).await && servers.is_current(2).await);
    assert!(matches!(servers.claim(one("a", Some(1))).await, Claim::Other { .. }));
}

#[tokio::test]
async fn a_holder_that_renews_keeps_its_term_and_one_that_starts_again_gets_a_new_one() {
    let servers = Servers::new();
    servers.claim(one("a", None)).await;
    for _ in 0..10 {
        servers.pass(Duration::from_secs(5));
        assert_eq!(servers.claim(one("a", Some(1))).await, Claim::Observes(Term(1)));
        assert!(servers.is_current(1).await);
    }
    assert_eq!(servers.claim(one("a", None)).await, Claim::Observes(Term(2)), "a restart with the same name");
    let alone = Claimant { is_alone: true, ..one("c", None) };
    assert_eq!(servers.claim(alone).await, Claim::Observes(Term(3)), "no other server can use the store");

    servers.engine.transact(true, |view| release(view, &cluster(), Term(3))).await.unwrap();
    assert_eq!(servers.claim(one("d", None)).await, Claim::Observes(Term(4)));
}

#[tokio::test]
async fn freshness_survives_a_takeover_and_an_older_term_does_not_renew_it() {
    let (servers, life) = (Servers::new(), Duration::from_secs(60));
    let fresh = async |term| {
        servers.engine.transact(true, |view| renew(view, &cluster(), Term(term), life)).await.unwrap();
        servers.observer().await.freshness.map(|freshness| freshness.fresh_until)
    };
    servers.claim(one("a", None)).await;
    assert_eq!(fresh(1).await, Some(at(60)));
    servers.pass(Duration::from_secs(20));
    assert_eq!(fresh(1).await, Some(at(60)), "less than half of its life is over");

    servers.claim(one("b", None)).await;
    servers.pass(Duration::from_secs(20));
    assert_eq!(fresh(1).await, Some(at(60)), "term 1 has ended");
    assert_eq!(fresh(2).await, Some(at(100)));
}

#[tokio::test]
async fn a_source_is_silent_after_its_freshness_or_if_it_never_gave_an_observation() {
    let (servers, life) = (Servers::new(), Duration::from_secs(60));
    let silent = async || servers.observer().await.silent_since(servers.clock.now(), life);
    servers.claim(one("a", None)).await;
    assert_eq!(silent().await, None);
    servers.pass(Duration::from_secs(61));
    assert_eq!(silent().await, Some(at(60)), "nothing was observed since the first claim");

    servers.claim(one("a", None)).await;
    servers.engine.transact(true, |view| renew(view, &cluster(), Term(2), life)).await.unwrap();
    assert_eq!(silent().await, None);
    servers.pass(Duration::from_secs(90));
    assert_eq!(silent().await, Some(at(121)));

    servers.engine.transact(true, |view| rest(view, &cluster())).await.unwrap();
    assert_eq!(silent().await, None, "it has no nodes to observe");
    assert_eq!(servers.claim(one("a", None)).await, Claim::Observes(Term(3)));
    assert_eq!(silent().await, None);
}
