//! Access policies in Cedar: the built-in ones, and those of the operator. All authorisation decisions are made here.
//!
//! Called by `auth::Caller` for every request. Invariant: without a permit, with a forbid, or after an evaluation error, the request is rejected. Policies are
//! validated against the schema before they take effect, so a misspelled name is an error. Separation of tenants does not depend on policies, and no policy can
//! weaken it.

mod diagnostics;
mod request;
mod schema;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use self::store::AccessPolicies;
pub use self::store::{PolicyStore, read};
pub(crate) use request::{Principal, RequestContext, ResourceScope};
pub use schema::generated as schema;

use super::{Role, Verb};
use cedar_policy::{
    Authorizer, Decision as Answer, Entities, PolicyId, PolicySet, Request, Schema, Validator,
};
use diagnostics::PolicySource;
use request::EntityNames;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    str::FromStr as _,
    sync::{Arc, LazyLock},
};
use strum::VariantArray as _;

/// The built-in policies.
pub const SHIPPED: &str = include_str!("access.cedar");
/// The name of the built-in policies in messages.
const SHIPPED_NAME: &str = "the built-in policies";

/// The policies in force, parsed.
pub struct AccessPolicy {
    policies: PolicySet,
    names: Option<EntityNames>,
    version: String,
}

/// A decision, with the policies that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// True if the action is permitted.
    pub(crate) allows: bool,
    /// The ids of the deciding policies, sorted; empty if no policy permits.
    pub(crate) by: Vec<String>,
    /// The evaluation error, if any.
    pub(crate) broken: Option<String>,
}

impl std::fmt::Debug for AccessPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Law").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Equal if their texts are equal.
impl PartialEq for AccessPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl Eq for AccessPolicy {}

impl AccessPolicy {
    /// Returns the built-in policies only.
    ///
    /// The tests of every build check them; invalid built-in policies would permit nothing.
    pub(crate) fn shipped() -> Arc<Self> {
        static SHIPPED_ALONE: LazyLock<Arc<AccessPolicy>> = LazyLock::new(|| match AccessPolicy::of(None) {
            Ok(law) => Arc::new(law),
            Err(faults) => {
                tracing::error!(?faults, "the built-in policies are invalid: nothing is permitted");
                Arc::new(AccessPolicy { policies: PolicySet::new(), names: None, version: "none".to_owned() })
            }
        });
        SHIPPED_ALONE.clone()
    }

    /// Returns the built-in policies with those of the operator, by the name and text of their file.
    ///
    /// # Errors
    /// Every error in them.
    pub fn of(house: Option<(&str, &str)>) -> Result<Self, Vec<String>> {
        let names = EntityNames::new().map_err(|e| vec![format!("the schema: {e}")])?;
        let shipped = PolicySource { name: SHIPPED_NAME, text: SHIPPED };
        let house = house.map(|(name, text)| PolicySource { name, text });
        let mut digest = Sha256::new();
        let (mut policies, mut from) = (PolicySet::new(), BTreeMap::new());
        for source in [Some(shipped), house].into_iter().flatten() {
            digest.update(source.text.as_bytes());
            add_policies(source, &mut policies, &mut from)?;
        }
        // The tests of every build check the built-in policies, so a start need not.
        if house.is_some() {
            let schema =
                Schema::from_str(&schema::generated()).map_err(|e| vec![format!("the schema: {e}")])?;
            let source = |id: &PolicyId| from.get(id).copied().unwrap_or(shipped);
            let faults = diagnostics::validate(&Validator::new(schema), &policies, source);
            if !faults.is_empty() {
                return Err(faults);
            }
        }
        let version = program::encoding::hex::encode(&digest.finalize());
        Ok(Self { policies, names: Some(names), version })
    }

    /// Returns the SHA-256 of the text of all policies, in hexadecimal.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Decides if `who` may do `verb` in `place`.
    pub(crate) fn decide(
        &self,
        who: &Principal<'_>,
        verb: Verb,
        place: ResourceScope<'_>,
        how: &RequestContext,
    ) -> Decision {
        let asked = match &self.names {
            Some(names) => names.ask(who, verb, place, how),
            None => Err(format!("{SHIPPED_NAME} are invalid")),
        };
        match asked {
            Ok((request, entities)) => self.answered(&request, &entities),
            Err(why) => Decision { allows: false, by: Vec::new(), broken: Some(why) },
        }
    }

    fn answered(&self, request: &Request, entities: &Entities) -> Decision {
        let response = Authorizer::new().is_authorized(request, &self.policies, entities);
        let told = response.diagnostics();
        let mut by: Vec<String> = told.reason().map(ToString::to_string).collect();
        by.sort_unstable();
        // A policy with an evaluation error may have been a forbid.
        let broken = told.errors().next().map(ToString::to_string);
        if let Some(why) = &broken {
            tracing::error!(why, "a policy could not be evaluated: the request is rejected");
        }
        let allows = response.decision() == Answer::Allow && broken.is_none();
        Decision { allows, by, broken }
    }

    /// Returns the roles that may do `verb`, each by itself, for a user of the operator.
    pub(crate) fn roles(&self, verb: Verb) -> Vec<Role> {
        let may = |role: &Role| {
            let who = Principal::User { name: "", roles: std::slice::from_ref(role), tenant: None };
            self.decide(&who, verb, ResourceScope::Platform, &RequestContext::default()).allows
        };
        Role::VARIANTS.iter().copied().filter(may).collect()
    }
}

impl Decision {
    /// Describes the reason of the decision.
    pub(crate) fn why(&self) -> String {
        let verb = if self.allows { "permit" } else { "forbid" };
        match (&self.broken, self.by.as_slice()) {
            (Some(why), _) => format!("a policy could not be evaluated ({why})"),
            (None, []) => "no access policy permits it".into(),
            (None, [one]) => format!("policy {one} {verb}s it"),
            (None, many) => format!("policies {} {verb} it", many.join(", ")),
        }
    }
}

/// Adds the policies of a text, by their `@id`.
fn add_policies<'a>(
    source: PolicySource<'a>,
    policies: &mut PolicySet,
    from: &mut BTreeMap<PolicyId, PolicySource<'a>>,
) -> Result<(), Vec<String>> {
    let read = PolicySet::from_str(source.text)
        .map_err(|errors| errors.iter().map(|error| source.fault(error)).collect::<Vec<_>>())?;
    let mut faults = Vec::new();
    if read.templates().next().is_some() {
        faults.push(format!("{}: templates are not supported; write separate policies", source.name));
    }
    for policy in read.policies() {
        let Some(id) = policy.annotation("id").filter(|id| !id.is_empty()) else {
            let head: String = policy.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            let head: String = head.chars().take(60).collect();
            let remedy = "write @id(\"a-unique-name\") before it: decisions refer to it";
            faults.push(format!("{}: the policy `{head}…` has no id; {remedy}", source.name));
            continue;
        };
        let id = PolicyId::new(id);
        if let Some(before) = from.insert(id.clone(), source) {
            let remedy = "give each a unique @id";
            faults.push(format!("{}: {} already has a policy {id}; {remedy}", source.name, before.name));
        } else if let Err(error) = policies.add(policy.new_id(id)) {
            faults.push(format!("{}: {error}", source.name));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
