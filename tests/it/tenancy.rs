//! The tenancy model and the ledger's actions.

mod histories;

use engine::Call;
use std::collections::BTreeMap;
use store::{ExecutionId, Sequence};
use tests::books::{Books, Executions, rows};
use workflows::{
    ledger::*,
    placement::{Constraints, NodeRequest},
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

/// Odd tenants stay in the EU; tenant 4 has a dedicated cluster.
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

fn ask(gpus: u32) -> NodeRequest {
    NodeRequest { model: "H100".parse().unwrap(), gpus: Gpus(gpus) }
}

fn register(books: &mut Books, tenant: u8, call: &Call) {
    let request = format!(
        "{{name: {}, tenant: {{tier: research, isolation: dedicated, data_residency: any, allow_preemption: true, \
         allow_gpu_sharing: false}}, entitlement: {{gpu_model: H100, gpus: 20}}}}",
        name(tenant)
    );
    let request = workflows::policy::OnboardingRequest::from_yaml(&request).unwrap();
    let policy = workflows::policy::PlatformPolicy::built_in().unwrap().reference;
    books.act(&RegisterTenant { request, policy, slicing: None }, call).unwrap();
}

#[tokio::test]
async fn an_execution_claims_its_nodes_once_however_often_it_repeats_the_call() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let claim = ClaimNodes { tenant: name(1), ask: ask(8), constraints: constraints(1) };

    let first = books.act(&claim, &executions.call(1)).unwrap();
    let again = books.act(&claim, &executions.call(1)).unwrap();
    let other = books.act(&claim, &executions.call(2)).unwrap_err();

    assert_eq!(first, again);
    assert_eq!(other.code, "claim.exists");
}

#[tokio::test]
async fn missing_capacity_is_reported_by_cluster() {
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
async fn a_node_with_a_forbidden_driver_cannot_be_claimed() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let claim = ClaimNodes { tenant: name(1), ask: ask(8), constraints: constraints(1) };
    let chosen = books.clone().act(&claim, &executions.call(1)).unwrap().nodes[0].node.clone();
    books
        .decide(|view| {
            let node = view.require::<Node>(chosen.as_str())?;
            view.put(&Node { driver_version: Some("470.82".into()), ..node })
        })
        .unwrap();

    let other = books.act(&claim, &executions.call(1)).unwrap();

    assert_ne!(other.nodes[0].node, chosen);
}

#[tokio::test]
async fn the_oldest_waiting_execution_that_fits_is_woken() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let limit = std::time::Duration::from_secs(60);
    let west = |t: u8| Constraints { regions: Some(["eu-west".parse().unwrap()].into()), ..constraints(t) };
    for (t, gpus) in [(1, 500), (2, 30), (3, 4)] {
        books.now.0 += 1_000;
        let join = JoinWaitlist { tenant: name(t), ask: ask(gpus), constraints: west(t), limit };
        assert!(!books.act(&join, &executions.call(t)).unwrap().overdue);
        assert!(
            !books.act(&join, &executions.call(t)).unwrap().overdue,
            "a repeated request keeps its place"
        );
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
    let request = workflows::policy::OnboardingRequest::from_yaml(request).unwrap();
    let policy = workflows::policy::PlatformPolicy::built_in().unwrap().reference;
    let rival = RegisterTenant { request, policy, slicing: None };

    assert_eq!(books.act(&rival, &executions.call(2)).unwrap_err().code, "tenant.name_taken");
    books.act(&UnregisterTenant { tenant: name(1) }, &executions.call(2)).unwrap();
    assert_eq!(books.act(&rival, &executions.call(2)).unwrap_err().code, "tenant.name_taken");
    books.act(&UnregisterTenant { tenant: name(1) }, &executions.call(1)).unwrap();
    assert!(books.all::<Workspace>().is_empty() && books.all::<Entitlement>().is_empty());
    books.act(&rival, &executions.call(2)).unwrap();
    assert_eq!(books.all::<Workspace>()[0].name.as_str(), "default");
}

#[tokio::test]
async fn of_two_quota_increases_that_together_exceed_the_owned_amount_one_succeeds() {
    let (mut books, executions) = (fleet(), Executions::new().await);
    let call = executions.call(1);
    let request = "{name: tenant-1, tenant: {tier: research, isolation: dedicated, data_residency: any, \
                   allow_preemption: true, allow_gpu_sharing: false}, entitlement: {gpu_model: H100, gpus: 8}, \
                   workspaces: [{name: a, class: dev}, {name: b, class: dev}]}";
    let request = workflows::policy::OnboardingRequest::from_yaml(request).unwrap();
    let policy = workflows::policy::PlatformPolicy::built_in().unwrap().reference;
    books.act(&RegisterTenant { request, policy, slicing: None }, &call).unwrap();
    books.act(&ClaimNodes { tenant: name(1), ask: ask(8), constraints: constraints(1) }, &call).unwrap();
    let set = |workspace: &str| {
        let limits = QuotaLimits { nominal: Gpus(5), ..QuotaLimits::default() };
        let limits = [(workspace.parse().unwrap(), limits)].into();
        SetQuotas { tenant: name(1), model: "H100".parse().unwrap(), limits, overcommit: false }
    };
    let decide = |books: &Books, workspace| {
        books.weigh(|view| engine::LedgerAction::decide(&set(workspace), view, &call)).unwrap()
    };

    let ((), _, puts) = decide(&books, "a");
    let ((), reads, _) = decide(&books, "b");
    books.apply(puts);

    assert!(!books.holds(&reads), "the second decision read documents that have changed");
    assert_eq!(books.act(&set("b"), &call).unwrap_err().code, "quota.over_owned");
}

#[tokio::test]
async fn a_cluster_key_is_issued_once_and_can_be_revoked_separately() {
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
