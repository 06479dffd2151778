//! Example offboardings that together use every action: one with an inventory, and a new one.

use super::{LeavingTenant, Offboarding, OffboardingTerms, RemovalTarget, assets};
use crate::{
    destruction::certificate::{CertificateSignature, ErasureBasis, LegalBasis},
    offboarding::node_sanitisation::SanitisationDemands,
    platform::{AccessMode, RemovalFate, Removed, ResourceAdmission, TenantResource},
    policy::{Method, PlatformPolicy, PolicyRef},
    signing::{Digest, Moment, PublicKey, dsse::Signature},
    tenancy::{ClusterKind, OwnerEpoch},
};
use engine::{DAY, HOUR};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};
use store::{ExecutionId, Timestamp};

/// Created once, because the engine needs the examples whenever it rebuilds an undo.
pub(super) fn all() -> Vec<Offboarding> {
    static MADE: OnceLock<Vec<Offboarding>> = OnceLock::new();
    MADE.get_or_init(|| {
        begun().into_iter().flat_map(|begun| [known(&begun), Some(begun)]).flatten().collect()
    })
    .clone()
}

fn begun() -> Option<Offboarding> {
    let basis = LegalBasis { basis: ErasureBasis::ContractEnd, reference: "example".into() };
    let at = Moment::from(Timestamp(0));
    Some(Offboarding::new("example".parse().ok()?, basis, "example".into(), at, "example".into()))
}

fn known(begun: &Offboarding) -> Option<Offboarding> {
    let node = ("node-1".parse().ok()?, (OwnerEpoch(1), 1));
    let leaver = LeavingTenant {
        tenant: begun.tenant.clone(),
        cluster: "eu-1".parse().ok()?,
        region: "eu".parse().ok()?,
        kind: ClusterKind::Kubernetes,
        model: "H100".parse().ok()?,
        workspaces: vec!["default".parse().ok()?],
        nodes: BTreeMap::from([node]),
        onboarded_by: ExecutionId::from_bytes([0; 16]),
        onboarded_at: begun.requested_at,
        compliance: BTreeSet::new(),
        simulated: true,
    };
    let terms = example_terms()?;
    let logs = TenantResource::new("logs", "eu", "Stream", "example-audit");
    let target = |thing: TenantResource| RemovalTarget {
        kind: assets::kind_of(&thing).0,
        keep_until: (thing == logs).then_some(begun.requested_at),
        thing,
        uid: "uid".into(),
        safe: true,
        revivable_until: None,
        can_come_back: BTreeSet::new(),
        locked: None,
        store_keeps_until: None,
        amount: None,
    };
    let things: Vec<TenantResource> = assets::expected(&leaver).into_iter().chain([logs.clone()]).collect();
    let door =
        |thing: &TenantResource| ResourceAdmission { thing: thing.clone(), admits: Some(AccessMode::All) };
    let signature = Signature { keyid: "example".into(), sig: String::new() };
    let signed = |public_key: PublicKey| CertificateSignature { signature, public_key };
    Some(Offboarding {
        doors: things.iter().filter(|thing| thing.kind == "ClusterQueue").map(door).collect(),
        inventory: Some(Digest("example".into())),
        assets: things.len(),
        removed: vec![Removed { thing: logs.clone(), fate: RemovalFate::Gone }],
        targets: things.into_iter().map(target).collect(),
        clean: leaver.nodes.keys().cloned().collect(),
        leaver: Some(leaver),
        terms: Some(terms),
        signed: PublicKey::try_from(EXAMPLE_KEY.to_owned()).ok().map(signed),
        ..begun.clone()
    })
}

fn example_terms() -> Option<OffboardingTerms> {
    Some(OffboardingTerms {
        policy: PolicyRef { name: "example".into(), version: 1, digest: String::new() },
        offboard: PlatformPolicy::built_in().ok()?.approvals.offboard.clone(),
        destroy: PlatformPolicy::built_in().ok()?.approvals.destroy.clone(),
        export_window: 30 * DAY,
        extension: 10 * DAY,
        certificate_kept: None,
        at_once: 8,
        demands: SanitisationDemands {
            drives: Method::Purge,
            gpu_memory: Method::Clear,
            attempts: 2,
            within: DAY,
            drain: HOUR,
        },
        retention: Vec::new(),
    })
}

/// A public key, and nobody's private one.
const EXAMPLE_KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
