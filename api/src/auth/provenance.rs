//! The provenance of users' credentials, from their records. The engine decides with it.

use super::{Group, Session, User, stored_token::StoredToken, tokens_of};
use engine::{Claim, CredentialAct, CredentialRecords, Provenance};
use std::collections::BTreeSet;
use store::{Store, Timestamp};

/// The creator of the first administrator.
pub(super) const FIRST_START: &str = "first start";
/// The creator of users of an identity provider.
pub(super) const SIGNED_IN: &str = "signed in";

/// Returns an act of a person, or `None` if no person did it.
fn act(by: &str, at: Timestamp, controlled_by: Option<&BTreeSet<String>>) -> Option<CredentialAct> {
    let is_person = ![FIRST_START, SIGNED_IN].contains(&by);
    is_person.then(|| CredentialAct { by: by.into(), at, controlled_by: controlled_by.cloned() })
}

fn created(user: &User) -> Option<CredentialAct> {
    act(&user.created_by, user.created_at, user.controlled_by.as_ref())
}

/// Returns the records of a token of `user`.
pub(super) fn of_token(user: &User, kept: &StoredToken) -> CredentialRecords {
    let by = kept.created_by.as_deref().unwrap_or(Provenance::UNKNOWN);
    CredentialRecords {
        claim: kept.claim,
        created: created(user),
        issued: act(by, kept.created_at.unwrap_or_default(), kept.controlled_by.as_ref()),
        claimed_at: user.claimed_at,
        grants: Vec::new(),
    }
}

/// Returns the records of a session from an identity provider.
pub(super) fn of_session(session: &Session) -> CredentialRecords {
    CredentialRecords {
        claim: Claim::Oidc,
        claimed_at: Some(session.began_at),
        ..CredentialRecords::default()
    }
}

/// Returns who added `name` to these groups.
fn grants(name: &str, groups: &[Group]) -> Vec<CredentialAct> {
    let joined = |group: &Group| {
        // For members who joined before this was recorded, only the creator of the group is known.
        let earlier =
            || CredentialAct { by: group.created_by.clone(), at: group.created_at, controlled_by: None };
        group.joined.get(name).cloned().unwrap_or_else(earlier)
    };
    groups.iter().map(joined).collect()
}

/// Returns the provenance of a credential of the user `name` who belongs to `groups`.
pub(super) fn of_credential(name: &str, records: &CredentialRecords, groups: &[Group]) -> Provenance {
    let records = CredentialRecords { grants: grants(name, groups), ..records.clone() };
    Provenance::of(name, &records)
}

/// Returns the provenance of all credentials of `user`, because each of them lets its holder act as the user.
///
/// # Errors
/// An error of the store.
pub(super) async fn of_user(
    store: &dyn Store,
    user: &User,
    groups: &[Group],
) -> Result<Provenance, store::Error> {
    if user.created_by == SIGNED_IN {
        let records = CredentialRecords { claim: Claim::Oidc, ..CredentialRecords::default() };
        return Ok(of_credential(&user.name, &records, groups));
    }
    let tokens = tokens_of(store, user).await?;
    let records = CredentialRecords {
        created: created(user),
        claimed_at: user.claimed_at,
        ..CredentialRecords::default()
    };
    let mut merged = of_credential(&user.name, &records, groups);
    if !tokens.is_empty() && tokens.iter().all(|kept| kept.claim == Claim::Enrolled) {
        merged.claim = Claim::Enrolled;
    }
    for kept in &tokens {
        let one = of_credential(&user.name, &of_token(user, kept), groups);
        merged.controlled_by.extend(one.controlled_by);
        merged.issued_by = one.issued_by.or(merged.issued_by);
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(created_by: &str) -> User {
        let text = format!(
            r#"{{"name":"olga","roles":["platform_ops"],"tenant":null,"token":"t","created_at":7,"created_by":"{created_by}"}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn controllers(user: &User, kept: &str) -> Vec<String> {
        let kept: StoredToken = serde_json::from_str(kept).unwrap();
        of_credential("olga", &of_token(user, &kept), &[]).controlled_by.into_iter().collect()
    }

    #[test]
    fn records_without_provenance_count_as_created_by_a_known_and_an_unknown_person() {
        let unnamed = r#"{"id":"t","hash":"ab","user":"olga"}"#;
        assert_eq!(controllers(&user("admin"), unnamed), ["?", "admin"]);
        let named = r#"{"id":"t","hash":"ab","user":"olga","created_at":9,"created_by":"rita"}"#;
        assert_eq!(controllers(&user("admin"), named), ["?", "admin", "rita"]);
        let first = r#"{"id":"t","hash":"ab","user":"olga","created_at":9,"created_by":"first start"}"#;
        assert_eq!(controllers(&user(FIRST_START), first), [""; 0], "the server created it");
    }

    #[test]
    fn old_group_members_count_as_added_by_the_creator_of_the_group() {
        let group = r#"{"name":"night","members":["olga"],"created_at":7,"created_by":"admin"}"#;
        let group: Group = serde_json::from_str(group).unwrap();
        let records = CredentialRecords { claim: Claim::Enrolled, ..CredentialRecords::default() };
        let granted = of_credential("olga", &records, &[group]).granted_by;
        assert_eq!(granted.into_iter().collect::<Vec<_>>(), ["?", "admin"]);
    }
}
