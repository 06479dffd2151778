//! Explanations of problem codes. Codes of actions and ledgers are explained by the tables of `docs/operations.md`, or by the remedy in the list that defines
//! them.

use crate::{
    http::problem::{address, code::ProblemCode},
    types::problems::ProblemType,
};
use workflows::{destruction, ledger, platform, scheduling::admission};

/// The code lists of the domain, each code with its remedy.
const DEFINED: [&[(&str, &str)]; 4] =
    [platform::codes::ALL, admission::codes::ALL, destruction::codes::ALL, ledger::codes::ALL];

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// Returns the explanation of a code, if the code exists.
pub(super) fn explain(code: &str) -> Option<ProblemType> {
    if let Some(known) = ProblemCode::named(code) {
        let (name, status, title, remedy) = known.facts();
        return Some(explained(name, status, title, remedy));
    }
    let is_code = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_');
    if !code.contains('.') || !code.chars().all(is_code) {
        return None;
    }
    let quoted = format!("`{code}`");
    let row = PAGE.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let on_page = row.into_iter().find(|(codes, _)| codes.split(", ").any(|one| one == quoted));
    let defined = || DEFINED.into_iter().flatten().find(|(defined, _)| *defined == code);
    let remedy = on_page.map(|(_, remedy)| remedy).or_else(|| defined().map(|(_, remedy)| *remedy))?;
    let (_, status, title, _) = ProblemCode::DocumentInvalid.facts();
    Some(explained(code, status, title, remedy.trim_end_matches('|').trim()))
}

fn explained(code: &str, status: u16, title: &str, remedy: &str) -> ProblemType {
    ProblemType {
        of: address(code),
        code: code.to_owned(),
        status,
        title: title.to_owned(),
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_the_domain_defines_is_explained() {
        for (code, _) in DEFINED.into_iter().flatten() {
            assert!(explain(code).is_some_and(|problem| !problem.remedy.is_empty()), "{code}");
        }
    }
}
