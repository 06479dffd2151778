//! Reads YAML from users within bounds. Only this module calls the parser.
//!
//! Used for policies, requests, the target file and the command line. Invariant: the cost of a document is bounded by its length. Anchors, aliases
//! and merge keys are rejected, because a few hundred bytes of them can expand to millions of values.

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, MergeKeyPolicy, Options, budget::BudgetBreach};

/// The longest document, in bytes: 1 MiB.
pub const LONGEST: usize = 1 << 20;
/// The maximum number of values in a document, with field names.
pub const MOST_VALUES: usize = 100_000;
/// The maximum nesting depth of values.
pub const DEEPEST: usize = 32;

/// The reason why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unreadable {
    /// The line and the column, if the problem has one place.
    pub at: Option<(u64, u64)>,
    /// The description of the problem, with its place.
    pub why: String,
    /// The remedy, if a bound is exceeded.
    pub remedy: Option<&'static str>,
}

const SMALLER: &str = "split the document, or remove unneeded parts";
const WRITTEN_OUT: &str = "write each value in full, without anchors (`&`) and aliases (`*`)";

/// Returns the value of a document. An error shows its line.
///
/// # Errors
/// The problem of the document, or the exceeded bound.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    within(text, true)
}

/// Reads a document like [`read`], with one-line errors.
pub(crate) fn read_plain<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    within(text, false)
}

fn within<T: DeserializeOwned>(text: &str, with_snippet: bool) -> Result<T, Unreadable> {
    if text.len() > LONGEST {
        let why = format!("the document has {} bytes; the limit is {LONGEST}", text.len());
        return Err(Unreadable { at: None, why, remedy: Some(SMALLER) });
    }
    serde_saphyr::from_str_with_options(text, options(with_snippet)).map_err(|error| unreadable(&error))
}

fn options(with_snippet: bool) -> Options {
    serde_saphyr::options! {
        with_snippet: with_snippet,
        merge_keys: MergeKeyPolicy::Error,
        budget: serde_saphyr::budget! {
            max_aliases: 0,
            max_anchors: 0,
            max_depth: DEEPEST,
            max_nodes: MOST_VALUES,
            max_events: 4 * MOST_VALUES,
            max_total_scalar_bytes: LONGEST,
        },
    }
}

fn unreadable(error: &Error) -> Unreadable {
    let at = error.location().map(|place| (place.line(), place.column()));
    let place = at.map(|(line, column)| format!(" at line {line}, column {column}")).unwrap_or_default();
    let ours = |why: String, remedy: &'static str| Unreadable {
        at,
        why: format!("{why}{place}"),
        remedy: Some(remedy),
    };
    let breach = match error.without_snippet() {
        Error::Budget { breach, .. } => breach,
        Error::DuplicateMappingKey { key, .. } => {
            let named = key.as_ref().map(|key| format!(" `{key}`")).unwrap_or_default();
            return ours(format!("the field{named} occurs twice"), "remove one of them");
        }
        Error::MultipleDocuments { .. } => {
            return ours("there is more than one document (`---`)".to_owned(), "put each into its own file");
        }
        Error::NonFiniteFloat { .. } => {
            return ours("a number is not finite".to_owned(), "write a number in plain digits");
        }
        _ => return Unreadable { at, why: without_hints(&error.to_string()), remedy: None },
    };
    let (why, remedy) = match breach {
        BudgetBreach::Aliases { .. } | BudgetBreach::Anchors { .. } => {
            ("anchors and aliases are not supported".to_owned(), WRITTEN_OUT)
        }
        BudgetBreach::Depth { .. } => {
            (format!("values are nested more than {DEEPEST} levels deep"), "nest them less deeply")
        }
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            (format!("the document has more than {MOST_VALUES} values"), SMALLER)
        }
        other => (format!("the document is too complex to read ({other:?})"), SMALLER),
    };
    Unreadable { at, why: format!("{why}{place}"), remedy: Some(remedy) }
}

/// Returns the parser's message without its hints for developers, which name functions and options of the library.
fn without_hints(message: &str) -> String {
    const HINTS: [&str; 4] = ["Options", "from_str", "from_slice", "Policy"];
    let kept = message.lines().map(|line| {
        let parts = line.split(", ").flat_map(|part| part.split("; "));
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            parts.partition(|part| !HINTS.iter().any(|hint| part.contains(hint)));
        if theirs.is_empty() { line.to_owned() } else { ours.join(", ") }
    });
    kept.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::time::Duration;

    fn refused(text: &str) -> Unreadable {
        read::<Value>(text).unwrap_err()
    }

    /// Returns nine anchors, each nine times the previous one: 9^9 values in 359 bytes.
    fn bomb() -> String {
        let level = |n: usize| {
            let inner = if n == 0 { "x".to_owned() } else { format!("*a{}", n - 1) };
            format!("a{n}: &a{n} [{}]\n", vec![inner; 9].join(", "))
        };
        (0..9).map(level).collect()
    }

    #[test]
    fn an_alias_is_refused_before_it_is_expanded() {
        let began = engine::Stopwatch::start();
        for text in [bomb().as_str(), "a: &x [1]\nb: *x\n", "a: &x {b: 1}\nc: {<<: *x}\n"] {
            let error = refused(text);
            assert_eq!(error.remedy, Some(WRITTEN_OUT), "{error}");
            assert_eq!(error.at.map(|(line, _)| line), Some(1), "{error}");
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }

    #[test]
    fn a_document_above_a_limit_is_refused_with_that_limit() {
        for (text, named) in [
            ("[".repeat(DEEPEST + 1) + &"]".repeat(DEEPEST + 1), "32 levels deep"),
            (format!("[{}1]", "1,".repeat(MOST_VALUES)), "100000 values"),
            (" ".repeat(LONGEST + 1), "the limit is 1048576"),
        ] {
            let error = refused(&text);
            assert!(error.why.contains(named) && error.remedy.is_some(), "{error}");
        }
    }

    #[test]
    fn an_error_has_no_text_of_the_library() {
        for (text, named) in [
            ("a: 1\nb: 2\na: 3\n", "twice"),
            ("a: 1\n---\nb: 2\n", "more than one document"),
            ("a: [1\n", ""),
            ("a: 1\n  b: 2\n", ""),
            ("a: &x 1\nb: *y\n", ""),
        ] {
            let Err(error) = read::<Value>(text) else { panic!("{text:?} is read") };
            let said = error.to_string();
            assert!(said.contains(named), "{text:?}: {said}");
            for theirs in ["Options", "Policy", "from_str", "from_slice", "Budget"] {
                assert!(!said.contains(theirs), "{text:?}: {said}");
            }
        }
    }

    #[test]
    fn an_ordinary_document_is_parsed() {
        assert_eq!(read::<Value>("a: [1, {b: c}]\n").unwrap(), serde_json::json!({ "a": [1, { "b": "c" }] }));
        assert_eq!(refused("a: [1").remedy, None);
    }
}
