//! The inventory: the list of all assets to destroy, from two scans that must agree, with a digest that is approved.
//!
//! Invariant: an inventory lists each asset once, sorted by id, so that equal lists have equal digests.

use crate::{
    destruction::asset::{Asset, AssetId, Scan},
    signing::{
        Digest,
        canonical::{compact, value},
    },
    tenancy::TenantId,
};
use engine::{ActionError, Entity, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::{CompositeKey, ExecutionId};

/// The longest list on one page, in bytes. Documents hold 256 KiB; the rest is for the page's other fields.
pub(crate) const PAGE_BYTES: usize = 192 << 10;

/// All assets of a tenant, as found by two scans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inventory {
    assets: BTreeMap<AssetId, Asset>,
}

/// The reason why an asset prevents the approval of an inventory.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum OpenReason {
    /// It is in Tenure's records, but was not found.
    OnlyInRecords,
    /// It was found, but is not in Tenure's records.
    Orphan,
    /// The class of its data is unknown.
    Unclassified,
    /// The two scans saw different serial numbers.
    SerialDiffers,
}

impl Inventory {
    /// Combines the results of two scans. The fields of an asset that both found are merged.
    ///
    /// # Errors
    /// The assets with different serial numbers in the two scans. They are different devices.
    pub fn from_scans(seen: impl IntoIterator<Item = Asset>) -> Result<Self, BTreeSet<AssetId>> {
        let mut assets: BTreeMap<AssetId, Asset> = BTreeMap::new();
        let mut differ = BTreeSet::new();
        for asset in seen {
            match assets.get_mut(&asset.id) {
                None => drop(assets.insert(asset.id.clone(), asset)),
                Some(known) => {
                    if let (Some(a), Some(b)) = (&known.serial, &asset.serial)
                        && a != b
                    {
                        differ.insert(asset.id.clone());
                    }
                    join(known, asset);
                }
            }
        }
        if differ.is_empty() { Ok(Self { assets }) } else { Err(differ) }
    }

    /// Returns an inventory of exactly these assets. The last one of each id wins.
    #[must_use]
    pub(crate) fn exactly(assets: impl IntoIterator<Item = Asset>) -> Self {
        Self { assets: assets.into_iter().map(|asset| (asset.id.clone(), asset)).collect() }
    }

    /// Returns the assets, sorted by id.
    pub fn assets(&self) -> impl Iterator<Item = &Asset> {
        self.assets.values()
    }

    /// Returns the asset with this id.
    #[must_use]
    pub fn get(&self, id: &AssetId) -> Option<&Asset> {
        self.assets.get(id)
    }

    /// Returns the number of assets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.assets.len()
    }

    /// Returns true if the tenant has no assets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.assets.is_empty()
    }

    /// Returns the assets that both scans found and that are classified.
    pub fn agreed_assets(&self) -> impl Iterator<Item = &Asset> {
        self.assets.values().filter(|asset| open_question(asset).is_none())
    }

    /// Returns the questions to settle before an approval.
    #[must_use]
    pub fn open_questions(&self) -> BTreeMap<AssetId, OpenReason> {
        self.assets.values().filter_map(|asset| Some((asset.id.clone(), open_question(asset)?))).collect()
    }

    /// Returns the digest of the exact list. Approvals of destruction are bound to it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_content("inventory", &self.assets.values().collect::<Vec<_>>())
    }

    /// Returns the documents that store it: a head, and pages that fit the store.
    #[must_use]
    pub fn documents(&self, tenant: &TenantId, run: ExecutionId) -> (InventoryHead, Vec<InventoryPage>) {
        let key = InventoryHead::key(tenant, run);
        let pages: Vec<InventoryPage> = paged(self.assets.values(), PAGE_BYTES)
            .into_iter()
            .enumerate()
            .map(|(page, assets)| InventoryPage { inventory: key.clone(), page, assets })
            .collect();
        let head = InventoryHead {
            tenant: tenant.clone(),
            run,
            digest: self.digest(),
            assets: self.assets.len(),
            pages: pages.len(),
            firsts: pages
                .iter()
                .filter_map(|page| page.assets.first())
                .map(|asset| asset.id.clone())
                .collect(),
        };
        (head, pages)
    }

    /// Returns the inventory of `run`, if there is one.
    ///
    /// # Errors
    /// As [`View::get`]; a permanent `ledger.missing` for a missing page.
    pub fn read(view: &mut View, tenant: &TenantId, run: ExecutionId) -> Result<Option<Self>, Undecided> {
        let key = InventoryHead::key(tenant, run);
        let Some(head) = view.get::<InventoryHead>(&key)? else { return Ok(None) };
        view.prefetch::<InventoryPage>((0..head.pages).map(|page| InventoryPage::key(&key, page)))?;
        let mut assets = BTreeMap::new();
        for page in 0..head.pages {
            let page = view.require::<InventoryPage>(&InventoryPage::key(&key, page))?;
            assets.extend(page.assets.into_iter().map(|asset| (asset.id.clone(), asset)));
        }
        Ok(Some(Self { assets }))
    }
}

/// Returns up to `most` assets of an inventory from `position` on, in its order, each with the position after it. Reads only the pages that list them.
///
/// # Errors
/// As [`View::get`]; a permanent `ledger.missing` for a missing page.
pub(crate) fn next_assets(
    view: &mut View,
    head: &InventoryHead,
    mut position: InventoryPosition,
    most: usize,
) -> Result<Vec<(InventoryPosition, Asset)>, Undecided> {
    let key = head.id();
    let mut assets = Vec::new();
    while position.page < head.pages && assets.len() < most {
        let ahead = head.pages.min(position.page.saturating_add(PAGES_AHEAD));
        view.prefetch::<InventoryPage>((position.page..ahead).map(|page| InventoryPage::key(&key, page)))?;
        let page = view.require::<InventoryPage>(&InventoryPage::key(&key, position.page))?;
        for asset in page.assets.into_iter().skip(position.skip).take(most.saturating_sub(assets.len())) {
            position.skip = position.skip.saturating_add(1);
            assets.push((position, asset));
        }
        position = InventoryPosition { page: position.page.saturating_add(1), skip: 0 };
    }
    Ok(assets)
}

/// Returns the assets of `node` in the inventory of `run`, sorted by id, whose ids begin with one of `beginnings`. Reads only the pages that can list
/// them, so the cost for one node does not grow with the number of nodes.
///
/// # Errors
/// As [`View::get`]; a permanent `ledger.missing` for a missing page.
pub(crate) fn assets_of_node(
    view: &mut View,
    tenant: &TenantId,
    run: ExecutionId,
    node: &str,
    beginnings: &[String],
) -> Result<Vec<Asset>, Undecided> {
    let key = InventoryHead::key(tenant, run);
    let Some(head) = view.get::<InventoryHead>(&key)? else { return Ok(Vec::new()) };
    let pages: BTreeSet<usize> = beginnings.iter().flat_map(|beginning| head.pages_with(beginning)).collect();
    view.prefetch::<InventoryPage>(pages.iter().map(|page| InventoryPage::key(&key, *page)))?;
    let mut assets = BTreeMap::new();
    for page in pages {
        let id = InventoryPage::key(&key, page);
        let missing =
            || ActionError::permanent("ledger.missing", format!("inventory page {id} does not exist"));
        let page = view.get_shared::<InventoryPage>(&id)?.ok_or_else(missing)?;
        let of_node = page.assets.iter().filter(|asset| asset.node.as_deref() == Some(node));
        assets.extend(of_node.map(|asset| (asset.id.clone(), asset.clone())));
    }
    Ok(assets.into_values().collect())
}

/// Returns the question about an asset to settle before an approval, if there is one.
pub(crate) fn open_question(asset: &Asset) -> Option<OpenReason> {
    match (asset.discovered_by.contains(&Scan::Records), asset.discovered_by.contains(&Scan::Live)) {
        (true, false) => Some(OpenReason::OnlyInRecords),
        (false, _) => Some(OpenReason::Orphan),
        (true, true) if asset.data_class.is_none() => Some(OpenReason::Unclassified),
        (true, true) => None,
    }
}

fn join(known: &mut Asset, other: Asset) {
    known.discovered_by.extend(other.discovered_by);
    known.discovered_at = known.discovered_at.min(other.discovered_at);
    known.serial = known.serial.take().or(other.serial);
    known.data_class = known.data_class.or(other.data_class);
    known.workspace = known.workspace.take().or(other.workspace);
    known.node = known.node.take().or(other.node);
}

/// Splits a list into pages of at most `limit` bytes as JSON. A single longer item gets its own page.
fn paged<'a, T: Serialize + Clone + 'a>(items: impl Iterator<Item = &'a T>, limit: usize) -> Vec<Vec<T>> {
    let mut pages: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for item in items {
        let size = compact(&value(item)).len() + 1;
        match pages.last_mut().filter(|_| size <= room) {
            Some(page) => page.push(item.clone()),
            None => {
                room = limit;
                pages.push(vec![item.clone()]);
            }
        }
        room = room.saturating_sub(size);
    }
    pages
}

/// The number of pages of an inventory that are fetched together.
const PAGES_AHEAD: usize = 4;

/// A position in a stored inventory: after the first `skip` assets of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InventoryPosition {
    /// The page number, from 0.
    pub(crate) page: usize,
    /// The number of its assets before this position.
    pub(crate) skip: usize,
}

/// The head of a stored inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryHead {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The execution that created it.
    pub run: ExecutionId,
    /// The digest of the exact list.
    pub digest: Digest,
    /// The number of assets.
    pub assets: usize,
    /// The number of pages.
    pub pages: usize,
    /// The first asset of each page. Empty in heads of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub firsts: Vec<AssetId>,
}

impl InventoryHead {
    /// Returns the pages that can list an asset whose id begins with `beginning`: all pages if their first assets are unknown.
    fn pages_with(&self, beginning: &str) -> impl Iterator<Item = usize> {
        let known = self.firsts.len() == self.pages;
        (0..self.pages).filter(move |page| {
            let starts_before =
                |first: &AssetId| first.as_str() <= beginning || first.as_str().starts_with(beginning);
            let ends_after = |next: &AssetId| next.as_str() > beginning;
            !known
                || (self.firsts.get(*page).is_some_and(starts_before)
                    && self.firsts.get(page + 1).is_none_or(ends_after))
        })
    }

    /// Returns the id of the inventory that `run` created for `tenant`.
    #[must_use]
    pub fn key(tenant: &TenantId, run: ExecutionId) -> String {
        CompositeKey::of(&[&tenant, &run]).into()
    }
}

impl Entity for InventoryHead {
    const COLLECTION: &'static str = "inventories";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        Self::key(&self.tenant, self.run)
    }
}

/// A page of a stored inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryPage {
    /// The id of the inventory.
    pub inventory: String,
    /// The page number, from 0.
    pub page: usize,
    /// The assets.
    pub assets: Vec<Asset>,
}

impl InventoryPage {
    pub(super) fn key(inventory: &str, page: usize) -> String {
        CompositeKey::within(inventory, &page).into()
    }
}

impl Entity for InventoryPage {
    const COLLECTION: &'static str = "inventory-pages";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        Self::key(&self.inventory, self.page)
    }
}
