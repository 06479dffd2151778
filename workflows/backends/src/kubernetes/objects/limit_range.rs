//! What each container may have, as a limit range says it.
//!
//! The words name a request and a maximum; the object says more. A container that names no limit gets one of its request, where
//! there is a maximum, since the server would give it the maximum by itself; and no default is above the maximum.

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

/// The word for what no action could have asked for.
const ALTERED: &str = "altered limits";

/// The spec that says the words.
pub(in crate::kubernetes) fn spec(words: &LimitRangeSpec) -> Value {
    let said = words.request.iter().filter_map(|(resource, amount)| {
        let amount = match (amount, words.max.get(resource)) {
            (Amount::Whole(request), Some(Amount::Whole(max))) => Amount::Whole(*request.min(max)),
            (Amount::Whole(request), _) => Amount::Whole(*request),
            // What others wrote there has no words, and is not written again.
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

/// What the limit range says. Its maxima are read from itself; its requests are those that were asked for, as far as it says them.
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

/// The only item of a limit range of ours.
fn item(spec: &Value) -> Option<&Value> {
    let items = spec.get("limits").and_then(Value::as_array)?;
    items.first().filter(|item| items.len() == 1 && text(item, &["type"]) == "Container")
}

/// Whether two specs say the same, however they write amounts.
fn says(is: &Value, wanted: &Value) -> bool {
    let (Some(is), Some(wanted)) = (item(is), item(wanted)) else { return false };
    ["defaultRequest", "default", "max", "min", "maxLimitRequestRatio"]
        .iter()
        .all(|field| amounts(is.get(field)) == amounts(wanted.get(field)))
}
