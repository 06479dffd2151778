//! The filter language for executions: `tenant = acme and phase = parked and age > 2h`.
//!
//! HTTP, the command line and the console use the same language. [`parse`] is pure: it takes the current time and
//! returns a [`Query`] for the store. `field.rs` has the fields; `docs/search.md` describes them.

pub(crate) mod attributes;
mod field;
mod lex;
mod misread;
mod parser;

pub use field::Field;
pub use misread::{CONDITIONS_LIMIT, FilterError, nearest};
pub use parser::leftovers;

use crate::search::parser::Parser;
use store::{Query, Timestamp};

/// The longest filter, in bytes.
pub const FILTER_LIMIT: usize = 4_096;
/// Parses `text` at the time `now`. An empty text matches everything.
///
/// # Errors
/// Returns a [`FilterError`] with the position and the expected input.
pub fn parse(text: &str, now: Timestamp) -> Result<Query, FilterError> {
    parse_knowing(text, now, Vec::new())
}

/// Parses `text`, and checks workflow names against `workflows`. A name that is similar to one of them is an error.
/// Any other unknown name is accepted, because it may be of an earlier version whose executions are still stored.
///
/// # Errors
/// Same as [`parse`].
pub fn parse_knowing(text: &str, now: Timestamp, workflows: Vec<String>) -> Result<Query, FilterError> {
    if text.len() > FILTER_LIMIT {
        return Err(FilterError {
            at: FILTER_LIMIT,
            problem: format!("it has {} bytes", text.len()),
            expected: format!("at most {FILTER_LIMIT}; split the query"),
            nearest: None,
        });
    }
    Parser::new(lex::words(text)?, text.chars().count(), now, workflows).parse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray as _;

    const NOW: Timestamp = Timestamp(1_000_000_000);

    fn read(text: &str) -> Query {
        parse(text, NOW).unwrap_or_else(|misread| panic!("{text}: {misread}"))
    }

    fn misread(text: &str) -> FilterError {
        parse(text, NOW).map_or_else(|misread| misread, |query| panic!("{text}: {query:?}"))
    }

    #[test]
    fn conditions_are_joined_as_they_are_read() {
        let (acme, parked) = (Query::is("tenant", "acme"), Query::is("phase", "parked"));
        let onboarding = Query::is("workflow", "onboarding");
        assert_eq!(read(""), Query::All);
        assert_eq!(read("tenant = acme"), acme);
        let both = Query::And(vec![acme.clone(), parked.clone()]);
        assert_eq!(read("tenant=acme and phase=parked"), both);
        let either = Query::Or(vec![both, onboarding.clone()]);
        assert_eq!(read("tenant = acme AND phase = parked or workflow = onboarding"), either);
        let bracketed = Query::And(vec![acme, Query::Or(vec![parked, onboarding.clone()])]);
        assert_eq!(read("tenant = 'acme' and (phase = parked or workflow = onboarding)"), bracketed);
        assert_eq!(read("not workflow = onboarding"), Query::Not(Box::new(onboarding.clone())));
        assert_eq!(read("workflow != onboarding"), Query::Not(Box::new(onboarding)));
        assert_eq!(read("not open"), read("finished"));
        assert_eq!(read("tenant not in (a, b)"), read("tenant != a and tenant != b"));
        assert_eq!(
            read("subject ~ \"node/a b\""),
            Query::StartsWith { field: "subject".into(), with: "node/a b".into() }
        );
        assert_eq!(read(r#"subject = "a \"b\" \\""#), Query::is("subject", r#"a "b" \"#));
        let has = |field: &str| Query::Has { field: field.into() };
        assert_eq!(read("has approver"), Query::Or(vec![has("asked"), has("voted")]));
    }

    #[test]
    fn spans_count_back_from_the_moment_and_moments_do_not() {
        let ago = |ms: u64| Timestamp(NOW.0 - ms);
        assert_eq!(read("age > 2h"), Query::CreatedBetween { from: Timestamp(0), until: ago(7_200_000) });
        let since = Query::UpdatedBetween { from: Timestamp(ago(90_000).0 + 1), until: Timestamp(u64::MAX) };
        assert_eq!(read("idle < 1m30s"), since);
        assert_eq!(
            read("created >= 1970-01-02 and created < 1970-01-03T00:00:00Z"),
            Query::And(vec![
                Query::CreatedBetween { from: Timestamp(86_400_000), until: Timestamp(u64::MAX) },
                Query::CreatedBetween { from: Timestamp(0), until: Timestamp(172_800_000) },
            ])
        );
    }

    #[test]
    fn an_invalid_filter_is_reported_with_its_position_the_expected_input_and_a_suggestion() {
        let unknown = misread("tenat = acme");
        assert_eq!((unknown.at, unknown.nearest.as_deref()), (1, Some("tenant")));
        assert!(unknown.to_string().contains("did you mean tenant?"), "{unknown}");
        let reason = misread("tenant = acme and reason = outcom_unknown");
        assert_eq!((reason.at, reason.nearest.as_deref()), (28, Some("outcome_unknown")));
        let signed = misread("tenant > acme");
        assert_eq!(signed.at, 8);
        assert!(signed.expected.contains("= or !="), "{signed}");
        let ended = misread("tenant = acme and");
        assert_eq!((ended.at, ended.expected.as_str()), (18, "a field, not, or ("));
        assert_eq!(misread("tenant = acme phase = parked").at, 15);
        assert_eq!(misread("tenant = ünïcode phase").at, 18, "characters are counted, not bytes");
        assert_eq!(misread("age > soon").expected, "a span such as 90s, 15m, 2h or 3d");
        assert!(misread("tenant = \"acme").problem.contains("not closed"));
        assert!(misread("(tenant = acme").expected.contains(')'));
        assert_eq!(misread("(tenant = acme, phase = parked").at, 15);
        assert!(misread("has phase tenant").at > 1);
        let unquoted = misread("label = team=ml");
        assert!(unquoted.at == 13 && unquoted.expected.contains("between quotes"), "{unquoted}");
    }

    #[test]
    fn a_workflow_that_is_misspelt_is_named_and_one_of_an_earlier_version_is_searched() {
        let known = || vec!["onboarding".to_owned(), "offboarding".to_owned()];
        let wrong = parse_knowing("tenant = acme and workflow = onbording", NOW, known()).unwrap_err();
        assert_eq!((wrong.at, wrong.nearest.as_deref()), (30, Some("onboarding")));
        for text in [
            "workflow = onboarding",
            "workflow in (offboarding, legacy)",
            "workflow ~ onb",
            "tenant = onbording",
        ] {
            assert!(parse_knowing(text, NOW, known()).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_filter_has_limits() {
        let many = vec!["tenant = a"; CONDITIONS_LIMIT + 1].join(" or ");
        assert!(misread(&many).expected.contains("at most 64 conditions"));
        read(&vec!["tenant = a"; CONDITIONS_LIMIT].join(" or "));
        assert!(misread(&"x".repeat(FILTER_LIMIT + 1)).problem.contains("4097 bytes"));
        assert!(misread(&"(".repeat(4_000)).expected.contains("16 nested brackets"));
        assert!(misread(&"not ".repeat(1_000)).expected.contains("16 nested brackets"));
    }

    /// Every input is parsed or refused with an error, and so is every sign of a field.
    #[test]
    fn no_text_makes_the_parser_panic() {
        let words = [
            "tenant", "age", "open", "not", "in", "has", "(", ")", ",", "=", ">", "\"", "acme", "2h", "ü",
            "\\", "!",
        ];
        let mut n = 7_usize;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..n % 9 {
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(words[(n >> 33) % words.len()]);
                text.push_str(if n.is_multiple_of(3) { "" } else { " " });
            }
            n = n.wrapping_add(1);
            if let Err(misread) = parse(&text, NOW) {
                assert!(misread.at >= 1 && misread.at <= text.chars().count() + 1, "{text:?}: {misread}");
                assert!(!misread.expected.is_empty(), "{text:?}");
            }
        }
        for field in Field::VARIANTS {
            for sign in ["=", "!=", "~", "<", "<=", ">", ">="] {
                let _ = parse(&format!("{} {sign} true", field.name()), NOW);
            }
        }
    }
}
