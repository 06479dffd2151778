//! The ledger of a destruction: holds, the pivot, the inventory, and the record of each asset.

use crate::{
    destruction::{
        asset::{Asset, AssetId},
        codes,
        inventory::{Inventory, InventoryHead},
        legal_hold::{Hold, HoldError, HoldScope, Holds, Pivot},
        sanitisation::record::{SanitisationOutcome, SanitisationRecord},
    },
    signing::Digest,
    tenancy::TenantId,
};
use engine::{ActionError, Call, Entity, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// The progress of a destruction: destroyed and remaining assets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestructionProgress {
    /// Destroyed assets.
    pub destroyed: Vec<AssetId>,
    /// Assets that exist or may exist.
    pub still_there: Vec<AssetId>,
}

/// The reason why a hold was not placed. For a hold that comes too late, it lists the destroyed and the remaining assets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{error}{}", destroyed_text(standing.as_ref()))]
pub struct HoldRefused {
    /// The reason.
    pub error: HoldError,
    /// The destroyed and the remaining assets, if the hold comes too late.
    pub standing: Option<DestructionProgress>,
}

fn destroyed_text(standing: Option<&DestructionProgress>) -> String {
    let some = |assets: &[AssetId]| {
        let named: Vec<_> = assets.iter().take(10).map(AssetId::as_str).collect();
        let more = assets.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if named.is_empty() { "nothing".to_owned() } else { format!("{}{more}", named.join(", ")) }
    };
    standing.map_or_else(String::new, |standing| {
        format!("; destroyed: {}; still there: {}", some(&standing.destroyed), some(&standing.still_there))
    })
}

impl From<HoldRefused> for Undecided {
    fn from(refused: HoldRefused) -> Self {
        let code = match refused.error {
            HoldError::PastPivot { .. } => codes::PAST_PIVOT,
            HoldError::Held { .. } => codes::HELD,
            HoldError::NoSuchHold { .. }
            | HoldError::Taken { .. }
            | HoldError::OwnHold { .. }
            | HoldError::TooMany { .. }
            | HoldError::Text { .. } => codes::HOLD_REFUSED,
        };
        ActionError::permanent(code, refused).into()
    }
}

impl From<HoldError> for Undecided {
    fn from(error: HoldError) -> Self {
        HoldRefused { error, standing: None }.into()
    }
}

/// Returns the holds on a tenant. A missing document counts as a read, so that a first hold conflicts with the decision of the reader.
///
/// # Errors
/// As [`View::get`].
pub fn holds_of(view: &mut View, tenant: &TenantId) -> Result<Holds, Undecided> {
    Ok(view.get::<Holds>(tenant.as_str())?.unwrap_or_else(|| Holds::empty(tenant.clone())))
}

/// Returns the progress of the destruction by `run`, from its records.
///
/// # Errors
/// As [`View::get`].
pub fn destruction_progress(
    view: &mut View,
    tenant: &TenantId,
    run: ExecutionId,
) -> Result<DestructionProgress, Undecided> {
    let inventory = Inventory::read(view, tenant, run)?.unwrap_or_default();
    let mut standing = DestructionProgress::default();
    view.prefetch::<SanitisationRecord>(
        inventory.assets().map(|asset| SanitisationRecord::key(run, &asset.id)),
    )?;
    for asset in inventory.assets() {
        let record = view.get::<SanitisationRecord>(&SanitisationRecord::key(run, &asset.id))?;
        let gone = record.is_some_and(|record| match record.result {
            SanitisationOutcome::SanitisedVerified
            | SanitisationOutcome::SanitisedUnverified
            | SanitisationOutcome::PhysicallyDestroyed { .. } => true,
            SanitisationOutcome::Failed { .. }
            | SanitisationOutcome::Skipped { .. }
            | SanitisationOutcome::NotApplicable { .. }
            | SanitisationOutcome::Unknown => false,
        });
        let list = if gone { &mut standing.destroyed } else { &mut standing.still_there };
        list.push(asset.id.clone());
    }
    Ok(standing)
}

/// Marks the start of the destruction: the point of no return. Fails if a hold covers a part of the scope, or if the inventory is not the approved
/// one.
///
/// Safe to decide again: an execution passes only once. It has no undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassPivot {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The scope of the destruction.
    pub scope: HoldScope,
    /// The digest of the approved inventory.
    pub approved: Digest,
}

impl LedgerAction for PassPivot {
    const NAME: &'static str = "PassPivot";
    type Output = Pivot;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Pivot, Undecided> {
        let holds = holds_of(view, &self.tenant)?;
        let inventory = Inventory::read(view, &self.tenant, call.execution)?;
        let found = inventory.map(|inventory| (inventory.digest(), inventory));
        let Some((_, inventory)) = found.filter(|(digest, _)| *digest == self.approved) else {
            let why = format!("the inventory kept for {} is not {}", self.tenant, self.approved);
            return Err(ActionError::permanent(codes::INVENTORY_CHANGED, why).into());
        };
        if let Some((asset, open)) = inventory.open_questions().first_key_value() {
            let why = format!(
                "{asset} is {open}; in all, {} assets are not settled",
                inventory.open_questions().len()
            );
            return Err(ActionError::permanent(codes::INVENTORY_OPEN, why).into());
        }
        let pivot = Pivot {
            scope: self.scope.clone(),
            run: call.execution,
            inventory: self.approved.clone(),
            at: view.now().into(),
        };
        let next = holds.pass_pivot(pivot.clone())?;
        view.put(&next)?;
        let passed =
            next.pivots.into_iter().find(|passed| passed.run == call.execution && passed.scope == self.scope);
        Ok(passed.unwrap_or(pivot))
    }
}

/// Checks for holds in the scope. Changes nothing, so it is safe to decide again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckHolds {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The scope of the destruction.
    pub scope: HoldScope,
}

impl LedgerAction for CheckHolds {
    const NAME: &'static str = "CheckHolds";
    type Output = Vec<Hold>;

    fn decide(&self, view: &mut View, _: &Call) -> Result<Vec<Hold>, Undecided> {
        Ok(holds_of(view, &self.tenant)?.covering(&self.scope).cloned().collect())
    }
}

/// Stores the inventory of an execution and replaces its earlier one. Fails if the earlier one is being destroyed. Safe to decide again;
/// [`ForgetInventory`] is its undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepInventory {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The assets found by the two scans.
    pub seen: Vec<Asset>,
}

impl LedgerAction for KeepInventory {
    const NAME: &'static str = "KeepInventory";
    type Output = InventoryHead;

    fn decide(&self, view: &mut View, call: &Call) -> Result<InventoryHead, Undecided> {
        let inventory = Inventory::from_scans(self.seen.iter().cloned()).map_err(|differ| {
            let named: Vec<_> = differ.iter().map(AssetId::as_str).collect();
            let why = format!("the two scans saw different serial numbers of {}", named.join(", "));
            ActionError::permanent(codes::INVENTORY_OPEN, why)
        })?;
        inventory.save(view, &self.tenant, call.execution)
    }
}

impl Inventory {
    /// Stores it as the inventory of `run` for `tenant`, and replaces the earlier one.
    ///
    /// # Errors
    /// `inventory.changed` if another inventory of this execution is being destroyed, or if an asset belongs to another tenant.
    pub fn save(
        &self,
        view: &mut View,
        tenant: &TenantId,
        run: ExecutionId,
    ) -> Result<InventoryHead, Undecided> {
        let (head, pages) = self.documents(tenant, run);
        let refused = |why: String| ActionError::permanent(codes::INVENTORY_CHANGED, why);
        if let Some(asset) = self.assets().find(|asset| asset.tenant != *tenant) {
            return Err(
                refused(format!("{} belongs to tenant {}, not to {tenant}", asset.id, asset.tenant)).into()
            );
        }
        let passed = holds_of(view, tenant)?.pivots.into_iter().find(|pivot| pivot.run == run);
        if let Some(pivot) = passed.filter(|pivot| pivot.inventory != head.digest) {
            return Err(refused(format!("inventory {} is being destroyed already", pivot.inventory)).into());
        }
        let before = view.get::<InventoryHead>(&InventoryHead::key(tenant, run))?;
        for page in head.pages..before.map_or(0, |before| before.pages) {
            let key = super::inventory::InventoryPage::key(&InventoryHead::key(tenant, run), page);
            view.delete::<super::inventory::InventoryPage>(&key)?;
        }
        view.prefetch::<super::inventory::InventoryPage>(pages.iter().map(Entity::id))?;
        for page in &pages {
            view.put(page)?;
        }
        view.put(&head)?;
        Ok(head)
    }
}

/// Deletes the inventory of an execution, unless it is being destroyed. Safe to run twice; tolerates a missing inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetInventory {
    /// The tenant's id.
    pub tenant: TenantId,
}

impl LedgerAction for ForgetInventory {
    const NAME: &'static str = "ForgetInventory";
    type Output = ();

    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let key = InventoryHead::key(&self.tenant, call.execution);
        let passed =
            holds_of(view, &self.tenant)?.pivots.into_iter().any(|pivot| pivot.run == call.execution);
        let Some(head) = view.get::<InventoryHead>(&key)?.filter(|_| !passed) else { return Ok(()) };
        for page in 0..head.pages {
            view.delete::<super::inventory::InventoryPage>(&super::inventory::InventoryPage::key(
                &key, page,
            ))?;
        }
        view.delete::<InventoryHead>(&key)
    }
}

/// Stores the records of some assets. A later record of the same asset and execution replaces the earlier one. Safe to decide again. It has no undo,
/// because a record describes a past event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepRecords {
    /// The records.
    pub records: Vec<SanitisationRecord>,
}

impl LedgerAction for KeepRecords {
    const NAME: &'static str = "KeepRecords";
    type Output = Vec<Digest>;

    fn decide(&self, view: &mut View, _: &Call) -> Result<Vec<Digest>, Undecided> {
        view.prefetch::<SanitisationRecord>(self.records.iter().map(Entity::id))?;
        for record in &self.records {
            view.put(record)?;
        }
        Ok(self.records.iter().map(SanitisationRecord::hash).collect())
    }
}
