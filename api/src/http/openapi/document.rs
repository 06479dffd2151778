//! Builds the OpenAPI document.

use super::operation::OperationWriter;
use crate::{
    http::{
        problem::{address, code::ProblemCode},
        route_doc::schema_ref,
        router::table,
    },
    types::problems::Problem,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use strum::VariantArray as _;

/// Returns the API as OpenAPI 3.1, built from the table of routes.
#[must_use]
pub fn document() -> Value {
    let mut writer = OperationWriter::default();
    let (mut paths, mut tags) = (Map::new(), BTreeSet::new());
    for route in table() {
        tags.insert(super::operation::tag(route.path));
        let operation = writer.operation(&route);
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(methods) = path.as_object_mut() {
            methods.insert(route.method.as_str().to_ascii_lowercase(), operation);
        }
    }
    schema_ref::<Problem>()(&mut writer.writes);
    let mut schemas = Value::Object(writer.schemas());
    let mut paths = Value::Object(paths);
    [&mut schemas, &mut paths].into_iter().for_each(known_formats);
    let tags: Vec<_> = tags.into_iter().map(|name| json!({ "name": name })).collect();
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Tenure",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Control plane for GPU tenants.",
            "description": "Send tokens as `Authorization: Bearer tn_…`. A token that is bound to a tenant only sees resources of that tenant. Problems are \
                application/problem+json (RFC 9457); their `type` is a link to the explanation and the remedy.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": super::parameters::shared(),
            "headers": super::responses::headers(),
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "A token of a user, a cluster or its agents." },
            },
        },
        "x-tenure-problems": problems(),
    })
}

/// Removes integer formats that OpenAPI does not define; their minimum and maximum describe them.
fn known_formats(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let format = fields.get("format").and_then(Value::as_str);
            if format.is_some_and(|format| {
                format.starts_with("uint") || matches!(format, "int" | "int8" | "int16")
            }) {
                fields.remove("format");
            }
            fields.values_mut().for_each(known_formats);
        }
        Value::Array(items) => items.iter_mut().for_each(known_formats),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Lists every problem code.
fn problems() -> Vec<Value> {
    let one = |code: &ProblemCode| {
        let (name, status, title, remedy) = code.facts();
        json!({ "type": address(name), "code": name, "status": status, "title": title, "remedy": remedy })
    };
    ProblemCode::VARIANTS.iter().map(one).collect()
}
