//! The rules of policy: the requirement of each, and the remedy if it fails.
//!
//! Shown by `tenure explain RULE`. Invariant: a decision point names a rule by [`RuleName`], and the name of an undocumented rule does not compile. A test
//! compares the rules with the names that decisions record.

mod of_decisions;
mod of_requests;

/// A rule of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name in reasons.
    pub name: &'static str,
    /// The requirement.
    pub means: &'static str,
    /// The remedy if it fails or requires an approval.
    pub remedy: &'static str,
}

const fn rule(name: &'static str, means: &'static str, remedy: &'static str) -> Rule {
    Rule { name, means, remedy }
}

const APPROVERS: &str = "nothing: the roles that the request names decide";

/// All rules.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    of_requests::RULES.iter().chain(of_decisions::RULES)
}

/// The name of a documented rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleName(&'static str);

impl RuleName {
    /// Returns the name of a rule. Called in a `const` block, so that an unknown name does not compile.
    #[must_use]
    pub const fn known(name: &'static str) -> Self {
        assert!(
            has(of_requests::RULES, name) || has(of_decisions::RULES, name),
            "explain the rule in policy/rules/of_decisions.rs first"
        );
        Self(name)
    }

    /// Returns the name as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

const fn has(mut rules: &[Rule], name: &str) -> bool {
    while let [first, rest @ ..] = rules {
        if is_same(first.name.as_bytes(), name.as_bytes()) {
            return true;
        }
        rules = rest;
    }
    false
}

const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([a, one_rest @ ..], [b, other_rest @ ..]) = (one, other) {
        if *a != *b {
            return false;
        }
        (one, other) = (one_rest, other_rest);
    }
    one.is_empty() && other.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    /// The sources of decisions on requests, which record rules by text.
    const OF_REQUESTS: [&str; 3] = [
        include_str!("onboarding_decision.rs"),
        include_str!("../quota_change/evaluate.rs"),
        include_str!("../sla_change/evaluate.rs"),
    ];

    /// Returns the texts after each of `calls` that name a rule.
    fn noted<'a>(source: &'a str, calls: &[&str]) -> Vec<&'a str> {
        let after = calls.iter().flat_map(|call| source.split(call).skip(1).collect::<Vec<_>>());
        after.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next()).collect()
    }

    #[test]
    fn every_rule_recorded_by_a_decision_is_explained() {
        let calls = ["self.check(", "self.note(", "self.asks("];
        let all: Vec<&str> = OF_REQUESTS.into_iter().flat_map(|source| noted(source, &calls)).collect();
        let all: Vec<&str> = all.into_iter().filter(|name| name.contains('.')).collect();
        assert!(all.len() > 25, "{all:?}");
        for name in all {
            assert!(rules().any(|rule| rule.name == name), "{name} is not explained");
        }
        for table in [of_requests::RULES, of_decisions::RULES] {
            assert!(table.is_sorted_by_key(|rule| rule.name), "by name");
        }
        let names: BTreeSet<&str> = rules().map(|rule| rule.name).collect();
        assert_eq!(names.len(), rules().count(), "each name once");
    }

    /// Decision points create reasons only from a [`RuleName`], and each of their rules occurs in a reason.
    #[test]
    fn the_listed_rules_of_decision_points_match_the_recorded_ones() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/policy/decisions");
        let sources =
            fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
        let sources: Vec<String> = sources.collect();
        let named: BTreeSet<&str> =
            sources.iter().flat_map(|source| noted(source, &["RuleName::known("])).collect();
        assert!(named.len() > 40, "{named:?}");
        for rule in of_decisions::RULES {
            assert!(named.contains(rule.name), "no decision point notes {}", rule.name);
        }
        for source in &sources {
            assert!(
                !source.contains("rule: format!(") && !source.contains("rule: \""),
                "a name that is not known"
            );
        }
    }
}
