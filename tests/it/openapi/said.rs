//! Checks answers against the schemas of the description. The schemas are closed, so that an undescribed field is also
//! found.

use super::requests::meant;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::{collections::BTreeMap, rc::Rc};

/// The description with the validators of its answers.
pub(super) struct Said {
    pub(super) api: Rc<Value>,
    closed: Value,
    validators: BTreeMap<String, Validator>,
}

/// Allows only the described fields in objects.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object)
                && !fields.contains_key("additionalProperties")
            {
                fields.insert("additionalProperties".into(), json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

impl Said {
    pub(super) fn new(api: Value) -> Self {
        let mut closed = api["components"].clone();
        close(&mut closed);
        Self { api: Rc::new(api), closed, validators: BTreeMap::new() }
    }

    /// Checks that the description allows this answer of an operation.
    pub(super) fn check(
        &mut self,
        operation: &Value,
        status: u16,
        media: &str,
        body: &Value,
    ) -> Result<(), String> {
        let response = &operation["responses"][status.to_string()];
        if response.is_null() {
            return Err(format!("{status} is not described: {body}"));
        }
        if [204, 303, 304].contains(&status) {
            return Ok(());
        }
        let content = response["content"].as_object().ok_or("no body is described")?;
        let Some(described) = content.get(media).or(content.get("*/*")) else {
            return Err(format!("{status} with {media:?} is not described: {body}"));
        };
        let is_problem = media == "application/problem+json";
        if is_problem {
            self.problem(response, status, body)?;
        }
        if !is_problem && media != "application/json" {
            return Ok(());
        }
        let name = format!("{} {status} {media}", operation["operationId"]);
        self.fits(name, &described["schema"], body).map_err(|wrong| format!("{status}: {wrong}"))
    }

    /// Checks that the description allows this event of a stream.
    pub(super) fn tells(&mut self, operation: &Value, event: &str, data: &Value) -> Result<(), String> {
        let stream = &operation["responses"]["200"]["content"]["text/event-stream"];
        let schema = &stream["x-tenure-events"][event];
        if schema.is_null() {
            return Err(format!("the event {event:?} is not described: {data}"));
        }
        let name = format!("{} event {event}", operation["operationId"]);
        self.fits(name, schema, data).map_err(|wrong| format!("{event}: {wrong}: {data}"))
    }

    /// Checks a value against the schema of this name.
    fn fits(&mut self, name: String, schema: &Value, value: &Value) -> Result<(), String> {
        if !self.validators.contains_key(&name) {
            let mut root = schema.clone();
            close(&mut root);
            root["components"] = self.closed.clone();
            let built = jsonschema::options().should_validate_formats(true).build(&root);
            self.validators.insert(name.clone(), built.map_err(|e| format!("{name}: {e}"))?);
        }
        let wrong: Vec<_> = self.validators[&name]
            .iter_errors(value)
            .take(3)
            .map(|error| format!("{error} at {}", error.instance_path()))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Checks that a problem is listed, or has a ledger's code.
    fn problem(&self, response: &Value, status: u16, body: &Value) -> Result<(), String> {
        let code = body["code"].as_str().unwrap_or_default();
        if body["status"] != json!(status) || body["type"] != json!(format!("/problems/{code}")) {
            return Err(format!("the problem does not say what it is: {body}"));
        }
        let told = response["x-tenure-codes"].as_array().ok_or("no problems are documented")?;
        if told.contains(&json!(code)) {
            return Ok(());
        }
        let table = self.api["x-tenure-problems"].as_array().unwrap();
        match table.iter().any(|problem| problem["code"] == json!(code)) {
            true => Err(format!("{status} {code} is not documented: {body}")),
            false => Ok(()),
        }
    }

    /// Returns the bodies that an operation accepts, each with its media type and schema.
    pub(super) fn bodies(operation: &Value) -> Vec<(String, Value)> {
        let content = operation["requestBody"]["content"].as_object();
        let bodies = content.into_iter().flatten();
        bodies.map(|(media, body)| (media.clone(), body["schema"].clone())).collect()
    }

    /// Returns the parameters, both inline and shared ones.
    pub(super) fn parameters<'a>(&'a self, operation: &'a Value) -> impl Iterator<Item = &'a Value> {
        operation["parameters"].as_array().unwrap().iter().map(|one| meant(&self.api, one))
    }
}
