//! Finds the drives of a machine: NVMe controllers and block devices, joined by serial number.

use crate::drives::{nvme_pages::Identity, tools::Tools};
use engine::ActionError;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use workflows::platform::codes;

/// Virtual disks of the kernel, and disks on other machines.
const NOT_DRIVES: [&str; 5] = ["loop", "ram", "zram", "nbd", "fd"];

/// A block device and the devices on top of it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Block {
    pub(super) name: String,
    pub(super) path: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) size: u64,
    serial: Option<String>,
    #[serde(default)]
    mountpoints: Vec<Option<String>>,
    #[serde(default)]
    pub(super) children: Vec<Block>,
}

impl Block {
    /// Returns the use of the device or of a device on top of it; `None` if it is not in use.
    pub(super) fn in_use(&self) -> Option<String> {
        if let Some(at) = self.mountpoints.iter().flatten().next() {
            return Some(format!("{} is mounted at {at}", self.path));
        }
        let held = self.children.iter().find(|child| child.kind != "part");
        let inner = self.children.iter().find_map(Block::in_use);
        inner
            .or_else(|| held.map(|child| format!("{} is part of {} ({})", self.path, child.path, child.kind)))
    }

    /// Returns the device and all devices on top of it.
    pub(super) fn all(&self) -> Vec<&Block> {
        [self].into_iter().chain(self.children.iter().flat_map(Block::all)).collect()
    }

    /// Returns the kernel's serial number of the device.
    pub(super) fn serial(&self) -> Option<&str> {
        self.serial.as_deref().map(str::trim).filter(|serial| !serial.is_empty())
    }
}

/// A drive with its controllers and block devices.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) serial: String,
    /// The controller's identify data. Absent for a drive without NVMe, for which no erasure is known.
    pub(super) identity: Option<Identity>,
    /// The device files of the controllers.
    pub(super) controllers: Vec<String>,
    /// The namespaces, or the drive itself.
    pub(super) blocks: Vec<Block>,
}

impl Device {
    /// Returns the use of any of its block devices.
    pub(super) fn in_use(&self) -> Option<String> {
        self.blocks.iter().find_map(Block::in_use)
    }

    /// Returns one of its controllers.
    pub(super) fn controller(&self) -> Result<&str, ActionError> {
        self.controllers.first().map(String::as_str).ok_or_else(|| {
            let why = format!("drive {} does not speak NVMe: its controller cannot be asked", self.serial);
            ActionError::permanent(codes::DRIVE_UNSUITABLE, why)
        })
    }
}

#[derive(Deserialize)]
struct Listed {
    blockdevices: Vec<Block>,
}

/// Lists the block devices as a tree.
pub(super) async fn blocks(tools: &Tools<'_>) -> Result<Vec<Block>, ActionError> {
    let columns = "NAME,PATH,TYPE,SIZE,SERIAL,MOUNTPOINTS";
    let ran = tools.good(&tools.target.lsblk, &["--json", "--bytes", "--output", columns]).await?;
    let listed: Listed = serde_json::from_slice(&ran.stdout).map_err(|error| ran.unreadable(error))?;
    Ok(listed.blockdevices)
}

/// Reads the identify data of an NVMe controller.
async fn identify(tools: &Tools<'_>, path: &str) -> Result<Identity, ActionError> {
    let ran = tools.nvme(&["id-ctrl", path, "--output-format=binary"]).await?;
    Identity::read(&ran.stdout).map_err(|why| ran.unreadable(why))
}

/// Returns the controllers of local drives, such as `nvme0`. Controllers behind a network belong to other machines.
async fn controllers(tools: &Tools<'_>) -> Result<Vec<String>, ActionError> {
    let ran = tools.nvme(&["list-subsys", "--output-format=json"]).await?;
    let mut found = Vec::new();
    local(&ran.json()?, &mut found);
    found.sort();
    found.dedup();
    Ok(found)
}

/// Collects all paths with local transport; their place in the output differs between versions of nvme-cli.
fn local(said: &Value, found: &mut Vec<String>) {
    match said {
        Value::Array(items) => items.iter().for_each(|item| local(item, found)),
        Value::Object(fields) => {
            let named = |field: &str| fields.get(field).and_then(Value::as_str);
            if let (Some(name), Some("pcie")) = (named("Name"), named("Transport")) {
                found.push(name.to_owned());
            }
            fields.values().for_each(|field| local(field, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns true if the kernel's name is one of an NVMe namespace.
fn is_namespace(name: &str) -> bool {
    name.starts_with("nvme")
}

/// Returns all drives of the machine.
///
/// # Errors
///
/// If two drives have the same serial number, or one has none, because a certificate must identify each drive.
pub(super) async fn drives(tools: &Tools<'_>) -> Result<Vec<Device>, ActionError> {
    let mut found: BTreeMap<String, Device> = BTreeMap::new();
    for name in controllers(tools).await? {
        let path = format!("/dev/{name}");
        let identity = identify(tools, &path).await?;
        let serial = identity.serial.clone();
        let device = found.entry(serial.clone()).or_insert_with(|| Device {
            serial,
            identity: Some(identity.clone()),
            controllers: Vec::new(),
            blocks: Vec::new(),
        });
        if device.identity.as_ref().is_some_and(|known| known.subsystem != identity.subsystem) {
            return Err(alike(&device.serial));
        }
        device.controllers.push(path);
    }
    for block in blocks(tools).await?.into_iter().filter(|block| block.kind == "disk") {
        if is_namespace(&block.name) {
            let serial = identify(tools, &block.path).await?.serial;
            // A namespace without a local controller is on another machine.
            if let Some(device) = found.get_mut(&serial) {
                device.blocks.push(block);
            }
        } else if !NOT_DRIVES.iter().any(|kind| block.name.starts_with(kind)) {
            let serial = block.serial().ok_or_else(|| nameless(&block))?.to_owned();
            let (identity, controllers, blocks) = (None, Vec::new(), vec![block]);
            let device = Device { serial: serial.clone(), identity, controllers, blocks };
            if found.insert(serial.clone(), device).is_some() {
                return Err(alike(&serial));
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Returns the drive with this serial number.
pub(super) async fn drive(tools: &Tools<'_>, serial: &str) -> Result<Device, ActionError> {
    let all = drives(tools).await?;
    all.into_iter().find(|device| device.serial == serial).ok_or_else(|| {
        let why = format!("no drive of this machine says that its serial number is {serial}");
        ActionError::permanent(codes::OBJECT_MISSING, why)
    })
}

/// Returns true if every namespace of the drive is visible as a block device. Others can be neither formatted nor
/// sampled.
pub(super) async fn is_whole(tools: &Tools<'_>, device: &Device) -> Result<bool, ActionError> {
    let Some(identity) = &device.identity else { return Ok(true) };
    let mut words = vec!["list-ns", device.controller()?, "--output-format=json"];
    if identity.manages_namespaces {
        words.push("--all");
    }
    let ran = tools.nvme(&words).await?;
    let said = ran.json()?;
    let listed = said.get("nsid_list").and_then(Value::as_array);
    let listed = listed.ok_or_else(|| ran.unreadable("there is no nsid_list"))?;
    Ok(listed.len() == device.blocks.len())
}

fn alike(serial: &str) -> ActionError {
    let why = format!("two drives say that their serial number is {serial}: they cannot be told apart");
    ActionError::permanent(codes::REFUSED, why)
}

fn nameless(block: &Block) -> ActionError {
    let why = format!("{} says no serial number: it cannot be named on a certificate", block.path);
    ActionError::permanent(codes::REFUSED, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(said: Value) -> Block {
        serde_json::from_value(said).unwrap()
    }

    #[test]
    fn every_use_of_a_drive_makes_it_in_use() {
        let plain = json!({ "name": "nvme0n1", "path": "/dev/nvme0n1", "type": "disk", "size": 1, "serial": null,
                            "mountpoints": [null] });
        let with = |field: &str, value: Value| {
            let mut said = plain.clone();
            said[field] = value;
            block(said).in_use()
        };
        let part = |mountpoint: Value, children: Value| {
            json!([{ "name": "nvme0n1p1", "path": "/dev/nvme0n1p1", "type": "part", "size": 1,
                     "mountpoints": [mountpoint], "children": children }])
        };
        let crypt = json!([{ "name": "c", "path": "/dev/mapper/c", "type": "crypt", "size": 1, "mountpoints": [null] }]);

        assert_eq!(block(plain.clone()).in_use(), None);
        assert_eq!(with("children", part(Value::Null, json!([]))), None, "a partition alone is no use");
        assert_eq!(with("mountpoints", json!(["/"])).as_deref(), Some("/dev/nvme0n1 is mounted at /"));
        let swap = with("children", part(json!("[SWAP]"), json!([])));
        assert_eq!(swap.as_deref(), Some("/dev/nvme0n1p1 is mounted at [SWAP]"));
        let open = with("children", part(Value::Null, crypt));
        assert_eq!(open.as_deref(), Some("/dev/nvme0n1p1 is part of /dev/mapper/c (crypt)"));
    }

    /// The output of nvme-cli 1 is an object, that of version 2 a list of hosts; the names of paths are equal.
    #[test]
    fn network_controllers_are_not_drives_of_the_machine() {
        let path = |name, transport| json!({ "Name": name, "Transport": transport, "State": "live" });
        let subsystems = json!({ "Subsystems": [
            { "Name": "nvme-subsys0", "Paths": [path("nvme0", "pcie")] },
            { "Name": "nvme-subsys1", "Paths": [path("nvme1", "tcp"), path("nvme2", "rdma")] },
        ] });
        for said in [subsystems.clone(), json!([subsystems])] {
            let mut found = Vec::new();
            local(&said, &mut found);
            assert_eq!(found, ["nvme0"]);
        }
    }
}
