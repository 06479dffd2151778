//! Who may do what, as Cedar policies: those that are shipped, and those that a house adds. The one place where it is decided.
//!
//! Asked by `auth::Caller` for every request. Invariant: what no policy permits is refused, what one forbids is refused
//! whatever others permit, and a decision that could not be made to its end is a refusal. Policies are checked against the schema
//! before any of them counts, so that a name written wrong is neither a right nor a hole. That tenants do not see each other's
//! things is no matter of policies: nothing written in one can widen it.

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

/// The policies that Tenure ships.
pub const SHIPPED: &str = include_str!("access.cedar");
/// What they are called where something is said of them.
const SHIPPED_NAME: &str = "the shipped policies";

/// The policies in force, ready to decide.
pub struct AccessPolicy {
    policies: PolicySet,
    names: Option<EntityNames>,
    version: String,
}

/// What was decided, and by which policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether it may be done.
    pub(crate) allows: bool,
    /// The ids of the policies that decided, in order; empty where none permits.
    pub(crate) by: Vec<String>,
    /// What kept it from being decided to its end, if something did.
    pub(crate) broken: Option<String>,
}

impl std::fmt::Debug for AccessPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Law").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Two are one if their policies are, letter by letter.
impl PartialEq for AccessPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.version == other.version
    }
}

impl Eq for AccessPolicy {}

impl AccessPolicy {
    /// The shipped policies alone.
    ///
    /// They hold in every build, or its tests fail; one whose policies do not would permit nothing.
    pub(crate) fn shipped() -> Arc<Self> {
        static SHIPPED_ALONE: LazyLock<Arc<AccessPolicy>> = LazyLock::new(|| match AccessPolicy::of(None) {
            Ok(law) => Arc::new(law),
            Err(faults) => {
                tracing::error!(?faults, "the shipped policies do not hold: nothing is permitted");
                Arc::new(AccessPolicy { policies: PolicySet::new(), names: None, version: "none".to_owned() })
            }
        });
        SHIPPED_ALONE.clone()
    }

    /// The shipped policies with those of a house, by the name and the text of its file.
    ///
    /// # Errors
    /// Everything that is wrong with them, a sentence each.
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
        // The shipped ones alone are checked by the tests of every build: no start waits for it.
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

    /// SHA-256 of the text of all policies, in hexadecimal.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether `who` may do `verb` for `place`, and by which policies.
    pub(crate) fn decide(
        &self,
        who: &Principal<'_>,
        verb: Verb,
        place: ResourceScope<'_>,
        how: &RequestContext,
    ) -> Decision {
        let asked = match &self.names {
            Some(names) => names.ask(who, verb, place, how),
            None => Err(format!("{SHIPPED_NAME} do not hold")),
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
        // A policy that could not be weighed may have been one that forbids.
        let broken = told.errors().next().map(ToString::to_string);
        if let Some(why) = &broken {
            tracing::error!(why, "a policy could not be weighed: the request is refused");
        }
        let allows = response.decision() == Answer::Allow && broken.is_none();
        Decision { allows, by, broken }
    }

    /// The roles that may do `verb`, each held alone, by somebody who works for the platform.
    pub(crate) fn roles(&self, verb: Verb) -> Vec<Role> {
        let may = |role: &Role| {
            let who = Principal::User { name: "", roles: std::slice::from_ref(role), tenant: None };
            self.decide(&who, verb, ResourceScope::Platform, &RequestContext::default()).allows
        };
        Role::VARIANTS.iter().copied().filter(may).collect()
    }
}

impl Decision {
    /// Why it was permitted or refused, in words.
    pub(crate) fn why(&self) -> String {
        let verb = if self.allows { "permit" } else { "forbid" };
        match (&self.broken, self.by.as_slice()) {
            (Some(why), _) => format!("a policy could not be weighed ({why})"),
            (None, []) => "no policy permits it".into(),
            (None, [one]) => format!("policy {one} {verb}s it"),
            (None, many) => format!("policies {} {verb} it", many.join(", ")),
        }
    }
}

/// Adds the policies of a text, each by the id that it gives itself.
fn add_policies<'a>(
    source: PolicySource<'a>,
    policies: &mut PolicySet,
    from: &mut BTreeMap<PolicyId, PolicySource<'a>>,
) -> Result<(), Vec<String>> {
    let read = PolicySet::from_str(source.text)
        .map_err(|errors| errors.iter().map(|error| source.fault(error)).collect::<Vec<_>>())?;
    let mut faults = Vec::new();
    if read.templates().next().is_some() {
        faults.push(format!("{}: templates are not used here; write the policies out", source.name));
    }
    for policy in read.policies() {
        let Some(id) = policy.annotation("id").filter(|id| !id.is_empty()) else {
            let head: String = policy.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
            let head: String = head.chars().take(60).collect();
            let remedy = "write @id(\"a-name-of-its-own\") before it: decisions are explained by it";
            faults.push(format!("{}: the policy `{head}…` has no id; {remedy}", source.name));
            continue;
        };
        let id = PolicyId::new(id);
        if let Some(before) = from.insert(id.clone(), source) {
            let remedy = "give each an @id of its own";
            faults.push(format!("{}: {} has a policy {id} already; {remedy}", source.name, before.name));
        } else if let Err(error) = policies.add(policy.new_id(id)) {
            faults.push(format!("{}: {error}", source.name));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
