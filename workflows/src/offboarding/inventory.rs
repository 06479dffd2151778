//! Takes the inventory: merges both scans and the classifications that operators gave.

mod agreed;
mod amount;
mod changes;
mod survey;

pub use agreed::RecheckInventory;
pub use amount::StoredAmount;
pub(super) use amount::TOLERATED_PERCENT;

use super::{LeavingTenant, RemainingAssets, RemovalTarget, StoreLock, assets};
use crate::{
    destruction::{
        Asset, AssetId, AssetType, DataClass, Inventory, ResolvedRetention, RetentionRule, Scan,
        codes as destruction_codes, resolve,
    },
    ledger::codes,
    platform::{Devices, NodeDevices, ObservedResource, TenantResource, WayBack},
    signing::{Digest, Moment},
    tenancy::TenantId,
};
use engine::{ActionError, Call, Entity, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An operator's classification of an asset on which the two scans disagree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classification {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The asset's id.
    pub asset: AssetId,
    /// The class of its data.
    pub class: DataClass,
    /// The operator.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The time of the classification.
    pub at: Moment,
}

/// All classifications of a tenant's assets, in one document that an inventory reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classifications {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The classifications, by asset.
    pub of: BTreeMap<AssetId, Classification>,
}

impl Entity for Classifications {
    const COLLECTION: &'static str = "asset-classifications";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}

/// Classifies an asset. It belongs to the tenant and is destroyed with the other assets. Sends no signal to the offboarding.
///
/// # Errors
/// The read errors of the view.
pub fn classify(view: &mut View, said: Classification) -> Result<(), Undecided> {
    let none = || Classifications { tenant: said.tenant.clone(), of: BTreeMap::new() };
    let mut all = view.get::<Classifications>(said.tenant.as_str())?.unwrap_or_else(none);
    all.of.insert(said.asset.clone(), said);
    view.put(&all)
}

/// Merges the scan of the records with the resources that were found, stores the inventory, and chooses the treatment of each asset.
///
/// Fails with `inventory.open`, which names the assets, while the scans disagree on an asset or an asset is unclassified. Safe to decide again. An
/// inventory that is not used for a destruction is deleted with its execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TakeInventory {
    /// The leaving tenant. Without one, the action fails.
    pub leaver: Option<LeavingTenant>,
    /// The resources that were found.
    pub seen: Vec<ObservedResource>,
    /// The devices of its nodes.
    pub devices: Vec<NodeDevices>,
    /// The retention rules.
    pub retention: Vec<RetentionRule>,
    /// For a closed tenant: its remains. No other asset is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<RemainingAssets>,
}

/// Result of taking an inventory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TakenInventory {
    /// The digest of the exact list.
    pub digest: Digest,
    /// The removal targets. Media are handled by the sanitisation of their nodes.
    pub targets: Vec<RemovalTarget>,
    /// The number of assets.
    pub assets: usize,
}

impl LedgerAction for TakeInventory {
    const NAME: &'static str = "TakeInventory";
    type Output = TakenInventory;

    fn decide(&self, view: &mut View, call: &Call) -> Result<TakenInventory, Undecided> {
        let unknown = || ActionError::permanent(codes::TENANT_NOT_ACTIVE, "the tenant was not read yet");
        let leaver = self.leaver.as_ref().ok_or_else(unknown)?;
        let tenant = &leaver.tenant;
        let at = Moment::from(view.now());
        let said = view.get::<Classifications>(tenant.as_str())?.map(|said| said.of).unwrap_or_default();
        let assets = self.assets(leaver, at).into_iter().flat_map(|asset| classified(asset, &said));
        let inventory = Inventory::from_scans(assets).map_err(|differ| {
            let named: Vec<_> = differ.iter().map(AssetId::as_str).collect();
            let why = format!("two scans saw different serial numbers of {}", named.join(", "));
            ActionError::permanent(destruction_codes::INVENTORY_OPEN, why)
        })?;
        let open: Vec<_> =
            inventory.open_questions().into_iter().map(|(id, open)| format!("{id} is {open}")).collect();
        if !open.is_empty() {
            let shown: Vec<_> = open.iter().take(20).map(String::as_str).collect();
            let why = format!("{} assets are open: {}", open.len(), shown.join(", "));
            return Err(ActionError::permanent(destruction_codes::INVENTORY_OPEN, why).into());
        }
        let ended_at = self.remaining.as_ref().and_then(|remaining| remaining.closed_at).unwrap_or(at);
        let kept = resolve(&self.retention, &leaver.compliance, ended_at);
        if let Some(why) = inventory.assets().find_map(|asset| cannot_be_kept(asset, &kept, at)) {
            return Err(ActionError::permanent(destruction_codes::INVENTORY_OPEN, why).into());
        }
        if let Some(why) = self.seen.iter().find_map(|seen| cannot_be_removed(seen, &inventory, &kept, at)) {
            return Err(ActionError::permanent(destruction_codes::INVENTORY_OPEN, why).into());
        }
        let head = inventory.save(view, tenant, call.execution)?;
        let target = |asset: &Asset| self.target(asset, &kept, at);
        let targets = inventory.assets().filter(|asset| !asset.kind.is_medium()).filter_map(target);
        Ok(TakenInventory { digest: head.digest, targets: targets.collect(), assets: inventory.len() })
    }
}

impl TakeInventory {
    /// Returns the assets of a node, as both scans find them.
    #[must_use]
    pub fn parts_of(leaver: &LeavingTenant, node: &str, devices: &Devices, at: Moment) -> Vec<Asset> {
        let gpus = devices.gpus.len().try_into().unwrap_or(u64::MAX);
        assets::parts(leaver, node, Some(devices), gpus, at)
    }

    /// Returns the removal target of an asset, from its observation.
    fn target(
        &self,
        asset: &Asset,
        kept: &BTreeMap<DataClass, ResolvedRetention>,
        at: Moment,
    ) -> Option<RemovalTarget> {
        let seen = self.seen.iter().find(|seen| seen.thing.to_string() == asset.locator);
        let rule = asset.data_class.and_then(|class| kept.get(&class)).filter(|rule| rule.keeps(at));
        // A key that was not found may be recoverable.
        let unseen = || BTreeSet::from([WayBack::Unknown]);
        let can_come_back = if asset.kind == AssetType::Key {
            seen.map_or_else(unseen, |seen| seen.key_safety().can_come_back)
        } else {
            BTreeSet::new()
        };
        Some(RemovalTarget {
            kind: asset.kind,
            thing: asset.locator.parse().ok()?,
            uid: asset.serial.clone().unwrap_or_default(),
            keep_until: rule.filter(|_| assets::holds_data(asset.kind)).map(|rule| rule.destroy_at),
            safe: can_come_back.is_empty(),
            revivable_until: seen.and_then(|seen| seen.text("snapshot_until")).map(str::to_owned),
            can_come_back,
            locked: seen.and_then(StoreLock::of),
            store_keeps_until: seen.and_then(|seen| seen.text("kept_until")).map(str::to_owned),
            amount: seen.filter(|_| assets::holds_data(asset.kind)).and_then(StoredAmount::of),
        })
    }

    fn assets(&self, leaver: &LeavingTenant, at: Moment) -> Vec<Asset> {
        let tenant = &leaver.tenant;
        let expected = if self.remaining.is_some() { Vec::new() } else { assets::expected(leaver) };
        let remaining = self.remaining.iter().flat_map(|remaining| remaining.assets(tenant, &self.seen, at));
        let recorded = expected.into_iter().map(|thing| {
            let (kind, class) = assets::kind_of(&thing);
            // Resources that the platform created for the tenant's data hold workload data, unless they state another class.
            let class = class.or(Some(DataClass::Workload));
            Asset::from_scan(tenant, kind, &thing.to_string(), class, Scan::Records, at)
        });
        let kept = |thing: &TenantResource| {
            self.remaining.as_ref().is_some_and(|remaining| remaining.kept.contains(thing))
        };
        let things = self.seen.iter().filter(|seen| seen.thing.kind != "Node" && !kept(&seen.thing));
        let mut all: Vec<Asset> = recorded
            .chain(remaining)
            .chain(things.flat_map(|seen| assets::found(tenant, seen, at)))
            .collect();
        for (node, (_, gpus)) in &leaver.nodes {
            let read = self.devices.iter().find(|read| read.node == node.as_str());
            all.extend(assets::parts(leaver, node.as_str(), read.map(|read| &read.devices), *gpus, at));
        }
        // Nodes with the tenant's mark that are missing in the ledger are listed too.
        let known =
            |seen: &&ObservedResource| leaver.nodes.keys().any(|node| node.as_str() == seen.thing.name);
        let strangers = self.seen.iter().filter(|seen| seen.thing.kind == "Node").filter(|seen| !known(seen));
        all.extend(strangers.flat_map(|seen| assets::found(tenant, seen, at)));
        all
    }
}

/// Returns the reason why an asset can neither be retained as a rule requires, nor be destroyed. Data on a node's own drives are destroyed with the
/// node.
fn cannot_be_kept(
    asset: &Asset,
    kept: &BTreeMap<DataClass, ResolvedRetention>,
    at: Moment,
) -> Option<String> {
    let class = asset.data_class?;
    let rule = kept.get(&class).filter(|rule| rule.keeps(at))?;
    let thing = asset.locator.parse().ok().filter(assets::is_volume_key)?;
    let (class, until): (&str, _) = (class.into(), rule.destroy_at);
    Some(format!(
        "{thing} has data of class {class}, which a rule retains until {until}, but a volume cannot be encrypted with another key: copy the retained data to a bucket, then erase the volume"
    ))
}

/// Returns the reason why a resource cannot be removed. It is checked before the approval, so that the problem can be solved first.
fn cannot_be_removed(
    seen: &ObservedResource,
    inventory: &Inventory,
    kept: &BTreeMap<DataClass, ResolvedRetention>,
    at: Moment,
) -> Option<String> {
    let policy = seen.text("reclaimPolicy").filter(|policy| *policy != "Delete");
    let why = match (seen.text(ObservedResource::REMOVAL_DENIED), policy) {
        (Some(denied), _) => format!("{} cannot be removed: {denied}", seen.thing),
        (None, Some(policy)) => format!(
            "{} has the reclaim policy {policy}, so its data would stay: set the policy to Delete, or remove the data and its record",
            seen.thing
        ),
        (None, None) => return None,
    };
    let id = AssetId::new(assets::kind_of(&seen.thing).0, &seen.thing.to_string());
    let class = inventory.get(&id)?.data_class?;
    let is_kept = kept.get(&class).is_some_and(|rule| rule.keeps(at));
    (!is_kept).then_some(why)
}

/// Returns an asset with its classification, which counts as a record.
fn classified(asset: Asset, said: &BTreeMap<AssetId, Classification>) -> Vec<Asset> {
    let Some(said) = said.get(&asset.id) else { return vec![asset] };
    let mut discovered_by = asset.discovered_by.clone();
    discovered_by.insert(Scan::Records);
    discovered_by.insert(Scan::Live);
    vec![Asset { data_class: Some(said.class), discovered_by, ..asset }]
}
