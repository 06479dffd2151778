//! The person of an ID token, and their roles from the settings.

use super::SignInError;
use crate::{
    auth::{Person, Role},
    config::Oidc,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The maximum length of a name, in characters.
const LONGEST: usize = 128;

/// The claims of an ID token. Issuer, time and signature are verified by the reader of the token.
#[derive(Debug, Deserialize)]
pub(super) struct Claims {
    /// The nonce of the sign-in attempt.
    pub(super) nonce: Option<String>,
    /// The authorised party, if the token has several audiences.
    pub(super) azp: Option<String>,
    pub(super) aud: Value,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Returns the person of an ID token, with their roles from the settings.
///
/// # Errors
/// [`SignInError::Refused`] for an invalid name, [`SignInError::NoRole`] if no group gives a role.
pub(super) fn person_from_claims(claims: &Claims, settings: &Oidc) -> Result<Person, SignInError> {
    let name = named(&claims.rest, &settings.name_claim)?;
    let groups = groups(&claims.rest, &settings.groups_claim);
    let mut grants: Vec<(&[Role], Option<String>)> = Vec::new();
    for granted in &settings.groups {
        for star in groups.iter().filter_map(|group| fits(&granted.group, group)) {
            let tenant = granted.tenant.as_deref().map(|tenant| if tenant == "*" { star } else { tenant });
            grants.push((&granted.roles, tenant.map(ToOwned::to_owned)));
        }
    }
    if grants.iter().any(|(_, tenant)| tenant.is_none()) {
        grants.retain(|(_, tenant)| tenant.is_none());
    }
    let tenants: BTreeSet<&String> = grants.iter().filter_map(|(_, tenant)| tenant.as_ref()).collect();
    if tenants.len() > 1 {
        let tenants = tenants.into_iter().cloned().collect::<Vec<_>>().join(", ");
        let why = format!("{name} has groups of several tenants ({tenants}), but may be bound to only one");
        return Err(SignInError::NoRole { name: format!("oidc:{name}"), why });
    }
    let tenant = tenants.into_iter().next().cloned();
    if let Some(Err(error)) = tenant.as_deref().map(str::parse::<workflows::tenancy::TenantId>) {
        let why = format!("{name} has a group with an invalid tenant name: {error}");
        return Err(SignInError::NoRole { name: format!("oidc:{name}"), why });
    }
    let roles: BTreeSet<Role> = grants.iter().flat_map(|(roles, _)| roles.iter().copied()).collect();
    if roles.is_empty() {
        let had = if groups.is_empty() { "none".into() } else { groups.join(", ") };
        let why = format!("no group of {name} has a role here; the provider sent: {had}");
        return Err(SignInError::NoRole { name: format!("oidc:{name}"), why });
    }
    Ok(Person { name: format!("oidc:{name}"), roles: roles.into_iter().collect(), tenant, groups })
}

/// Returns the name, which must be valid in lists and paths.
fn named<'a>(claims: &'a Map<String, Value>, claim: &str) -> Result<&'a str, SignInError> {
    let refused = |why: String| Err(SignInError::Refused(why));
    let Some(name) = claims.get(claim).and_then(Value::as_str) else {
        return refused(format!("the ID token has no claim {claim}, which names the user"));
    };
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '?' | '#');
    if name.is_empty() || name.chars().count() > LONGEST || name.chars().any(is_odd) {
        return refused(format!(
            "{claim} is not a valid name: use 1 to {LONGEST} characters without spaces, '/', '?' and '#'"
        ));
    }
    // An account can have an e-mail address of another person until the provider has verified it.
    if claim == "email" && claims.get("email_verified").is_none_or(|verified| !is_true(verified)) {
        return refused(format!("the provider has not verified the address {name}"));
    }
    Ok(name)
}

fn is_true(value: &Value) -> bool {
    value == true || value == "true"
}

fn groups(claims: &Map<String, Value>, claim: &str) -> Vec<String> {
    let found = match claim.strip_prefix('/') {
        Some(rest) => {
            let (first, inner) =
                rest.split_once('/').map_or((rest, String::new()), |(a, b)| (a, format!("/{b}")));
            claims.get(first).and_then(|value| value.pointer(&inner))
        }
        None => claims.get(claim),
    };
    match found {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the part of `group` that matches the `*` of `pattern`, if it matches; an empty text for a pattern without `*`.
fn fits<'a>(pattern: &str, group: &'a str) -> Option<&'a str> {
    match pattern.split_once('*') {
        None => (pattern == group).then_some(""),
        Some((before, after)) => {
            group.strip_prefix(before)?.strip_suffix(after).filter(|star| !star.is_empty())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::GroupGrant;
    use serde_json::json;

    fn granted(group: &str, role: Role, tenant: Option<&str>) -> GroupGrant {
        GroupGrant { group: group.into(), roles: vec![role], tenant: tenant.map(Into::into) }
    }

    fn of(more: Value, claim: &str) -> Result<Person, SignInError> {
        let mut all = json!({ "aud": "tenure", "sub": "alice" });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let settings = Oidc {
            name_claim: claim.into(),
            groups: vec![
                granted("ops", Role::PlatformOps, None),
                granted("money", Role::Finance, None),
                granted("acme", Role::TenantOwner, Some("acme")),
                granted("t-*-own", Role::TenantOwner, Some("*")),
            ],
            ..Oidc::default()
        };
        person_from_claims(&serde_json::from_value(all).unwrap(), &settings)
    }

    #[test]
    fn groups_add_their_roles_and_platform_groups_override_tenant_groups() {
        let person = of(json!({ "groups": ["ops", "acme", "money", "other"] }), "sub").unwrap();
        assert_eq!(person.name, "oidc:alice");
        assert_eq!((person.roles, person.tenant), (vec![Role::PlatformOps, Role::Finance], None));
        let person = of(json!({ "groups": "t-globex-own" }), "sub").unwrap();
        assert_eq!((person.roles, person.tenant.as_deref()), (vec![Role::TenantOwner], Some("globex")));
    }

    #[test]
    fn a_person_without_a_configured_group_has_no_role() {
        for groups in [json!([]), json!(["other"]), json!(["t--own"]), json!(["xops"]), json!(7), Value::Null]
        {
            let refused = of(json!({ "groups": groups }), "sub");
            assert!(matches!(refused, Err(SignInError::NoRole { .. })), "{groups}: {refused:?}");
        }
        let two = of(json!({ "groups": ["acme", "t-globex-own"] }), "sub").unwrap_err();
        assert!(two.to_string().contains("acme, globex"), "{two}");
        let none = of(json!({ "groups": ["t-Not A Tenant-own"] }), "sub").unwrap_err();
        assert!(matches!(none, SignInError::NoRole { .. }), "{none:?}");
    }

    #[test]
    fn an_unverified_address_is_refused() {
        let mail = |verified: Value| json!({ "email": "a@x.example", "email_verified": verified, "groups": ["ops"] });
        assert_eq!(of(mail(json!(true)), "email").unwrap().name, "oidc:a@x.example");
        for verified in [json!(false), json!("false"), Value::Null] {
            assert!(matches!(of(mail(verified), "email"), Err(SignInError::Refused(_))));
        }
    }

    #[test]
    fn a_name_that_is_invalid_in_a_path_is_refused() {
        for name in ["", "a b", "a/b", "a\nb", "a?b", "a#b"] {
            let refused = of(json!({ "nick": name, "groups": ["ops"] }), "nick");
            assert!(matches!(refused, Err(SignInError::Refused(_))), "{name:?}");
        }
    }

    #[test]
    fn groups_are_found_inside_other_claims() {
        let claims = json!({ "realm_access": { "roles": ["ops"] } });
        assert_eq!(groups(claims.as_object().unwrap(), "/realm_access/roles"), ["ops"]);
        assert_eq!(groups(claims.as_object().unwrap(), "realm_access"), [""; 0]);
    }
}
