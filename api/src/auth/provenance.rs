//! Where the credentials of users come from, as their records say. Nothing is decided here: the engine weighs it.

use super::{Group, Session, User, stored_token::Kept, tokens_of};
use engine::{Claim, CredentialAct, CredentialRecords, Provenance};
use std::collections::BTreeSet;
use store::{Store, Timestamp};

/// What made the first administrator, in place of a person.
pub(super) const FIRST_START: &str = "first start";
/// What made the users of an identity provider, in place of a person.
pub(super) const SIGNED_IN: &str = "signed in";

/// Something that somebody did; nothing for what no person did.
fn act(by: &str, at: Timestamp, controlled_by: Option<&BTreeSet<String>>) -> Option<CredentialAct> {
    let is_person = ![FIRST_START, SIGNED_IN].contains(&by);
    is_person.then(|| CredentialAct { by: by.into(), at, controlled_by: controlled_by.cloned() })
}

fn created(user: &User) -> Option<CredentialAct> {
    act(&user.created_by, user.created_at, user.controlled_by.as_ref())
}

/// What is on record of a token of `user`.
pub(super) fn of_token(user: &User, kept: &Kept) -> CredentialRecords {
    let by = kept.created_by.as_deref().unwrap_or(Provenance::UNKNOWN);
    CredentialRecords {
        claim: kept.claim,
        created: created(user),
        issued: act(by, kept.created_at.unwrap_or_default(), kept.controlled_by.as_ref()),
        claimed_at: user.claimed_at,
        grants: Vec::new(),
    }
}

/// What is on record of a session, which an identity provider has opened.
pub(super) fn of_session(session: &Session) -> CredentialRecords {
    CredentialRecords {
        claim: Claim::Oidc,
        claimed_at: Some(session.began_at),
        ..CredentialRecords::default()
    }
}

/// Who put `name` into these groups.
fn grants(name: &str, groups: &[Group]) -> Vec<CredentialAct> {
    let joined = |group: &Group| {
        // Of those who joined before this was written down, the group's maker is known and no more.
        let earlier = || CredentialAct {
            by: group.created_by.clone(),
            at: group.created_at,
            controlled_by: None,
        };
        group.joined.get(name).cloned().unwrap_or_else(earlier)
    };
    groups.iter().map(joined).collect()
}

/// Where the credential of these records comes from, of the user `name` who belongs to `groups`.
pub(super) fn of_credential(name: &str, records: &CredentialRecords, groups: &[Group]) -> Provenance {
    let records = CredentialRecords { grants: grants(name, groups), ..records.clone() };
    Provenance::of(name, &records)
}

/// Where the credentials of `user` come from, by whichever of them they act: whoever can have one can act as them.
///
/// # Errors
/// The store's.
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
