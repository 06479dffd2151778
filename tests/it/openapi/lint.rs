//! The OpenAPI description itself.

use crate::served::Served;
use api::{Access, openapi, rules};
use reqwest::{Method, header};
use roas::{
    v3_1::spec::Spec,
    validation::{Options, Validate as _},
};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn a_third_party_validator_accepts_the_description() {
    let spec: Spec = serde_json::from_value(openapi()).unwrap();
    // `/` is a valid address: that of the server with this description. The check reports schemas of nullable lists as unused;
    // the test below covers them.
    let checked = spec.validate(Options::IgnoreInvalidUrls | Options::IgnoreUnusedSchemas, None);
    assert!(checked.is_ok(), "{}", checked.unwrap_err());
}

/// Every operation with its path and method.
pub(super) fn operations(api: &Value) -> impl Iterator<Item = (&str, &str, &Value)> {
    api["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
    })
}

#[test]
fn every_route_has_its_own_operation_id() {
    let api = openapi();
    let described: BTreeSet<(String, String)> =
        operations(&api).map(|(path, method, _)| (method.to_uppercase(), path.to_owned())).collect();
    let served: BTreeSet<_> = rules().into_iter().map(|rule| (rule.method, rule.path.to_owned())).collect();
    assert_eq!(described, served);
    let mut names = BTreeSet::new();
    for (path, _, operation) in operations(&api) {
        let name = operation["operationId"].as_str().unwrap();
        assert!(names.insert(name), "two operations have the name {name}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{name}");
        let parts = |side: &str| path.matches(side).count();
        let told = operation["parameters"].as_array().unwrap().iter();
        let told: Vec<_> = told.filter(|one| one["in"] == "path").collect();
        assert_eq!(told.len(), parts("{"), "{name} at {path}");
        for one in told {
            assert!(path.contains(&format!("{{{}}}", one["name"].as_str().unwrap())), "{name}: {one}");
            assert_eq!(one["required"], true, "{name}: {one}");
        }
    }
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_component_is_used_and_every_used_component_exists() {
    let api = openapi();
    let mut used = BTreeSet::new();
    references(&api, &mut used);
    for reference in &used {
        assert!(api.pointer(reference.trim_start_matches('#')).is_some(), "{reference} leads nowhere");
    }
    for kind in ["schemas", "parameters", "headers"] {
        for name in api["components"][kind].as_object().unwrap().keys() {
            let reference = format!("#/components/{kind}/{name}");
            assert!(used.contains(reference.as_str()), "nothing needs {reference}");
        }
    }
}

#[test]
fn the_documented_permissions_match_the_table_of_routes() {
    let api = openapi();
    for rule in rules() {
        let operation = &api["paths"][rule.path][rule.method.to_lowercase()];
        let open = operation["security"].as_array().unwrap().is_empty();
        assert_eq!(open, rule.access == Access::Open, "{rule:?}");
        let verb = match rule.access {
            Access::Open | Access::Agent => None,
            Access::Near(verb) | Access::Cluster(verb, _) | Access::Staff(verb) | Access::Tenant(verb) => {
                Some(verb)
            }
        };
        let roles: Vec<_> =
            verb.map(api::Verb::roles).unwrap_or_default().iter().map(|role| role.name()).collect();
        assert_eq!(operation["x-tenure-roles"], serde_json::json!(roles), "{rule:?}");
    }
}

#[tokio::test]
async fn the_description_is_public_and_revalidates() {
    let served = Served::start();
    let answer = served.send(served.ask(Method::GET, "/openapi.json")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body == openapi(), "the served description differs from the code");
    let tag = answer.headers[header::ETAG].to_str().unwrap();
    let again = served.ask(Method::GET, "/openapi.json").header(header::IF_NONE_MATCH, tag);
    assert_eq!(served.send(again).await.status, 304);
}

#[tokio::test]
async fn the_type_of_every_problem_links_to_its_description() {
    let served = Served::start();
    for (code, status, ..) in api::codes() {
        let answer = served.send(served.ask(Method::GET, &format!("/problems/{code}"))).await;
        assert_eq!((answer.status.as_u16(), &answer.body["status"]), (200, &status.into()), "{code}");
    }
    let missing = served.get("/v1/nothing").await;
    assert_eq!(missing.body["type"], "/problems/route.unknown");
    let browser = served.ask(Method::GET, "/problems/route.unknown").header("accept", "text/html,*/*");
    let led = served.send(browser).await;
    assert_eq!(led.status, 303);
    let page = led.headers[header::LOCATION].to_str().unwrap();
    // The page's script opens the anchor.
    let shown = served.send(served.ask(Method::GET, page.split('#').next().unwrap())).await;
    assert!(shown.body.as_str().unwrap().contains("console/reference.js"), "{}", shown.body);
    let unknown = served.send(served.ask(Method::GET, "/problems/cake.baked")).await;
    assert_eq!((unknown.status.as_u16(), unknown.code()), (404, "resource.not_found"));
}

#[tokio::test]
async fn an_address_that_is_not_valid_text_is_a_problem_like_any_other() {
    let served = Served::start();
    for path in ["/v1/tenants/%FF", "/v1/executions/%C3%28:cancel", "/console/%FE"] {
        let answer = served.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, "request.malformed"), "{path}");
        assert_eq!(answer.headers[header::CONTENT_TYPE], "application/problem+json");
    }
}
