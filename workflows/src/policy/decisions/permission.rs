//! Decides which workloads may run.

use super::{ReasonCollector, Ruling};
use crate::{
    policy::{Judgement, Multitenancy, PlatformPolicy, Ratio, RuleName},
    tenancy::{GpuModel, Isolation, RegionId, WorkloadClass, WorkspaceClass},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A workload that requests GPUs, with its workspace and tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PermissionFacts {
    /// The isolation level of the tenant.
    pub isolation: Isolation,
    /// True if the tenant's workloads may be preempted.
    pub allow_preemption: bool,
    /// True if the tenant's workspaces may share one GPU.
    pub allow_gpu_sharing: bool,
    /// The groups that share the tenant.
    #[serde(default)]
    pub multitenancy: Option<Multitenancy>,
    /// The workspace's class.
    pub class: WorkspaceClass,
    /// The class of the workload.
    pub workload: WorkloadClass,
    /// True if this workload may be preempted.
    #[serde(default = "yes")]
    pub preemptible: bool,
    /// The GPU model.
    pub model: GpuModel,
    /// The number of GPUs or slices. A fraction of a whole GPU is rejected with an alternative.
    pub count: Ratio,
    /// The sharing of the GPUs.
    #[serde(default)]
    pub sharing: Sharing,
    /// True if GPUs of the tenant are already partitioned into these slices. Then they exist, even if the catalogue does not list them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_cut: bool,
    /// True if it runs on borrowed GPUs.
    #[serde(default)]
    pub borrows: bool,
    /// The class of the lending workspace; `None` without a lender.
    #[serde(default)]
    pub lender: Option<WorkspaceClass>,
    /// The region.
    pub region: RegionId,
}

fn yes() -> bool {
    true
}

/// The sharing of GPUs by a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Whole GPUs, not shared (S-52).
    #[default]
    Full,
    /// Slices of this profile, isolated by hardware.
    Mig(String),
    /// Time slices of one GPU, without isolation (S-51).
    TimeSliced {
        /// True if another workspace shares it too.
        others: bool,
    },
}

/// The permission to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Allowed.
    Allowed,
    /// Refused.
    Refused {
        /// An alternative request, if there is one.
        instead: Option<String>,
    },
}

/// Decides if a workload may run. A permitted borrower still needs a lender.
#[must_use]
pub fn decide_permission(facts: &PermissionFacts, policy: &PlatformPolicy) -> Ruling<Permission> {
    let mut scales = ReasonCollector::new(policy);
    let instead = amount(facts, &mut scales);
    sharing(facts, &mut scales);
    customers(facts, &mut scales);
    if facts.borrows {
        borrowing(facts, &mut scales);
    }
    let answer = if scales.failed() { Permission::Refused { instead } } else { Permission::Allowed };
    scales.finish(answer)
}

/// S-49, S-50: GPUs are whole, and slices have a profile of the model.
fn amount(facts: &PermissionFacts, scales: &mut ReasonCollector<'_>) -> Option<String> {
    let key = format!("gpu_models.{}.mig", facts.model);
    let catalogue = &scales.policy.gpu_models;
    let whole = facts.count.thousandths.is_multiple_of(1_000) && facts.count.thousandths > 0;
    let (known, mut instead) = (catalogue.get(&facts.model), None);
    match &facts.sharing {
        Sharing::Mig(profile) => {
            let has = facts.already_cut || catalogue.has_profile(&facts.model, profile);
            let all = known.iter().flat_map(|model| &model.mig).map(|profile| profile.name.as_str());
            let all: Vec<&str> = all.collect();
            let detail = if all.is_empty() {
                format!("{} cannot be sliced in hardware", facts.model)
            } else {
                format!("profile {profile} of {}; it has {}", facts.model, all.join(", "))
            };
            scales.check(const { RuleName::known("gpu_models.mig_profile") }, &key, has && whole, detail);
        }
        Sharing::Full | Sharing::TimeSliced { .. } => {
            if !whole {
                let part = f64::from(facts.count.thousandths) / 1_000.0;
                instead = Some(catalogue.advice(&facts.model, part).unwrap_or_else(|| {
                    format!(
                        "{} has no slices: request time slices of a whole GPU (`time_sliced`)",
                        facts.model
                    )
                }));
            }
            let detail = format!("{} GPUs of {}; only whole GPUs can be requested", facts.count, facts.model);
            scales.check(const { RuleName::known("gpu_models.whole") }, &key, whole, detail);
        }
    }
    instead
}

/// S-45, S-51, S-52: workspaces share one GPU only if the tenant allows it.
fn sharing(facts: &PermissionFacts, scales: &mut ReasonCollector<'_>) {
    let consent = facts.allow_gpu_sharing && facts.isolation == Isolation::SharedSlices;
    let (holds, detail) = match &facts.sharing {
        Sharing::Full => (true, "whole GPUs are not shared"),
        Sharing::Mig(_) => (consent, "slices of one GPU belong to several workspaces: both must allow it"),
        Sharing::TimeSliced { others: false } => (true, "time slices within one workspace need no isolation"),
        Sharing::TimeSliced { others: true } => {
            (consent, "time slices isolate neither memory nor faults: both workspaces must allow it")
        }
    };
    let verdict = if holds { Judgement::Passed } else { Judgement::Failed };
    scales.note(const { RuleName::known("sharing.consent") }, "lending.customer_sharing", verdict, detail);
}

/// S-46, S-107: customers of a tenant share nothing, and get memory with error correction.
fn customers(facts: &PermissionFacts, scales: &mut ReasonCollector<'_>) {
    if facts.multitenancy != Some(Multitenancy::Customer) {
        return;
    }
    let shares = facts.sharing != Sharing::Full || facts.borrows;
    let allowed = scales.policy.lending.customer_sharing || !shares;
    let detail = "customers of a tenant may not share GPUs or borrow from each other";
    scales.check(
        const { RuleName::known("multitenancy.sharing") },
        "lending.customer_sharing",
        allowed,
        detail,
    );
    let ecc = scales.policy.gpu_models.get(&facts.model).is_some_and(|model| model.ecc);
    let key = format!("gpu_models.{}.ecc", facts.model);
    scales.check(
        const { RuleName::known("gpu_models.ecc") },
        &key,
        ecc,
        format!("memory of {} must correct errors", facts.model),
    );
}

/// A borrowing workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Borrower {
    /// True if the workload may be preempted.
    pub preemptible: bool,
    /// True if the tenant's workloads may be preempted.
    pub allow_preemption: bool,
    /// The class of the workspace.
    pub class: WorkspaceClass,
    /// The class of the workload.
    pub workload: WorkloadClass,
}

/// The reason why a workload may not borrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BorrowRefusal {
    /// It may not be preempted.
    NotPreemptible,
    /// No workload of its tenant may be preempted.
    NoPreemption,
    /// The class of its workspace may not borrow.
    Class,
    /// The class of the workload may not borrow.
    Workload,
}

/// Returns every reason why a workload may not borrow, given the permitted classes. Admission passes the rules that it has resolved; [`decide_permission`]
/// passes those of a policy.
#[must_use]
pub fn borrow_refusals(
    borrower: &Borrower,
    classes: &BTreeSet<WorkspaceClass>,
    workloads: &BTreeSet<WorkloadClass>,
) -> Vec<BorrowRefusal> {
    let all = [
        (!borrower.preemptible, BorrowRefusal::NotPreemptible),
        (!borrower.allow_preemption, BorrowRefusal::NoPreemption),
        (!classes.contains(&borrower.class), BorrowRefusal::Class),
        (!workloads.contains(&borrower.workload), BorrowRefusal::Workload),
    ];
    all.into_iter().filter_map(|(refused, why)| refused.then_some(why)).collect()
}

/// S-14, S-59, S-62: decides which workloads may run on borrowed GPUs.
fn borrowing(facts: &PermissionFacts, scales: &mut ReasonCollector<'_>) {
    let lending = &scales.policy.lending;
    let (class, workload) = (<&str>::from(facts.class), <&str>::from(facts.workload));
    let PermissionFacts { preemptible, allow_preemption, .. } = *facts;
    let borrower = Borrower { preemptible, allow_preemption, class: facts.class, workload: facts.workload };
    let refusals = borrow_refusals(&borrower, &lending.classes, &lending.workloads);
    let (by_class, by_workload) =
        (!refusals.contains(&BorrowRefusal::Class), !refusals.contains(&BorrowRefusal::Workload));
    let apart = facts.lender.and_then(|lender| {
        lending.anti_colocate.iter().position(|pair| pair.forbids(&facts.region, lender, facts.class))
    });
    let barred = [BorrowRefusal::NotPreemptible, BorrowRefusal::NoPreemption];
    let recallable = !barred.iter().any(|barred| refusals.contains(barred));
    let detail =
        "a workload that may not be preempted cannot borrow, because its GPUs could not be reclaimed";
    scales.check(const { RuleName::known("lending.preemptible") }, "lending", recallable, detail);
    scales.check(
        const { RuleName::known("lending.class") },
        "lending.classes",
        by_class,
        format!("the class of the workspace is {class}"),
    );
    scales.check(
        const { RuleName::known("lending.workload") },
        "lending.workloads",
        by_workload,
        format!("the class of the workload is {workload}"),
    );
    let key = apart.map_or("lending.anti_colocate".to_owned(), |n| format!("lending.anti_colocate[{n}]"));
    let lender = facts.lender.map_or("nobody", Into::into);
    let detail = format!("{class} on GPUs of {lender} in {}", facts.region);
    scales.check(const { RuleName::known("lending.anti_colocate") }, &key, apart.is_none(), detail);
}
