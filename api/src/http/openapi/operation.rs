//! Describes an operation: the inputs and answers of a route.

use super::{parameters, responses};
use crate::{
    auth::Verb,
    http::{
        route::{Access, Route},
        route_doc::SchemaWriter,
    },
};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Writes operations and collects their schemas. Request and answer schemas have separate generators, because requests may omit fields.
pub(super) struct OperationWriter {
    pub(super) reads: SchemaGenerator,
    pub(super) writes: SchemaGenerator,
    bodies: Map<String, Value>,
}

impl Default for OperationWriter {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            reads: settings.clone().for_deserialize().into_generator(),
            writes: settings.for_serialize().into_generator(),
            bodies: Map::new(),
        }
    }
}

/// Returns the tag of a path: its first segment.
pub(super) fn tag(path: &str) -> &str {
    match path.strip_prefix("/v1/") {
        Some(rest) => rest.split(['/', ':']).next().unwrap_or_default(),
        None => "server",
    }
}

impl OperationWriter {
    /// Returns every collected schema.
    pub(super) fn schemas(mut self) -> Map<String, Value> {
        let mut all = self.writes.take_definitions(true);
        all.extend(self.reads.take_definitions(true));
        all.extend(self.bodies);
        all
    }

    /// Returns the operation of a route.
    pub(super) fn operation(&mut self, route: &Route) -> Value {
        let mut operation = json!({
            "operationId": route.told.id,
            "summary": route.told.summary,
            "tags": [tag(route.path)],
            "description": who(route.access),
            "parameters": parameters::of(route, &mut self.reads),
            "responses": responses::of(route, &mut self.writes),
            "security": security(route.access),
            "x-tenure-access": access(route.access),
            "x-tenure-roles": roles(route.access),
        });
        if let (Some(body), Some(fields)) = (self.body(route), operation.as_object_mut()) {
            fields.insert("requestBody".into(), body);
        }
        operation
    }

    fn body(&mut self, route: &Route) -> Option<Value> {
        if let Some(writes) = route.reads.body {
            let (schema, required) = self.named(route.told.id, writes);
            // An empty body counts as an empty object.
            return Some(
                json!({ "required": required, "content": { "application/json": { "schema": schema } } }),
            );
        }
        let mut content = Map::new();
        for body in &route.told.bodies {
            let schema =
                body.schema.map_or(json!({ "type": "string" }), |writes| writes(&mut self.reads).to_value());
            for media in body.media {
                content.insert((*media).into(), json!({ "schema": schema }));
            }
        }
        (!content.is_empty()).then(|| json!({ "required": true, "content": content }))
    }

    /// Names a body schema after the operation. Also returns true if the body is required.
    fn named(&mut self, id: &str, writes: SchemaWriter) -> (Value, bool) {
        let schema = writes(&mut self.reads).to_value();
        let required =
            schema.get("required").and_then(Value::as_array).is_some_and(|required| !required.is_empty());
        let (first, rest) = id.split_at_checked(1).unwrap_or((id, ""));
        let name = format!("{}{rest}Body", first.to_ascii_uppercase());
        let named = json!({ "$ref": format!("#/components/schemas/{name}") });
        self.bodies.insert(name, schema);
        (named, required)
    }
}

/// Returns the accepted credentials, if any are required.
fn security(access: Access) -> Value {
    match access {
        Access::Open => json!([]),
        Access::Near(_) => json!([{}, { "bearer": [] }]),
        Access::Agent | Access::Cluster(..) | Access::Staff(_) | Access::Tenant(_) => {
            json!([{ "bearer": [] }])
        }
    }
}

/// Returns the access rule as one word.
fn access(access: Access) -> &'static str {
    match access {
        Access::Open => "open",
        Access::Near(_) => "near",
        Access::Agent => "agent",
        Access::Cluster(..) => "cluster",
        Access::Staff(_) => "platform",
        Access::Tenant(_) => "tenant",
    }
}

fn roles(access: Access) -> Vec<&'static str> {
    let verb = access.verb();
    verb.map(Verb::roles).unwrap_or_default().iter().map(|role| role.name()).collect()
}

/// Describes the access rule for readers.
fn who(access: Access) -> String {
    let may = roles(access).join(", ");
    match access {
        Access::Open => "Public.".to_owned(),
        Access::Near(_) => format!(
            "Public on the server's own machine, or everywhere with `http.open_metrics`; otherwise for users of the operator with one of the roles {may}."
        ),
        Access::Agent => "For agents, with a key of the cluster in the path.".to_owned(),
        Access::Cluster(..) => {
            format!("For the cluster in the path, with its own key, and for the operator's {may}.")
        }
        Access::Staff(_) => format!("For users of the operator with one of the roles {may}."),
        Access::Tenant(_) => {
            format!("For the roles {may}; a token bound to a tenant only sees resources of that tenant.")
        }
    }
}
