//! Checks of the OpenAPI document.

use super::{document, problems::explain};
use crate::http::{problem::code::ProblemCode, router::table};
use strum::VariantArray as _;

#[test]
fn every_body_that_a_handler_reads_is_described() {
    for route in table() {
        let described = !route.told.bodies.is_empty();
        assert_eq!(route.reads.text, described, "{} {}", route.method, route.path);
        assert!(!route.told.answers.is_empty(), "{} {} has no summary", route.method, route.path);
    }
}

#[test]
fn every_route_with_an_etag_documents_it() {
    for route in table() {
        let stale = route.told.may.iter().any(|code| code.facts().1 == 412);
        assert_eq!(route.reads.bound, stale, "{} {}", route.method, route.path);
    }
}

#[test]
fn every_code_is_explained_where_its_type_leads() {
    for code in ProblemCode::VARIANTS {
        let (name, status, ..) = code.facts();
        let explained = explain(name).unwrap();
        assert_eq!((explained.of, explained.status), (format!("/problems/{name}"), status));
    }
    let of_an_action = explain("user.is_admin").unwrap();
    assert!(of_an_action.remedy.contains("first admin cannot be removed"), "{}", of_an_action.remedy);
    assert!(explain("cake.baked").is_none() && explain("| a").is_none());
}

#[test]
fn request_and_answer_schemas_have_different_names() {
    let text = document().to_string();
    assert!(!text.contains("/components/schemas/Wanted"), "a type needs a descriptive name");
    for digit in '2'..='9' {
        assert!(!text.contains(&format!("Why{digit}")), "two schemas have the same name");
    }
}
