//! Converts resources to assets, and lists the resources that a tenant must have according to the ledger.

use super::{LeavingTenant, Offboarding};
use crate::{
    destruction::{Asset, AssetId, AssetType, DataClass, Scan},
    platform::{
        Devices, LUKS_KEY, ObservedResource, TenantResource, bucket_name, flavor_name, tenant_name,
        workspace_name,
    },
    signing::Moment,
    tenancy::{ClusterKind, TenantId},
};

/// Returns the asset type of a resource, and the class of its data unless the resource states it. `None` means unclassified.
pub(super) fn kind_of(thing: &TenantResource) -> (AssetType, Option<DataClass>) {
    use crate::destruction::AssetType::*;
    use crate::destruction::DataClass::{
        Backup as Copies, Configuration, Identity as People, Secret as Secrets,
    };
    let plain = |kind| (kind, Some(Configuration));
    match (thing.system.as_str(), thing.kind.as_str()) {
        ("kubernetes", "Node") => (Node, Some(DataClass::Workload)),
        ("kubernetes", "LocalQueue" | "ClusterQueue" | "Cohort" | "ResourceFlavor") => plain(Queue),
        ("kubernetes", "PersistentVolume") => (Pv, None),
        ("kubernetes", "VolumeSnapshotContent.snapshot.storage.k8s.io") => (Snapshot, None),
        ("kubernetes", _) => plain(Namespace),
        ("slurm", _) => (Account, Some(DataClass::Configuration)),
        ("keys", "Key") => (Key, Some(Secrets)),
        ("keys", _) => (Secret, Some(Secrets)),
        ("objects", _) => (Bucket, None),
        ("identity", _) => (Identity, Some(People)),
        ("storage", "Snapshot") => (Snapshot, None),
        ("storage", "Filesystem") => (Filesystem, None),
        ("storage", _) => (Pv, None),
        ("backups", _) => (Backup, Some(Copies)),
        ("registry", "Model") => (Model, Some(DataClass::Model)),
        ("registry", _) => (RegistryRepo, None),
        ("logs", _) => (LogStream, None),
        ("network", "Record") => plain(Dns),
        ("network", "Partition") => plain(FabricKey),
        (_, _) => plain(Ip),
    }
}

/// Returns the order of removal: contents before their container, and children before parents.
pub(super) fn rank(thing: &TenantResource) -> u8 {
    match (thing.system.as_str(), thing.kind.as_str()) {
        ("kubernetes", "LocalQueue") => 0,
        ("kubernetes", "ClusterQueue") => 1,
        ("kubernetes", "Cohort") => 2,
        ("kubernetes", "ResourceFlavor") => 3,
        // Some drivers keep a volume while it has snapshots.
        ("kubernetes", "Namespace" | "PersistentVolume") => 5,
        ("kubernetes", _) => 4,
        ("slurm", _) => 6,
        ("identity", "Credentials") => 7,
        ("identity", _) => 8,
        (_, _) => 9,
    }
}

/// Returns true if the resource is destroyed like a key. The encrypted data stay in place and are unreadable.
pub(super) fn is_shredded(kind: AssetType, thing: &TenantResource) -> bool {
    kind == AssetType::Key || is_volume_key(thing)
}

/// Returns true for the key of a machine's encrypted volume. Its header can be copied and cannot be re-encrypted with another key, so it is no
/// [`AssetType::Key`].
pub(super) fn is_volume_key(thing: &TenantResource) -> bool {
    thing.system == "storage" && thing.kind == LUKS_KEY
}

/// Returns true for an asset with data, which is deleted before nodes are cleaned. Other assets are dismantled afterwards.
pub(super) fn holds_data(kind: AssetType) -> bool {
    use crate::destruction::AssetType::*;
    match kind {
        Bucket | Pv | Filesystem | Snapshot | Backup | RegistryRepo | Model | Secret | LogStream => true,
        Node | Gpu | Nvme | Nic | Key | Account | Identity | Dns | Ip | FabricKey | Namespace | Queue
        | ClusterKey => false,
    }
}

/// Returns the assets for a resource that was found. A resource that declares the class of its data was created through the platform, whose catalogue
/// keeps that label, so it also counts as recorded.
pub(super) fn found(tenant: &TenantId, seen: &ObservedResource, at: Moment) -> Vec<Asset> {
    let (kind, usual) = kind_of(&seen.thing);
    let declared = seen.text("class").and_then(|class| class.parse().ok());
    let locator = seen.thing.to_string();
    let live = Asset {
        serial: Some(seen.uid.clone()),
        ..Asset::from_scan(tenant, kind, &locator, declared.or(usual), Scan::Live, at)
    };
    let catalogued =
        declared.map(|class| Asset::from_scan(tenant, kind, &locator, Some(class), Scan::Records, at));
    [live].into_iter().chain(catalogued).collect()
}

/// Returns the parts of a node, as read from the node and confirmed by the node's record. The ledger knows the number of GPUs, so a different number
/// is an open question.
pub(super) fn parts(
    leaver: &LeavingTenant,
    node: &str,
    devices: Option<&Devices>,
    gpus: u64,
    at: Moment,
) -> Vec<Asset> {
    let place = format!("machines/{}", leaver.cluster);
    let asset = |kind, locator: String, scan, serial: Option<&str>| Asset {
        serial: serial.map(str::to_owned),
        node: Some(node.to_owned()),
        ..Asset::from_scan(&leaver.tenant, kind, &locator, Some(DataClass::Workload), scan, at)
    };
    let mut all = vec![asset(AssetType::Node, format!("{place}/Node/{node}"), Scan::Records, None)];
    all.extend(
        (0..gpus).map(|n| asset(AssetType::Gpu, format!("{place}/Gpu/{node}/{n}"), Scan::Records, None)),
    );
    let Some(devices) = devices else { return all };
    all.push(asset(AssetType::Node, format!("{place}/Node/{node}"), Scan::Live, Some(&devices.serial)));
    for (n, gpu) in devices.gpus.iter().enumerate() {
        all.push(asset(AssetType::Gpu, format!("{place}/Gpu/{node}/{n}"), Scan::Live, Some(&gpu.uuid)));
    }
    let drives = devices.drives.iter().map(|drive| (AssetType::Nvme, "Drive", drive.serial.as_str()));
    let cards = devices.nics.iter().map(|nic| (AssetType::Nic, "Nic", nic.as_str()));
    for (kind, word, serial) in drives.chain(cards) {
        for scan in [Scan::Records, Scan::Live] {
            all.push(asset(kind, format!("{place}/{word}/{node}/{serial}"), scan, Some(serial)));
        }
    }
    all
}

/// Returns the beginnings of the asset ids of a node, as [`parts`] creates them.
pub(super) fn part_beginnings(cluster: &str, node: &str) -> Vec<String> {
    let place = format!("machines/{cluster}");
    let words = [
        (AssetType::Node, format!("Node/{node}")),
        (AssetType::Gpu, format!("Gpu/{node}/")),
        (AssetType::Nvme, format!("Drive/{node}/")),
        (AssetType::Nic, format!("Nic/{node}/")),
    ];
    words.into_iter().map(|(kind, rest)| AssetId::new(kind, &format!("{place}/{rest}")).0).collect()
}

/// Returns the resources that onboarding creates, by their deterministic names: the scan of Tenure's own records.
pub(super) fn expected(leaver: &LeavingTenant) -> Vec<TenantResource> {
    let (tenant, cluster) = (leaver.tenant.as_str(), leaver.cluster.as_str());
    let mut all = Vec::new();
    let mut add = |system, place: &str, kind, name: Result<String, engine::ActionError>| {
        all.extend(name.ok().map(|name| TenantResource::new(system, place, kind, &name)));
    };
    add("keys", "", "Key", tenant_name(tenant));
    add("identity", "", "Groups", tenant_name(tenant));
    add("identity", "", "Credentials", tenant_name(tenant));
    add("objects", leaver.region.as_str(), "Bucket", bucket_name(tenant, leaver.region.as_str()));
    match leaver.kind {
        ClusterKind::Slurm => add("slurm", cluster, "Account", tenant_name(tenant)),
        ClusterKind::BareMetal => {}
        ClusterKind::Kubernetes => {
            add("kubernetes", cluster, "Cohort", tenant_name(tenant));
            add("kubernetes", cluster, "ResourceFlavor", flavor_name(tenant, leaver.model.as_str()));
            for workspace in &leaver.workspaces {
                let name = || workspace_name(tenant, workspace.as_str());
                let within = |inner: &str| name().map(|name| format!("{name}/{inner}"));
                add("kubernetes", cluster, "Namespace", name());
                add("kubernetes", cluster, "ClusterQueue", name());
                add("kubernetes", cluster, "LocalQueue", within("gpus"));
                add("kubernetes", cluster, "ResourceQuota", within("tenure"));
                add("kubernetes", cluster, "NetworkPolicy", within("default-deny"));
                add("kubernetes", cluster, "RoleBinding", within("tenant"));
                add("kubernetes", cluster, "ValidatingAdmissionPolicy", name());
            }
        }
    }
    all
}

impl Offboarding {
    /// Returns the resources through which work or users enter. They are frozen first.
    pub(super) fn entry_points(&self) -> Vec<TenantResource> {
        let is_door =
            |thing: &TenantResource| matches!(thing.kind.as_str(), "ClusterQueue" | "Account" | "Groups");
        let leaver = self.leaver.iter().filter(|_| self.remaining.is_none());
        leaver.flat_map(expected).filter(is_door).collect()
    }
}
