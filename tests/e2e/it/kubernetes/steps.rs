//! The actions of an onboarding on a cluster, as pairs of actions and undos, run without an engine.

use super::server::{PATIENCE, World};
use backends::{
    kubernetes::KubernetesTarget,
    simulated::{LocalWorld, simulated_platform},
};
use engine::{ActionError, Class};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::Epoch;
use tests::actions::{calls::Calls, pairs::Deed};
use workflows::{platform::*, tenancy::Tier};

pub const CLUSTER: &str = "eu-1";
pub const WORKSPACE: &str = "prod";
pub const NODE: &str = "gpu-1";
/// The priority class of the tests' tenants.
pub const CLASS: &str = "tenure-research-100";

/// An action and its undo, and the name of their step.
pub struct Pair {
    pub step: &'static str,
    pub act: Box<dyn Deed>,
    pub undo: Box<dyn Deed>,
}

fn pair(step: &'static str, act: impl Deed + 'static, undo: impl Deed + 'static) -> Pair {
    Pair { step, act: Box::new(act), undo: Box::new(undo) }
}

/// The namespace of the tests' workspace.
pub fn namespace(tenant: &str) -> String {
    workspace_name(tenant, WORKSPACE).unwrap()
}

/// Returns all actions of an onboarding on a Kubernetes cluster, in their order.
pub fn onboarding(tenant: &str, owner_epoch: u64) -> Vec<Pair> {
    let (c, t, w) = (|| CLUSTER.to_owned(), || tenant.to_owned(), || WORKSPACE.to_owned());
    let model = || "H100".to_owned();
    let node = || NODE.to_owned();
    let labels = [("class", "batch"), ("preemption", "allowed"), ("priority", "100")];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let quotas = vec![FlavorQuota {
        model: model(),
        profile: None,
        nominal: 8,
        borrowing_limit: Some(4),
        lending_limit: None,
    }];
    vec![
        pair(
            "namespace",
            CreateNamespace {
                cluster: c(),
                tenant: t(),
                workspace: w(),
                labels,
                priority_class: Some(PriorityClass::new(Tier::Research, 100)),
            },
            DeleteNamespace { cluster: c(), tenant: t(), workspace: w() },
        ),
        pair(
            "node",
            TakeNode { cluster: c(), node: node(), tenant: t(), owner_epoch },
            ReturnNode { cluster: c(), node: node(), tenant: t(), owner_epoch },
        ),
        pair(
            "cohort",
            CreateCohort {
                cluster: c(),
                tenant: t(),
                quotas: [("prod/gpu/H100".to_owned(), 8)].into(),
                bought: Vec::new(),
            },
            DeleteCohort { cluster: c(), tenant: t() },
        ),
        pair(
            "flavor",
            CreateFlavor { cluster: c(), tenant: t(), model: model() },
            DeleteFlavor { cluster: c(), tenant: t(), model: model() },
        ),
        pair(
            "queue",
            CreateQueue { cluster: c(), tenant: t(), workspace: w(), quotas, hold: true },
            DeleteQueue { cluster: c(), tenant: t(), workspace: w() },
        ),
        pair(
            "quota",
            SetResourceQuota {
                cluster: c(),
                tenant: t(),
                workspace: w(),
                hard: hard(),
                containers: Some(Containers::within(
                    [("cpu".to_owned(), 1), ("memory".to_owned(), 4 << 30)].into(),
                    &hard(),
                )),
            },
            ClearResourceQuota { cluster: c(), tenant: t(), workspace: w(), containers: true },
        ),
        pair(
            "isolation",
            IsolateNetwork {
                cluster: c(),
                tenant: t(),
                workspace: w(),
                groups: vec![format!("{tenant}-admins"), format!("{tenant}-members")],
                registries: vec!["registry.example/acme".to_owned()],
            },
            RestoreNetwork { cluster: c(), tenant: t(), workspace: w() },
        ),
        pair(
            "opening",
            OpenQueue { cluster: c(), tenant: t(), workspace: w() },
            HoldQueue { cluster: c(), tenant: t(), workspace: w() },
        ),
    ]
}

/// The hard limits of the tests' workspace.
pub fn hard() -> BTreeMap<String, u64> {
    [("requests.nvidia.com/gpu".to_owned(), 8), ("requests.cpu".to_owned(), 2000)].into()
}

/// A platform with real clusters, and everything else simulated.
pub struct Stage {
    pub on: Platform,
    calls: Calls,
    epoch: u64,
}

impl Stage {
    pub async fn new(world: &World) -> Self {
        Self::with(&world.target()).await
    }

    pub async fn with(target: &KubernetesTarget) -> Self {
        let cluster = backends::kubernetes::KubernetesCluster::connect(target).await.unwrap();
        let cluster = Arc::new(cluster.called(CLUSTER));
        let mut on = simulated_platform(Arc::new(LocalWorld::new()));
        (on.kubernetes, on.tenant_resources) = (cluster.clone(), cluster);
        Self { on, calls: Calls::new().await, epoch: 100 }
    }

    /// Returns the metadata of a step's call.
    pub fn stamp(&self, step: &str, epoch: u64) -> CallMetadata {
        let call = self.calls.at(step, false, epoch);
        CallMetadata {
            action: "Test",
            step: call.key(),
            key: call.key(),
            epoch: Epoch(epoch),
            undo: false,
            deadline: Duration::from_secs(10),
            dry_run: false,
        }
    }

    /// Makes one attempt.
    pub async fn once(&self, deed: &dyn Deed, step: &str, undo: bool) -> Result<(), ActionError> {
        deed.run(&self.on, &self.calls.at(step, undo, self.epoch)).await.map(drop)
    }

    /// Retries as an engine does, after transient failures and unknown outcomes, until the action is done.
    pub async fn done(&self, deed: &dyn Deed, step: &str, undo: bool) {
        let mut last = None;
        let ended = tokio::time::timeout(PATIENCE, async {
            loop {
                match self.once(deed, step, undo).await {
                    Ok(()) => return,
                    Err(error) if error.class == Class::Permanent => {
                        panic!("{step} (undo {undo}): {error}")
                    }
                    Err(error) => last = Some(error),
                }
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
        });
        if ended.await.is_err() {
            panic!("{step} (undo {undo}) is not done within {PATIENCE:?}: {last:?}");
        }
    }

    /// Runs all pairs, in order.
    pub async fn onboard(&self, pairs: &[Pair]) {
        for Pair { step, act, .. } in pairs {
            self.done(act.as_ref(), step, false).await;
        }
    }

    /// Undoes all pairs, the last first.
    pub async fn roll_back(&self, pairs: &[Pair]) {
        for Pair { step, undo, .. } in pairs.iter().rev() {
            self.done(undo.as_ref(), step, true).await;
        }
    }
}
