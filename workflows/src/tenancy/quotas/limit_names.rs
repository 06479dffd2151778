//! The name and the unit of each limit in each layer of a platform.

use crate::tenancy::{Allowance, Gpus, Resource, WorkspaceName};
use std::collections::BTreeMap;
use store::CompositeKey;

/// The default request of a container by resource: one core and 4 GiB, enough for a small service.
pub const REQUEST: [(&str, u64); 2] = [("cpu", 1), ("memory", 4 << 30)];

/// The hard limit of whole GPUs, as Kubernetes names it.
const WHOLE_GPUS: &str = "requests.nvidia.com/gpu";

/// Returns the hard limits of a namespace by their Kubernetes names. `bought` limits borrowing. A workspace with slices gets zero whole GPUs, because
/// Kubernetes does not limit a resource that a quota does not name.
#[must_use]
pub fn hard(allowances: &BTreeMap<Resource, Allowance>, bought: Gpus) -> BTreeMap<String, u64> {
    let has_slices =
        allowances.keys().any(|resource| matches!(resource, Resource::Gpu(kind) if kind.profile.is_some()));
    let whole = has_slices.then(|| (WHOLE_GPUS.to_owned(), 0));
    let lines =
        allowances.iter().map(|(resource, line)| (hard_name(resource), amount(resource, line, bought)));
    whole.into_iter().chain(lines).collect()
}

/// Returns the `GrpTRES` of a Slurm association.
#[must_use]
pub fn associations(allowances: &BTreeMap<Resource, Allowance>, bought: Gpus) -> BTreeMap<String, u64> {
    let named = allowances.iter().filter_map(|(resource, line)| {
        Some((association_name(resource)?, association_amount(resource, line, bought)))
    });
    named.collect()
}

/// Returns the Kubernetes name of the hard limit of a resource.
#[must_use]
pub fn hard_name(resource: &Resource) -> String {
    match resource {
        Resource::Gpu(kind) => match &kind.profile {
            None => WHOLE_GPUS.into(),
            Some(profile) => format!("requests.nvidia.com/mig-{profile}"),
        },
        Resource::CpuMilli => "requests.cpu".into(),
        Resource::MemoryMib => "requests.memory".into(),
        Resource::StorageGib => "requests.storage".into(),
        Resource::Pods => "pods".into(),
    }
}

/// Returns the Slurm name of a trackable resource; `None` if Slurm does not count it.
#[must_use]
pub fn association_name(resource: &Resource) -> Option<String> {
    match resource {
        Resource::Gpu(kind) => Some(format!("gres/gpu:{}", kind.to_string().to_ascii_lowercase())),
        Resource::CpuMilli => Some("cpu".into()),
        Resource::MemoryMib => Some("mem".into()),
        Resource::Pods => Some("jobs".into()),
        Resource::StorageGib => None,
    }
}

/// Returns the name of a workspace's entry in the record of its tenant's cohort.
#[must_use]
pub fn cohort(workspace: &WorkspaceName, resource: &Resource) -> String {
    CompositeKey::of(&[&workspace]).tail(resource).into()
}

/// Returns the most that may be used at once, in Kubernetes' unit: whole cores, bytes, or GPUs. GPUs include the borrowing limit, but at most the bought
/// amount, unless an approved exception raised the quota itself above it.
#[must_use]
pub fn amount(resource: &Resource, line: &Allowance, bought: Gpus) -> u64 {
    match resource {
        Resource::Gpu(_) => most(line, bought),
        Resource::CpuMilli => line.nominal.div_ceil(1_000),
        Resource::MemoryMib => line.nominal.saturating_mul(1 << 20),
        Resource::StorageGib => line.nominal.saturating_mul(1 << 30),
        Resource::Pods => line.nominal,
    }
}

/// Same as `amount`, in Slurm's unit: memory in MiB.
#[must_use]
pub fn association_amount(resource: &Resource, line: &Allowance, bought: Gpus) -> u64 {
    match resource {
        Resource::MemoryMib => line.nominal,
        Resource::Gpu(_) | Resource::CpuMilli | Resource::StorageGib | Resource::Pods => {
            amount(resource, line, bought)
        }
    }
}

fn most(line: &Allowance, bought: Gpus) -> u64 {
    let bought = u64::from(bought.0).max(line.nominal);
    line.borrowing_limit.map_or(bought, |more| line.nominal.saturating_add(more).min(bought))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::GpuKind;

    fn limits(kind: &str) -> BTreeMap<String, u64> {
        let line = Allowance { nominal: 14, ..Allowance::default() };
        hard(&[(Resource::Gpu(kind.parse::<GpuKind>().unwrap()), line)].into(), Gpus(14))
    }

    #[test]
    fn a_tenant_with_slices_can_have_no_whole_gpu() {
        let sliced = limits("H100/1g.10gb");
        assert_eq!(sliced.get("requests.nvidia.com/mig-1g.10gb"), Some(&14));
        assert_eq!(sliced.get(WHOLE_GPUS), Some(&0), "what a quota leaves out is not limited");
        assert_eq!(limits("H100"), [(WHOLE_GPUS.to_owned(), 14)].into());
    }
}
