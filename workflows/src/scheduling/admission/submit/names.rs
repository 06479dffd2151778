//! Names at the entry: GPU models as the ledger names them, and workload names that clusters accept.

use crate::{
    policy::{model_named, resource_named},
    scheduling::admission::{codes, unit_of_work::AdmissionTx},
    tenancy::{Amounts, Cluster, ClusterKind, GpuKind, Resource, TenantId},
};
use engine::{ActionError, Undecided, View};

/// Returns the amounts under the canonical names of GPU models. Canonical names stay unchanged.
pub(super) fn canonical(amounts: &Amounts) -> Amounts {
    let named = |(resource, amount): (&Resource, &u64)| {
        let name = resource.to_string().parse().unwrap_or_else(|_| resource.clone());
        (name, *amount)
    };
    amounts.iter().map(named).collect()
}

/// Returns true if both are the same amounts under any names of their GPU models. An alias may be newer than the stored name.
pub(super) fn same_amounts(view: &mut View, one: &Amounts, other: &Amounts) -> Result<bool, Undecided> {
    let (one, other) = (canonical(one), canonical(other));
    Ok(one == other || by_models(view, &one)? == by_models(view, &other)?)
}

/// Returns the amounts by the models behind their names, in order. Two names of one model stay two amounts.
fn by_models(view: &mut View, amounts: &Amounts) -> Result<Vec<(Resource, u64)>, Undecided> {
    let mut named = Vec::new();
    for (resource, amount) in amounts {
        let resource = match resource.gpu() {
            Some(GpuKind { model, profile }) => {
                Resource::Gpu(GpuKind { model: model_named(view, model)?, profile: profile.clone() })
            }
            None => resource.clone(),
        };
        named.push((resource, *amount));
    }
    named.sort();
    Ok(named)
}

/// Returns the amounts by the models behind the aliases of policy. The tenant's own names stay.
pub(super) fn by_aliases(
    view: &mut View,
    tenant: &TenantId,
    amounts: &Amounts,
) -> Result<Amounts, Undecided> {
    let mut requests = Amounts::new();
    for (resource, amount) in amounts {
        let named = resource_named(view, tenant, resource)?;
        if requests.insert(named.clone(), *amount).is_some() {
            let problem = format!("requests: {named} is named twice, once as {resource}: name it once");
            return Err(ActionError::permanent(codes::INVALID, problem).into());
        }
    }
    Ok(requests)
}

/// Returns true if Kubernetes accepts `text` as an object name and a label value (RFC 1123).
fn is_dns_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let ends = text.chars().next().is_some_and(plain) && text.chars().next_back().is_some_and(plain);
    ends && text.len() <= 63 && text.chars().all(|c| plain(c) || c == '-')
}

impl AdmissionTx {
    /// Returns the amounts under the names that the tenant's ledger uses. Nodes that were added before models had canonical names keep their names.
    pub(in crate::scheduling::admission) fn as_named_in_books(&self, requests: Amounts) -> Amounts {
        let own = |resource: Resource| {
            if resource.gpu().is_none() || self.cohort.stock.contains_key(&resource) {
                return resource;
            }
            let same =
                |own: &&Resource| own.to_string().parse::<Resource>().is_ok_and(|name| name == resource);
            let found = self.cohort.stock.keys().find(same).cloned();
            found.unwrap_or(resource)
        };
        requests.into_iter().map(|(resource, amount)| (own(resource), amount)).collect()
    }

    /// Rejects a name that no object of the tenant's cluster can have.
    pub(in crate::scheduling::admission) fn check_name(
        &self,
        view: &mut View,
        name: &str,
    ) -> Result<(), Undecided> {
        let Some(cluster) = self.tenant.cluster.as_ref().filter(|_| !is_dns_label(name)) else {
            return Ok(());
        };
        let kind = view.get::<Cluster>(cluster.as_str())?.map(|cluster| cluster.kind);
        match kind {
            Some(ClusterKind::Kubernetes) => {
                let problem = format!(
                    "name: {name:?} is not valid on Kubernetes cluster {cluster}; use 1 to 63 lower-case letters, digits and '-', with a letter or digit at both ends"
                );
                Err(ActionError::permanent(codes::INVALID, problem).into())
            }
            Some(ClusterKind::Slurm | ClusterKind::BareMetal) | None => Ok(()),
        }
    }
}
