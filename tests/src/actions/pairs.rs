//! Every actuator action with its undo, type-erased for tables.

use engine::{Action, ActionError, Call, Probe};
use serde_json::Value;
use std::{collections::BTreeMap, future::Future, pin::Pin};
use workflows::{
    platform::{Platform, *},
    tenancy::Tier,
};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ActionError>> + Send + 'a>>;

/// A type-erased action.
pub trait Deed: Send + Sync {
    /// Its [`Action::NAME`].
    fn name(&self) -> &'static str;
    /// Runs it.
    fn run<'a>(&'a self, on: &'a Platform, call: &'a Call) -> Answer<'a, Value>;
    /// Probes the outcome.
    fn probe<'a>(&'a self, on: &'a Platform, call: &'a Call) -> Answer<'a, Probe<Value>>;
}

impl<A: Action<Platform = Platform>> Deed for A {
    fn name(&self) -> &'static str {
        A::NAME
    }

    fn run<'a>(&'a self, on: &'a Platform, call: &'a Call) -> Answer<'a, Value> {
        Box::pin(async move { Ok(serde_json::to_value(Action::run(self, on, call).await?).unwrap()) })
    }

    fn probe<'a>(&'a self, on: &'a Platform, call: &'a Call) -> Answer<'a, Probe<Value>> {
        Box::pin(async move {
            Ok(match Action::probe(self, on, call).await? {
                Probe::Done(output) => Probe::Done(serde_json::to_value(output).unwrap()),
                Probe::NotDone => Probe::NotDone,
                Probe::Running => Probe::Running,
                Probe::Gone => Probe::Gone,
                Probe::CannotTell => Probe::CannotTell,
            })
        })
    }
}

/// An action and its undo.
pub struct Pair {
    /// The actions that must run first.
    pub before: Vec<Box<dyn Deed>>,
    /// The action.
    pub act: Box<dyn Deed>,
    /// Its undo.
    pub undo: Box<dyn Deed>,
}

fn pair(act: impl Deed + 'static, undo: impl Deed + 'static) -> Pair {
    Pair { before: vec![], act: Box::new(act), undo: Box::new(undo) }
}

/// All pairs, for one tenant in one cluster.
#[must_use]
pub fn pairs() -> Vec<Pair> {
    let (tenant, cluster, workspace) = ("acme", "eu-1", "prod");
    let mut all = once_per_tenant(tenant);
    all.extend(once_per_workspace(tenant, cluster, workspace));
    all.extend(once_per_workload(tenant, cluster, workspace));
    all.extend(once_per_limit(tenant, cluster, workspace));
    let node = || "openb-node-0007".to_owned();
    let (t, c) = (|| tenant.to_owned(), || cluster.to_owned());
    let hook =
        Hook { name: "dns".into(), tenant: t(), arguments: serde_json::json!({ "zone": "acme.example" }) };
    all.extend([
        pair(RunHook { hook: hook.clone() }, UndoHook { hook }),
        pair(
            CreateAccount { cluster: c(), tenant: t(), associations: BTreeMap::new() },
            DeleteAccount { cluster: c(), tenant: t() },
        ),
        pair(
            CreateCohort { cluster: c(), tenant: t(), quotas: BTreeMap::new(), bought: Vec::new() },
            DeleteCohort { cluster: c(), tenant: t() },
        ),
        pair(
            CreateFlavor { cluster: c(), tenant: t(), model: "A10".into() },
            DeleteFlavor { cluster: c(), tenant: t(), model: "A10".into() },
        ),
        Pair {
            before: vec![Box::new(TakeNode { cluster: c(), node: node(), tenant: t(), owner_epoch: 3 })],
            act: Box::new(CordonNode { cluster: c(), node: node(), tenant: t(), owner_epoch: 3 }),
            undo: Box::new(UncordonNode {
                cluster: c(),
                node: node(),
                tenant: t(),
                owner_epoch: 3,
                by: None,
            }),
        },
        pair(
            TakeNode { cluster: c(), node: node(), tenant: t(), owner_epoch: 3 },
            ReturnNode { cluster: c(), node: node(), tenant: t(), owner_epoch: 3 },
        ),
        pair(
            SetGpuLayout { cluster: c(), node: node(), profile: "all-1g.10gb".into() },
            RestoreGpuLayout { cluster: c(), node: node(), previous: "all-disabled".into() },
        ),
    ]);
    all
}

/// The workload of these tests.
#[must_use]
pub fn workload(tenant: &str, cluster: &str, workspace: &str) -> WorkloadRef {
    WorkloadRef {
        cluster: cluster.to_owned(),
        tenant: tenant.to_owned(),
        workspace: workspace.to_owned(),
        name: "train-1".to_owned(),
    }
}

/// Starts it on two GPUs of a node.
#[must_use]
pub fn start(tenant: &str, cluster: &str, workspace: &str) -> StartWorkload {
    let gpus = [("openb-node-0007".to_owned(), [0, 1].into())].into();
    StartWorkload {
        workload: workload(tenant, cluster, workspace),
        gpus,
        service: true,
        profiles: BTreeMap::new(),
    }
}

fn once_per_workload(tenant: &str, cluster: &str, workspace: &str) -> Vec<Pair> {
    let it = || workload(tenant, cluster, workspace);
    let mut told = pair(NotifyBorrower { workload: it(), at: 1_000 }, WithdrawNotice { workload: it() });
    told.before.push(Box::new(start(tenant, cluster, workspace)));
    let mut drained = pair(DrainService { workload: it() }, RestoreService { workload: it() });
    drained.before.push(Box::new(start(tenant, cluster, workspace)));
    vec![told, drained]
}

/// Returns changes of limits, each on an existing object.
fn once_per_limit(tenant: &str, cluster: &str, workspace: &str) -> Vec<Pair> {
    let (t, c, w) = (|| tenant.to_owned(), || cluster.to_owned(), || workspace.to_owned());
    let one = |key: &str, value: u64| BTreeMap::from([(key.to_owned(), value)]);
    let none = || LimitNames { cluster: c(), tenant: t(), workspace: w(), ..LimitNames::default() };
    let on = |before: Box<dyn Deed>, pair: Pair| Pair { before: vec![before], ..pair };

    let cohort =
        CreateCohort { cluster: c(), tenant: t(), quotas: one("prod/gpu/A10", 8), bought: Vec::new() };
    let of = LimitNames { cohort: Some("prod/gpu/A10".into()), ..none() };
    let cohort_change = ChangeCohortQuota { of, from: Some(8), to: Some(12) };

    let share = |nominal| FlavorQuota {
        model: "A10".into(),
        profile: None,
        nominal,
        borrowing_limit: Some(4),
        lending_limit: None,
    };
    let of = LimitNames { queue: Some("A10".into()), ..none() };
    let queue_change = ChangeQueueQuota { of, from: Some(share(8)), to: Some(share(12)) };

    let gpus = "requests.nvidia.com/gpu";
    let quota =
        SetResourceQuota { cluster: c(), tenant: t(), workspace: w(), hard: one(gpus, 8), containers: None };
    let of = LimitNames { hard: Some(gpus.into()), ..none() };
    let hard_change = ChangeResourceQuota { of, from: Some(8), to: Some(12) };

    let cores = "requests.cpu";
    let limited = || SetResourceQuota {
        cluster: c(),
        tenant: t(),
        workspace: w(),
        hard: one(cores, 8),
        containers: Some(Containers::within(one("cpu", 1), &one(cores, 8))),
    };
    let of = || LimitNames { hard: Some(cores.into()), ..none() };
    let raise = ChangeResourceQuota { of: of(), from: Some(8), to: Some(12) };
    let lower = ChangeResourceQuota { of: of(), from: Some(8), to: Some(4) };

    let associations = BTreeMap::from([(w(), one("gres/gpu:a10", 8))]);
    let account = CreateAccount { cluster: c(), tenant: t(), associations };
    let of = LimitNames { association: Some("gres/gpu:a10".into()), ..none() };
    let association_change = ChangeAssociationLimit { of, from: Some(8), to: Some(12) };

    let labels = |rank: &str| BTreeMap::from([("priority".to_owned(), rank.to_owned())]);
    let class = || Some(PriorityClass::new(Tier::Research, 100));
    let namespace = CreateNamespace {
        cluster: c(),
        tenant: t(),
        workspace: w(),
        labels: labels("100"),
        priority_class: class(),
    };
    let (from, to) = (labels("100"), labels("300"));
    let priority_class = Some(PriorityClass::new(Tier::Enterprise, 300));
    let relabelling =
        ChangeNamespaceLabels { cluster: c(), tenant: t(), workspace: w(), from, to, priority_class };

    vec![
        on(Box::new(cohort), pair(cohort_change.clone(), RestoreCohortQuota { change: cohort_change })),
        on(
            Box::new(queue(tenant, cluster, workspace)),
            pair(queue_change.clone(), RestoreQueueQuota { change: queue_change }),
        ),
        on(Box::new(quota), pair(hard_change.clone(), RestoreResourceQuota { change: hard_change })),
        on(Box::new(limited()), pair(raise.clone(), RestoreResourceQuota { change: raise })),
        on(Box::new(limited()), pair(lower.clone(), RestoreResourceQuota { change: lower })),
        on(
            Box::new(account),
            pair(association_change.clone(), RestoreAssociationLimit { change: association_change }),
        ),
        on(Box::new(namespace), pair(relabelling.clone(), RestoreNamespaceLabels { change: relabelling })),
    ]
}

fn once_per_tenant(tenant: &str) -> Vec<Pair> {
    let t = || tenant.to_owned();
    vec![
        pair(CreateTenantKey { tenant: t() }, DestroyTenantKey { tenant: t() }),
        pair(
            CreateIdentity { tenant: t(), groups: vec!["acme-admins".into()] },
            DeleteIdentity { tenant: t() },
        ),
        pair(
            CreateBucket { tenant: t(), region: "eu".into() },
            DeleteBucket { tenant: t(), region: "eu".into() },
        ),
        pair(PublishCredentials { tenant: t() }, RevokeCredentials { tenant: t() }),
    ]
}

/// The queue of the workspace, closed.
#[must_use]
pub fn queue(tenant: &str, cluster: &str, workspace: &str) -> CreateQueue {
    CreateQueue {
        cluster: cluster.to_owned(),
        tenant: tenant.to_owned(),
        workspace: workspace.to_owned(),
        quotas: vec![FlavorQuota {
            model: "A10".into(),
            profile: None,
            nominal: 8,
            borrowing_limit: Some(4),
            lending_limit: None,
        }],
        hold: true,
    }
}

fn once_per_workspace(tenant: &str, cluster: &str, workspace: &str) -> Vec<Pair> {
    let (t, c, w) = (|| tenant.to_owned(), || cluster.to_owned(), || workspace.to_owned());
    let mut opened = pair(
        OpenQueue { cluster: c(), tenant: t(), workspace: w() },
        HoldQueue { cluster: c(), tenant: t(), workspace: w() },
    );
    opened.before.push(Box::new(queue(tenant, cluster, workspace)));
    vec![
        opened,
        pair(queue(tenant, cluster, workspace), DeleteQueue { cluster: c(), tenant: t(), workspace: w() }),
        pair(
            CreateNamespace {
                cluster: c(),
                tenant: t(),
                workspace: w(),
                labels: [].into(),
                priority_class: Some(PriorityClass::new(Tier::Standard, 200)),
            },
            DeleteNamespace { cluster: c(), tenant: t(), workspace: w() },
        ),
        pair(
            SetResourceQuota {
                cluster: c(),
                tenant: t(),
                workspace: w(),
                hard: [("requests.nvidia.com/gpu".to_owned(), 8)].into(),
                containers: Some(Containers::within([("cpu".to_owned(), 1)].into(), &[].into())),
            },
            ClearResourceQuota { cluster: c(), tenant: t(), workspace: w(), containers: true },
        ),
        pair(
            IsolateNetwork {
                cluster: c(),
                tenant: t(),
                workspace: w(),
                groups: vec!["acme-admins".into()],
                registries: vec!["registry.acme.example".into()],
            },
            RestoreNetwork { cluster: c(), tenant: t(), workspace: w() },
        ),
    ]
}
