//! An authorisation request in Cedar: principal, action, resource and context.

use super::schema::NAMESPACE;
use crate::auth::{Role, Verb};
use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression,
};
use program::encoding::rfc3339::format_time;
use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    str::FromStr as _,
};
use store::Timestamp;

/// The authenticated principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Principal<'a> {
    /// A person or a service account, with a token.
    User {
        /// The user.
        name: &'a str,
        /// The roles.
        roles: &'a [Role],
        /// The tenant to which the user is bound.
        tenant: Option<&'a str>,
    },
    /// A cluster, authenticated by its key.
    Cluster {
        /// The cluster.
        name: &'a str,
        /// The tenant that owns it.
        tenant: &'a str,
        /// The scopes of the key.
        scopes: &'a [&'a str],
    },
}

/// The resource of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceScope<'a> {
    /// The platform, with all tenants.
    Platform,
    /// One tenant.
    Tenant(&'a str),
}

/// The context of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestContext {
    /// The IP address of the caller, if known.
    pub(crate) from: Option<IpAddr>,
    /// The time.
    pub(crate) at: Timestamp,
    /// True for dry runs.
    pub(crate) plans: bool,
}

/// Entity type names, parsed once.
pub(super) struct EntityNames {
    user: EntityTypeName,
    role: EntityTypeName,
    tenant: EntityTypeName,
    platform: EntityTypeName,
    cluster: EntityTypeName,
    action: EntityTypeName,
}

impl EntityNames {
    /// # Errors
    /// A name is invalid, which would be a bug.
    pub(super) fn new() -> Result<Self, String> {
        let name = |kind: &str| {
            EntityTypeName::from_str(&format!("{NAMESPACE}::{kind}")).map_err(|error| error.to_string())
        };
        Ok(Self {
            user: name("User")?,
            role: name("Role")?,
            tenant: name("Tenant")?,
            platform: name("Platform")?,
            cluster: name("Cluster")?,
            action: name("Action")?,
        })
    }

    /// Builds the request and the entities it refers to.
    pub(super) fn ask(
        &self,
        who: &Principal<'_>,
        verb: Verb,
        place: ResourceScope<'_>,
        how: &RequestContext,
    ) -> Result<(Request, Entities), String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let who = self.who(who)?;
        let action = uid(&self.action, verb.into());
        let group = HashSet::from([uid(&self.action, verb.group())]);
        let known = [who.clone(), Entity::new_no_attrs(action.clone(), group)];
        let context = Context::from_pairs(context_pairs(how)).map_err(|e| said(&e))?;
        let request = Request::new(who.uid(), action, self.place(place), context, None);
        let entities = Entities::from_entities(known, None);
        Ok((request.map_err(|e| said(&e))?, entities.map_err(|e| said(&e))?))
    }

    fn who(&self, who: &Principal<'_>) -> Result<Entity, String> {
        let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
        let tenant = |name: &str| RestrictedExpression::new_entity_uid(uid(&self.tenant, name));
        let made = match *who {
            Principal::User { name, roles, tenant: bound } => {
                let mut attributes = HashMap::from([("name".to_owned(), text(name))]);
                attributes.extend(bound.map(|bound| ("tenant".to_owned(), tenant(bound))));
                let held = roles.iter().map(|role| uid(&self.role, role.name())).collect();
                Entity::new(uid(&self.user, name), attributes, held)
            }
            Principal::Cluster { name, tenant: whose, scopes } => {
                let scopes = RestrictedExpression::new_set(scopes.iter().map(|scope| text(scope)));
                let attributes =
                    HashMap::from([("tenant".to_owned(), tenant(whose)), ("scopes".to_owned(), scopes)]);
                Entity::new(uid(&self.cluster, name), attributes, HashSet::new())
            }
        };
        made.map_err(|error| error.to_string())
    }

    fn place(&self, place: ResourceScope<'_>) -> EntityUid {
        match place {
            ResourceScope::Platform => uid(&self.platform, "platform"),
            ResourceScope::Tenant(name) => uid(&self.tenant, name),
        }
    }
}

fn context_pairs(how: &RequestContext) -> Vec<(String, RestrictedExpression)> {
    let mut all = vec![
        ("at".to_owned(), RestrictedExpression::new_datetime(format_time(how.at))),
        ("plans".to_owned(), RestrictedExpression::new_bool(how.plans)),
    ];
    all.extend(how.from.map(|from| ("from".to_owned(), RestrictedExpression::new_ip(from.to_string()))));
    all
}

fn uid(kind: &EntityTypeName, name: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(name))
}
