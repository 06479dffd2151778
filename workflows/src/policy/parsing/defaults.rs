//! A policy document with its defaults filled in, for comparisons of two policies.

use super::document::{Item, Value};

/// Sections with free names. A document replaces such a section as a whole.
const WHOLE: [&str; 9] = [
    "approvals.capacity",
    "capacity.buffer_gpus.by_region",
    "capacity.ladder",
    "compliance",
    "gpu_models",
    "prices.by_model",
    "priorities",
    "sanitisation.by_tier",
    "sanitisation.minimum",
];

/// Returns `own` with missing keys from `under`.
pub(in crate::policy) fn filled(own: &Item, under: &Item) -> Item {
    let (Value::Map(fields), Value::Map(below)) = (&own.value, &under.value) else { return own.clone() };
    if WHOLE.contains(&own.path.as_str()) {
        return own.clone();
    }
    let mut all: Vec<_> = Vec::new();
    for (name, at, item) in fields.iter().filter(|(_, _, item)| item.value != Value::Null) {
        let same = below.iter().find(|(other, _, _)| other == name);
        let item = same.map_or_else(|| item.clone(), |(_, _, under)| filled(item, under));
        all.push((name.clone(), *at, item));
    }
    for (name, _, item) in below {
        if name != "examples" && !all.iter().any(|(own, _, _)| own == name) {
            all.push((name.clone(), None, item.clone()));
        }
    }
    Item { at: own.at, path: own.path.clone(), value: Value::Map(all) }
}

#[cfg(test)]
mod tests {
    use crate::policy::{PlatformPolicy, diff};

    /// The comparison matches the reader: in each section, one more key changes only that key, unless the section is replaced as a whole.
    #[test]
    fn a_missing_key_is_compared_as_its_default() {
        let cases = [
            ("reclaim: {grace: 1m}", "reclaim.grace"),
            ("capacity: {buffer_gpus: {each: 3}}", "capacity.buffer_gpus.each"),
            ("approvals: {quota_increase: {auto: {gpus: 3}}}", "approvals.quota_increase.auto.gpus"),
            ("sweeps: {drift: {zone: Europe/Berlin}}", "sweeps.drift.zone"),
        ];
        for (text, key) in cases {
            let text = format!("policy: platform\nversion: 9\n{text}\n");
            PlatformPolicy::from_yaml(&text).unwrap();
            let changes = diff(PlatformPolicy::BUILT_IN, &text).unwrap();
            let keys: Vec<_> = changes.iter().map(|change| change.key.as_str()).collect();
            assert_eq!(keys, [key]);
        }
        let text = "policy: platform\nversion: 9\nprices: {by_model: {H100: 1}}\n";
        let read = PlatformPolicy::from_yaml(text).unwrap();
        assert_eq!(read.prices.len(), 1, "a whole group");
        let changes = diff(PlatformPolicy::BUILT_IN, text).unwrap();
        assert_eq!(changes.iter().filter(|change| change.new.is_none()).count(), 4, "{changes:?}");
    }
}
