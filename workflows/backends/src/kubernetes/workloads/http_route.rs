//! Share of requests that a service receives: the backend weights in a route of the Gateway API.
//!
//! The original weights are stored on the route until they are restored, so that restoring needs no other state.

use crate::kubernetes::workloads::{
    conditional_write::{Change, ObjectRef},
    observed::ObservedWorkload,
};
use crate::kubernetes::{
    client::{discovery::ROUTE, request::escaped},
    cluster::KubernetesCluster,
    labels::{annotation, at, text},
};
use engine::ActionError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::time::Instant;
use workflows::platform::{CallMetadata, WorkloadRef, codes};

/// The original weights of each backend, by name, in the order of the route.
type Before = BTreeMap<String, Vec<u64>>;

/// The route that sends requests to a service.
struct Routed {
    path: String,
    route: String,
    /// The name of the backend.
    service: String,
}

impl KubernetesCluster {
    /// Sets the workload's share of its original requests, in percent.
    pub(super) async fn weighed(
        &self,
        of: &WorkloadRef,
        percent: u8,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        let Some(known) = self.known(of, until).await? else { return Ok(()) };
        let Some(routed) = self.routed(&known, until).await? else {
            // Without a known route, the share was never reduced.
            return if percent >= 100 { Ok(()) } else { Err(self.no_route(of)) };
        };
        let key = self.marks.weights();
        let seen = ObjectRef { path: routed.path, name: format!("HTTPRoute {}", routed.route), uid: None };
        let found = self.write(&seen, stamp, until, |live| {
            let before = kept(live, &key)?;
            let Some((rules, before)) = weighted(live, &routed.service, percent, before) else {
                if percent >= 100 {
                    return Ok(None);
                }
                let why = format!(
                    "{} has no back end {}: mend the annotation or the route",
                    seen.name, routed.service
                );
                return Err(ActionError::permanent(codes::OBJECT_MISSING, why));
            };
            let before = (!before.is_empty()).then(|| json!(before).to_string());
            Ok(Some(Change {
                annotations: vec![(key.clone(), before)],
                spec: Some(json!({ "rules": rules })),
            }))
        });
        if found.await? || percent >= 100 {
            return Ok(());
        }
        Err(ActionError::permanent(codes::OBJECT_MISSING, format!("there is no {}", seen.name)))
    }

    /// Returns the share of the original requests, in percent. Returns `None` if no route is known.
    pub(super) async fn weight_of(
        &self,
        known: &ObservedWorkload,
        until: Instant,
    ) -> Result<Option<u8>, ActionError> {
        let Some(routed) = self.routed(known, until).await? else { return Ok(None) };
        let Some(live) = self.object(&routed.path, until).await? else { return Ok(None) };
        let now: Vec<u64> = back_ends(&live, &routed.service).map(weight).collect();
        if now.is_empty() {
            return Ok(None);
        }
        let before = kept(&live, &self.marks.weights())?.remove(&routed.service);
        let sum = |weights: &[u64]| weights.iter().sum::<u64>();
        let whole = before.map_or_else(|| sum(&now), |before| sum(&before));
        let percent = sum(&now).saturating_mul(100).checked_div(whole).unwrap_or(0).min(100);
        Ok(u8::try_from(percent).ok())
    }

    async fn routed(&self, known: &ObservedWorkload, until: Instant) -> Result<Option<Routed>, ActionError> {
        let named = known.says(&self.marks.route()).and_then(|named| named.split_once('/'));
        let Some((route, service)) = named else { return Ok(None) };
        let Some(version) = self.version_of(ROUTE, until).await? else { return Ok(None) };
        Ok(Some(Routed {
            path: ROUTE.path(&version, &escaped(&known.namespace), &escaped(route)),
            route: format!("{}/{route}", known.namespace),
            service: service.to_owned(),
        }))
    }

    fn no_route(&self, of: &WorkloadRef) -> ActionError {
        let why = format!(
            "not supported: no route of {} is known: annotate it with {}=ROUTE/SERVICE, on a cluster that serves the Gateway API",
            of.full_name(),
            self.marks.route()
        );
        ActionError::permanent(codes::UNSUPPORTED, why)
    }
}

fn kept(route: &Value, key: &str) -> Result<Before, ActionError> {
    let Some(text) = annotation(route, key) else { return Ok(Before::new()) };
    serde_json::from_str(text).map_err(|e| {
        let why = format!("annotation {key} of a route is not what Tenure wrote ({e}); mend it, then retry");
        ActionError::permanent(codes::UNREADABLE, why)
    })
}

fn back_ends<'a>(route: &'a Value, service: &'a str) -> impl Iterator<Item = &'a Value> {
    let rules = at(route, &["spec", "rules"]).and_then(Value::as_array).into_iter().flatten();
    let all = rules.filter_map(|rule| rule.get("backendRefs")?.as_array()).flatten();
    all.filter(move |one| text(one, &["name"]) == service)
}

/// A backend without a weight has 1.
fn weight(back_end: &Value) -> u64 {
    back_end.get("weight").and_then(Value::as_u64).unwrap_or(1)
}

/// Returns the rules with the backend's weights at `percent` of the original, and the weights to store. Returns `None`
/// if there is nothing to change: the backend is absent, or its share was not reduced.
fn weighted(route: &Value, service: &str, percent: u8, mut before: Before) -> Option<(Value, Before)> {
    let now: Vec<u64> = back_ends(route, service).map(weight).collect();
    // If the backends of the route have changed, their current weights count as the original.
    let whole = before.remove(service).filter(|before| before.len() == now.len());
    if now.is_empty() || (percent >= 100 && whole.is_none()) {
        return None;
    }
    let whole = whole.unwrap_or(now);
    let mut wanted = whole.iter().map(|weight| {
        if percent >= 100 { *weight } else { weight.saturating_mul(u64::from(percent)).div_ceil(100) }
    });
    let mut rules = at(route, &["spec", "rules"]).cloned()?;
    for rule in rules.as_array_mut()? {
        for back_end in rule.get_mut("backendRefs").and_then(Value::as_array_mut).into_iter().flatten() {
            if text(back_end, &["name"]) == service
                && let (Value::Object(fields), Some(weight)) = (back_end, wanted.next())
            {
                fields.insert("weight".into(), weight.into());
            }
        }
    }
    if percent < 100 {
        before.insert(service.to_owned(), whole.clone());
    }
    Some((rules, before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_restored_and_those_of_others_stay() {
        let route = json!({ "spec": { "rules": [
            { "backendRefs": [{ "name": "llm", "weight": 3 }, { "name": "other", "weight": 7 }] },
            { "matches": [{}], "backendRefs": [{ "name": "llm" }] },
        ] } });
        let weights = |rules: &Value| -> Vec<Value> {
            rules
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|rule| rule["backendRefs"].as_array().unwrap().clone())
                .collect()
        };

        let (drained, before) = weighted(&route, "llm", 0, Before::new()).unwrap();
        assert_eq!(before, Before::from([("llm".into(), vec![3, 1])]));
        assert_eq!(
            weights(&drained),
            [
                json!({ "name": "llm", "weight": 0 }),
                json!({ "name": "other", "weight": 7 }),
                json!({ "name": "llm", "weight": 0 })
            ]
        );
        let drained = json!({ "spec": { "rules": drained } });
        let (half, kept) = weighted(&drained, "llm", 50, before.clone()).unwrap();
        assert_eq!((weights(&half)[0]["weight"].clone(), kept), (json!(2), before.clone()));
        let (back, before) = weighted(&drained, "llm", 100, before).unwrap();
        assert_eq!(
            (weights(&back)[0]["weight"].clone(), weights(&back)[2]["weight"].clone()),
            (json!(3), json!(1))
        );
        assert!(before.is_empty());
        assert!(weighted(&route, "llm", 100, before.clone()).is_none(), "nothing was taken from it");
        assert!(weighted(&route, "nobody", 0, before).is_none());
    }
}
