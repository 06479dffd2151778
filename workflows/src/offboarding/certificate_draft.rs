//! The draft of the certificate, and the constructor of an offboarding.

use super::Offboarding;
use crate::{
    destruction::{
        HoldScope, RecordedRepair,
        certificate::{
            AssembleCertificate, AssembledCertificate, CertificateDraft, CertificateSignature, Exceptions,
            FormerTenant, LegalBasis, NotChecked, RecordedRequest, Software,
        },
    },
    signing::Moment,
    tenancy::{ClusterKind, TenantId},
};
use engine::Workflow as _;
use store::ExecutionId;

/// Places that are never searched, with the reason. Every certificate lists them.
const NOT_CHECKED: [(&str, &str); 3] = [
    ("copies that the tenant exported or published itself", "they are outside of the platform"),
    (
        "snapshots of the key store that predate the destruction",
        "a restore would bring keys back; a key's record names a day only where its store told one",
    ),
    ("backups of control planes", "no backend looks at them, or knows when they expire"),
];

impl Offboarding {
    /// Returns a new offboarding.
    #[must_use]
    pub fn new(
        tenant: TenantId,
        basis: LegalBasis,
        requested_by: String,
        requested_at: Moment,
        reason: String,
    ) -> Self {
        Self {
            tenant,
            basis,
            requested_by,
            requested_at,
            reason,
            simulated: Vec::new(),
            simulated_places: None,
            remaining: None,
            leaver: None,
            terms: None,
            doors: Vec::new(),
            works_on: false,
            seen: Vec::new(),
            devices: Vec::new(),
            inventory: None,
            assets: 0,
            targets: Vec::new(),
            changed: Vec::new(),
            unsettled: false,
            replaced_plans: 0,
            run: None,
            since: None,
            locked_since: Vec::new(),
            ways_back: std::collections::BTreeMap::new(),
            kept_under: std::collections::BTreeMap::new(),
            shredded: Vec::new(),
            removed: Vec::new(),
            kept: Vec::new(),
            verified: std::collections::BTreeMap::new(),
            look: None,
            remains: Vec::new(),
            repairs: Vec::new(),
            clean: Vec::new(),
            quarantined: std::collections::BTreeMap::new(),
            bytes_at_once: None,
            assembled: None,
            signed: None,
            record_keys: Vec::new(),
        }
    }

    /// Returns the simulated places. For an inventory of an earlier version, returns the simulated capabilities.
    fn simulated(&self) -> Vec<&str> {
        match &self.simulated_places {
            Some(places) => places.iter().map(String::as_str).collect(),
            None => self.simulated.iter().map(String::as_str).collect(),
        }
    }

    /// Converts it to an offboarding of the remains of a closed tenant.
    #[must_use]
    pub fn of_remaining_assets(self) -> Self {
        Self { remaining: Some(super::RemainingAssets::default()), ..self }
    }

    /// Returns the repairs of this execution, as its certificate lists them.
    fn recorded_repairs(&self, run: ExecutionId) -> impl Iterator<Item = RecordedRepair> {
        self.repairs.iter().map(move |made| RecordedRepair::new(made, run))
    }

    /// Returns the action that assembles the certificate.
    pub(super) fn assembly(&self, exceptions: Exceptions) -> AssembleCertificate {
        AssembleCertificate {
            draft: self.draft(),
            exceptions,
            schema: Self::SCHEMA,
            kept_for: self.certificate_kept(),
            bytes_at_once: self.bytes_at_once,
        }
    }

    pub(super) fn assembled(&mut self, assembled: AssembledCertificate) {
        self.assembled = Some(assembled);
    }

    /// Returns true if the pages of the certificate do not list all assets yet.
    pub(super) fn pages_missing(&self) -> bool {
        self.assembled.as_ref().is_some_and(|assembled| assembled.missing > 0)
    }

    pub(super) fn signed(&mut self, signed: CertificateSignature) {
        self.signed = Some(signed);
    }

    pub(in crate::offboarding) fn draft(&self) -> CertificateDraft {
        let (tenant, leaver) = (self.tenant.clone(), self.leaver.as_ref());
        let not_checked =
            NOT_CHECKED.map(|(location, why)| NotChecked { location: location.into(), why: why.into() });
        let mut not_checked = not_checked.to_vec();
        let simulated = self.simulated();
        if !simulated.is_empty() {
            let why = "simulated: nothing that is real was destroyed there, or looked at";
            let location = format!("the platform ({})", simulated.join(", "));
            not_checked.insert(0, NotChecked { location, why: why.into() });
        }
        if leaver.is_some_and(|leaver| leaver.kind == ClusterKind::Slurm) {
            let why = "Slurm keeps names of accounts, users and jobs in its accounting after the account is removed";
            not_checked.push(NotChecked { location: "accounting of Slurm".into(), why: why.into() });
        }
        CertificateDraft {
            tombstone: FormerTenant {
                tenant,
                onboarded_by: leaver.map(|leaver| leaver.onboarded_by),
                onboarded_at: leaver.map(|leaver| leaver.onboarded_at),
            },
            scope: HoldScope::Tenant,
            legal_basis: self.basis.clone(),
            request: RecordedRequest {
                by: self.requested_by.clone(),
                at: self.requested_at,
                reason: self.reason.clone(),
            },
            approvals: Vec::new(),
            retained: Vec::new(),
            not_checked,
            policies: self.terms.iter().map(|terms| terms.policy.clone()).collect(),
            software: Software { name: "tenure".into(), version: env!("CARGO_PKG_VERSION").into() },
            audit_head: None,
            issuer: "the operator of this Tenure".into(),
            repairs: self.run.iter().flat_map(|run| self.recorded_repairs(*run)).collect(),
            supplements: self.remaining.as_ref().and_then(|remaining| remaining.supplements.clone()),
        }
    }
}
