//! The remains of a closed tenant, and the terms of their offboarding.
//!
//! Invariant: the list has the resources that the last check of the tenant found and that no certificate retains for now. A resource without a
//! certificate is an orphan in the inventory, so that an operator must classify it before anything is destroyed.

use super::{LeavingCheck, LeavingTenant, OffboardingTerms};
use crate::{
    destruction::{
        Asset, ClosedTenantLook, RemainsStanding, Scan,
        certificate::{CertificateRef, StoredCertificate},
        holds_of,
    },
    ledger::codes,
    offboarding::{Offboarding, RemainingAsset, RemainingAssets, assets},
    platform::{ObservedResource, TenantResource},
    policy,
    signing::Moment,
    tenancy::{
        Cluster, GpuModel, Node, NodeAllocation, NodeId, NodeState, OwnerEpoch, Tenant, TenantId, TenantState,
    },
};
use engine::{ActionError, DAY, SECOND, Undecided, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

impl RemainingAssets {
    /// Returns the found resources as assets. A certificate that lists a resource counts as its record.
    pub(in crate::offboarding) fn assets<'a>(
        &'a self,
        tenant: &'a TenantId,
        surveyed: &'a [ObservedResource],
        at: Moment,
    ) -> impl Iterator<Item = Asset> + 'a {
        self.assets.iter().map(move |it| {
            let (kind, usual) = assets::kind_of(&it.thing);
            // A resource in the current survey has its own unique id there.
            let is_surveyed = surveyed.iter().any(|seen| seen.thing == it.thing);
            let records = it.certified.then_some(Scan::Records);
            Asset {
                serial: (!is_surveyed).then(|| it.uid.clone()),
                discovered_by: records.into_iter().chain([Scan::Live]).collect(),
                ..Asset::from_scan(tenant, kind, &it.thing.to_string(), it.class.or(usual), Scan::Live, at)
            }
        })
    }
}

impl Offboarding {
    /// Returns the time for which the tenant may export its data. The remains of a closed tenant cannot be exported.
    pub(in crate::offboarding) fn export_window(&self) -> Duration {
        if self.remaining.is_some() {
            return SECOND;
        }
        self.terms.as_ref().map_or(30 * DAY, |terms| terms.export_window)
    }

    /// Returns the resources that an earlier certificate of the tenant retains for now.
    pub(in crate::offboarding) fn kept_before(&self) -> Vec<TenantResource> {
        self.remaining.as_ref().map(|remaining| remaining.kept.clone()).unwrap_or_default()
    }
}

/// Reads the records of a closed tenant with remains.
///
/// # Errors
/// `tenant.not_active` if it is not closed, has no certificate, or has no remains; or a read error of the view.
pub(in crate::offboarding) fn check_remaining(
    view: &mut View,
    id: &TenantId,
) -> Result<LeavingCheck, Undecided> {
    let refused = |why: String| Undecided::from(ActionError::permanent(codes::TENANT_NOT_ACTIVE, why));
    let Some(tenant) = view.get::<Tenant>(id.as_str())? else {
        return Err(refused(format!("tenant {id} does not exist")));
    };
    if tenant.state != TenantState::Closed {
        let state: &str = tenant.state.into();
        return Err(refused(format!(
            "tenant {id} is {state}, not closed: use an offboarding without `remaining`, which covers all of it"
        )));
    }
    let Some(first) = first_certificate(view, id)? else {
        return Err(refused(format!("tenant {id} has no signed certificate to supplement")));
    };
    let look = view.get::<ClosedTenantLook>(id.as_str())?;
    let nodes = quarantined(view, id)?;
    let remaining = remaining(&tenant, first, look.as_ref());
    if remaining.assets.is_empty() && nodes.is_empty() {
        let look = look.map_or_else(
            || format!("closed tenant {id} was not checked yet: run `tenure sweep run drift`"),
            |look| look.describe(),
        );
        return Err(refused(format!("nothing remains to offboard: {look}")));
    }
    let policy = policy::in_force(view)?;
    let terms = OffboardingTerms::from_policy(&policy, tenant.tier);
    let leaver = leaver(view, tenant, nodes)?;
    Ok(LeavingCheck { leaver, terms, remaining: Some(remaining) })
}

/// Returns the first signed certificate of the tenant.
fn first_certificate(view: &mut View, id: &TenantId) -> Result<Option<CertificateRef>, Undecided> {
    for pivot in holds_of(view, id)?.pivots {
        let kept = view.get::<StoredCertificate>(&pivot.run.to_string())?;
        if let Some(kept) = kept.filter(|kept| kept.signature.is_some()) {
            return Ok(Some(kept.supplements.clone().unwrap_or_else(|| kept.reference())));
        }
    }
    Ok(None)
}

/// Returns the quarantined nodes that the tenant still owns, each with its epoch and its number of GPUs.
fn quarantined(view: &mut View, id: &TenantId) -> Result<BTreeMap<NodeId, (OwnerEpoch, u64)>, Undecided> {
    let holding = view.get::<NodeAllocation>(id.as_str())?;
    let ids: BTreeSet<NodeId> = holding.map(|holding| holding.quarantined).unwrap_or_default();
    view.prefetch::<Node>(ids.iter().map(ToString::to_string))?;
    let mut nodes = BTreeMap::new();
    for node in ids {
        let Some(found) = view.get::<Node>(node.as_str())? else { continue };
        if found.state == NodeState::Quarantined && found.owner.as_ref() == Some(id) {
            nodes.insert(node, (found.owner_epoch, u64::from(found.gpu.count.0)));
        }
    }
    Ok(nodes)
}

fn remaining(tenant: &Tenant, first: CertificateRef, look: Option<&ClosedTenantLook>) -> RemainingAssets {
    let (mut remaining, mut kept) = (Vec::new(), Vec::new());
    for seen in look.iter().flat_map(|look| &look.remains) {
        match seen.standing {
            RemainsStanding::Returned | RemainsStanding::RetentionOver | RemainsStanding::Excepted => {
                remaining.push(RemainingAsset {
                    thing: seen.thing.clone(),
                    uid: seen.uid.clone(),
                    class: seen.class,
                    certified: seen.certified,
                });
            }
            RemainsStanding::Retained => kept.push(seen.thing.clone()),
            // Nodes and their parts come from the ledger.
            RemainsStanding::Quarantined => {}
        }
    }
    let closed_at = tenant.closed_at.map(Moment::from);
    RemainingAssets { supplements: Some(first), closed_at, assets: remaining, kept }
}

fn leaver(
    view: &mut View,
    tenant: Tenant,
    nodes: BTreeMap<NodeId, (OwnerEpoch, u64)>,
) -> Result<LeavingTenant, Undecided> {
    let refused = |why: String| Undecided::from(ActionError::permanent(codes::TENANT_NOT_ACTIVE, why));
    let Some(id) = &tenant.cluster else {
        return Err(refused(format!("tenant {} never had a cluster", tenant.id)));
    };
    let Some(cluster) = view.get::<Cluster>(id.as_str())? else {
        return Err(refused(format!(
            "cluster {id} of tenant {} is not in the fleet: import it again",
            tenant.id
        )));
    };
    let holding = view.get::<NodeAllocation>(tenant.id.as_str())?;
    // If the tenant has no nodes, no step reads the model.
    let model = match holding {
        Some(holding) => holding.model,
        None => "none".parse::<GpuModel>().map_err(|error| refused(error.to_string()))?,
    };
    let simulated = cluster.is_simulated();
    Ok(LeavingTenant {
        tenant: tenant.id,
        cluster: cluster.id,
        region: cluster.region,
        kind: cluster.kind,
        model,
        workspaces: tenant.workspaces,
        nodes,
        onboarded_by: tenant.onboarded_by,
        onboarded_at: tenant.created_at.into(),
        compliance: tenant.compliance,
        simulated,
    })
}
