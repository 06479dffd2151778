//! Takes away what a tenant leaves behind: rewraps, shreds and removes one thing at a time.

use crate::platform::{
    CallMetadata, DriveTool, EmptyProgress, EncryptedBy, ObservedResource, Observer, Platform, ProbeFinding,
    TenantResource, TenantResources, UNTIL_LIFTED, WayBack,
    call_metadata::{look_again, outcome_unknown},
    codes,
};
use engine::{Action, ActionError, Call, Class, Probe, Repeat};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Asks, by a dry run, whether a thing that a retention rule keeps can be put under a key of the provider.
///
/// Fails with `platform.unsupported` where its store cannot. Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckRewrap {
    /// Which thing.
    pub thing: TenantResource,
    /// Whose.
    pub tenant: String,
    /// The provider's key.
    pub key: String,
    /// Until when the rule keeps it, for people.
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
                    "a rule keeps {} until {}, and it cannot be put under another key before the tenant's key is destroyed: {}",
                    self.thing, self.until, error.message
                );
                ActionError::permanent(codes::UNSUPPORTED, why)
            }
            Class::Transient | Class::Pending { .. } | Class::Unknown => error,
        })
    }
}

/// Puts what a retention rule keeps under a key of the provider, so that the tenant's can be destroyed.
///
/// Safe to run twice: it sets one field. It is not undone: the tenant's data stay readable to whoever keeps them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RewrapThing {
    /// Which thing.
    pub thing: TenantResource,
    /// Whose.
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

/// Destroys a key and every copy of it that its store keeps, looks that it is gone, and tries to decrypt.
///
/// Safe to run twice: absent is success, and each copy has its own key. When no answer came, it is looked for before it
/// is sent again. Nothing undoes it. Before it does anything it looks under which key the things are that a retention rule keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShredKey {
    /// Which key.
    pub thing: TenantResource,
    /// Whose.
    pub tenant: String,
    /// The identity that the inventory lists.
    pub uid: String,
    /// What a retention rule keeps: while one of these is under this key, the key is not destroyed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<TenantResource>,
}

/// A key that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shredded {
    /// Which key.
    pub thing: TenantResource,
    /// Whether decrypting with it was tried and failed.
    pub decrypt_fails: bool,
    /// What was tried, as evidence.
    pub transcript: String,
    /// With what it was destroyed; none where that was done by calls of this program alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<DriveTool>,
    /// Every way in which it can come back, as it was seen just before its destruction; empty where it was gone by then.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub can_come_back: BTreeSet<WayBack>,
    /// Whether it was seen then. Where it was not, the ways in which it can come back are not known from here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
    /// Of what a retention rule keeps: with which key each was seen to be encrypted before this one was destroyed.
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
    /// Whether it is a volume's key, of whose copies its own system says nothing.
    fn is_volume(&self) -> bool {
        self.thing.system == "storage"
    }

    /// With which key each thing is encrypted that a retention rule keeps; one that is gone is left out.
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

    /// Fails with `key.in_use` while something that a retention rule keeps is under this key.
    fn loses_nothing_kept(&self, kept: &BTreeMap<TenantResource, EncryptedBy>) -> Result<(), ActionError> {
        let own = EncryptedBy::Key(self.thing.name.clone());
        let Some((thing, _)) = kept.iter().find(|(_, by)| **by == own) else { return Ok(()) };
        let why = format!(
            "a rule keeps {thing}, and it is still under key {}: with the key it would be lost",
            self.thing.name
        );
        Err(ActionError::permanent(codes::KEY_IN_USE, why))
    }

    /// Removes the key. One that its store keeps recoverable is removed once more, for good; one that stays even then is named.
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
                        "{} is softly deleted and still there after its final deletion was sent: it can be restored until it is purged in its key store",
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

/// Removes one thing of a tenant: emptied first where it holds versions, and looked for afterwards.
///
/// Safe to run twice: absent is success, another identity is refused, and each page that is emptied has its own key.
/// When no answer came, it is looked for before it is sent again. Nothing undoes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoveThing {
    /// Which thing.
    pub thing: TenantResource,
    /// Whose.
    pub tenant: String,
    /// The identity that the inventory lists.
    pub uid: String,
}

/// What became of a thing that was to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Which thing.
    pub thing: TenantResource,
    /// What became of it.
    pub fate: RemovalFate,
}

/// What can become of a thing that was to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalFate {
    /// It was observed to be absent.
    Gone,
    /// It cannot be removed before that day, and every restore leaves it out.
    Kept {
        /// The day, as RFC 3339.
        until: String,
        /// Why.
        why: String,
        /// With which key all that is kept is encrypted. Not known of what earlier versions saw.
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
            let (until, why) = (until.to_owned(), "its store keeps it until then".to_owned());
            return Ok(self.ended(RemovalFate::Kept { until, why, encrypted_by: seen.encrypted_by() }));
        }
        if let Some(until) = self.emptied(&*on.tenant_resources, &seen, &stamp).await? {
            let why = if until == UNTIL_LIFTED {
                "legal hold in its store: it stays until the hold is lifted there".to_owned()
            } else {
                "object lock: its store removes it for nobody before".to_owned()
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

    /// Removes what the thing holds, page by page; answers until when the rest is locked, if it is.
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

/// Refuses what is not the very thing that the inventory lists.
fn same(seen: &ObservedResource, tenant: &str, uid: &str) -> Result<(), ActionError> {
    if seen.tenant != tenant || seen.uid != uid {
        let ObservedResource { thing, tenant: whose, uid: now, .. } = seen;
        let why = format!("{thing} is {now} of {whose:?}, and {uid} of {tenant:?} was to be removed");
        return Err(ActionError::permanent(codes::REPLACED, why));
    }
    Ok(())
}

/// Says why a thing that was asked to go does not go.
///
/// Safe to run twice: it changes nothing, and has nothing to undo. Taking a finalizer off is never automatic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiagnoseRemoval {
    /// Which thing.
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
                format!("{} is being deleted and is kept by the finalizers {held}", self.thing)
            }
            (true, _) => format!("{} is being deleted and says no reason why it stays", self.thing),
            // Nobody has asked it to go yet, or it was made again: whoever removes it finds out.
            (false, _) => return Ok(()),
        };
        Err(ActionError::permanent(codes::STUCK, why))
    }
}

/// Pages of a bucket that one attempt removes before it lets others have a turn: 10,000 versions.
const PAGES: usize = 10;
