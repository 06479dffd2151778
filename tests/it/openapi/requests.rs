//! Requests generated from schemas: valid and invalid ones.

use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    sample::select,
    strategy::Union,
};
use serde_json::{Map, Value, json};

/// The maximum depth of generated values.
const DEEP: u32 = 4;

/// Resolves a reference.
pub(super) fn meant<'a>(api: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => meant(api, api.pointer(reference.trim_start_matches('#')).unwrap()),
        None => schema,
    }
}

/// Returns plausible texts for a field of this name, so that requests pass the parser.
fn likely(name: &str) -> Vec<&'static str> {
    match name {
        "tenant" => vec!["acme", "acme", "nobody"],
        "workspace" => vec!["research", "serving"],
        "resource" => vec!["gpu/H100", "cpu_milli"],
        "model" | "gpu_model" | "gpus" => vec!["H100"],
        "kind" => vec!["H100", "legal", "other", "skip", "gpu_fault"],
        "class" => vec!["batch", "service", "workload", "model"],
        "checkpoint" => vec!["none", "signal"],
        "region" => vec!["eu"],
        "cluster" => vec!["eu-1"],
        "node" => vec!["n-1"],
        "verb" => vec!["cancel", "pause", "retry"],
        "filter" => vec!["tenant = acme", "open = true", "state ="],
        "basis" => vec!["contract_end", "tenant_request"],
        "asset" => vec!["pv:storage/eu/Volume/forgotten", "key:keys//Key/t-acme"],
        "cron" => vec!["30 2 * * *", "whenever"],
        "zone" => vec!["UTC", "Europe/Berlin", "Mars"],
        "workflow" => vec!["reclaim", "quota_increase"],
        "key" => vec!["cluster/eu-1", "tenant/acme", "*"],
        "rate" => vec!["10/1m", "10"],
        "user" | "from" | "to" | "on_behalf_of" => vec!["olga", "otto"],
        "skipped_hour" => vec!["skip", "shift"],
        "repeated_hour" => vec!["first", "both"],
        "overlap" => vec!["skip", "allow"],
        "catch_up" => vec!["none", "all"],
        "for" | "window" | "jitter" | "span" | "cap" | "grace" | "reclaim_deadline" => {
            vec!["15m", "1h", "soon"]
        }
        "roles" => vec!["finance"],
        _ => vec!["x-1", "because"],
    }
}

fn text(name: &str) -> BoxedStrategy<Value> {
    let wild = prop_oneof![any::<String>(), "[ -~]{0,70}", Just("\u{0}".to_owned()), "[a-z]{600}"];
    prop_oneof![6 => select(likely(name)).prop_map(Value::from), 2 => "[a-z][a-z0-9-]{0,12}".prop_map(Value::from), 1 => wild.prop_map(Value::from)].boxed()
}

fn moment() -> BoxedStrategy<Value> {
    let known = vec![
        "2026-12-01T00:00:00Z",
        "1999-01-01T00:00:00+02:00",
        "2099-12-31T23:59:59.999Z",
        "9999-12-31T23:59:59Z",
    ];
    select(known).prop_map(Value::from).boxed()
}

fn number(schema: &Value) -> BoxedStrategy<Value> {
    let lowest = schema["minimum"].as_i64().unwrap_or(i64::from(i32::MIN));
    let highest = schema["maximum"].as_i64().unwrap_or(match schema["format"].as_str() {
        Some("int32") => i64::from(i32::MAX),
        Some("uint32") => i64::from(u32::MAX),
        _ => i64::MAX,
    });
    prop_oneof![4 => lowest..=lowest.saturating_add(8).min(highest), 1 => Just(lowest), 1 => Just(highest)]
        .prop_map(Value::from)
        .boxed()
}

/// Generates any JSON value.
fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        let fields = btree_map("[a-z]{1,6}", inner.clone(), 0..3).prop_map(|fields| json!(fields));
        prop_oneof![vec(inner, 0..3).prop_map(Value::from), fields]
    })
    .boxed()
}

fn object(api: &Value, schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    let none = Map::new();
    let fields = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut all = Just(Map::new()).boxed();
    for (name, of) in fields {
        let value = described(api, of, name, depth);
        let value = match required.contains(&json!(name)) {
            true => value.prop_map(Some).boxed(),
            false => prop::option::weighted(0.4, value).boxed(),
        };
        let name = name.clone();
        all = (all, value)
            .prop_map(move |(mut fields, value)| {
                fields.extend(value.map(|value| (name.clone(), value)));
                fields
            })
            .boxed();
    }
    let more = &schema["additionalProperties"];
    if more.is_object() && depth > 0 {
        let names = prop_oneof![Just("gpu/H100".to_owned()), "[a-z]{1,6}"];
        let others = btree_map(names, described(api, more, "", depth), 0..3);
        all = (all, others)
            .prop_map(|(mut fields, others)| {
                fields.extend(others);
                fields
            })
            .boxed();
    }
    all.prop_map(Value::Object).boxed()
}

/// Generates a value of a schema.
pub(super) fn described(api: &Value, schema: &Value, name: &str, depth: u32) -> BoxedStrategy<Value> {
    let depth = depth.saturating_sub(1);
    let schema = meant(api, schema);
    if let Some(only) = schema.get("const") {
        return Just(only.clone()).boxed();
    }
    if let Some(some) = schema["enum"].as_array() {
        return select(some.clone()).boxed();
    }
    if let Some(either) = schema.get("anyOf").or(schema.get("oneOf")).and_then(Value::as_array) {
        return Union::new(either.iter().map(|one| described(api, one, name, depth + 1))).boxed();
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(only) => vec![only],
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        _ if schema.get("properties").is_some() => vec!["object"],
        _ => return anything(),
    };
    let of = |kind: &str| match kind {
        "null" => Just(Value::Null).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" | "number" => number(schema),
        "string" if schema["format"] == "date-time" => moment(),
        "string" => text(name),
        "array" if depth > 0 => {
            vec(described(api, &schema["items"], name, depth), 0..3).prop_map(Value::from).boxed()
        }
        "array" => Just(json!([])).boxed(),
        _ => object(api, schema, depth),
    };
    Union::new(types.into_iter().map(of)).boxed()
}

/// Generates a valid body.
pub(super) fn body(api: &Value, schema: &Value) -> BoxedStrategy<Value> {
    described(api, schema, "", DEEP)
}

/// Returns true if a body may have only the described fields.
pub(super) fn closed(api: &Value, schema: &Value) -> bool {
    meant(api, schema)["additionalProperties"] == json!(false)
}

/// Returns the body with an unknown field.
pub(super) fn with_more(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.insert("no_such_field".into(), json!(1));
    }
    body
}

/// Returns the body without its first required field, if there is one.
pub(super) fn with_less(api: &Value, schema: &Value, mut body: Value) -> Option<Value> {
    let needed = meant(api, schema)["required"].as_array()?.first()?.as_str()?.to_owned();
    body.as_object_mut()?.remove(&needed)?;
    Some(body)
}

/// Generates texts that are no valid JSON body.
pub(super) fn garbage() -> BoxedStrategy<String> {
    prop_oneof![
        Just("{".to_owned()),
        Just("[]".to_owned()),
        Just("\"text\"".to_owned()),
        Just("null".to_owned()),
        any::<String>(),
        Just("[".repeat(5_000)),
    ]
    .boxed()
}

/// Generates a part of an address.
pub(super) fn part() -> BoxedStrategy<String> {
    // Parts like `..` are left out: clients resolve them and request another path.
    let any_text = any::<String>().prop_filter("a part", |text| !["", ".", ".."].contains(&text.as_str()));
    prop_oneof![
        3 => "[a-z][a-z0-9-]{0,8}",
        1 => any_text,
        1 => Just("\u{0}".to_owned()),
        1 => "[a-z]{700}",
        1 => "[0-9]{1,30}",
        1 => "[0-9a-f]{8}-[0-9a-f]{4}",
    ]
    .boxed()
}

/// Generates an `If-Match` value that is no valid tag.
pub(super) fn tag() -> BoxedStrategy<String> {
    let none =
        ["\"no-such-tag\"", "\"no-such\", \"no-such-either\"", "W/\"no-such\"", "no tag", "7", "*", ","];
    select(none.to_vec()).prop_map(ToOwned::to_owned).boxed()
}
