//! Taking the inventory: both scans joined, with what people said of what they do not agree on.

mod agreed;
mod amount;
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

/// What people said of an asset that the two scans do not agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classification {
    /// Whose.
    pub tenant: TenantId,
    /// Which asset.
    pub asset: AssetId,
    /// What its data is.
    pub class: DataClass,
    /// Who said so.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// When.
    pub at: Moment,
}

/// All that people said of a tenant's assets, in one document, so that an inventory rests on all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classifications {
    /// Whose.
    pub tenant: TenantId,
    /// By asset.
    pub of: BTreeMap<AssetId, Classification>,
}

impl Entity for Classifications {
    const COLLECTION: &'static str = "asset-classifications";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}

/// Says what the data of an asset is: it is the tenant's, and is destroyed with the rest. Wakes nobody by itself.
///
/// # Errors
/// What the view lacks.
pub fn classify(view: &mut View, said: Classification) -> Result<(), Undecided> {
    let none = || Classifications { tenant: said.tenant.clone(), of: BTreeMap::new() };
    let mut all = view.get::<Classifications>(said.tenant.as_str())?.unwrap_or_else(none);
    all.of.insert(said.asset.clone(), said);
    view.put(&all)
}

/// Joins the scan of our records with what was found, keeps the inventory, and says what is to be done to each asset.
///
/// Fails with `inventory.open`, naming them, while the two disagree on an asset or nobody has said what its data is.
/// Safe to decide again; an inventory that is not destroyed by is forgotten with its execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TakeInventory {
    /// Who leaves; none fails.
    pub leaver: Option<LeavingTenant>,
    /// What was found.
    pub seen: Vec<ObservedResource>,
    /// What its nodes have.
    pub devices: Vec<NodeDevices>,
    /// What must be kept, and for how long.
    pub retention: Vec<RetentionRule>,
    /// Of a closed tenant: what remains of it, and nothing else is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining: Option<RemainingAssets>,
}

/// An inventory that was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TakenInventory {
    /// The digest of the exact list.
    pub digest: Digest,
    /// What is to be done to what; media are in the hands of their nodes.
    pub targets: Vec<RemovalTarget>,
    /// How many assets there are in all.
    pub assets: usize,
}

impl LedgerAction for TakeInventory {
    const NAME: &'static str = "TakeInventory";
    type Output = TakenInventory;

    fn decide(&self, view: &mut View, call: &Call) -> Result<TakenInventory, Undecided> {
        let unknown = || ActionError::permanent(codes::TENANT_NOT_ACTIVE, "nobody has looked who leaves");
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
    /// The assets that a node is made of, as both scans see them.
    #[must_use]
    pub fn parts_of(leaver: &LeavingTenant, node: &str, devices: &Devices, at: Moment) -> Vec<Asset> {
        let gpus = devices.gpus.len().try_into().unwrap_or(u64::MAX);
        assets::parts(leaver, node, Some(devices), gpus, at)
    }

    /// What is to be done to an asset, from what was seen of it.
    fn target(
        &self,
        asset: &Asset,
        kept: &BTreeMap<DataClass, ResolvedRetention>,
        at: Moment,
    ) -> Option<RemovalTarget> {
        let seen = self.seen.iter().find(|seen| seen.thing.to_string() == asset.locator);
        let rule = asset.data_class.and_then(|class| kept.get(&class)).filter(|rule| rule.keeps(at));
        // Of a key that nobody saw nobody knows whether it can come back.
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
            // What the platform itself made for the tenant's data holds that, unless it says otherwise.
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
        // A node that bears the tenant's mark and is not in its books.
        let known =
            |seen: &&ObservedResource| leaver.nodes.keys().any(|node| node.as_str() == seen.thing.name);
        let strangers = self.seen.iter().filter(|seen| seen.thing.kind == "Node").filter(|seen| !known(seen));
        all.extend(strangers.flat_map(|seen| assets::found(tenant, seen, at)));
        all
    }
}

/// Why an asset can neither be kept, as a rule wants it, nor be destroyed. What lies on a node's own drives goes with them.
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
        "{thing} holds data of class {class}, which a rule keeps until {until}, and a volume is not put under another key: copy \
         what is to be kept to a bucket, and erase the volume"
    ))
}

/// Says why a thing that is to be removed cannot be: known before the destruction is approved, so that it is settled before.
fn cannot_be_removed(
    seen: &ObservedResource,
    inventory: &Inventory,
    kept: &BTreeMap<DataClass, ResolvedRetention>,
    at: Moment,
) -> Option<String> {
    let policy = seen.text("reclaimPolicy").filter(|policy| *policy != "Delete")?;
    let id = AssetId::new(assets::kind_of(&seen.thing).0, &seen.thing.to_string());
    let class = inventory.get(&id)?.data_class?;
    let is_kept = kept.get(&class).is_some_and(|rule| rule.keeps(at));
    (!is_kept).then(|| {
        format!(
            "{} has the reclaim policy {policy}, so its data would stay: set the policy to Delete, or remove the data and its record",
            seen.thing
        )
    })
}

/// An asset with what people said of it, which counts as a record.
fn classified(asset: Asset, said: &BTreeMap<AssetId, Classification>) -> Vec<Asset> {
    let Some(said) = said.get(&asset.id) else { return vec![asset] };
    let mut discovered_by = asset.discovered_by.clone();
    discovered_by.insert(Scan::Records);
    discovered_by.insert(Scan::Live);
    vec![Asset { data_class: Some(said.class), discovered_by, ..asset }]
}
