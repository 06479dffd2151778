//! The rule that decides if the destruction of a key destroys the data that it encrypted.
//!
//! It is used before an approval ([`will_count`]), when records are created ([`is_lost`], [`is_kept`]), and when they are judged ([`counts`]).
//! Invariant: a key that can be recovered never counts as destroyed, and data count as lost only with a key whose destruction counts.

use crate::{
    destruction::{KeyFacts, NotClean},
    platform::{EncryptedBy, WayBack},
};
use std::collections::{BTreeMap, BTreeSet};

/// Checks from observations that the destruction of a key will count.
///
/// # Errors
/// The ways to recover the key.
pub(crate) fn will_count(can_come_back: &BTreeSet<WayBack>) -> Result<(), NotClean> {
    if can_come_back.is_empty() {
        return Ok(());
    }
    Err(NotClean::KeyCanComeBack { ways: can_come_back.clone() })
}

/// Checks from its record that the destruction of a key counts. Records of earlier versions name no ways to recover it.
///
/// # Errors
/// The missing condition.
pub(crate) fn counts(key: Option<&KeyFacts>) -> Result<(), NotClean> {
    let key = key.ok_or(NotClean::NoKeyFacts)?;
    will_count(&key.can_come_back)?;
    if key.exportable || key.backup_allowed {
        return Err(NotClean::KeyCouldLeave);
    }
    if !key.observed_absent || !key.decrypt_fails {
        return Err(NotClean::KeyNotProbed);
    }
    Ok(())
}

/// The tenant's keys by name, each with the facts about its destruction.
pub(crate) type DestroyedKeys = BTreeMap<String, Option<KeyFacts>>;

/// Returns the destroyed key that makes an existing resource unreadable.
///
/// # Errors
/// The reason why the resource is, or may be, readable, as part of a sentence.
pub(crate) fn is_lost<'a>(
    encrypted_by: &'a EncryptedBy,
    destroyed: &DestroyedKeys,
) -> Result<&'a str, String> {
    match encrypted_by {
        EncryptedBy::Key(name) => match destroyed.get(name) {
            Some(facts) => match counts(facts.as_ref()) {
                Ok(()) => Ok(name.as_str()),
                Err(why) => Err(format!("it is under key {name}: {why}")),
            },
            None => Err(format!("it is under key {name}, which was not destroyed, so it stays readable")),
        },
        EncryptedBy::Nothing => {
            Err("it is not encrypted with a key that was destroyed, so it stays readable".into())
        }
        EncryptedBy::Unknown => {
            Err("its store does not say with which key it is encrypted, so it may stay readable".into())
        }
    }
}

/// Returns the key of a retained resource, if it is neither a destroyed nor a spared key of the tenant.
///
/// # Errors
/// The observed key, as part of a sentence about the resource.
pub(crate) fn is_kept<'a>(
    seen: Option<&'a EncryptedBy>,
    destroyed: &DestroyedKeys,
    spared: &BTreeSet<String>,
) -> Result<&'a str, String> {
    match seen {
        None if destroyed.is_empty() => {
            Err("it was not seen after it was to be moved to a key of the provider".into())
        }
        None => Err("it was not seen when the tenant's keys were destroyed".into()),
        Some(EncryptedBy::Key(name)) if spared.contains(name) => {
            Err(format!("it was still under the tenant's key {name}, which was not destroyed"))
        }
        Some(EncryptedBy::Key(name)) if destroyed.contains_key(name) => {
            Err(format!("it was still under the tenant's key {name}, which was destroyed"))
        }
        Some(EncryptedBy::Key(name)) => Ok(name.as_str()),
        Some(EncryptedBy::Nothing) => {
            Err("it was seen not to be encrypted with a key of the provider".into())
        }
        Some(EncryptedBy::Unknown) => Err("its store does not say under which key it is".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> KeyFacts {
        KeyFacts {
            exportable: false,
            backup_allowed: false,
            observed_absent: true,
            decrypt_fails: true,
            snapshots_until: None,
            can_come_back: BTreeSet::new(),
        }
    }

    fn under(name: &str) -> EncryptedBy {
        EncryptedBy::Key(name.into())
    }

    #[test]
    fn a_restorable_key_never_counts_as_destroyed_and_nothing_is_lost_with_it() {
        for way in <WayBack as strum::VariantArray>::VARIANTS {
            let ways = BTreeSet::from([*way]);
            let facts = KeyFacts { can_come_back: ways.clone(), ..facts() };
            let why = will_count(&ways).unwrap_err();
            assert_eq!(counts(Some(&facts)), Err(why.clone()));
            assert!(why.to_string().contains(way.phrase()), "{why}");
            let destroyed = BTreeMap::from([("t-acme".to_owned(), Some(facts))]);
            assert!(is_lost(&under("t-acme"), &destroyed).unwrap_err().contains(way.phrase()));
        }
    }

    #[test]
    fn data_is_lost_only_with_the_key_that_encrypts_it() {
        let destroyed = BTreeMap::from([("t-acme".to_owned(), Some(facts())), ("t-odd".to_owned(), None)]);
        assert_eq!(is_lost(&under("t-acme"), &destroyed), Ok("t-acme"));
        for readable in [under("t-odd"), under("provider"), EncryptedBy::Nothing, EncryptedBy::Unknown] {
            assert!(is_lost(&readable, &destroyed).is_err(), "{readable:?}");
        }
        let spared = BTreeSet::from(["t-spared".to_owned()]);
        assert_eq!(is_kept(Some(&under("provider")), &destroyed, &spared), Ok("provider"));
        let under_spared = is_kept(Some(&under("t-spared")), &destroyed, &spared).unwrap_err();
        assert!(under_spared.ends_with("key t-spared, which was not destroyed"), "{under_spared}");
        for lost in [Some(under("t-acme")), Some(EncryptedBy::Nothing), Some(EncryptedBy::Unknown), None] {
            assert!(is_kept(lost.as_ref(), &destroyed, &spared).is_err(), "{lost:?}");
        }
    }

    #[test]
    fn a_record_of_an_earlier_version_is_judged_by_its_own_rules() {
        let old = r#"{"exportable":false,"backup_allowed":false,"observed_absent":true,"decrypt_fails":true,
            "snapshots_until":null}"#;
        let old: KeyFacts = serde_json::from_str(old).unwrap();
        assert_eq!(counts(Some(&old)), Ok(()));
        assert!(!serde_json::to_string(&old).unwrap().contains("come_back"), "its digest stays the same");
        assert_eq!(counts(Some(&KeyFacts { exportable: true, ..old })), Err(NotClean::KeyCouldLeave));
        assert_eq!(counts(None), Err(NotClean::NoKeyFacts));
    }
}
