//! Random histories of claims, releases and quotas: the invariants of the ledger hold after every event.

use super::{ask, constraints, fleet, name, register};
use engine::{ActionError, Call};
use proptest::{collection::vec, prelude::*};
use std::collections::{BTreeMap, BTreeSet};
use tests::books::{Books, Executions};
use workflows::{ledger::*, tenancy::*};

/// The events of a tenant's history, by number.
#[derive(Clone, Debug)]
enum Deed {
    Claim(u8, u32),
    Prepare(u8),
    Quarantine(u8, usize),
    Replace(u8, u32),
    Release(u8),
    SetQuota(u8, u32),
    ClearQuota(u8),
    /// Its node `n` is taken out of service and wiped, as in an offboarding.
    Retire(u8, usize),
}

fn deeds() -> impl Strategy<Value = Vec<(Deed, bool)>> {
    let tenant = 0..5_u8;
    let deed = prop_oneof![
        4 => (tenant.clone(), 1..20_u32).prop_map(|(t, gpus)| Deed::Claim(t, gpus)),
        2 => tenant.clone().prop_map(Deed::Prepare),
        2 => (tenant.clone(), 0..3_usize).prop_map(|(t, n)| Deed::Quarantine(t, n)),
        2 => (tenant.clone(), 1..20_u32).prop_map(|(t, gpus)| Deed::Replace(t, gpus)),
        3 => tenant.clone().prop_map(Deed::Release),
        2 => (tenant.clone(), 0..24_u32).prop_map(|(t, gpus)| Deed::SetQuota(t, gpus)),
        1 => tenant.clone().prop_map(Deed::ClearQuota),
        1 => (tenant, 0..3_usize).prop_map(|(t, n)| Deed::Retire(t, n)),
    ];
    vec((deed, any::<bool>()), 1..40)
}

/// Applies an event; `Err` is a refusal, which is a valid answer.
fn carry_out(books: &mut Books, deed: &Deed, call: &Call) -> Result<(), ActionError> {
    match *deed {
        Deed::Claim(t, gpus) => {
            let claim = ClaimNodes { tenant: name(t), ask: ask(gpus), constraints: constraints(t) };
            books.act(&claim, call).map(drop)
        }
        Deed::Prepare(t) => books.act(&PrepareNodes { tenant: name(t) }, call),
        Deed::Quarantine(t, nth) => {
            let held = books.find::<NodeAllocation>(name(t).as_str());
            let unfit =
                held.iter().flat_map(|held| held.nodes.keys()).nth(nth).into_iter().cloned().collect();
            books.act(&QuarantineNodes { tenant: name(t), unfit }, call).map(drop)
        }
        Deed::Replace(t, gpus) => {
            let claim = ClaimReplacements { tenant: name(t), ask: ask(gpus), constraints: constraints(t) };
            books.act(&claim, call).map(drop)
        }
        Deed::Release(t) => books.act(&ReleaseClaim { tenant: name(t) }, call).map(drop),
        Deed::SetQuota(t, gpus) => {
            let limits = QuotaLimits { nominal: Gpus(gpus), ..QuotaLimits::default() };
            let limits = [("default".parse().unwrap(), limits)].into();
            let model = "H100".parse().unwrap();
            register(books, t, call);
            books.act(&SetQuotas { tenant: name(t), model, limits, overcommit: false }, call)
        }
        Deed::ClearQuota(t) => {
            books.act(&ClearQuotas { tenant: name(t), workspaces: vec!["default".parse().unwrap()] }, call)
        }
        Deed::Retire(t, nth) => retire(books, t, nth),
    }
}

/// In service, drained, being wiped: three documents, as an offboarding writes them.
fn retire(books: &mut Books, tenant: u8, nth: usize) -> Result<(), ActionError> {
    let held = books.find::<NodeAllocation>(name(tenant).as_str());
    let Some(id) = held.iter().flat_map(|held| held.nodes.keys()).nth(nth).cloned() else { return Ok(()) };
    books.decide(|view| {
        let node = view.require::<Node>(id.as_str())?;
        let epoch = node.owner_epoch;
        let wiped = node.serve(epoch).and_then(|n| n.drain(epoch)).and_then(|n| n.sanitize(epoch));
        let wiped = wiped.map_err(|e| ActionError::permanent("test.state", e))?;
        view.put(&wiped)
    })
}

/// I-1: at most one owner, and each new owner raises the epoch by one.
fn owners_change_by_epoch(before: &[Node], after: &[Node]) -> Result<(), TestCaseError> {
    let before: BTreeMap<_, _> = before.iter().map(|node| (&node.id, node)).collect();
    for node in after {
        let old = before[&node.id];
        if node.owner == old.owner {
            prop_assert_eq!(
                node.owner_epoch,
                old.owner_epoch,
                "the epoch of {} rose without a new owner",
                node.id
            );
        } else {
            prop_assert_eq!(node.owner_epoch, old.owner_epoch.next(), "{} has another owner", node.id);
            prop_assert!(node.owner.is_none() || old.owner.is_none(), "{} changed owners directly", node.id);
        }
        let owned = !matches!(node.state, NodeState::Free | NodeState::Validating | NodeState::Discovered);
        prop_assert_eq!(node.owner.is_some(), owned, "{} is {:?}", node.id, node.state);
    }
    Ok(())
}

/// I-10: the list of free GPUs is complete and correct, so GPUs in transit cannot be placed.
fn pools_list_what_is_free(books: &Books) -> Result<(), TestCaseError> {
    let nodes = books.all::<Node>();
    let free: BTreeSet<_> =
        nodes.iter().filter(|n| n.state == NodeState::Free).map(|n| n.id.clone()).collect();
    let chunks = books.all::<FreePoolChunk>();
    let listed: BTreeSet<_> = chunks.iter().flat_map(|chunk| chunk.free.keys().cloned()).collect();
    prop_assert_eq!(listed, free);
    for pool in books.all::<FreePool>() {
        for (number, count) in (0..).zip(&pool.chunks) {
            let key = FreePoolChunk::key(&pool.cluster, &pool.model, number);
            let chunk = chunks.iter().find(|chunk| engine::Entity::id(*chunk) == key).unwrap();
            prop_assert_eq!(count.free_nodes as usize, chunk.free.len());
            prop_assert_eq!(count.free_gpus, chunk.free.values().copied().sum::<Gpus>());
        }
    }
    Ok(())
}

/// I-3: the allocation of a tenant equals the nodes that it owns.
fn holdings_agree_with_nodes(books: &Books) -> Result<(), TestCaseError> {
    let nodes: BTreeMap<_, _> = books.all::<Node>().into_iter().map(|node| (node.id.clone(), node)).collect();
    let mut seen = BTreeSet::new();
    for holding in books.all::<NodeAllocation>() {
        for (id, held) in &holding.nodes {
            let node = &nodes[id];
            prop_assert_eq!(node.owner.as_ref(), Some(&holding.tenant));
            prop_assert_eq!(node.owner_epoch, held.epoch);
            prop_assert_eq!(&node.cluster, &holding.cluster, "all nodes of a claim are in one cluster");
            prop_assert!(seen.insert(id.clone()), "{} is allocated twice", id);
        }
    }
    Ok(())
}

/// I-22, and the clusters that a tenant may use.
fn nodes_lie_where_their_owners_may_be(books: &Books) -> Result<(), TestCaseError> {
    let regions: BTreeMap<_, _> =
        books.all::<Region>().into_iter().map(|region| (region.id.clone(), region)).collect();
    for node in books.all::<Node>() {
        let Some(owner) = &node.owner else { continue };
        let number: u8 = owner.as_str().trim_start_matches("tenant-").parse().unwrap();
        let law = &regions[&node.region].jurisdiction;
        prop_assert!(constraints(number).residency.allows(law), "{} of {} is under {}", node.id, owner, law);
        prop_assert_eq!(number == 4, node.cluster.as_str() == "own-1", "{} of {}", node.id, owner);
    }
    Ok(())
}

fn run() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(tests::cases(128))]

    #[test]
    fn no_sequence_of_claims_and_releases_breaks_the_ledger(history in deeds()) {
        let executions = run().block_on(Executions::new());
        let mut books = fleet();
        for (deed, crashes) in &history {
            let tenant = match deed {
                Deed::Claim(t, _) | Deed::Prepare(t) | Deed::Quarantine(t, _) | Deed::Replace(t, _) => t,
                Deed::Release(t) | Deed::SetQuota(t, _) | Deed::ClearQuota(t) | Deed::Retire(t, _) => t,
            };
            let (before, call) = (books.all::<Node>(), executions.call(*tenant));
            if *crashes {
                // The process dies between decision and commit: the same decision again, from the same documents.
                let _lost = carry_out(&mut books.clone(), deed, &call);
            }
            let quota_of = |books: &Books| books.find::<Quota>(&format!("{}/default", name(*tenant)));
            let quota_before = quota_of(&books);
            let done = carry_out(&mut books, deed, &call);
            owners_change_by_epoch(&before, &books.all::<Node>())?;
            pools_list_what_is_free(&books)?;
            holdings_agree_with_nodes(&books)?;
            nodes_lie_where_their_owners_may_be(&books)?;
            if done.is_err() {
                prop_assert_eq!(&before, &books.all::<Node>(), "a refusal changed something");
            }
            let quota = quota_of(&books);
            if quota != quota_before {
                // I-5: no quota change ever promises more than is owned.
                let owned = books.find::<NodeAllocation>(name(*tenant).as_str()).map(|h| h.owned()).unwrap_or_default();
                let within = |quota: Quota| quota.allowances.values().all(|line| line.nominal <= u64::from(owned.0));
                prop_assert!(quota.is_none_or(within), "{:?} of {}", deed, owned);
            }
        }
    }

    #[test]
    fn of_two_claims_on_the_same_revision_only_one_can_be_committed(a in 1..30_u32, b in 1..30_u32) {
        let executions = run().block_on(Executions::new());
        let mut books = fleet();
        let claim = |t: u8, gpus| ClaimNodes { tenant: name(t), ask: ask(gpus), constraints: constraints(t) };
        let (one, other) = (claim(1, a), claim(3, b));
        let first = books.weigh(|view| engine::LedgerAction::decide(&one, view, &executions.call(1)));
        let second = books.weigh(|view| engine::LedgerAction::decide(&other, view, &executions.call(3)));
        if let (Ok((first, _, puts)), Ok((second, reads, _))) = (first, second) {
            books.apply(puts);
            let nodes = |claim: &NodeClaim| claim.nodes.iter().map(|node| node.node.clone()).collect::<BTreeSet<_>>();
            let overlap = !nodes(&first).is_disjoint(&nodes(&second));
            prop_assert!(!(overlap && books.holds(&reads)), "both claims took a node");
        }
    }
}
