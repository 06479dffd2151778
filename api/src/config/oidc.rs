//! `[oidc]`: the identity provider through which people sign in.

use super::ConfigDuration;
use crate::auth::Role;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where people sign in, and what their groups may do. Without an issuer nobody does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oidc {
    /// The provider, as its discovery document names it: https, or http on this machine. Default none.
    pub issuer: String,
    /// What the provider knows this service as.
    pub client_id: String,
    /// The client of the command line, which has no secret and may sign in by the device flow. Default: that of `client_id`.
    pub device_client_id: String,
    /// A file with the client's secret. Default none: a public client.
    pub client_secret_file: String,
    /// A file with the certificates that the provider's is signed by. Default none: those of the machine.
    pub ca_file: String,
    /// The address at which browsers reach this service, such as `https://tenure.example.com`; the provider sends them back to its
    /// `/login/callback`. Default none: the console offers no sign-in, the command line does.
    pub url: String,
    /// What is asked for, with spaces between. Default `openid profile email groups`.
    pub scopes: String,
    /// The claim that names a person; whoever it names must be the same person for ever. Default `sub`.
    pub name_claim: String,
    /// The claim with the groups, or its place as a JSON pointer (`/realm_access/roles`). Default `groups`.
    pub groups_claim: String,
    /// How long somebody stays signed in. Default `8h`.
    pub session: ConfigDuration,
    /// What groups may do; only in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupGrant>,
}

/// What members of a group may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupGrant {
    /// The group; one `*` stands for any text.
    pub group: String,
    /// The roles of its members.
    pub roles: Vec<Role>,
    /// The only tenant whose things they see; `*` is what the `*` of the group stands for. Default none: they see all.
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
    /// Whether people can sign in at all.
    pub fn is_on(&self) -> bool {
        !self.issuer.is_empty()
    }

    /// The client of the command line.
    pub fn device_client(&self) -> &str {
        if self.device_client_id.is_empty() { &self.client_id } else { &self.device_client_id }
    }

    /// The clients whose ID tokens are for this service.
    pub fn clients(&self) -> [&str; 2] {
        [&self.client_id, self.device_client()]
    }

    /// # Errors
    /// The key at fault, and what to write.
    pub(super) fn checked(&self) -> Result<(), String> {
        if !self.is_on() {
            if *self == Self::default() {
                return Ok(());
            }
            return Err("oidc.issuer: name the provider, or leave all of `oidc` out".into());
        }
        if !is_safe(&self.issuer) {
            return Err(format!(
                "oidc.issuer: {:?} is no https URL, and no http URL on this machine",
                self.issuer
            ));
        }
        if self.client_id.is_empty() {
            return Err("oidc.client_id: name the client that the provider knows this service as".into());
        }
        if !self.url.is_empty() && !is_safe(&self.url) {
            return Err(format!("oidc.url: {:?} is no https URL, and no http URL on this machine", self.url));
        }
        if !self.scopes.split_whitespace().any(|scope| scope == "openid") {
            return Err("oidc.scopes: without `openid` the provider sends no ID token".into());
        }
        if self.name_claim.is_empty() || self.groups_claim.is_empty() {
            return Err("oidc.name_claim and oidc.groups_claim: name a claim each, or leave them out".into());
        }
        if self.session.0 < Duration::from_secs(5) || self.session.0 > Duration::from_secs(7 * 86_400) {
            return Err("oidc.session: use `5s` to `7d`".into());
        }
        if self.groups.is_empty() {
            return Err(
                "oidc.groups: name at least one group and its roles, or nobody may do anything".into()
            );
        }
        self.groups.iter().try_for_each(GroupGrant::checked)
    }
}

impl GroupGrant {
    fn checked(&self) -> Result<(), String> {
        let of = format!("oidc.groups: {:?}", self.group);
        if self.group.is_empty() || self.group.matches('*').count() > 1 {
            return Err(format!("{of}: name a group, with one `*` at most"));
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

/// Whether what is sent there is read by nobody on the way: TLS, or this machine.
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
    fn a_provider_that_is_set_half_is_refused_by_the_name_of_the_key() {
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
