//! The objects of an onboarding, from data that plan and steps share.

use super::{Onboarding, Waits, default_seats};
use crate::{
    ledger::{IssueClusterKey, JoinWaitlist, RegisterTenant, node_preparation::NodePreparation},
    placement::{Constraints, NodeRequest},
    platform::{
        BoughtGpus, Containers, CreateAccount, CreateBucket, CreateCohort, CreateFlavor, CreateNamespace,
        CreateQueue, FlavorQuota, IsolateNetwork, OpenQueue, ProbeIsolation, SetResourceQuota,
    },
    policy::{PolicyRef, WorkspaceTerms, decisions::isolation_probes},
    tenancy::{
        ClusterId, ClusterKind, GpuOffer, GpuSlicing, Gpus, Isolation, Layout, QuotaLimits, WorkspaceName,
        quotas::limit_names,
    },
};
use engine::{Procedure, Rule, Seat};
use std::collections::BTreeMap;

impl Onboarding {
    pub(super) fn ask(&self) -> NodeRequest {
        let bought = &self.request.entitlement;
        NodeRequest { model: bought.gpu_model.clone(), gpus: bought.gpus }
    }

    /// Returns the constraints of the decision; before it, those of the request.
    pub(super) fn constraints(&self) -> Constraints {
        let request = &self.request;
        let plain = || Constraints {
            tenant: request.name.clone(),
            residency: request.tenant.data_residency.clone(),
            regions: request.entitlement.region.clone().map(|region| [region].into()),
            cluster: None,
            isolation: request.tenant.isolation,
            kind: None,
            simulated: None,
            buffer: Gpus::ZERO,
            buffers: BTreeMap::new(),
            drivers: Vec::new(),
            pins: BTreeMap::new(),
            apart: Vec::new(),
        };
        self.terms.as_ref().map_or_else(plain, |terms| terms.constraints.clone())
    }

    pub(super) fn registration(&self) -> RegisterTenant {
        let slicing = self.terms.as_ref().and_then(|terms| terms.slicing.clone());
        RegisterTenant { request: self.request.clone(), policy: self.policy(), slicing }
    }

    /// Returns the pieces of each of the tenant's GPUs: itself, or its slices.
    fn offer(&self) -> GpuOffer {
        let slicing = self.terms.as_ref().and_then(|terms| terms.slicing.as_ref());
        GpuOffer::of(&self.request.entitlement.gpu_model, slicing)
    }

    /// Returns the bought amount, in pieces of [`Self::offer`].
    fn bought(&self) -> Gpus {
        let pieces = self.offer().pieces(self.request.entitlement.gpus);
        Gpus(u32::try_from(pieces).unwrap_or(u32::MAX))
    }

    pub(super) fn policy(&self) -> PolicyRef {
        let none = || PolicyRef { name: String::new(), version: 0, digest: String::new() };
        self.terms.as_ref().map_or_else(none, |terms| terms.policy.clone())
    }

    /// Returns the rule that replaces an approval of a small request.
    pub(super) fn rule(&self) -> Rule {
        let policy = self.policy();
        Rule {
            name: format!("{}/approval.self_service", policy.name),
            version: format!("{} {}", policy.version, policy.digest),
        }
    }

    pub(super) fn seats(&self) -> Vec<Seat> {
        self.terms.as_ref().map_or_else(default_seats, |terms| terms.seats.clone())
    }

    pub(super) fn patience_seats(&self) -> Vec<Seat> {
        self.terms.as_ref().map_or_else(default_seats, |terms| terms.patience_seats.clone())
    }

    pub(super) fn procedure(&self) -> Procedure {
        self.terms.as_ref().map(|terms| terms.procedure.clone()).unwrap_or_default()
    }

    pub(super) fn waits(&self) -> Waits {
        let terms = self.terms.as_ref();
        terms.map_or_else(Waits::default, |terms| {
            Waits::new(terms.approve_within, terms.waitlist, terms.patience)
        })
    }

    pub(super) fn joining(&self) -> JoinWaitlist {
        let (tenant, limit) = (self.request.name.clone(), self.waits().wait);
        JoinWaitlist { tenant, ask: self.ask(), constraints: self.constraints(), limit }
    }

    pub(super) fn overcommit(&self) -> bool {
        self.terms.as_ref().is_some_and(|terms| terms.overcommit)
    }

    pub(super) fn groups(&self) -> Vec<String> {
        vec![format!("{}-admins", self.request.name), format!("{}-members", self.request.name)]
    }

    fn tenant(&self) -> String {
        self.request.name.to_string()
    }

    fn model(&self) -> String {
        self.request.entitlement.gpu_model.to_string()
    }

    /// Returns the claimed cluster; empty in a plan, whose approved part names no cluster.
    fn cluster(&self) -> String {
        self.claim.as_ref().map(|claim| claim.cluster.to_string()).unwrap_or_default()
    }

    fn kind(&self) -> Option<ClusterKind> {
        self.terms.as_ref().and_then(|terms| terms.constraints.kind)
    }

    /// Returns one `T` for a cluster of `kind`, none otherwise.
    fn on<T>(&self, kind: ClusterKind, make: impl FnOnce() -> T) -> Vec<T> {
        if self.kind() == Some(kind) { vec![make()] } else { Vec::new() }
    }

    /// Returns one `T` for each workspace in a Kubernetes cluster.
    fn each<T>(&self, make: impl Fn(&WorkspaceTerms) -> T) -> Vec<T> {
        let terms = self.terms.iter().filter(|_| self.kind() == Some(ClusterKind::Kubernetes));
        terms.flat_map(|terms| &terms.workspaces).map(make).collect()
    }

    pub(super) fn workspace_names(&self) -> Vec<WorkspaceName> {
        self.request.workspaces.iter().map(|workspace| workspace.name.clone()).collect()
    }

    pub(super) fn limits(&self) -> BTreeMap<WorkspaceName, QuotaLimits> {
        let workspaces = self.terms.iter().flat_map(|terms| &terms.workspaces);
        workspaces.map(|workspace| (workspace.name.clone(), workspace.limits.clone())).collect()
    }

    pub(super) fn accounts(&self) -> Vec<CreateAccount> {
        let (bought, offer) = (self.bought(), self.offer());
        let of = |workspace: &WorkspaceTerms| {
            let allowances = workspace.limits.allowances(&offer.kind);
            (workspace.name.to_string(), limit_names::associations(&allowances, bought))
        };
        self.on(ClusterKind::Slurm, || CreateAccount {
            cluster: self.cluster(),
            tenant: self.tenant(),
            associations: self.terms.iter().flat_map(|terms| &terms.workspaces).map(of).collect(),
        })
    }

    pub(super) fn namespaces(&self) -> Vec<CreateNamespace> {
        let Some(terms) = &self.terms else { return Vec::new() };
        let preemption = if terms.preemptible { "allowed" } else { "never" };
        self.each(|workspace| CreateNamespace {
            cluster: self.cluster(),
            tenant: self.tenant(),
            workspace: workspace.name.to_string(),
            labels: BTreeMap::from([
                ("class".into(), <&str>::from(workspace.class).into()),
                ("preemption".into(), preemption.into()),
                ("priority".into(), terms.priority.to_string()),
            ]),
            priority_class: terms.priority_class.clone(),
        })
    }

    /// Returns the preparation of the nodes that are new in the claim.
    pub(super) fn new_nodes(&self) -> NodePreparation<'_> {
        NodePreparation {
            cluster: self.cluster(),
            tenant: &self.request.name,
            nodes: &self.fresh,
            layouts: &self.layouts,
        }
    }

    /// Returns the layout of the GPUs, by its name on nodes.
    pub(super) fn profile(&self) -> String {
        let slicing = self.terms.as_ref().and_then(|terms| terms.slicing.as_ref());
        let layout = self.terms.as_ref().map_or(Layout::Whole, |terms| terms.layout);
        let whole = || layout.profile(&self.request.entitlement.gpu_model).into();
        slicing.map_or_else(whole, GpuSlicing::layout)
    }

    pub(super) fn cohorts(&self) -> Vec<CreateCohort> {
        let resource = self.offer().resource();
        let of = |workspace: &WorkspaceTerms| {
            (limit_names::cohort(&workspace.name, &resource), u64::from(workspace.limits.nominal.0))
        };
        self.on(ClusterKind::Kubernetes, || CreateCohort {
            cluster: self.cluster(),
            tenant: self.tenant(),
            quotas: self.terms.iter().flat_map(|terms| &terms.workspaces).map(of).collect(),
            bought: self.pool().into_iter().collect(),
        })
    }

    /// Returns the bought GPUs, of which the cohort's own quota is the rest. `None` in requests of earlier versions.
    fn pool(&self) -> Option<BoughtGpus> {
        self.cohort_has_pool.then(|| BoughtGpus {
            resource: self.offer().resource().to_string(),
            model: self.model(),
            profile: self.offer().kind.profile.map(Into::into),
            amount: u64::from(self.bought().0),
        })
    }

    pub(super) fn flavors(&self) -> Vec<CreateFlavor> {
        self.on(ClusterKind::Kubernetes, || CreateFlavor {
            cluster: self.cluster(),
            tenant: self.tenant(),
            model: self.model(),
        })
    }

    pub(super) fn queues(&self) -> Vec<CreateQueue> {
        let whole = |gpus: Gpus| u64::from(gpus.0);
        self.each(|workspace| CreateQueue {
            cluster: self.cluster(),
            tenant: self.tenant(),
            workspace: workspace.name.to_string(),
            quotas: vec![FlavorQuota {
                model: self.model(),
                profile: self.offer().kind.profile.map(Into::into),
                nominal: whole(workspace.limits.nominal),
                borrowing_limit: workspace.limits.borrowing_limit.map(whole),
                lending_limit: workspace.limits.lending_limit.map(whole),
            }],
            hold: true,
        })
    }

    pub(super) fn resource_quotas(&self) -> Vec<SetResourceQuota> {
        let (offer, bought) = (self.offer(), self.bought());
        let request = self.terms.as_ref().and_then(|terms| terms.container_request.clone());
        self.each(|workspace| {
            let hard = limit_names::hard(&workspace.limits.allowances(&offer.kind), bought);
            SetResourceQuota {
                cluster: self.cluster(),
                tenant: self.tenant(),
                workspace: workspace.name.to_string(),
                containers: request.clone().map(|request| Containers::within(request, &hard)),
                hard,
            }
        })
    }

    pub(super) fn isolations(&self) -> Vec<IsolateNetwork> {
        let registries = self.terms.as_ref().map(|terms| terms.registries.clone()).unwrap_or_default();
        self.each(|workspace| IsolateNetwork {
            cluster: self.cluster(),
            tenant: self.tenant(),
            workspace: workspace.name.to_string(),
            groups: self.groups(),
            registries: registries.clone(),
        })
    }

    pub(super) fn buckets(&self) -> Vec<CreateBucket> {
        let region = self.claim.as_ref().map(|claim| claim.region.to_string()).unwrap_or_default();
        vec![CreateBucket { tenant: self.tenant(), region }]
    }

    /// Returns the key of a dedicated cluster, valid only there.
    pub(super) fn cluster_keys(&self) -> Vec<IssueClusterKey> {
        match self.request.tenant.isolation {
            Isolation::DedicatedCluster => {
                self.claim.iter().map(|claim| self.key_for(&claim.cluster)).collect()
            }
            Isolation::DedicatedNodes | Isolation::SharedSlices => Vec::new(),
        }
    }

    fn key_for(&self, cluster: &ClusterId) -> IssueClusterKey {
        let (tenant, hash) = (self.request.name.clone(), self.cluster_key_hash.clone());
        IssueClusterKey { cluster: cluster.clone(), tenant, hash }
    }

    /// Returns all six probes for each workspace of a Kubernetes cluster; for other clusters only the probe without a namespace.
    pub(super) fn probes(&self) -> Vec<ProbeIsolation> {
        let probe = |workspace: &WorkspaceName, kind| ProbeIsolation {
            cluster: self.cluster(),
            tenant: self.tenant(),
            workspace: workspace.to_string(),
            kind,
        };
        let Some(kind) = self.kind() else { return Vec::new() };
        let workspaces = match kind {
            ClusterKind::Kubernetes => self.request.workspaces.len(),
            ClusterKind::Slurm | ClusterKind::BareMetal => 1,
        };
        let probes = isolation_probes(kind);
        let each = self.request.workspaces.iter().take(workspaces);
        each.flat_map(|workspace| probes.iter().map(|kind| probe(&workspace.name, *kind))).collect()
    }

    pub(super) fn openings(&self) -> Vec<OpenQueue> {
        self.each(|workspace| OpenQueue {
            cluster: self.cluster(),
            tenant: self.tenant(),
            workspace: workspace.name.to_string(),
        })
    }
}
