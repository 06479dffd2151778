//! The parameters and headers of a route.

use crate::http::route::{Access, Route};
use axum::http::Method;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Returns the parameters that many routes share, by component name.
pub(super) fn shared() -> Value {
    json!({
        "limit": {
            "name": "limit", "in": "query", "description": "Maximum number of items in the page.",
            "schema": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 100 },
        },
        "cursor": {
            "name": "cursor", "in": "query", "description": "The unchanged `next` of the previous page.",
            "schema": { "type": "string" },
        },
        "idempotencyKey": {
            "name": "Idempotency-Key", "in": "header",
            "description": "A repeated request with this key gets the same answer, for 7 days.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 128 },
        },
        "ifMatch": {
            "name": "If-Match", "in": "header", "description": "One or several ETags: the request is rejected (412) if the resource has another. `*`: the \
             resource must exist.",
            "schema": { "type": "string" },
        },
        "lastEventId": {
            "name": "Last-Event-ID", "in": "header", "description": "The `id` of the last received event; the stream continues after it.",
            "schema": { "type": "string" },
        },
        "label": {
            "name": "Tenure-Label", "in": "header", "description": "A label of the execution; may be repeated, up to 16 times.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 128 },
        },
    })
}

fn named(component: &str) -> Value {
    json!({ "$ref": format!("#/components/parameters/{component}") })
}

/// Returns the path parameters.
pub(super) fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

/// Returns true if a route supports `Idempotency-Key`. Keys belong to an authenticated caller.
pub(super) fn keyed(route: &Route) -> bool {
    route.method == Method::POST && !matches!(route.access, Access::Agent | Access::Near(_) | Access::Open)
}

/// Returns every parameter of a route.
pub(super) fn of(route: &Route, generator: &mut SchemaGenerator) -> Vec<Value> {
    let part = |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } });
    let mut all: Vec<Value> = parts(route.path).map(part).collect();
    if let Some(writes) = route.reads.query {
        all.extend(query(&writes(generator).to_value()));
    }
    for (name, means) in &route.told.asks {
        all.push(match *name {
            "limit" | "cursor" => named(name),
            _ => json!({ "name": name, "in": "query", "description": means, "schema": { "type": "string" } }),
        });
    }
    if keyed(route) {
        all.push(named("idempotencyKey"));
    }
    if route.reads.bound {
        all.push(named("ifMatch"));
    }
    if !route.told.events.is_empty() {
        all.push(named("lastEventId"));
    }
    if route.told.labelled {
        all.push(named("label"));
    }
    all
}

/// Converts the fields of a type to query parameters.
fn query(schema: &Value) -> Vec<Value> {
    let none = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let one = |(name, schema): (&String, &Value)| {
        if matches!(name.as_str(), "limit" | "cursor") {
            return named(name);
        }
        let mut parameter = json!({ "name": name, "in": "query", "schema": said(schema) });
        if let Some(fields) = parameter.as_object_mut() {
            if required.iter().any(|required| required == name) {
                fields.insert("required".into(), true.into());
            }
            if let Some(means) = schema.get("description") {
                fields.insert("description".into(), means.clone());
            }
        }
        parameter
    };
    fields.iter().collect::<BTreeMap<_, _>>().into_iter().map(one).collect()
}

/// Returns the schema of a field as a query parameter: an omitted parameter is absent, not null.
fn said(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("description");
        if fields.get("default").is_some_and(Value::is_null) {
            fields.remove("default");
        }
        if let Some(Value::Array(types)) = fields.get("type")
            && let Some(only) = types.iter().find(|of| *of != "null").cloned()
        {
            fields.insert("type".into(), only);
        }
    }
    let either = schema.get("anyOf").and_then(Value::as_array);
    either
        .and_then(|either| either.iter().find(|one| one.get("type") != Some(&json!("null"))))
        .cloned()
        .unwrap_or(schema)
}
