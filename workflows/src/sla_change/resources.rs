//! The changes of an SLA change, from data that plan and steps share.

use super::{MeasureSla, SlaChange, SlaWorkspace, State, TightenSla, evaluate::labels};
use crate::{
    onboarding::{Waits, default_seats},
    platform::{
        ChangeCohortQuota, ChangeNamespaceLabels, ChangeQueueQuota, ChangeResourceQuota, DiagnoseNode,
        DiagnosisLevel, KeepLimits, LayerLimits, LimitNames, ReadGpuLayout, ReadLimits, RestoreGpuLayout,
        RestoreQueueQuota, RestoreResourceQuota, SetGpuLayout,
    },
    quota_change::{layer_limits, layer_names},
    tenancy::{ClusterKind, GpuOffer, Gpus},
};
use engine::{Procedure, Seat, Step, act_each};

impl SlaChange {
    pub(super) fn seats(&self) -> Vec<Seat> {
        self.terms.as_ref().map_or_else(default_seats, |terms| terms.seats.clone())
    }

    pub(super) fn patience_seats(&self) -> Vec<Seat> {
        self.seats()
    }

    pub(super) fn procedure(&self) -> Procedure {
        self.terms.as_ref().map(|terms| terms.procedure.clone()).unwrap_or_default()
    }

    pub(super) fn waits(&self) -> Waits {
        let terms = self.terms.as_ref();
        terms
            .map_or_else(Waits::default, |terms| Waits::new(terms.approve_within, terms.wait, terms.patience))
    }

    pub(super) fn tightening(&self) -> TightenSla {
        TightenSla { tenant: self.request.tenant.clone(), terms: self.terms.clone() }
    }

    pub(super) fn measuring(&self) -> MeasureSla {
        MeasureSla { since: self.waiting_since, limit: self.waits().wait }
    }

    fn cluster(&self) -> String {
        self.terms.as_ref().map(|terms| terms.cluster.to_string()).unwrap_or_default()
    }

    fn nodes(&self) -> Vec<String> {
        self.terms.iter().flat_map(|terms| &terms.nodes).map(ToString::to_string).collect()
    }

    pub(super) fn layout_readings(&self) -> Vec<ReadGpuLayout> {
        let reading = |node| ReadGpuLayout { cluster: self.cluster(), node };
        self.nodes().into_iter().map(reading).collect()
    }

    pub(super) fn layout_settings(&self) -> Vec<SetGpuLayout> {
        let profile = self.terms.as_ref().map(super::SlaTerms::layout_name).unwrap_or_default();
        let setting = |node| SetGpuLayout { cluster: self.cluster(), node, profile: profile.clone() };
        self.nodes().into_iter().map(setting).collect()
    }

    /// Returns the undo with the previous layout. A node that was not read was not changed.
    pub(super) fn layout_before(&self, setting: &SetGpuLayout) -> RestoreGpuLayout {
        let place = self.nodes().iter().position(|node| *node == setting.node);
        let previous = place.and_then(|place| self.layouts.get(place)).cloned();
        RestoreGpuLayout {
            cluster: setting.cluster.clone(),
            node: setting.node.clone(),
            previous: previous.unwrap_or_else(|| setting.profile.clone()),
        }
    }

    pub(super) fn diagnoses(&self) -> Vec<DiagnoseNode> {
        let diagnosis = |node| DiagnoseNode { cluster: self.cluster(), node, level: DiagnosisLevel::Medium };
        self.nodes().into_iter().map(diagnosis).collect()
    }

    /// Returns one `T` for each workspace in a Kubernetes cluster. Other clusters store nothing of a service level.
    fn each<T>(&self, make: impl Fn(&SlaWorkspace, usize) -> T) -> Vec<T> {
        let terms = self.terms.iter().filter(|terms| terms.kind == ClusterKind::Kubernetes);
        let workspaces = terms.flat_map(|terms| &terms.workspaces).enumerate();
        workspaces.map(|(place, workspace)| make(workspace, place)).collect()
    }

    /// Same, for each workspace whose limits change.
    fn each_limited<T>(&self, make: impl Fn(&SlaWorkspace, usize) -> T) -> Vec<T> {
        let limited = self
            .each(|workspace, place| (workspace.before != workspace.after).then(|| make(workspace, place)));
        limited.into_iter().flatten().collect()
    }

    /// Returns the names of the tenant's GPUs in the layers, by the current layout.
    fn names(&self, workspace: &SlaWorkspace) -> LimitNames {
        self.names_of(workspace, |(before, _)| before)
    }

    /// Returns their names by the new layout.
    fn target_names(&self, workspace: &SlaWorkspace) -> LimitNames {
        self.names_of(workspace, |(_, after)| after)
    }

    fn names_of(
        &self,
        workspace: &SlaWorkspace,
        which: impl Fn((GpuOffer, GpuOffer)) -> GpuOffer,
    ) -> LimitNames {
        self.terms.as_ref().map_or_else(LimitNames::default, |terms| {
            let resource = which(terms.offers()).resource();
            layer_names(&terms.cluster, terms.kind, &self.request.tenant, &workspace.name, &resource)
        })
    }

    /// Returns the required values of the layers.
    pub(super) fn target_limits(&self, workspace: &SlaWorkspace) -> LayerLimits {
        self.terms.as_ref().map_or_else(LayerLimits::default, |terms| {
            let offer = terms.offers().1;
            let bought = Gpus(u32::try_from(offer.pieces(terms.bought)).unwrap_or(u32::MAX));
            layer_limits(terms.kind, &offer.resource(), &workspace.after, bought)
        })
    }

    /// Returns the previous values of the workspace's layers.
    fn read(&self, place: usize) -> LayerLimits {
        self.limits.get(place).cloned().unwrap_or_default()
    }

    pub(super) fn limit_readings(&self) -> Vec<ReadLimits> {
        self.each(|workspace, _| ReadLimits { of: self.names(workspace) })
    }

    fn queue_changes(&self) -> Vec<ChangeQueueQuota> {
        self.each_limited(|workspace, place| ChangeQueueQuota {
            of: self.names(workspace),
            from: self.read(place).queue,
            to: self.target_limits(workspace).queue,
        })
    }

    fn hard_changes(&self) -> Vec<ChangeResourceQuota> {
        let changes = self.each_limited(|workspace, place| {
            self.lines(workspace, self.read(place).hard, self.target_limits(workspace).hard)
                .map(|(of, from, to)| ChangeResourceQuota { of, from, to })
        });
        changes.into_iter().flatten().collect()
    }

    /// Returns the changes of the cohort's record, which names the kind that quotas count.
    pub(super) fn cohort_changes(&self) -> Vec<ChangeCohortQuota> {
        if !self.terms.as_ref().is_some_and(super::SlaTerms::recuts) {
            return Vec::new();
        }
        let changes = self.each_limited(|workspace, place| {
            self.lines(workspace, self.read(place).cohort, self.target_limits(workspace).cohort)
                .map(|(of, from, to)| ChangeCohortQuota { of, from, to })
        });
        changes.into_iter().flatten().collect()
    }

    /// Returns the entries of a limit in a layer that names the kind: one that changes, or an old one to remove and a new one to add.
    fn lines(
        &self,
        workspace: &SlaWorkspace,
        from: Option<u64>,
        to: Option<u64>,
    ) -> impl Iterator<Item = (LimitNames, Option<u64>, Option<u64>)> + use<> {
        let (old, new) = (self.names(workspace), self.target_names(workspace));
        let lines = if old == new { vec![(old, from, to)] } else { vec![(old, from, None), (new, None, to)] };
        lines.into_iter()
    }

    fn tightens(&self) -> bool {
        self.terms.as_ref().is_some_and(super::SlaTerms::tightens)
    }

    pub(super) fn first_layer(&self, next: State) -> Step<Self> {
        if self.tightens() { self.hard_layer(next) } else { self.queue_layer(next) }
    }

    pub(super) fn second_layer(&self, next: State) -> Step<Self> {
        if self.tightens() { self.queue_layer(next) } else { self.hard_layer(next) }
    }

    fn queue_layer(&self, next: State) -> Step<Self> {
        act_each(self.queue_changes())
            .undo_each(|change| RestoreQueueQuota { change: change.clone() })
            .max_concurrent(1)
            .then(next)
    }

    fn hard_layer(&self, next: State) -> Step<Self> {
        act_each(self.hard_changes())
            .undo_each(|change| RestoreResourceQuota { change: change.clone() })
            .max_concurrent(1)
            .then(next)
    }

    pub(super) fn relabellings(&self) -> Vec<ChangeNamespaceLabels> {
        let Some(terms) = &self.terms else { return Vec::new() };
        let (before, after) = terms.priority;
        let relabelled = self.each(|workspace, _| ChangeNamespaceLabels {
            cluster: self.cluster(),
            tenant: self.request.tenant.to_string(),
            workspace: workspace.name.to_string(),
            from: labels(workspace.class, &terms.before, before),
            to: labels(workspace.class, &terms.after, after),
            priority_class: terms.priority_class.clone(),
        });
        // Two tiers of equal priority have the same labels, but a class each.
        let other = terms.before.tier != terms.after.tier;
        relabelled.into_iter().filter(|change| other || change.from != change.to).collect()
    }

    pub(super) fn keepings(&self) -> Vec<KeepLimits> {
        self.each_limited(|workspace, _| KeepLimits {
            of: self.target_names(workspace),
            limits: self.target_limits(workspace),
        })
    }
}
