//! Which policy is in force, and how another comes into force.

use super::{
    document,
    finding::{Finding, Invalid},
    platform::{PlatformPolicy, PolicyInForce, PolicyRef, PublishedPolicy, policy_key},
    request::{Request, TenantPolicy},
};
use engine::{ActionError, Undecided, View};

/// The policy in force.
///
/// # Errors
/// What the view lacks; a permanent `policy.invalid` when the stored text cannot be read.
pub fn in_force(view: &mut View) -> Result<PlatformPolicy, Undecided> {
    match view.get::<PolicyInForce>(PlatformPolicy::NAME)? {
        Some(head) => version(view, &head.reference),
        None => Ok(PlatformPolicy::built_in().map_err(|e| ActionError::permanent("policy.invalid", e))?),
    }
}

/// A version by name, so that a decision can be decided again.
///
/// # Errors
/// As [`in_force`]; a permanent `policy.unknown` when there is no such version or it has another digest.
pub fn version(view: &mut View, reference: &PolicyRef) -> Result<PlatformPolicy, Undecided> {
    let invalid = |e: Invalid| ActionError::permanent("policy.invalid", e);
    let published = view.get::<PublishedPolicy>(&policy_key(&reference.name, reference.version))?;
    let policy = match published {
        Some(published) => Some(PlatformPolicy::published(&published).map_err(invalid)?),
        None => PlatformPolicy::built_in_version(reference.version).map_err(invalid)?,
    };
    if let Some(policy) = policy.filter(|policy| policy.reference == *reference) {
        return Ok(policy);
    }
    let problem =
        format!("there is no policy {}@{} with {}", reference.name, reference.version, reference.digest);
    Err(ActionError::permanent("policy.unknown", problem).into())
}

/// Puts the policy `text` into force. A version that was published stays as it is for ever; the same text again
/// changes nothing.
///
/// # Errors
/// What the view lacks; permanent `policy.invalid`, or `policy.version_exists` for another text under a number used.
pub fn publish(view: &mut View, text: &str, author: &str) -> Result<PolicyRef, Undecided> {
    let policy = PlatformPolicy::from_yaml(text).map_err(|e| ActionError::permanent("policy.invalid", e))?;
    let reference = policy.reference;
    let built_in = PlatformPolicy::built_in_version(reference.version)
        .map_err(|e| ActionError::permanent("policy.invalid", e))?;
    let earlier = view.get::<PublishedPolicy>(&policy_key(&reference.name, reference.version))?;
    let earlier = earlier.map(|p| p.reference).or(built_in.map(|built_in| built_in.reference));
    if let Some(earlier) = earlier.as_ref().filter(|earlier| **earlier != reference) {
        let problem = format!(
            "version {} of policy {} has another text ({}); give yours the next number",
            earlier.version, earlier.name, earlier.digest
        );
        return Err(ActionError::permanent("policy.version_exists", problem).into());
    }
    if view.get::<PublishedPolicy>(&policy_key(&reference.name, reference.version))?.is_none() {
        let at = view.now();
        view.put(&PublishedPolicy {
            reference: reference.clone(),
            author: author.into(),
            at,
            text: text.into(),
            over: PlatformPolicy::LATEST,
        })?;
    }
    view.put(&PolicyInForce { reference: reference.clone() })?;
    Ok(reference)
}

/// What is wrong with a document of any of the three kinds: a platform policy, a request, or a tenant's policy alone.
#[must_use]
pub fn check(text: &str) -> Vec<Finding> {
    let top: Vec<String> = match document::from_yaml(text) {
        Ok(root) => match root.value {
            document::Value::Map(fields) => fields.into_iter().map(|(name, _, _)| name).collect(),
            _ => Vec::new(),
        },
        Err(finding) => return vec![finding],
    };
    let has = |name: &str| top.iter().any(|field| field == name);
    let read = if has("policy") {
        PlatformPolicy::from_yaml(text).map(drop)
    } else if has("tenant") && top.len() == 1 {
        TenantPolicy::from_yaml(text).map(drop)
    } else {
        Request::from_yaml(text).map(drop)
    };
    read.err().map(|invalid| invalid.findings).unwrap_or_default()
}

/// One key that two documents say differently.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The key, as `approvals.onboarding.within`.
    pub key: String,
    /// What the old one says; `None` if nothing.
    pub old: Option<String>,
    /// What the new one says; `None` if nothing.
    pub new: Option<String>,
}

/// What changes from the document `old` to `new`, key by key. Order and comments do not count.
///
/// # Errors
/// What is wrong with either.
pub fn diff(old: &str, new: &str) -> Result<Vec<Difference>, Invalid> {
    let (old, new) = (leaves(old)?, leaves(new)?);
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    let differing = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let difference = |key: &String| Difference {
        key: key.clone(),
        old: old.get(key).cloned(),
        new: new.get(key).cloned(),
    };
    Ok(differing.map(difference).collect())
}

fn leaves(text: &str) -> Result<std::collections::BTreeMap<String, String>, Invalid> {
    let mut all = std::collections::BTreeMap::new();
    flatten(&document::from_yaml(text)?, &mut all);
    Ok(all)
}

fn flatten(item: &document::Item, into: &mut std::collections::BTreeMap<String, String>) {
    use document::Value;
    let leaf = match &item.value {
        Value::Map(fields) => return fields.iter().for_each(|(_, _, inner)| flatten(inner, into)),
        Value::List(items) => return items.iter().for_each(|inner| flatten(inner, into)),
        Value::Null => return,
        Value::Bool(value) => value.to_string(),
        Value::Whole(value) => value.to_string(),
        Value::Fraction(value) => value.to_string(),
        Value::Text(text) => text.clone(),
    };
    into.insert(item.path.clone(), leaf);
}
