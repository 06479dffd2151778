//! Describes errors in policies: the file, the line, and the remedy.

use super::schema::{CHANGE, READ};
use crate::auth::{Role, Verb};
use cedar_policy::{PolicyId, PolicySet, ValidationMode, Validator};
use miette::Diagnostic;
use std::fmt::Display;
use strum::VariantArray as _;

/// A text of policies, and its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct PolicySource<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl PolicySource<'_> {
    /// Describes an error of Cedar in this text, with its position.
    pub(super) fn fault(&self, told: &(impl Diagnostic + Display + ?Sized)) -> String {
        let said = told.to_string();
        let remedy = suggestion(&said).or_else(|| told.help().map(|help| help.to_string()));
        let place = told.labels().and_then(|labels| labels.map(|label| label.offset()).min());
        let line = place.and_then(|at| self.text.get(..at)).map(|before| before.matches('\n').count() + 1);
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
        format!("{}{line}: {said}{remedy}", self.name)
    }
}

/// Validates `policies` against the schema; `source` returns the text of a policy.
pub(super) fn validate<'a>(
    validator: &Validator,
    policies: &PolicySet,
    source: impl Fn(&PolicyId) -> PolicySource<'a>,
) -> Vec<String> {
    // Strict mode, and warnings are errors: a policy must mean exactly what its author intends.
    let found = validator.validate(policies, ValidationMode::Strict);
    let wrong =
        found.validation_errors().map(|told| (told.policy_id(), source(told.policy_id()).fault(told)));
    let odd =
        found.validation_warnings().map(|told| (told.policy_id(), source(told.policy_id()).fault(told)));
    let all: Vec<(&PolicyId, String)> = wrong.chain(odd).collect();
    // For a policy with an unknown name, further errors are only consequences.
    let unknown: Vec<&PolicyId> =
        all.iter().filter(|(_, said)| is_unknown(said)).map(|(id, _)| *id).collect();
    let mut faults: Vec<String> = all
        .iter()
        .filter(|(id, said)| is_unknown(said) || !unknown.contains(id))
        .map(|(_, said)| said.clone())
        .collect();
    if faults.is_empty() && !found.validation_passed() {
        faults.push(found.to_string());
    }
    faults.sort();
    faults.dedup();
    faults
}

/// Returns true if the error is an unknown name.
fn is_unknown(said: &str) -> bool {
    said.contains("unrecognized ") || said.contains(" not found")
}

/// Suggests the nearest known name.
fn suggestion(said: &str) -> Option<String> {
    let after = |kind: &str| said.split_once(&format!("::{kind}::\"")).map(|(_, rest)| rest);
    let actions = || Verb::VARIANTS.iter().map(|verb| verb.name()).chain([READ, CHANGE]);
    let roles = || Role::VARIANTS.iter().map(|role| role.name());
    let (kind, rest, known): (_, _, Vec<&str>) = match (after("Action"), after("Role")) {
        (Some(rest), _) => ("action", rest, actions().collect()),
        (None, Some(rest)) => ("role", rest, roles().collect()),
        (None, None) => return None,
    };
    let (name, _) = rest.split_once('"')?;
    if known.contains(&name) {
        return None;
    }
    Some(match engine::nearest(name, known) {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("there is no {kind} {name:?}; `tenure access schema` lists them"),
    })
}
