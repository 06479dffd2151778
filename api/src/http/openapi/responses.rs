//! The answers of a route: successes and problems.

use super::parameters::{keyed, parts};
use crate::{
    auth::Verb,
    http::{
        middleware::headers::is_api,
        problem::code::ProblemCode,
        route::{Access, Route},
        route_doc::{ResponseDoc, STREAM, SchemaWriter},
    },
};
use axum::http::Method;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Returns the answer headers, by component name.
pub(super) fn headers() -> Value {
    let header = |says: &str| json!({ "description": says, "schema": { "type": "string" } });
    json!({
        "requestId": header("The id of the request in the log. A short, plain id of the caller is kept."),
        "location": header("The path of the new resource."),
        "etag": header("The version of the resource, for If-Match."),
        "replayed": header("`true`: this answer repeats the stored answer to an earlier request."),
        "ratePolicy": header("The rate limit of the caller: `\"default\";q=400;w=4` means 400 requests in 4 seconds."),
        "rate": header("The rest of the rate limit: `\"default\";r=399;t=1` means 399 more requests now; the full limit is available in 1 second."),
        "retryAfter": header("Seconds until a retry."),
        "authenticate": header("`Bearer`."),
    })
}

fn header(component: &str) -> Value {
    json!({ "$ref": format!("#/components/headers/{component}") })
}

/// Returns every answer of a route, by status.
pub(super) fn of(route: &Route, generator: &mut SchemaGenerator) -> Map<String, Value> {
    let mut all: BTreeMap<u16, Value> = BTreeMap::new();
    for answer in &route.told.answers {
        let response =
            all.entry(answer.status).or_insert_with(|| json!({ "description": says(answer.status) }));
        add(response, route, answer, generator);
    }
    let mut codes: BTreeMap<u16, Vec<&'static str>> = BTreeMap::new();
    for code in codes_of(route) {
        let (name, status, ..) = code.facts();
        let names = codes.entry(status).or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for (status, names) in codes {
        refuse(all.entry(status).or_insert_with(|| json!({})), paced(route.path), status, &names);
    }
    all.into_iter().map(|(status, response)| (status.to_string(), response)).collect()
}

/// Returns the headers that all answers of a path have.
fn paced(path: &str) -> Map<String, Value> {
    let mut headers = Map::from_iter([("X-Request-Id".to_owned(), header("requestId"))]);
    if is_api(path) {
        headers.insert("RateLimit-Policy".into(), header("ratePolicy"));
        headers.insert("RateLimit".into(), header("rate"));
    }
    headers
}

fn says(status: u16) -> &'static str {
    match status {
        200 => "Success.",
        201 => "Made.",
        202 => "Accepted; the work continues in the background.",
        204 => "Success, without a body.",
        303 => "Found at `Location`.",
        304 => "Unchanged since the version of the caller.",
        _ => "An error.",
    }
}

fn add(response: &mut Value, route: &Route, answer: &ResponseDoc, generator: &mut SchemaGenerator) {
    let Some(fields) = response.as_object_mut() else { return };
    let mut headers = paced(route.path);
    if answer.located {
        headers.insert("Location".into(), header("location"));
    }
    if answer.tagged {
        headers.insert("ETag".into(), header("etag"));
    }
    if keyed(route) {
        headers.insert("Idempotency-Replayed".into(), header("replayed"));
    }
    let said = fields.entry("headers").or_insert_with(|| json!({}));
    if let Some(said) = said.as_object_mut() {
        said.extend(headers);
    }
    let Some((media, schema)) = answer.body else { return };
    let told = (media == STREAM).then(|| events(route, generator));
    let schema = schema.map_or(json!({ "type": "string" }), |writes| writes(generator).to_value());
    let content = fields.entry("content").or_insert_with(|| json!({}));
    let Some(content) = content.as_object_mut() else { return };
    let before = content.get(media).and_then(|there| there.get("schema")).cloned();
    let either = match before {
        Some(before) => json!({ "anyOf": [before, schema] }),
        None => schema,
    };
    content.insert(media.into(), json!({ "schema": either }));
    if let (Some(told), Some(described)) = (told, content.get_mut(media).and_then(Value::as_object_mut)) {
        described.insert("x-tenure-events".into(), told);
    }
}

/// Returns the events of a stream, each with the schema of its JSON data.
fn events(route: &Route, generator: &mut SchemaGenerator) -> Value {
    let told = route.told.events.iter();
    let one = |(name, writes): &(&str, SchemaWriter)| ((*name).to_owned(), writes(generator).to_value());
    Value::Object(told.map(one).collect())
}

/// Adds the problems of a status.
fn refuse(response: &mut Value, every: Map<String, Value>, status: u16, names: &[&str]) {
    let Some(fields) = response.as_object_mut() else { return };
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    let before = fields.get("description").and_then(Value::as_str).map(|before| format!("{before} Or: "));
    fields
        .insert("description".into(), format!("{}{}.", before.unwrap_or_default(), quoted.join(", ")).into());
    fields.insert("x-tenure-codes".into(), json!(names));
    let headers = fields.entry("headers").or_insert_with(|| json!({}));
    if let Some(headers) = headers.as_object_mut() {
        headers.extend(every);
        if status == 401 {
            headers.insert("WWW-Authenticate".into(), header("authenticate"));
        }
        let (in_use, ..) = ProblemCode::KeyInUse.facts();
        if matches!(status, 429 | 503) || names.contains(&in_use) {
            headers.insert("Retry-After".into(), header("retryAfter"));
        }
    }
    let content = fields.entry("content").or_insert_with(|| json!({}));
    if let Some(content) = content.as_object_mut() {
        let problem = json!({ "schema": { "$ref": "#/components/schemas/Problem" } });
        content.insert("application/problem+json".into(), problem);
    }
}

/// Returns the problem codes of a route: those that follow from its access rule and its inputs, and those that it declares.
fn codes_of(route: &Route) -> Vec<ProblemCode> {
    let mut codes = vec![ProblemCode::Malformed, ProblemCode::Internal];
    let named = parts(route.path).next().is_some();
    if named && (route.access != Access::Open || route.path.starts_with("/console/")) {
        codes.push(if route.access == Access::Open { ProblemCode::NoRoute } else { ProblemCode::NotFound });
    }
    if !route.reads.bound {
        codes.push(ProblemCode::HeaderUnsupported);
    }
    if route.reads.query.is_some() || !route.reads_parameters() {
        codes.push(ProblemCode::QueryInvalid);
    }
    match route.access {
        Access::Open => {}
        Access::Agent => codes.extend([ProblemCode::CrossCluster, ProblemCode::Stopping]),
        Access::Cluster(..) => codes.extend([ProblemCode::CrossCluster, ProblemCode::ForeignTenant]),
        Access::Near(_) | Access::Staff(_) => codes.push(ProblemCode::ForeignTenant),
        Access::Tenant(_) if route.method != Method::GET => codes.push(ProblemCode::ForeignTenant),
        Access::Tenant(_) => {}
    }
    if route.access != Access::Open {
        codes.extend([
            ProblemCode::NoToken,
            ProblemCode::BadToken,
            ProblemCode::Forbidden,
            ProblemCode::Unreadable,
            ProblemCode::StoreUnavailable,
        ]);
    }
    if route.method != Method::GET {
        codes.extend([
            ProblemCode::Unknown,
            ProblemCode::Conflict,
            ProblemCode::Contended,
            ProblemCode::TooLarge,
            ProblemCode::MediaType,
            ProblemCode::DocumentInvalid,
        ]);
        if route.access != Access::Open {
            codes.push(ProblemCode::ClockSkewed);
        }
        codes.extend([ProblemCode::Stopping, ProblemCode::StoreFull, ProblemCode::TooSlow]);
    }
    if route.access.verb().is_some_and(Verb::waits_for_release) && !route.path.ends_with(":plan") {
        codes.push(ProblemCode::StoreHeld);
    }
    if is_api(route.path) {
        codes.push(ProblemCode::RateExceeded);
    }
    if keyed(route) {
        codes.extend([ProblemCode::KeyReused, ProblemCode::KeyInUse]);
    }
    codes.extend_from_slice(&route.told.may);
    codes
}
