//! Removes a tenant's resources: re-encrypts, shreds and deletes one resource at a time.

use crate::platform::{
    CallMetadata, DriveTool, EmptyProgress, EncryptedBy, ObservedResource, Observer, Platform, ProbeFinding,
    TenantResource, TenantResources, UNTIL_LIFTED, WayBack,
    call_metadata::{look_again, outcome_unknown},
    codes,
};
use engine::{Action, ActionError, Call, Class, Probe, Repeat};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Checks with a dry run that a retained resource can be re-encrypted with a provider's key.
///
/// Fails with `platform.unsupported` if its store cannot do this. Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckRewrap {
    /// The resource.
    pub thing: TenantResource,
    /// The tenant's id.
    pub tenant: String,
    /// The provider's key.
    pub key: String,
    /// The end of the retention, as a text for users.
    pub until: String,
}

impl Action for CheckRewrap {
    const NAME: &'static str = "CheckRewrap";
    type Platform = Platform;
    type Output = ();

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let stamp = CallMetadata { dry_run: true, ..CallMetadata::for_action(self, call) };
        let asked = on.tenant_resources.rewrap(&self.thing, &self.tenant, &self.key, &stamp).await;
        asked.map_err(|error| match error.class {
            Class::Permanent => {
                let why = format!(
                    "a rule retains {} until {}, but it cannot be encrypted with another key before the tenant's key is destroyed: {}",
                    self.thing, self.until, error.message
                );
                ActionError::permanent(codes::UNSUPPORTED, why)
            }
            Class::Transient | Class::Pending { .. } | Class::Unknown => error,
        })
    }
}

/// Re-encrypts a retained resource with a provider's key, so that the tenant's key can be destroyed.
///
/// Safe to run twice: it sets one field. It has no undo: the holder of the retained data can still read them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RewrapThing {
    /// The resource.
    pub thing: TenantResource,
    /// The tenant's id.
    pub tenant: String,
    /// The provider's key.
    pub key: String,
}

impl Action for RewrapThing {
    const NAME: &'static str = "RewrapThing";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        on.tenant_resources
            .rewrap(&self.thing, &self.tenant, &self.key, &CallMetadata::for_action(self, call))
            .await
    }
}

/// Destroys a key and every copy in its store, verifies that it is gone, and tries to decrypt.
///
/// Safe to run twice: a missing key is a success, and each copy has its own request key. After a lost response the store is probed first. It has no
/// undo. It first checks which key encrypts each retained resource.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShredKey {
    /// The key.
    pub thing: TenantResource,
    /// The tenant's id.
    pub tenant: String,
    /// The unique id that the inventory lists.
    pub uid: String,
    /// Retained resources. The key is not destroyed while it encrypts one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<TenantResource>,
}

/// A destroyed key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shredded {
    /// The key.
    pub thing: TenantResource,
    /// True if a decryption with the key was tried and failed.
    pub decrypt_fails: bool,
    /// The transcript of that attempt, as evidence.
    pub transcript: String,
    /// The tool that destroyed the key. `None` if only API calls of this program were used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<DriveTool>,
    /// Every way to recover the key, as observed just before its destruction. Empty if the key was gone by then.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub can_come_back: BTreeSet<WayBack>,
    /// True if the key was observed then. If false, the ways to recover it are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
    /// For each retained resource, the key that encrypted it before this key was destroyed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kept: BTreeMap<TenantResource, EncryptedBy>,
}

impl Action for ShredKey {
    const NAME: &'static str = "ShredKey";
    type Platform = Platform;
    type Output = Shredded;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<Shredded, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let kept = self.kept_under(on, &stamp).await?;
        let seen = on.tenant_resources.read_resource(&self.thing, Observer::Platform, &stamp).await?;
        if seen.is_some() {
            self.loses_nothing_kept(&kept)?;
        }
        for copy in
            on.tenant_resources.survey(&self.thing.system, &self.tenant, Observer::Platform, &stamp).await?
        {
            if copy.text("copy_of") == Some(self.thing.name.as_str()) && !copy.terminating {
                on.tenant_resources.remove(&copy.thing, &copy.uid, &stamp.for_part(&copy.uid)).await?;
            }
        }
        let Some(seen) = seen else {
            return Ok(Shredded { kept, ..self.probed(on, &stamp).await? });
        };
        same(&seen, &self.tenant, &self.uid)?;
        self.removed(on, &seen, &stamp).await?;
        let can_come_back = if self.is_volume() { BTreeSet::new() } else { seen.key_safety().can_come_back };
        Ok(Shredded { kept, can_come_back, seen: true, ..self.probed(on, &stamp).await? })
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<Shredded>, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let kept = self.kept_under(on, &stamp).await?;
        if on.tenant_resources.read_resource(&self.thing, Observer::Platform, &stamp).await?.is_some() {
            return Ok(Probe::NotDone);
        }
        let probed = self.probed(on, &stamp).await;
        Ok(probed.map_or(Probe::NotDone, |shredded| Probe::Done(Shredded { kept, ..shredded })))
    }
}

impl ShredKey {
    /// Returns true for a volume's key. The system of such a key does not report copies of it.
    fn is_volume(&self) -> bool {
        self.thing.system == "storage"
    }

    /// Returns the encryption key of each retained resource. Missing resources are left out.
    async fn kept_under(
        &self,
        on: &Platform,
        stamp: &CallMetadata,
    ) -> Result<BTreeMap<TenantResource, EncryptedBy>, ActionError> {
        let mut kept = BTreeMap::new();
        for thing in &self.kept {
            let seen = on.tenant_resources.read_resource(thing, Observer::Platform, stamp).await?;
            kept.extend(seen.map(|seen| (thing.clone(), seen.encrypted_by())));
        }
        Ok(kept)
    }

    /// Fails with `key.in_use` while a retained resource is encrypted with this key.
    fn loses_nothing_kept(&self, kept: &BTreeMap<TenantResource, EncryptedBy>) -> Result<(), ActionError> {
        let own = EncryptedBy::Key(self.thing.name.clone());
        let Some((thing, _)) = kept.iter().find(|(_, by)| **by == own) else { return Ok(()) };
        let why = format!(
            "a rule retains {thing}, but it is still encrypted with key {}, whose destruction would make it unreadable",
            self.thing.name
        );
        Err(ActionError::permanent(codes::KEY_IN_USE, why))
    }

    /// Deletes the key. If the store keeps it recoverable, deletes it a second time. Fails with the key's name if it still exists.
    async fn removed(
        &self,
        on: &Platform,
        seen: &ObservedResource,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let (mut uid, finally) = (seen.uid.clone(), stamp.for_part("finally"));
        for (stamp, last) in [(stamp, false), (&finally, true)] {
            on.tenant_resources.remove(&self.thing, &uid, stamp).await?;
            let left = on.tenant_resources.read_resource(&self.thing, Observer::Platform, stamp).await;
            match left.map_err(outcome_unknown)? {
                None => return Ok(()),
                Some(left) if left.terminating && last => {
                    let why = format!(
                        "{} still exists, softly deleted, after its final deletion: it can be restored until it is purged in its key store",
                        self.thing
                    );
                    return Err(ActionError::permanent(codes::KEY_SOFT_DELETED, why));
                }
                Some(left) if left.terminating => uid = left.uid,
                Some(_) => return Err(look_again(codes::TERMINATING)),
            }
        }
        Ok(())
    }

    async fn probed(&self, on: &Platform, stamp: &CallMetadata) -> Result<Shredded, ActionError> {
        let ProbeFinding { held, transcript } = on.tenant_resources.undecryptable(&self.thing, stamp).await?;
        if !held {
            return Err(ActionError::permanent(codes::KEY_SURVIVES, transcript));
        }
        let tool = on.tenant_resources.destruction_tool(&self.thing, stamp).await?;
        Ok(Shredded {
            thing: self.thing.clone(),
            decrypt_fails: held,
            transcript,
            tool,
            can_come_back: BTreeSet::new(),
            seen: false,
            kept: BTreeMap::new(),
        })
    }
}

/// Removes one resource of a tenant. Empties it first if it holds versions, and verifies that it is gone.
///
/// Safe to run twice: a missing resource is a success, another unique id is rejected, and each page has its own request key. After a lost response
/// the store is probed first. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoveThing {
    /// The resource.
    pub thing: TenantResource,
    /// The tenant's id.
    pub tenant: String,
    /// The unique id that the inventory lists.
    pub uid: String,
}

/// Result of [`RemoveThing`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// The resource.
    pub thing: TenantResource,
    /// The outcome of the removal.
    pub fate: RemovalFate,
}

/// The outcome of a removal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalFate {
    /// The resource was observed to be gone.
    Gone,
    /// The resource cannot be removed before that day. Every restore excludes it.
    Kept {
        /// The day, as RFC 3339.
        until: String,
        /// The reason.
        why: String,
        /// The key that encrypts all retained data. Unknown for records of earlier versions.
        #[serde(default)]
        encrypted_by: EncryptedBy,
    },
}

impl Action for RemoveThing {
    const NAME: &'static str = "RemoveThing";
    type Platform = Platform;
    type Output = Removed;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removed, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let Some(seen) = on.tenant_resources.read_resource(&self.thing, Observer::Platform, &stamp).await?
        else {
            return Ok(self.ended(RemovalFate::Gone));
        };
        same(&seen, &self.tenant, &self.uid)?;
        if let Some(until) = seen.text("kept_until") {
            let (until, why) = (until.to_owned(), "its store retains it until then".to_owned());
            return Ok(self.ended(RemovalFate::Kept { until, why, encrypted_by: seen.encrypted_by() }));
        }
        if let Some(until) = self.emptied(&*on.tenant_resources, &seen, &stamp).await? {
            let why = if until == UNTIL_LIFTED {
                "legal hold in its store: it stays until the hold is lifted there".to_owned()
            } else {
                "object lock: its store does not delete it before".to_owned()
            };
            return Ok(self.ended(RemovalFate::Kept { until, why, encrypted_by: seen.encrypted_by() }));
        }
        if !seen.terminating {
            on.tenant_resources.remove(&self.thing, &seen.uid, &stamp).await?;
        }
        match on
            .tenant_resources
            .wait_until_gone(&self.thing, &self.uid, &stamp)
            .await
            .map_err(outcome_unknown)?
        {
            None => Ok(self.ended(RemovalFate::Gone)),
            Some(seen) => {
                let message = seen.text("held").unwrap_or_default().to_owned();
                let error = look_again(codes::TERMINATING);
                Err(if message.is_empty() { error } else { ActionError { message, ..error } })
            }
        }
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<Removed>, ActionError> {
        let seen = on
            .tenant_resources
            .read_resource(&self.thing, Observer::Platform, &CallMetadata::for_action(self, call))
            .await?;
        Ok(seen.map_or_else(|| Probe::Done(self.ended(RemovalFate::Gone)), |_| Probe::NotDone))
    }
}

impl RemoveThing {
    fn ended(&self, fate: RemovalFate) -> Removed {
        Removed { thing: self.thing.clone(), fate }
    }

    /// Removes the contents, page by page. Returns the end of the lock if some contents are locked.
    async fn emptied(
        &self,
        estate: &dyn TenantResources,
        seen: &ObservedResource,
        stamp: &CallMetadata,
    ) -> Result<Option<String>, ActionError> {
        let holds = ["versions", "markers", "uploads", "objects"].map(|field| seen.number(field));
        let (mut left, locked): (u64, u64) = (holds.iter().sum(), seen.number("locked"));
        for _ in 0..PAGES {
            if left == 0 {
                return Ok(seen.text("locked_until").filter(|_| locked > 0).map(str::to_owned));
            }
            let page = stamp.for_part(&format!("page-{left}"));
            let emptied: EmptyProgress = estate.empty(&self.thing, &seen.uid, &page).await?;
            left = emptied.left;
        }
        Err(look_again(codes::EMPTYING))
    }
}

/// Rejects a resource that is not the one in the inventory.
fn same(seen: &ObservedResource, tenant: &str, uid: &str) -> Result<(), ActionError> {
    if seen.tenant != tenant || seen.uid != uid {
        let ObservedResource { thing, tenant: whose, uid: now, .. } = seen;
        let why = format!("{thing} is {now} of {whose:?}, but {uid} of {tenant:?} was to be removed");
        return Err(ActionError::permanent(codes::REPLACED, why));
    }
    Ok(())
}

/// Reports why the deletion of a resource does not complete.
///
/// Safe to run twice: it changes nothing. It has no undo. Finalizers are never removed automatically.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiagnoseRemoval {
    /// The resource.
    pub thing: TenantResource,
}

impl Action for DiagnoseRemoval {
    const NAME: &'static str = "DiagnoseRemoval";
    type Platform = Platform;
    type Output = ();

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let Some(seen) = on
            .tenant_resources
            .read_resource(&self.thing, Observer::Platform, &CallMetadata::for_action(self, call))
            .await?
        else {
            return Ok(());
        };
        let held = seen.spec.get("finalizers").cloned().unwrap_or_default();
        let why = match (seen.terminating, held) {
            (true, _) if seen.text("held").is_some() => seen.text("held").unwrap_or_default().to_owned(),
            (true, held) if !held.is_null() => {
                format!("{} is being deleted, but the finalizers {held} keep it", self.thing)
            }
            (true, _) => format!("{} is being deleted, but still exists for an unknown reason", self.thing),
            // Its deletion was not requested, or it was created again. The step that removes it reports that.
            (false, _) => return Ok(()),
        };
        Err(ActionError::permanent(codes::STUCK, why))
    }
}

/// Pages of a bucket that one attempt removes before it yields: 10,000 versions in all.
const PAGES: usize = 10;
