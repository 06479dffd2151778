//! Regions and clusters as YAML.

use crate::{
    policy::{Invalid, Item, Reader, Value, from_yaml},
    tenancy::{Buffer, Cluster, ClusterId, ClusterKind, Gpus, Jurisdiction, RegionId},
    yaml,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A region of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionRow {
    /// The name.
    pub id: RegionId,
    /// The jurisdiction.
    pub jurisdiction: Jurisdiction,
    /// The reserved GPUs.
    pub buffer: Buffer,
}

/// A cluster of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRow {
    /// The name.
    pub id: ClusterId,
    /// The region.
    pub region: RegionId,
    /// The provider.
    pub provider: String,
    /// The scheduler.
    pub kind: ClusterKind,
    /// True if one tenant at a time has it.
    pub dedicated: bool,
    /// The name of its backend.
    pub backend: String,
}

/// Regions and clusters of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sites {
    /// The regions.
    pub regions: Vec<RegionRow>,
    /// The clusters.
    pub clusters: Vec<ClusterRow>,
}

/// The result of an import of sites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteReport {
    /// New regions and clusters.
    pub added: Vec<String>,
    /// Regions and clusters that already matched the file.
    pub unchanged: Vec<String>,
    /// Changed regions and clusters.
    pub changed: Vec<String>,
    /// Clusters without a real target.
    pub simulated: Vec<ClusterId>,
}

/// Parses the regions and clusters of a file with the fields `regions` and `clusters`.
///
/// # Errors
/// Every problem of the file, by line and column.
pub fn parse_sites(text: &str) -> Result<Sites, Invalid> {
    let root = from_yaml(text)?;
    let reader = Reader::default();
    let read = sites(&reader, &root);
    reader.finish(read)
}

fn sites(reader: &Reader, root: &Item) -> Option<Sites> {
    let top = reader.fields(root, &["regions", "clusters"])?;
    let items =
        |name| top.optional(name).map(|item| reader.list_of(item, yaml::MOST_VALUES)).unwrap_or_default();
    let regions: Vec<_> = items("regions").iter().map(|item| region(reader, item)).collect();
    let clusters: Vec<_> = items("clusters").iter().map(|item| cluster(reader, item)).collect();
    let regions: Vec<RegionRow> = regions.into_iter().collect::<Option<_>>()?;
    let clusters: Vec<ClusterRow> = clusters.into_iter().collect::<Option<_>>()?;
    let place = |item: &Item| item.at.map_or(0, |spot| spot.line);
    let mut lines = BTreeMap::new();
    for (row, item) in regions.iter().zip(items("regions")) {
        if let Some(first) = lines.insert(row.id.to_string(), place(item)) {
            twice(reader, item, row.id.as_str(), first);
        }
    }
    let mut lines = BTreeMap::new();
    for (row, item) in clusters.iter().zip(items("clusters")) {
        if let Some(first) = lines.insert(row.id.to_string(), place(item)) {
            twice(reader, item, row.id.as_str(), first);
        }
    }
    Some(Sites { regions, clusters })
}

fn twice(reader: &Reader, item: &Item, id: &str, first: u64) {
    let again = item.at.map_or(0, |spot| spot.line);
    reader.note(item, format!("{id} occurs on lines {first} and {again}"), "remove one of them");
}

fn region(reader: &Reader, item: &Item) -> Option<RegionRow> {
    let fields = reader.fields(item, &["id", "jurisdiction", "buffer_gpus"])?;
    let id = fields.required("id").and_then(|item| reader.name(item));
    let jurisdiction = fields.required("jurisdiction").and_then(|item| reader.name(item));
    let buffer =
        fields.optional("buffer_gpus").map_or_else(|| Some(Buffer::default()), |item| buffer(reader, item));
    Some(RegionRow { id: id?, jurisdiction: jurisdiction?, buffer: buffer? })
}

/// Reads one number for every model, or a number by model.
fn buffer(reader: &Reader, item: &Item) -> Option<Buffer> {
    let Value::Map(fields) = &item.value else {
        let each = reader.whole(item, 0..=100_000_u32).map(Gpus)?;
        return Some(Buffer { each, by_model: BTreeMap::new() });
    };
    let mut by_model = BTreeMap::new();
    for (model, _, inner) in fields {
        match model.parse() {
            Ok(model) => {
                by_model.extend(reader.whole(inner, 0..=100_000_u32).map(|gpus| (model, Gpus(gpus))))
            }
            Err(error) => reader.note(inner, format!("{error}"), "correct the name of the model"),
        }
    }
    Some(Buffer { each: Gpus::ZERO, by_model })
}

fn cluster(reader: &Reader, item: &Item) -> Option<ClusterRow> {
    let fields = reader.fields(item, &["id", "region", "provider", "kind", "tenancy", "backend"])?;
    let id = fields.required("id").and_then(|item| reader.name(item));
    let region = fields.required("region").and_then(|item| reader.name(item));
    let text = |name, default: &str| {
        fields
            .optional(name)
            .map_or_else(|| Some(default.to_owned()), |item| reader.text(item).map(str::to_owned))
    };
    let (provider, backend) = (text("provider", "unknown"), text("backend", Cluster::SIMULATED));
    let kind = fields.optional("kind").map_or(Some(ClusterKind::Kubernetes), |item| reader.one_of(item));
    let dedicated = fields.optional("tenancy").map_or(Some(false), |item| dedicated(reader, item));
    Some(ClusterRow {
        id: id?,
        region: region?,
        provider: provider?,
        kind: kind?,
        dedicated: dedicated?,
        backend: backend?,
    })
}

fn dedicated(reader: &Reader, item: &Item) -> Option<bool> {
    match reader.text(item)? {
        "shared" => Some(false),
        "dedicated" => Some(true),
        other => {
            reader.note(item, format!("{other:?} is not a tenancy"), "write `shared` or `dedicated`");
            None
        }
    }
}

/// Returns the jurisdiction of a region without a description: the beginning of its name, such as `eu` for `eu-west-1`.
pub(super) fn presumed(region: &RegionId) -> Option<Jurisdiction> {
    region.as_str().split('-').next()?.parse().ok()
}

/// Returns all regions of the file's clusters.
pub(super) fn regions_of(sites: &Sites) -> BTreeSet<RegionId> {
    sites.clusters.iter().map(|cluster| cluster.region.clone()).collect()
}
