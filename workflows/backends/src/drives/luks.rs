//! LUKS volumes on the drives: found by their headers, and destroyed by removing every key slot.
//!
//! The surveyed object is the *key* of a volume: it exists while a slot holds it. The ciphertext stays on the drive. A
//! volume belongs to a tenant if its header has the subsystem `tenure/TENANT` (`cryptsetup config --subsystem`) or
//! `tenure/TENANT/CLASS`, which also declares the class of its data. Only LUKS2 is supported.

use crate::drives::{
    command_log,
    discovery::{self, Block},
    machine::LocalMachine,
    tools::{Effect, ToolOutput, Tools},
};
use crate::state_file::{self, LockedFile, Steps};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::PathBuf;
use workflows::platform::{
    CallMetadata, DriveTool, EmptyProgress, LUKS_KEY, ObservedResource, Observer, ProbeFinding,
    TenantResource, TenantResources, VerifiedAs, codes,
};

const SYSTEM: &str = "storage";
/// The prefix of the subsystem of tenants' volumes.
const MARK: &str = "tenure/";
/// Exit codes of cryptsetup if the key fits no slot, or no slot exists.
const NO_KEY_FITS: [i32; 2] = [1, 2];
/// Exit code of cryptsetup for a device that is not LUKS2.
const NOT_LUKS: i32 = 1;

/// The stored state of a volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct VolumeState {
    steps: Steps,
    /// True if the known key opened the volume just before its erasure.
    opened: bool,
}

/// A volume, as its header describes it.
#[derive(Debug)]
struct Volume {
    uuid: String,
    tenant: String,
    /// The class of its data, if the header declares it.
    class: Option<String>,
    label: String,
    slots: usize,
    block: Block,
}

/// Returns the value of a line of `luksDump`; empty for a placeholder.
fn line<'a>(dump: &'a str, name: &str) -> &'a str {
    let value = dump.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or_default();
    if value.starts_with("(no ") { "" } else { value }
}

/// Returns the LUKS2 volume on a block device, if there is one.
async fn volume(tools: &Tools<'_>, block: &Block) -> Result<Option<Volume>, ActionError> {
    let cryptsetup = &tools.target.cryptsetup;
    let ran = tools.run(cryptsetup, &["isLuks", "--type", "luks2", &block.path], &[], Effect::Look).await?;
    match ran.code {
        0 => {}
        NOT_LUKS => return Ok(None),
        _ => return Err(ran.failed()),
    }
    let ran = tools.good(cryptsetup, &["luksDump", &block.path]).await?;
    let dump = String::from_utf8_lossy(&ran.stdout);
    let mark = line(&dump, "Subsystem:");
    let uuid = line(&dump, "UUID:").to_owned();
    if uuid.is_empty() {
        return Err(ran.unreadable("the UUID is missing"));
    }
    let ran = tools.good(cryptsetup, &["luksDump", "--dump-json-metadata", &block.path]).await?;
    let said = ran.json()?;
    let slots = said.get("keyslots").and_then(Value::as_object);
    let slots = slots.ok_or_else(|| ran.unreadable("the key slots are missing"))?.len();
    let marked = mark.strip_prefix(MARK).unwrap_or_default();
    let (tenant, class) = match marked.split_once('/') {
        Some((tenant, class)) => (tenant.to_owned(), Some(class.to_owned())),
        None => (marked.to_owned(), None),
    };
    let label = line(&dump, "Label:").to_owned();
    Ok(Some(Volume { uuid, tenant, class, label, slots, block: block.clone() }))
}

/// Returns all tenants' volumes of the machine.
async fn volumes(tools: &Tools<'_>) -> Result<Vec<Volume>, ActionError> {
    let mut found = Vec::new();
    for block in &discovery::blocks(tools).await? {
        for block in block.all() {
            found.extend(volume(tools, block).await?);
        }
    }
    Ok(found)
}

/// Returns true if the key opens the volume. The key is passed on standard input, never on a command line.
async fn opens(tools: &Tools<'_>, volume: &Volume, key: &[u8]) -> Result<bool, ActionError> {
    let words = ["open", "--test-passphrase", "--key-file=-", "--batch-mode", &volume.block.path];
    let ran = tools.run(&tools.target.cryptsetup, &words, key, Effect::Look).await?;
    match ran.code {
        0 => Ok(true),
        code if NO_KEY_FITS.contains(&code) => Ok(false),
        _ => Err(ran.failed()),
    }
}

impl LocalMachine {
    fn volume_of(&self, thing: &TenantResource) -> Result<String, ActionError> {
        let (node, uuid) = thing.name.split_once('/').unwrap_or_default();
        let ours = thing.system == SYSTEM && thing.place == self.cluster && node == self.node;
        if ours && thing.kind == LUKS_KEY && !uuid.is_empty() {
            return Ok(uuid.to_owned());
        }
        let why = format!("{thing} is not a LUKS key of {}", self.place());
        Err(ActionError::permanent(codes::REFUSED, why))
    }

    fn seen(&self, volume: &Volume) -> ObservedResource {
        let Volume { uuid, tenant, class, label, slots, block } = volume;
        let mut spec = json!({ "device": block.path, "label": label, "slots": slots, "bytes": block.size });
        if let (Some(fields), Some(class)) = (spec.as_object_mut(), class) {
            fields.insert("class".into(), json!(class));
        }
        let thing = TenantResource::new(SYSTEM, &self.cluster, LUKS_KEY, &format!("{}/{uuid}", self.node));
        ObservedResource { thing, uid: uuid.clone(), tenant: tenant.clone(), spec, terminating: false }
    }

    /// Returns the configured key of a volume, if there is one.
    fn known_key(&self, uuid: &str) -> Result<Option<Vec<u8>>, ActionError> {
        let Some(folder) = &self.target.known_keys else { return Ok(None) };
        if uuid.contains(['/', '\\', '.']) {
            return Ok(None);
        }
        match std::fs::read(folder.join(uuid)) {
            Ok(key) => Ok(Some(key)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let why = format!("the key of volume {uuid} in {}: {error}", folder.display());
                Err(ActionError::permanent(codes::DENIED, why))
            }
        }
    }

    fn book_of(&self, uuid: &str) -> PathBuf {
        command_log::state_path(&self.target.state, "luks", uuid)
    }

    async fn found(&self, tools: &Tools<'_>, uuid: &str) -> Result<Option<Volume>, ActionError> {
        Ok(volumes(tools).await?.into_iter().find(|volume| volume.uuid == uuid))
    }
}

#[async_trait]
impl TenantResources for LocalMachine {
    fn backend(&self) -> &'static str {
        "drives"
    }

    fn is_simulated(&self, _: &TenantResource) -> bool {
        false
    }

    fn is_system_simulated(&self, _: &str) -> bool {
        false
    }

    fn verified_as(&self, _: &TenantResource, eyes: Observer) -> VerifiedAs {
        self.target.verified_as(eyes)
    }

    async fn survey(
        &self,
        system: &str,
        tenant: &str,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Vec<ObservedResource>, ActionError> {
        if system != SYSTEM {
            return Ok(Vec::new());
        }
        let tools = Tools::of(&self.target, eyes, stamp);
        let all = volumes(&tools).await?;
        let own = all.iter().filter(|volume| volume.slots > 0 && volume.tenant == tenant);
        Ok(own.map(|volume| self.seen(volume)).collect())
    }

    async fn read_resource(
        &self,
        thing: &TenantResource,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Option<ObservedResource>, ActionError> {
        let uuid = self.volume_of(thing)?;
        let found = self.found(&Tools::of(&self.target, eyes, stamp), &uuid).await?;
        Ok(found.filter(|volume| volume.slots > 0).map(|volume| self.seen(&volume)))
    }

    async fn empty(
        &self,
        thing: &TenantResource,
        _uid: &str,
        _stamp: &CallMetadata,
    ) -> Result<EmptyProgress, ActionError> {
        self.volume_of(thing)?;
        Ok(EmptyProgress::default())
    }

    /// Destroys every key slot. Fails while a mapping is open, because the kernel then holds the key and can still
    /// decrypt.
    async fn remove(
        &self,
        thing: &TenantResource,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let uuid = self.volume_of(thing)?;
        let tools = Tools::of(&self.target, Observer::Platform, stamp);
        let Some(volume) = self.found(&tools, &uuid).await?.filter(|volume| volume.slots > 0) else {
            return Ok(());
        };
        if volume.uuid != uid {
            let why = format!("{thing} is {}, but {uid} was to be erased", volume.uuid);
            return Err(ActionError::permanent(codes::REPLACED, why));
        }
        let mut held: LockedFile<VolumeState> =
            command_log::lock_state(self.book_of(&uuid), "another call uses the volume").await?;
        if held.content.steps.admit(&uuid, stamp)? {
            let why = format!("this call erased volume {uuid}, but it still has {} key slots", volume.slots);
            return Err(ActionError::permanent(codes::REMAINS, why));
        }
        if let Some(why) = volume.block.in_use() {
            let why = format!("volume {uuid} is in use: {why}; end this use, then retry");
            return Err(ActionError::permanent(codes::NODE_BUSY, why));
        }
        let opened = match self.known_key(&uuid)? {
            Some(key) => opens(&tools, &volume, &key).await?,
            None => false,
        };
        if stamp.dry_run {
            return Ok(());
        }
        held.content.opened = opened;
        held.content.steps.seen(stamp, None);
        held.keep()?;
        let words = ["luksErase", "--batch-mode", &volume.block.path];
        let ran: ToolOutput = tools.run(&self.target.cryptsetup, &words, &[], Effect::Change).await?;
        if ran.code != 0 {
            let why = format!("volume {uuid} was not erased: exit code {}{}", ran.code, ran.words);
            return Err(ActionError::permanent(codes::REFUSED, why));
        }
        held.content.steps.seen(stamp, Some(&uuid));
        held.keep()
    }

    /// Tries the configured key, and reports if it opened the volume before.
    async fn undecryptable(
        &self,
        key: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        let uuid = self.volume_of(key)?;
        let tools = Tools::of(&self.target, Observer::Verifier, stamp);
        let Some(volume) = self.found(&tools, &uuid).await? else {
            let transcript = format!("no drive of {} has a LUKS header with the UUID {uuid}", self.place());
            return Ok(ProbeFinding { held: true, transcript });
        };
        let slots = format!("the header of volume {uuid} has {} key slots", volume.slots);
        let Some(known) = self.known_key(&uuid)? else {
            let transcript = format!("{slots}; no known key could be tried");
            return Ok(ProbeFinding { held: volume.slots == 0, transcript });
        };
        let before: VolumeState = state_file::read(&self.book_of(&uuid))?;
        let opened = opens(&tools, &volume, &known).await?;
        let so = if opened { "opens it" } else { "does not open it" };
        let was = if before.opened { "opened it before" } else { "was not seen to open it before" };
        let transcript = format!("{slots}; the known key {was}, and {so} now");
        Ok(ProbeFinding { held: volume.slots == 0 && !opened, transcript })
    }

    /// Returns cryptsetup with its version from `cryptsetup 2.6.1 flags: UDEV BLKID`.
    async fn destruction_tool(
        &self,
        thing: &TenantResource,
        stamp: &CallMetadata,
    ) -> Result<Option<DriveTool>, ActionError> {
        self.volume_of(thing)?;
        let tools = Tools::of(&self.target, Observer::Platform, stamp);
        let ran = tools.good(&self.target.cryptsetup, &["--version"]).await?;
        let said = String::from_utf8_lossy(&ran.stdout);
        let version =
            said.split_whitespace().nth(1).ok_or_else(|| ran.unreadable("its version is missing"))?;
        Ok(Some(DriveTool { name: "cryptsetup".into(), version: version.to_owned() }))
    }
}
