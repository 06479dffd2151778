//! What each problem is. Those that actions and ledgers name by codes of their own are explained by the tables of
//! `docs/operations.md`, which a test holds to the code.

use crate::{
    http::problem::{address, code::Code},
    types::problems::ProblemType,
};

const PAGE: &str = include_str!("../../../../docs/operations.md");

/// The problem of this code, if there is one.
pub(super) fn explain(code: &str) -> Option<ProblemType> {
    if let Some(known) = Code::named(code) {
        let (name, status, title, remedy) = known.facts();
        return Some(explained(name, status, title, remedy));
    }
    let is_code = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_');
    if !code.contains('.') || !code.chars().all(is_code) {
        return None;
    }
    let quoted = format!("`{code}`");
    let row = PAGE.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let (_, remedy) = row.into_iter().find(|(codes, _)| codes.split(", ").any(|one| one == quoted))?;
    let (_, status, title, _) = Code::DocumentInvalid.facts();
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
