//! The policy in force, and the publication of others.

use crate::{
    policy::{
        change_summary::meaning,
        parsing::{
            document,
            finding::{Finding, Invalid},
        },
        platform_policy::{PlatformPolicy, PolicyChange, PolicyInForce, PublishedPolicy, policy_key},
        tenant_request::{OnboardingRequest, TenantPolicy},
    },
    tenancy::{
        Allowance, Balance, Cohort, Entitlement, GpuKind, GpuModel, PolicyRef, Resource, TenantId,
        is_gpu_product,
    },
};
use engine::{ActionError, Undecided, View};

/// Returns the policy in force.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `policy.invalid` if the stored text cannot be read.
pub fn in_force(view: &mut View) -> Result<PlatformPolicy, Undecided> {
    match view.get::<PolicyInForce>(PlatformPolicy::NAME)? {
        Some(head) => version(view, &head.reference),
        None => Ok(PlatformPolicy::built_in().map_err(|e| ActionError::permanent("policy.invalid", e))?),
    }
}

/// Returns the model behind a name, by the aliases of the policy in force. Used wherever a user or a file names a model.
///
/// # Errors
/// As [`in_force`].
pub fn model_named(view: &mut View, name: &GpuModel) -> Result<GpuModel, Undecided> {
    if is_gpu_product(name) {
        return Ok(name.clone());
    }
    Ok(in_force(view)?.gpu_models.named(name))
}

/// Same as [`model_named`], for a resource of `tenant` in quotas and workloads. A name under which the tenant already has GPUs, quotas or an entitlement stays,
/// even if it has become an alias.
///
/// # Errors
/// As [`in_force`].
pub fn resource_named(
    view: &mut View,
    tenant: &TenantId,
    resource: &Resource,
) -> Result<Resource, Undecided> {
    let Some(kind) = resource.gpu() else { return Ok(resource.clone()) };
    let named = model_named(view, &kind.model)?;
    let own = if named == kind.model { None } else { own_model(view, tenant, &kind.model)? };
    Ok(Resource::Gpu(GpuKind { model: own.unwrap_or(named), profile: kind.profile.clone() }))
}

/// Returns the model that the tenant's ledger has under this name, ignoring case.
fn own_model(view: &mut View, tenant: &TenantId, name: &GpuModel) -> Result<Option<GpuModel>, Undecided> {
    let is = |model: &GpuModel| model.as_str().eq_ignore_ascii_case(name.as_str());
    let bought = view.get::<Entitlement>(tenant.as_str())?.map(|bought| bought.gpu_model);
    if let Some(model) = bought.filter(|model| is(model)) {
        return Ok(Some(model));
    }
    let Some(cohort) = view.get_shared::<Cohort>(tenant.as_str())? else { return Ok(None) };
    let stock = cohort.stock.iter().filter(|(_, stock)| stock.pieces > 0).map(|(resource, _)| resource);
    // Kinds that the tenant had before stay listed with empty balances.
    let has = |balance: &Balance| balance.allowance != Allowance::default() || balance.in_use() > 0;
    let balances = cohort.accounts.values().flat_map(|account| &account.balances);
    let quotas = balances.filter(|(_, balance)| has(balance)).map(|(resource, _)| resource);
    let mut models = stock.chain(quotas).filter_map(Resource::gpu).map(|kind| &kind.model);
    Ok(models.find(|model| is(model)).cloned())
}

/// Returns a version by its reference, so that a decision can be repeated.
///
/// # Errors
/// As [`in_force`]; permanent `policy.unknown` if the version does not exist or has another digest.
pub fn version(view: &mut View, reference: &PolicyRef) -> Result<PlatformPolicy, Undecided> {
    let invalid = |e: Invalid| ActionError::permanent("policy.invalid", e);
    let published = view.get::<PublishedPolicy>(&policy_key(&reference.name, reference.version))?;
    let policy = match published {
        Some(published) => Some(PlatformPolicy::published(&published).map_err(invalid)?),
        None => None,
    };
    let policy = match policy.filter(|policy| policy.reference == *reference) {
        Some(policy) => Some(policy),
        None => PlatformPolicy::built_in_of(reference).map_err(invalid)?,
    };
    if let Some(policy) = policy.filter(|policy| policy.reference == *reference) {
        return Ok(policy);
    }
    let problem = format!(
        "policy {}@{} with digest {} does not exist",
        reference.name, reference.version, reference.digest
    );
    Err(ActionError::permanent("policy.unknown", problem).into())
}

/// The result of publishing a policy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Published {
    /// The published version.
    pub reference: PolicyRef,
    /// The version that was in force before.
    pub before: PolicyRef,
    /// The changes, key by key.
    pub changes: Vec<Difference>,
    /// The number of its own examples that passed.
    pub examples: usize,
}

/// Puts the policy `text` into force. A published version never changes; publishing the same text again only puts it back into force. Earlier decisions keep
/// their version.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `policy.invalid`, `policy.version_exists` for another text under a used number, or
/// `policy.examples_fail` if its own examples fail.
pub fn publish(view: &mut View, text: &str, author: &str) -> Result<Published, Undecided> {
    let policy = PlatformPolicy::from_yaml(text).map_err(wrong)?;
    let examples = passed(text)?;
    let reference = policy.reference;
    let before = in_force(view)?.reference;
    let built_in = PlatformPolicy::built_in_version(reference.version).map_err(wrong)?;
    let published = view.get::<PublishedPolicy>(&policy_key(&reference.name, reference.version))?;
    let earlier = published.as_ref().map(|p| p.reference.clone());
    let earlier = earlier.or(built_in.map(|built_in| built_in.reference));
    if let Some(earlier) = earlier.as_ref().filter(|earlier| **earlier != reference) {
        let problem = format!(
            "version {} of policy {} already exists with another text ({}); use the next version number",
            earlier.version, earlier.name, earlier.digest
        );
        return Err(ActionError::permanent("policy.version_exists", problem).into());
    }
    let old = text_of(view, &before)?;
    let at = view.now();
    if published.is_none() {
        let (author, text) = (author.to_owned(), text.to_owned());
        let over = PlatformPolicy::EDITION;
        view.put(&PublishedPolicy { reference: reference.clone(), author, at, text, over })?;
    }
    let head = view.get::<PolicyInForce>(&reference.name)?;
    let number = head.map_or(0, |head| head.number);
    if before != reference || number == 0 {
        let number = number.saturating_add(1);
        view.put(&PolicyInForce { reference: reference.clone(), number })?;
        let (by, from) = (author.to_owned(), before.clone());
        view.put(&PolicyChange { number, from, to: reference.clone(), by, at })?;
    }
    let changes = diff(&old, text).map_err(wrong)?;
    Ok(Published { reference, before, changes, examples })
}

fn wrong(invalid: Invalid) -> Undecided {
    ActionError::permanent("policy.invalid", invalid).into()
}

/// Returns the number of examples in the document; fails if one fails.
fn passed(text: &str) -> Result<usize, Undecided> {
    let outcomes = super::test(text).map_err(wrong)?;
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
    if failed.is_empty() {
        return Ok(outcomes.len());
    }
    let said: Vec<String> = failed
        .iter()
        .map(|outcome| format!("{}: expected {}, got {}", outcome.name, outcome.expected, outcome.got))
        .collect();
    Err(ActionError::permanent("policy.examples_fail", said.join("\n")).into())
}

/// Returns the document of a version.
fn text_of(view: &mut View, reference: &PolicyRef) -> Result<String, Undecided> {
    let published = view.get::<PublishedPolicy>(&policy_key(&reference.name, reference.version))?;
    let built_in = || PlatformPolicy::built_in_text(reference.version).unwrap_or_default().to_owned();
    Ok(published.map_or_else(built_in, |published| published.text))
}

/// Returns the problems of a document: a platform policy, a request, or a tenant's policy.
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
        OnboardingRequest::from_yaml(text).map(drop)
    };
    read.err().map(|invalid| invalid.findings).unwrap_or_default()
}

/// Returns the warnings of a valid document: parts of a request that may be a mistake, and parts of a policy without effect.
#[must_use]
pub fn warnings(text: &str) -> Vec<String> {
    let of_policy = || PlatformPolicy::from_yaml(text).map(|policy| policy.warnings()).unwrap_or_default();
    OnboardingRequest::from_yaml(text).map_or_else(|_| of_policy(), |request| request.warnings())
}

/// A key with different values in two documents.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The key, such as `approvals.onboarding.within`.
    pub key: String,
    /// The old value; `None` if absent.
    pub old: Option<String>,
    /// The new value; `None` if absent.
    pub new: Option<String>,
    /// The meaning of the change, such as `wider: …` or `narrower: …`.
    pub meaning: String,
}

/// Returns the changes from the document `old` to `new`, key by key. Ignores order, comments and examples. Fills the defaults of a platform policy first.
///
/// # Errors
/// The problems of either document.
pub fn diff(old: &str, new: &str) -> Result<Vec<Difference>, Invalid> {
    let (old, new) = (leaves(old)?, leaves(new)?);
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.retain(|key| !key.starts_with("examples[") && *key != "version");
    let differing = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
    let difference = |key: &String| Difference {
        key: key.clone(),
        old: old.get(key).cloned(),
        new: new.get(key).cloned(),
        meaning: meaning(key, old.get(key).map(String::as_str), new.get(key).map(String::as_str)),
    };
    Ok(differing.map(difference).collect())
}

fn leaves(text: &str) -> Result<std::collections::BTreeMap<String, String>, Invalid> {
    let mut all = std::collections::BTreeMap::new();
    let root = document::from_yaml(text)?;
    flatten(&PlatformPolicy::filled(root)?, &mut all);
    Ok(all)
}

fn flatten(item: &document::Item, into: &mut std::collections::BTreeMap<String, String>) {
    use crate::policy::parsing::document::Value;
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
