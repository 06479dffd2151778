//! The tenancy model and the ledger's actions, over random histories.

use engine::{ActionError, Call};
use proptest::{collection::vec, prelude::*};
use std::collections::{BTreeMap, BTreeSet};
use store::{ExecutionId, Sequence};
use tests::books::{Books, Executions, rows};
use workflows::{
    ledger::*,
    placement::{Ask, Constraints},
    tenancy::*,
};

const SITES: &str = "
regions:
  - {id: eu-west, jurisdiction: eu, buffer_gpus: 4}
  - {id: de-south, jurisdiction: de}
  - {id: us-east, jurisdiction: us}
clusters:
  - {id: west-1, region: eu-west}
  - {id: south-1, region: de-south}
  - {id: east-1, region: us-east}
  - {id: own-1, region: eu-west, tenancy: dedicated}
";

fn fleet() -> Books {
    let mixed = format!("{}{}{}", rows("w8", 4, 8, "H100"), rows("w2", 3, 2, "H100"), rows("wt", 3, 2, "T4"));
    Books::with_fleet(
        SITES,
        &[
            ("west-1", "eu-west", &mixed),
            ("south-1", "de-south", &rows("s", 3, 4, "H100")),
            ("east-1", "us-east", &rows("e", 6, 8, "H100")),
            ("own-1", "eu-west", &rows("o", 2, 8, "H100")),
        ],
    )
}

fn name(tenant: u8) -> TenantId {
    format!("tenant-{tenant}").parse().unwrap()
}

/// Odd tenants stay in the EU; tenant 4 has a cluster of its own.
fn constraints(tenant: u8) -> Constraints {
    let residency =
        if tenant % 2 == 1 { Residency::Within(["eu".parse().unwrap()].into()) } else { Residency::Any };
    Constraints {
        tenant: name(tenant),
        residency,
        regions: None,
        cluster: None,
        isolation: if tenant == 4 { Isolation::DedicatedCluster } else { Isolation::DedicatedNodes },
        kind: None,
        simulated: None,
        buffer: Gpus::ZERO,
        buffers: BTreeMap::new(),
        drivers: vec!["550".into()],
        pins: BTreeMap::new(),
    }
}

fn ask(gpus: u32) -> Ask {
    Ask { model: "H100".parse().unwrap(), gpus: Gpus(gpus) }
}

/// What can happen to a tenant, by number.
#[derive(Clone, Debug)]
enum Deed {
    Claim(u8, u32),
    Prepare(u8),
    Quarantine(u8, usize),
    Replace(u8, u32),
    Release(u8),
    SetQuota(u8, u32),
    ClearQuota(u8),
    /// Its node `n` is taken out of service and wiped, as offboarding will do.
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

/// Does a deed; `Err` is a refusal, which is as good an answer.
fn carry_out(books: &mut Books, deed: &Deed, call: &Call) -> Result<(), ActionError> {
    match *deed {
        Deed::Claim(t, gpus) => {
            let claim = ClaimNodes { tenant: name(t), ask: ask(gpus), constraints: constraints(t) };
            books.act(&claim, call).map(drop)
        }
        Deed::Prepare(t) => books.act(&PrepareNodes { tenant: name(t) }, call),
        Deed::Quarantine(t, nth) => {
            let held = books.find::<Holding>(name(t).as_str());
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
            let limits = Limits { nominal: Gpus(gpus), ..Limits::default() };
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

fn register(books: &mut Books, tenant: u8, call: &Call) {
    let request = format!(
        "{{name: {}, tenant: {{tier: research, isolation: dedicated, data_residency: any, allow_preemption: true, \
         allow_gpu_sharing: false}}, entitlement: {{gpu_model: H100, gpus: 20}}}}",
        name(tenant)
    );
    let request = workflows::policy::Request::from_yaml(&request).unwrap();
    let policy = workflows::policy::PlatformPolicy::built_in().unwrap().reference;
    books.act(&RegisterTenant { request, policy }, call).unwrap();
}

/// In service, drained, being wiped: three documents written as offboarding will write them.
fn retire(books: &mut Books, tenant: u8, nth: usize) -> Result<(), ActionError> {
    let held = books.find::<Holding>(name(tenant).as_str());
    let Some(id) = held.iter().flat_map(|held| held.nodes.keys()).nth(nth).cloned() else { return Ok(()) };
    books.decide(|view| {
        let node = view.need::<Node>(id.as_str())?;
        let epoch = node.owner_epoch;
        let wiped = node.serve(epoch).and_then(|n| n.drain(epoch)).and_then(|n| n.sanitize(epoch));
        let wiped = wiped.map_err(|e| ActionError::permanent("test.state", e))?;
        view.put(&wiped)
    })
}

/// I-1: one owner at most, and none changes without the epoch rising by one.
fn owners_change_by_epoch(before: &[Node], after: &[Node]) -> Result<(), TestCaseError> {
    let before: BTreeMap<_, _> = before.iter().map(|node| (&node.id, node)).collect();
    for node in after {
        let old = before[&node.id];
        if node.owner == old.owner {
            prop_assert_eq!(node.owner_epoch, old.owner_epoch, "the epoch of {} rose for nothing", node.id);
        } else {
            prop_assert_eq!(node.owner_epoch, old.owner_epoch.next(), "{} changed hands", node.id);
            prop_assert!(node.owner.is_none() || old.owner.is_none(), "{} went from hand to hand", node.id);
        }
        let owned = !matches!(node.state, NodeState::Free | NodeState::Validating | NodeState::Discovered);
        prop_assert_eq!(node.owner.is_some(), owned, "{} is {:?}", node.id, node.state);
    }
    Ok(())
}

/// I-10: what is listed as free is free, all of it, and counted right; so nothing in transit can be placed.
fn pools_list_what_is_free(books: &Books) -> Result<(), TestCaseError> {
    let nodes = books.all::<Node>();
    let free: BTreeSet<_> =
        nodes.iter().filter(|n| n.state == NodeState::Free).map(|n| n.id.clone()).collect();
    let chunks = books.all::<Chunk>();
    let listed: BTreeSet<_> = chunks.iter().flat_map(|chunk| chunk.free.keys().cloned()).collect();
    prop_assert_eq!(listed, free);
    for pool in books.all::<Pool>() {
        for (number, count) in (0..).zip(&pool.chunks) {
            let key = Chunk::key(&pool.cluster, &pool.model, number);
            let chunk = chunks.iter().find(|chunk| engine::Entity::id(*chunk) == key).unwrap();
            prop_assert_eq!(count.free_nodes as usize, chunk.free.len());
            prop_assert_eq!(count.free_gpus, chunk.free.values().copied().sum::<Gpus>());
        }
    }
    Ok(())
}

/// I-3: everything a tenant holds is its own, and nothing else is.
fn holdings_agree_with_nodes(books: &Books) -> Result<(), TestCaseError> {
    let nodes: BTreeMap<_, _> = books.all::<Node>().into_iter().map(|node| (node.id.clone(), node)).collect();
    let mut seen = BTreeSet::new();
    for holding in books.all::<Holding>() {
        for (id, held) in &holding.nodes {
            let node = &nodes[id];
            prop_assert_eq!(node.owner.as_ref(), Some(&holding.tenant));
            prop_assert_eq!(node.owner_epoch, held.epoch);
            prop_assert_eq!(&node.cluster, &holding.cluster, "a claim lies in one cluster");
            prop_assert!(seen.insert(id.clone()), "{} is held twice", id);
        }
    }
    Ok(())
}

/// I-22, and who may be in which cluster.
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
    fn no_history_of_claims_and_releases_breaks_the_books(history in deeds()) {
        let executions = run().block_on(Executions::new());
        let mut books = fleet();
        for (deed, crashes) in &history {
            let tenant = match deed {
                Deed::Claim(t, _) | Deed::Prepare(t) | Deed::Quarantine(t, _) | Deed::Replace(t, _) => t,
                Deed::Release(t) | Deed::SetQuota(t, _) | Deed::ClearQuota(t) | Deed::Retire(t, _) => t,
            };
            let (before, call) = (books.all::<Node>(), executions.call(*tenant));
            if *crashes {
                // Decided, and the process died before the commit: the same again, from the same documents.
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
                // I-5: no change of quotas ever leaves more promised than is owned.
                let owned = books.find::<Holding>(name(*tenant).as_str()).map(|h| h.owned()).unwrap_or_default();
                let within = |quota: Quota| quota.allowances.values().all(|line| line.nominal <= u64::from(owned.0));
                prop_assert!(quota.is_none_or(within), "{:?} of {}", deed, owned);
            }
        }
    }

    #[test]
    fn of_two_claims_decided_on_the_same_books_only_one_can_be_committed(a in 1..30_u32, b in 1..30_u32) {
        let executions = run().block_on(Executions::new());
        let mut books = fleet();
        let claim = |t: u8, gpus| ClaimNodes { tenant: name(t), ask: ask(gpus), constraints: constraints(t) };
        let (one, other) = (claim(1, a), claim(3, b));
        let first = books.weigh(|view| engine::LedgerAction::decide(&one, view, &executions.call(1)));
        let second = books.weigh(|view| engine::LedgerAction::decide(&other, view, &executions.call(3)));
        if let (Ok((first, _, puts)), Ok((second, reads, _))) = (first, second) {
            books.apply(puts);
            let nodes = |claim: &Claim| claim.nodes.iter().map(|node| node.node.clone()).collect::<BTreeSet<_>>();
            let overlap = !nodes(&first).is_disjoint(&nodes(&second));
            prop_assert!(!(overlap && books.holds(&reads)), "both claims took a node");
        }
    }
}

#[tokio::test]
async fn the_same_execution_claims_once_however_often_it_asks() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let claim = ClaimNodes { tenant: name(1), ask: ask(8), constraints: constraints(1) };

    let first = books.act(&claim, &executions.call(1)).unwrap();
    let again = books.act(&claim, &executions.call(1)).unwrap();
    let other = books.act(&claim, &executions.call(2)).unwrap_err();

    assert_eq!(first, again);
    assert_eq!(other.code, "claim.exists");
}

#[tokio::test]
async fn too_little_capacity_is_said_by_cluster() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let claim = ClaimNodes { tenant: name(1), ask: ask(64), constraints: constraints(1) };

    let short = books.act(&claim, &executions.call(1)).unwrap_err();

    assert_eq!(short.code, "capacity.short");
    assert!(short.message.contains("south-1 12, west-1 38"), "{short}");
}

#[tokio::test]
async fn a_node_in_service_is_not_freed_by_an_undo() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let call = executions.call(1);
    let claim = ClaimNodes { tenant: name(1), ask: ask(8), constraints: constraints(1) };
    let claim = books.act(&claim, &call).unwrap();
    register(&mut books, 1, &call);
    books.act(&PrepareNodes { tenant: name(1) }, &call).unwrap();
    books.act(&ActivateTenant { tenant: name(1) }, &call).unwrap();

    let refused = books.act(&ReleaseClaim { tenant: name(1) }, &call).unwrap_err();

    assert_eq!(refused.code, "node.state");
    let node = books.find::<Node>(claim.nodes[0].node.as_str()).unwrap();
    assert_eq!((node.state, node.owner), (NodeState::InService, Some(name(1))));
}

#[tokio::test]
async fn a_driver_that_is_not_allowed_keeps_a_node_from_being_claimed() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let claim = ClaimNodes { tenant: name(1), ask: ask(8), constraints: constraints(1) };
    let chosen = books.clone().act(&claim, &executions.call(1)).unwrap().nodes[0].node.clone();
    books
        .decide(|view| {
            let node = view.need::<Node>(chosen.as_str())?;
            view.put(&Node { driver_version: Some("470.82".into()), ..node })
        })
        .unwrap();

    let other = books.act(&claim, &executions.call(1)).unwrap();

    assert_ne!(other.nodes[0].node, chosen);
}

#[tokio::test]
async fn the_oldest_waiter_that_would_find_enough_is_woken() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let limit = std::time::Duration::from_secs(60);
    let west = |t: u8| Constraints { regions: Some(["eu-west".parse().unwrap()].into()), ..constraints(t) };
    for (t, gpus) in [(1, 500), (2, 30), (3, 4)] {
        books.now.0 += 1_000;
        let join = JoinWaitlist { tenant: name(t), ask: ask(gpus), constraints: west(t), limit };
        assert!(!books.act(&join, &executions.call(t)).unwrap().overdue);
        assert!(!books.act(&join, &executions.call(t)).unwrap().overdue, "joining twice keeps the place");
    }
    let (region, model) = ("eu-west".parse().unwrap(), "H100".parse().unwrap());

    assert_eq!(books.decide(|v| waiting(v, &region, &model)).unwrap(), Some(executions.call(2).execution));
    let claim = ClaimNodes { tenant: name(2), ask: ask(30), constraints: west(2) };
    books.act(&claim, &executions.call(2)).unwrap();
    assert_eq!(books.decide(|v| waiting(v, &region, &model)).unwrap(), Some(executions.call(3).execution));

    books.now.0 += 60_000;
    let join = JoinWaitlist { tenant: name(3), ask: ask(4), constraints: west(3), limit };
    assert!(books.act(&join, &executions.call(3)).unwrap().overdue);
    books.act(&ExtendWait { ask: ask(4), constraints: west(3), by: limit }, &executions.call(3)).unwrap();
    assert!(!books.act(&join, &executions.call(3)).unwrap().overdue);
}

#[tokio::test]
async fn a_name_in_use_is_refused_and_freed_by_the_undo() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    register(&mut books, 1, &executions.call(1));
    let request = "{name: tenant-1, tenant: {tier: research, isolation: dedicated, data_residency: any, \
                   allow_preemption: true, allow_gpu_sharing: false}, entitlement: {gpu_model: H100, gpus: 20}}";
    let request = workflows::policy::Request::from_yaml(request).unwrap();
    let policy = workflows::policy::PlatformPolicy::built_in().unwrap().reference;
    let rival = RegisterTenant { request, policy };

    assert_eq!(books.act(&rival, &executions.call(2)).unwrap_err().code, "tenant.name_taken");
    books.act(&UnregisterTenant { tenant: name(1) }, &executions.call(2)).unwrap();
    assert_eq!(books.act(&rival, &executions.call(2)).unwrap_err().code, "tenant.name_taken");
    books.act(&UnregisterTenant { tenant: name(1) }, &executions.call(1)).unwrap();
    assert!(books.all::<Workspace>().is_empty() && books.all::<Entitlement>().is_empty());
    books.act(&rival, &executions.call(2)).unwrap();
    assert_eq!(books.all::<Workspace>()[0].name.as_str(), "default");
}

#[tokio::test]
async fn of_two_quota_increases_that_together_exceed_what_is_owned_one_wins() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let call = executions.call(1);
    let request = "{name: tenant-1, tenant: {tier: research, isolation: dedicated, data_residency: any, \
                   allow_preemption: true, allow_gpu_sharing: false}, entitlement: {gpu_model: H100, gpus: 8}, \
                   workspaces: [{name: a, class: dev}, {name: b, class: dev}]}";
    let request = workflows::policy::Request::from_yaml(request).unwrap();
    let policy = workflows::policy::PlatformPolicy::built_in().unwrap().reference;
    books.act(&RegisterTenant { request, policy }, &call).unwrap();
    books.act(&ClaimNodes { tenant: name(1), ask: ask(8), constraints: constraints(1) }, &call).unwrap();
    let set = |workspace: &str| {
        let limits = Limits { nominal: Gpus(5), ..Limits::default() };
        let limits = [(workspace.parse().unwrap(), limits)].into();
        SetQuotas { tenant: name(1), model: "H100".parse().unwrap(), limits, overcommit: false }
    };
    let decide = |books: &Books, workspace| {
        books.weigh(|view| engine::LedgerAction::decide(&set(workspace), view, &call)).unwrap()
    };

    let ((), _, puts) = decide(&books, "a");
    let ((), reads, _) = decide(&books, "b");
    books.apply(puts);

    assert!(!books.holds(&reads), "the second was decided on books that no longer stand");
    assert_eq!(books.act(&set("b"), &call).unwrap_err().code, "quota.over_owned");
}

#[tokio::test]
async fn a_cluster_key_is_issued_once_and_revoked_alone() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let call = executions.call(1);
    let key = |cluster: &str, tenant| IssueClusterKey {
        cluster: cluster.parse().unwrap(),
        tenant: name(tenant),
        hash: Some("ab".into()),
    };
    assert_eq!(books.act(&key("own-1", 4), &call).unwrap().version, 1);
    assert_eq!(books.act(&key("own-1", 4), &call).unwrap().version, 1);
    assert_eq!(books.act(&key("own-1", 3), &call).unwrap_err().code, "cluster_key.taken");
    books.act(&key("west-1", 3), &call).unwrap();

    let revoke = RevokeClusterKey { cluster: "own-1".parse().unwrap(), tenant: name(4) };
    books.act(&revoke, &call).unwrap();

    assert!(books.find::<ClusterKey>("own-1").unwrap().revoked_at.is_some());
    assert!(books.find::<ClusterKey>("west-1").unwrap().revoked_at.is_none());
    assert_eq!(books.act(&key("own-1", 3), &call).unwrap().version, 2);
}

#[test]
fn a_late_epoch_changes_nothing() {
    let books = fleet();
    let node = books.all::<Node>().into_iter().next().unwrap();
    let by = ExecutionId::from_bytes([1; 16]);
    let claimed = node.claim(&name(1), by, node.owner_epoch).unwrap();

    let late = claimed.unclaim(node.owner_epoch).unwrap_err();

    assert!(late.to_string().contains("at owner epoch 1, not 0"), "{late}");
    assert!(claimed.claim(&name(2), by, claimed.owner_epoch).unwrap_err().to_string().contains("is claimed"));
    assert_eq!(Sequence(0), Sequence::default());
}
