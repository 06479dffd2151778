//! I-5: quota changes in any order never promise more than is owned.

use super::stage::gpu;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tests::books::{Books, Executions, rows};
use workflows::{
    ledger::{ActivateTenant, ClaimNodes, PrepareNodes, RegisterTenant, SetQuotas},
    placement::{Constraints, NodeRequest},
    policy::{OnboardingRequest, PolicyRef},
    quota_change::{
        GrantQuota, HoldCapacity, LowerQuota, PrepareHeld, QuarantineHeld, ReleaseCapacity, RestoreQuota,
        SettleDecrease,
    },
    tenancy::*,
};

const SITES: &str = "{regions: [{id: eu, jurisdiction: eu}], clusters: [{id: eu-1, region: eu}]}";
const WORKSPACES: [&str; 2] = ["research", "production"];

/// The next action of one of the executions 2 to 5.
#[derive(Clone, Debug)]
enum Deed {
    Hold(u8, usize, u64),
    Prepare(u8),
    Quarantine(u8),
    Grant(u8),
    Release(u8),
    Lower(u8, usize, u64),
    Restore(u8),
    Settle(u8),
}

fn deeds() -> impl Strategy<Value = Vec<(Deed, bool)>> {
    let by = || 2..6_u8;
    let deed = prop_oneof![
        3 => (by(), 0..2_usize, 1..10_u64).prop_map(|(e, w, n)| Deed::Hold(e, w, n)),
        2 => by().prop_map(Deed::Prepare),
        1 => by().prop_map(Deed::Quarantine),
        3 => by().prop_map(Deed::Grant),
        2 => by().prop_map(Deed::Release),
        3 => (by(), 0..2_usize, 1..6_u64).prop_map(|(e, w, n)| Deed::Lower(e, w, n)),
        2 => by().prop_map(Deed::Restore),
        2 => by().prop_map(Deed::Settle),
    ];
    prop::collection::vec((deed, any::<bool>()), 1..40)
}

fn constraints() -> Constraints {
    Constraints {
        tenant: "acme".parse().unwrap(),
        residency: Residency::Any,
        regions: Some(["eu".parse().unwrap()].into()),
        cluster: Some("eu-1".parse().unwrap()),
        isolation: Isolation::DedicatedNodes,
        kind: None,
        simulated: None,
        buffer: Gpus::ZERO,
        buffers: BTreeMap::new(),
        drivers: vec!["550".into()],
        pins: BTreeMap::new(),
    }
}

/// A tenant in service with 8 GPUs on two nodes and 3 in each workspace's quota; six nodes are free.
fn begin(executions: &Executions) -> Books {
    let mut books = Books::with_fleet(SITES, &[("eu-1", "eu", &rows("n", 8, 4, "H100"))]);
    let text = "{name: acme, tenant: {tier: standard, isolation: dedicated, data_residency: any, allow_preemption: true, \
                allow_gpu_sharing: false}, workspaces: [{name: research, class: research}, {name: production, class: \
                production}], entitlement: {gpu_model: H100, gpus: 8}}";
    let (call, tenant): (_, TenantId) = (executions.call(1), "acme".parse().unwrap());
    let policy = PolicyRef { name: "platform".into(), version: 1, digest: String::new() };
    let request = OnboardingRequest::from_yaml(text).unwrap();
    books.act(&RegisterTenant { request, policy, slicing: None }, &call).unwrap();
    let ask = NodeRequest { model: "H100".parse().unwrap(), gpus: Gpus(8) };
    let claim = ClaimNodes { tenant: tenant.clone(), ask, constraints: constraints() };
    books.act(&claim, &call).unwrap();
    books.act(&PrepareNodes { tenant: tenant.clone() }, &call).unwrap();
    let limits = QuotaLimits { nominal: Gpus(3), ..QuotaLimits::default() };
    let limits = WORKSPACES.map(|name| (name.parse().unwrap(), limits.clone())).into();
    let model = "H100".parse().unwrap();
    books.act(&SetQuotas { tenant: tenant.clone(), model, limits, overcommit: false }, &call).unwrap();
    books.act(&ActivateTenant { tenant }, &call).unwrap();
    books
}

fn line(books: &Books, workspace: &str) -> Allowance {
    books.find::<Quota>(&format!("acme/{workspace}")).unwrap().allowances[&gpu("H100")]
}

/// The input of an execution: stored, since its terms do not change.
type Terms = BTreeMap<u8, (usize, Allowance, Allowance)>;

fn carry_out(books: &mut Books, terms: &mut Terms, deed: &Deed, executions: &Executions) -> bool {
    let tenant: TenantId = "acme".parse().unwrap();
    let (Deed::Hold(by, ..)
    | Deed::Prepare(by)
    | Deed::Quarantine(by)
    | Deed::Grant(by)
    | Deed::Release(by)
    | Deed::Lower(by, ..)
    | Deed::Restore(by)
    | Deed::Settle(by)) = deed;
    let call = executions.call(*by);
    let open = books.find::<Earmarks>("acme").is_some_and(|marks| marks.open.contains_key(&call.execution));
    match deed {
        Deed::Hold(_, place, more) | Deed::Lower(_, place, more) if !open => {
            let before = line(books, WORKSPACES[*place]);
            let nominal = match deed {
                Deed::Hold(..) => before.nominal + more,
                _ => before.nominal.saturating_sub(*more),
            };
            terms.insert(*by, (*place, before, Allowance { nominal, ..before }));
        }
        _ => {}
    }
    let Some((place, before, after)) = terms.get(by).copied() else { return false };
    let (workspace, resource): (WorkspaceName, _) = (WORKSPACES[place].parse().unwrap(), gpu("H100"));
    let up = after.nominal > before.nominal;
    let done = match deed {
        Deed::Hold(..) if up => {
            let (ends, exception, overcommit) = (None, true, false);
            let constraints = constraints();
            let hold = HoldCapacity {
                tenant,
                workspace,
                resource,
                before,
                after,
                ends,
                constraints,
                exception,
                overcommit,
            };
            books.act(&hold, &call).map(drop)
        }
        Deed::Prepare(_) => books.act(&PrepareHeld { tenant }, &call),
        Deed::Quarantine(_) => {
            let marks = books.find::<Earmarks>("acme");
            let mark = marks.as_ref().and_then(|marks| marks.open.get(&call.execution));
            let unfit = mark.and_then(|mark| mark.nodes.keys().next()).cloned();
            books.act(&QuarantineHeld { tenant, unfit: unfit.into_iter().collect() }, &call)
        }
        // As in the workflow: only covered quotas are granted.
        Deed::Grant(_) if up && covered(books, &call) => {
            books.act(&GrantQuota { tenant, workspace, resource, before, after, ends: None }, &call)
        }
        Deed::Release(_) if up => books.act(&ReleaseCapacity { tenant }, &call).map(drop),
        Deed::Lower(..) if !up => {
            books.act(&LowerQuota { tenant, workspace, resource, before, after, ended: false }, &call)
        }
        Deed::Restore(_) if !up => books.act(&RestoreQuota { tenant }, &call),
        Deed::Settle(_) if !up => books.act(&SettleDecrease { tenant }, &call),
        _ => return false,
    };
    done.is_ok()
}

/// Returns true if the nodes of the earmark are ready, and none was removed since they were claimed.
fn covered(books: &Books, call: &engine::Call) -> bool {
    let Some(marks) = books.find::<Earmarks>("acme") else { return false };
    let Some(mark) = marks.open.get(&call.execution) else { return false };
    let ready = mark
        .nodes
        .keys()
        .all(|id| books.find::<Node>(id.as_str()).is_some_and(|node| node.state == NodeState::Provisioning));
    ready && promised(books) <= owned(books)
}

fn owned(books: &Books) -> u64 {
    books.find::<NodeAllocation>("acme").map_or(0, |holding| u64::from(holding.owned().0))
}

fn promised(books: &Books) -> u64 {
    let nominal: u64 = WORKSPACES.iter().map(|workspace| line(books, workspace).nominal).sum();
    nominal + books.find::<Earmarks>("acme").map_or(0, |marks| marks.total(&gpu("H100")))
}

fn run() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(tests::cases(48))]

    #[test]
    fn no_sequence_of_changes_grants_more_quota_than_is_owned(history in deeds()) {
        let executions = run().block_on(Executions::new());
        let mut books = begin(&executions);
        let mut terms = Terms::new();
        for (deed, crashes) in &history {
            if *crashes {
                // The process dies between decision and commit: the same decision again, from the same documents.
                carry_out(&mut books.clone(), &mut terms.clone(), deed, &executions);
            }
            let before = promised(&books).saturating_sub(owned(&books));
            carry_out(&mut books, &mut terms, deed, &executions);
            // Only an unfit node leaves a gap, until it is replaced.
            let unfit = matches!(deed, Deed::Quarantine(_));
            let gap = promised(&books).saturating_sub(owned(&books));
            prop_assert!(unfit || gap <= before, "{:?}: {} promised of {}", deed, promised(&books), owned(&books));

            let nominal: u64 = WORKSPACES.iter().map(|workspace| line(&books, workspace).nominal).sum();
            prop_assert!(nominal <= owned(&books), "{:?}: {} in force of {}", deed, nominal, owned(&books));

            let cohort = books.find::<Cohort>("acme").unwrap();
            for workspace in WORKSPACES {
                let account = &cohort.accounts[&workspace.parse::<WorkspaceName>().unwrap()];
                prop_assert_eq!(account.balances[&gpu("H100")].allowance, line(&books, workspace));
            }
            let marks = books.find::<Earmarks>("acme");
            let claimed: Vec<_> = marks.iter().flat_map(|marks| marks.open.values()).flat_map(|mark| mark.nodes.keys()).collect();
            let held = books.find::<NodeAllocation>("acme").unwrap();
            let all: BTreeSet<_> = claimed.iter().copied().chain(held.nodes.keys()).chain(&held.quarantined).collect();
            prop_assert_eq!(all.len(), claimed.len() + held.nodes.len() + held.quarantined.len(), "a node is listed twice");
            for node in books.all::<Node>() {
                prop_assert_eq!(node.owner.is_some(), all.contains(&node.id), "{} is {:?}", node.id, node.state);
            }
        }
    }
}
