//! `tenure explain`: the meaning and the remedy of a code.
//!
//! Codes of problems come from the table of the HTTP API. All other codes come from `docs/operations.md` and `docs/cli.md`, which tests
//! compare with the code.

use crate::{
    common::{Common, Format},
    output::{self, Column},
};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};

const OPERATIONS: &str = include_str!("../../../../docs/operations.md");
const CLI: &str = include_str!("../../../../docs/cli.md");

/// A code with its explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Explained {
    code: String,
    /// The kind of code: `problem`, `failure`, `parked`, `exit` or `rule`.
    of: &'static str,
    means: String,
    remedy: String,
}

impl Explained {
    fn shown(&self) -> Value {
        json!({ "code": self.code, "of": self.of, "means": self.means, "remedy": self.remedy })
    }

    fn told(&self) -> String {
        let of = match self.of {
            "problem" => "error code of the API",
            "failure" => "error code of a failed attempt",
            "parked" => "reason of a parked or overdue execution",
            "rule" => "policy rule",
            _ => "exit code of a command",
        };
        let mut text = format!("{}: {of}\n", self.code);
        for (name, said) in [("means", &self.means), ("what to do", &self.remedy)] {
            if !said.is_empty() {
                text.push_str(&format!("  {name}: {said}\n"));
            }
        }
        text
    }
}

pub(crate) fn run(common: &Common, code: Option<&str>) -> Result<Exit, Failure> {
    let all = all();
    let Some(code) = code else {
        let columns: [Column; 4] =
            [("code", "/code"), ("kind", "/of"), ("meaning", "/means"), ("what to do", "/remedy")];
        output::list(common.output, all.iter().map(Explained::shown).collect(), &columns)?;
        return Ok(Exit::Done);
    };
    let wanted = code.trim().trim_start_matches("urn:tenure:problem:").trim_start_matches("/problems/");
    let found: Vec<&Explained> = all.iter().filter(|one| one.code == wanted).collect();
    if found.is_empty() {
        let near = engine::nearest(wanted, all.iter().map(|one| one.code.as_str()));
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let why = format!("code {wanted} does not exist{near}\n`tenure explain` lists all codes");
        return Err(Failure::new(Exit::NotFound, why));
    }
    match common.output {
        Format::Table => output::say(&found.iter().map(|one| one.told()).collect::<String>())?,
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &found.iter().map(|one| one.shown()).collect())?;
        }
    }
    Ok(Exit::Done)
}

/// Returns every code.
fn all() -> Vec<Explained> {
    let problem = |(code, status, title, remedy): (&str, u16, &str, &str)| Explained {
        code: code.to_owned(),
        of: "problem",
        means: format!("{title} ({status})"),
        remedy: remedy.to_owned(),
    };
    let mut all: Vec<Explained> = api::codes().into_iter().map(problem).collect();
    all.extend(table(OPERATIONS, "## Codes", "failure"));
    all.extend(table(OPERATIONS, "## Parked", "parked"));
    all.extend(table(CLI, "## Exit codes", "exit"));
    all.extend(workflows::policy::rules().map(|rule| Explained {
        code: rule.name.to_owned(),
        of: "rule",
        means: rule.means.to_owned(),
        remedy: rule.remedy.to_owned(),
    }));
    all
}

/// Reads the tables below `heading`, up to the next heading of its level. The first cell has the codes, the last the remedy, and a cell
/// between them the meaning. Exit codes have no remedy.
fn table(page: &str, heading: &str, of: &'static str) -> Vec<Explained> {
    let below = page.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let below = below.take_while(|line| !line.starts_with("## "));
    let rows = below.filter(|line| line.starts_with("| `") || line.starts_with("| ") && of == "exit");
    rows.flat_map(|line| {
        let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
        let codes = cells.next().unwrap_or_default();
        let (first, second) = (cells.next().unwrap_or_default(), cells.next());
        let (means, remedy) = match (second, of) {
            (Some(remedy), _) => (first, remedy),
            (None, "exit") => (first, ""),
            (None, _) => ("", first),
        };
        let (means, remedy) = (means.to_owned(), remedy.to_owned());
        let codes = codes.split(", ").map(|code| code.trim_matches('`').to_owned());
        let codes = codes.filter(move |code| of != "exit" || code.parse::<u8>().is_ok());
        codes.map(move |code| Explained { code, of, means: means.clone(), remedy: remedy.clone() })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray as _;

    fn codes_of(all: &[Explained], of: &str) -> Vec<String> {
        all.iter().filter(|one| one.of == of).map(|one| one.code.clone()).collect()
    }

    #[test]
    fn every_code_is_explained_with_a_remedy() {
        let all = all();
        let failures = codes_of(&all, "failure");
        let tables = [
            workflows::ledger::codes::ALL,
            workflows::platform::codes::ALL,
            workflows::destruction::codes::ALL,
        ];
        for (code, remedy) in tables.into_iter().flatten() {
            assert!(failures.contains(&(*code).to_owned()), "{code}");
            assert!(all.iter().any(|one| one.code == *code && one.remedy == *remedy), "{code}: {remedy}");
        }
        assert!(failures.contains(&"child.rolled_back".to_owned()), "one of several in a cell");
        let parked = codes_of(&all, "parked");
        for reason in engine::Reason::VARIANTS {
            assert!(parked.contains(&<&str>::from(reason).to_owned()), "{reason:?}");
        }
        let exits: Vec<String> = program::exit::exits().iter().map(ToString::to_string).collect();
        assert_eq!(codes_of(&all, "exit"), exits, "those in docs/cli.md, and in their order");
        assert!(codes_of(&all, "rule").contains(&"placement.ever_fits".to_owned()));
        let leads_nowhere: Vec<&Explained> = all.iter().filter(|one| one.remedy.contains("docs/")).collect();
        assert_eq!(leads_nowhere, Vec::<&Explained>::new(), "a package does not contain the repository");
        let silent: Vec<&Explained> =
            all.iter().filter(|one| one.means.is_empty() && one.remedy.is_empty()).collect();
        assert_eq!(silent, Vec::<&Explained>::new());
    }
}
