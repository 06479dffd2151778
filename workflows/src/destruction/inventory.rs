//! The list of everything that is to be destroyed: two scans that must agree, and a digest that people approve.
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

/// The longest list of one page, in bytes. Documents hold 256 KiB; the rest is the page's own fields.
pub(crate) const PAGE_BYTES: usize = 192 << 10;

/// All that a tenant leaves behind, as two scans found it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inventory {
    assets: BTreeMap<AssetId, Asset>,
}

/// Why an asset keeps an inventory from being approved.
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
    /// Our records say that it exists, and it was not found.
    OnlyInRecords,
    /// It was found, and our records do not know it.
    Orphan,
    /// Nobody has said what the data on it is.
    Unclassified,
    /// The two scans saw different serial numbers.
    SerialDiffers,
}

impl Inventory {
    /// What two scans saw. Where both saw an asset, what is known of it is joined.
    ///
    /// # Errors
    /// The assets whose serial numbers differ between the scans: they are not the same thing.
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

    /// These assets and no others, the last of each name.
    #[must_use]
    pub(crate) fn exactly(assets: impl IntoIterator<Item = Asset>) -> Self {
        Self { assets: assets.into_iter().map(|asset| (asset.id.clone(), asset)).collect() }
    }

    /// The assets, sorted by id.
    pub fn assets(&self) -> impl Iterator<Item = &Asset> {
        self.assets.values()
    }

    /// The asset of this name.
    #[must_use]
    pub fn get(&self, id: &AssetId) -> Option<&Asset> {
        self.assets.get(id)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.assets.len()
    }

    /// Whether the tenant leaves nothing behind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.assets.is_empty()
    }

    /// Assets that both scans saw and whose data is classified.
    pub fn agreed_assets(&self) -> impl Iterator<Item = &Asset> {
        self.assets.values().filter(|asset| open(asset).is_none())
    }

    /// What a person must look at before this can be approved; empty when nothing is open.
    #[must_use]
    pub fn open_questions(&self) -> BTreeMap<AssetId, OpenReason> {
        self.assets.values().filter_map(|asset| Some((asset.id.clone(), open(asset)?))).collect()
    }

    /// The digest of the exact list. Approvals of destruction are bound to it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::from_content("inventory", &self.assets.values().collect::<Vec<_>>())
    }

    /// The documents that keep it: a head, and pages that fit the store.
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

    /// The inventory of `run`, or none.
    ///
    /// # Errors
    /// As [`View::get`]; a permanent `ledger.missing` when a page is not there.
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

/// The assets of `node` in the inventory of `run`, sorted by id, if their ids begin as `beginnings` say. Reads the pages that can list
/// them and no others, so what one node costs does not grow with the number of nodes.
///
/// # Errors
/// As [`View::get`]; a permanent `ledger.missing` when a page is not there.
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
        let missing = || ActionError::permanent("ledger.missing", format!("there is no inventory page {id}"));
        let page = view.get_shared::<InventoryPage>(&id)?.ok_or_else(missing)?;
        let of_node = page.assets.iter().filter(|asset| asset.node.as_deref() == Some(node));
        assets.extend(of_node.map(|asset| (asset.id.clone(), asset.clone())));
    }
    Ok(assets.into_values().collect())
}

fn open(asset: &Asset) -> Option<OpenReason> {
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

/// Splits a list into pages, none longer than `limit` bytes as JSON unless one item alone is.
pub(crate) fn paged<'a, T: Serialize + Clone + 'a>(
    items: impl Iterator<Item = &'a T>,
    limit: usize,
) -> Vec<Vec<T>> {
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

/// The head of a stored inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryHead {
    /// Whose.
    pub tenant: TenantId,
    /// The execution that took it.
    pub run: ExecutionId,
    /// The digest of the exact list.
    pub digest: Digest,
    /// How many assets there are.
    pub assets: usize,
    /// How many pages they fill.
    pub pages: usize,
    /// The first asset of each page. Empty in heads of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub firsts: Vec<AssetId>,
}

impl InventoryHead {
    /// The pages that can list an asset whose id begins with `beginning`: all where it is not known how they begin.
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

    /// The id of the inventory that `run` took of `tenant`.
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

/// A part of a stored inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryPage {
    /// Of which inventory.
    pub inventory: String,
    /// Which part, from 0.
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
