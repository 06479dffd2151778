//! `[oidc]`: the identity provider for sign-in.

use super::ConfigDuration;
use crate::auth::Role;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The identity provider, and the roles of its groups. Without an issuer, sign-in is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oidc {
    /// The issuer, as in its discovery document: https, or http on this machine. Default: none.
    pub issuer: String,
    /// The client id of this service.
    pub client_id: String,
    /// The client id of the command line, which has no secret and uses the device flow. Default: that of `client_id`.
    pub device_client_id: String,
    /// A file with the client secret. Default: none, a public client.
    pub client_secret_file: String,
    /// A file with CA certificates for the provider. Default: those of the system.
    pub ca_file: String,
    /// The URL of this service for browsers, such as `https://tenure.example.com`; the provider redirects to its `/login/callback`. Default: none, sign-in only
    /// on the command line.
    pub url: String,
    /// The requested scopes, separated by spaces. Default `openid profile email groups`.
    pub scopes: String,
    /// The claim with the user name; a value must always mean the same person. Default `sub`.
    pub name_claim: String,
    /// The claim with the groups, or its JSON pointer (`/realm_access/roles`). Default `groups`.
    pub groups_claim: String,
    /// The duration of a session. Default `8h`.
    pub session: ConfigDuration,
    /// The roles of groups; only in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupGrant>,
}

/// The roles of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupGrant {
    /// The group; one `*` matches any text.
    pub group: String,
    /// The roles of its members.
    pub roles: Vec<Role>,
    /// The tenant to which its members are bound; `*` is the text that the `*` of the group matches. Default: none, all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl Default for Oidc {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            client_id: String::new(),
            device_client_id: String::new(),
            client_secret_file: String::new(),
            ca_file: String::new(),
            url: String::new(),
            scopes: "openid profile email groups".into(),
            name_claim: "sub".into(),
            groups_claim: "groups".into(),
            session: ConfigDuration(Duration::from_secs(8 * 3600)),
            groups: Vec::new(),
        }
    }
}

impl Oidc {
    /// Returns true if sign-in is on.
    pub fn is_on(&self) -> bool {
        !self.issuer.is_empty()
    }

    /// Returns the client id of the command line.
    pub fn device_client(&self) -> &str {
        if self.device_client_id.is_empty() { &self.client_id } else { &self.device_client_id }
    }

    /// Returns the client ids whose ID tokens are accepted.
    pub fn clients(&self) -> [&str; 2] {
        [&self.client_id, self.device_client()]
    }

    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        if !self.is_on() {
            if *self == Self::default() {
                return Ok(());
            }
            return Err("oidc.issuer: set the provider, or remove the section `oidc`".into());
        }
        if !is_safe(&self.issuer) {
            return Err(format!(
                "oidc.issuer: {:?} is neither an https URL nor an http URL of this machine",
                self.issuer
            ));
        }
        if self.client_id.is_empty() {
            return Err("oidc.client_id: set the client id of this service at the provider".into());
        }
        if !self.url.is_empty() && !is_safe(&self.url) {
            return Err(format!(
                "oidc.url: {:?} is neither an https URL nor an http URL of this machine",
                self.url
            ));
        }
        if !self.scopes.split_whitespace().any(|scope| scope == "openid") {
            return Err("oidc.scopes: without `openid` the provider sends no ID token".into());
        }
        if self.name_claim.is_empty() || self.groups_claim.is_empty() {
            return Err("oidc.name_claim and oidc.groups_claim: set both, or remove both".into());
        }
        if self.session.0 < Duration::from_secs(5) || self.session.0 > Duration::from_secs(7 * 86_400) {
            return Err("oidc.session: use `5s` to `7d`".into());
        }
        if self.groups.is_empty() {
            return Err(
                "oidc.groups: add at least one group with its roles; otherwise no user has a role".into()
            );
        }
        self.groups.iter().try_for_each(GroupGrant::checked)
    }
}

impl GroupGrant {
    fn checked(&self) -> Result<(), String> {
        let of = format!("oidc.groups: {:?}", self.group);
        if self.group.is_empty() || self.group.matches('*').count() > 1 {
            return Err(format!("{of}: set a group, with at most one `*`"));
        }
        if self.roles.is_empty() {
            return Err(format!("{of}: roles: name at least one"));
        }
        match self.tenant.as_deref() {
            None => Ok(()),
            Some("*") if self.group.contains('*') => Ok(()),
            Some("*") => Err(format!("{of}: tenant: `*` needs a `*` in the group")),
            Some(tenant) => match tenant.parse::<workflows::tenancy::TenantId>() {
                Ok(_) => Ok(()),
                Err(error) => Err(format!("{of}: tenant: {error}")),
            },
        }
    }
}

/// Returns true if the connection to `url` is private: TLS, or this machine.
fn is_safe(url: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else { return false };
    let is_near = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    url.scheme() == "https" || (url.scheme() == "http" && is_near)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Oidc {
        Oidc {
            issuer: "https://login.example.com".into(),
            client_id: "tenure".into(),
            groups: vec![GroupGrant { group: "ops".into(), roles: vec![Role::PlatformOps], tenant: None }],
            ..Oidc::default()
        }
    }

    #[test]
    fn an_incomplete_provider_is_refused_with_the_missing_key() {
        assert_eq!(Oidc::default().checked(), Ok(()));
        assert_eq!(set().checked(), Ok(()));
        let group = |group: &str, tenant: Option<&str>| GroupGrant {
            group: group.into(),
            roles: vec![Role::TenantOwner],
            tenant: tenant.map(Into::into),
        };
        for (wrong, key) in [
            (Oidc { issuer: String::new(), ..set() }, "oidc.issuer"),
            (Oidc { issuer: "http://login.example.com".into(), ..set() }, "oidc.issuer"),
            (Oidc { issuer: "login.example.com".into(), ..set() }, "oidc.issuer"),
            (Oidc { client_id: String::new(), ..set() }, "oidc.client_id"),
            (Oidc { url: "http://tenure.example.com".into(), ..set() }, "oidc.url"),
            (Oidc { scopes: "profile".into(), ..set() }, "oidc.scopes"),
            (Oidc { name_claim: String::new(), ..set() }, "oidc.name_claim"),
            (Oidc { session: ConfigDuration(Duration::ZERO), ..set() }, "oidc.session"),
            (Oidc { groups: Vec::new(), ..set() }, "oidc.groups"),
            (Oidc { groups: vec![group("a*b*", None)], ..set() }, "\"a*b*\""),
            (Oidc { groups: vec![group("owners", Some("*"))], ..set() }, "tenant: `*`"),
            (Oidc { groups: vec![group("owners", Some("A b"))], ..set() }, "tenant"),
        ] {
            let error = wrong.checked().unwrap_err();
            assert!(error.contains(key), "{error}");
        }
    }
}
