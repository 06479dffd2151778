//! Limit ranges: default request and maximum of each container.
//!
//! The spec has a request and a maximum, from which the object's defaults are derived. If a resource has a maximum, a
//! container without a limit gets its request as the limit; the server would otherwise use the maximum. No default is
//! above the maximum.

use crate::kubernetes::{
    labels::{LabelNames, annotation, text},
    objects::{
        parse::amounts,
        render::quantities,
        specs::{Amount, LimitRangeSpec},
    },
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The key for limits that no action can request.
const ALTERED: &str = "altered limits";

/// Returns the object's spec.
pub(in crate::kubernetes) fn spec(words: &LimitRangeSpec) -> Value {
    let said = words.request.iter().filter_map(|(resource, amount)| {
        let amount = match (amount, words.max.get(resource)) {
            (Amount::Whole(request), Some(Amount::Whole(max))) => Amount::Whole(*request.min(max)),
            (Amount::Whole(request), _) => Amount::Whole(*request),
            // Text amounts were written by others and are not written again.
            (Amount::Text(_), _) => return None,
        };
        Some((resource.clone(), amount))
    });
    let request: BTreeMap<String, Amount> = said.collect();
    let limited = request.iter().filter(|(resource, _)| words.max.contains_key(*resource));
    let default = limited.map(|(resource, amount)| (resource.clone(), amount.clone())).collect();
    let mut item = Map::from_iter([("type".to_owned(), json!("Container"))]);
    for (field, all) in [("defaultRequest", &request), ("default", &default), ("max", &words.max)] {
        if !all.is_empty() {
            item.insert(field.to_owned(), quantities(all));
        }
    }
    json!({ "limits": [item] })
}

/// Reads the spec from a limit range. The maximum comes from the object, the request from the annotation, if the object
/// still matches it.
pub(in crate::kubernetes) fn words(object: &Value, marks: &LabelNames) -> LimitRangeSpec {
    let is = object.get("spec").unwrap_or(&Value::Null);
    let asked = annotation(object, &marks.asked()).and_then(|text| serde_json::from_str(text).ok());
    let max = item(is).and_then(|item| item.get("max"));
    let mut words = LimitRangeSpec { request: asked.unwrap_or_default(), max: amounts(max) };
    if !says(is, &spec(&words)) {
        words.request.insert(ALTERED.to_owned(), Amount::Text(is.to_string()));
    }
    words
}

/// Returns the only item of a limit range made by Tenure.
fn item(spec: &Value) -> Option<&Value> {
    let items = spec.get("limits").and_then(Value::as_array)?;
    items.first().filter(|item| items.len() == 1 && text(item, &["type"]) == "Container")
}

/// Returns true if both specs are equal, whatever the notation of amounts.
fn says(is: &Value, wanted: &Value) -> bool {
    let (Some(is), Some(wanted)) = (item(is), item(wanted)) else { return false };
    ["defaultRequest", "default", "max", "min", "maxLimitRequestRatio"]
        .iter()
        .all(|field| amounts(is.get(field)) == amounts(wanted.get(field)))
}
