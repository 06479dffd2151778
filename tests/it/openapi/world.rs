//! A server with a bit of everything in it, and people of several roles.

use crate::{
    approvals::soon,
    served::{Served, large, shared},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A server, and who asks it.
pub(super) struct World {
    pub(super) served: Served,
    /// Names of people and their tokens.
    pub(super) people: Vec<(&'static str, String)>,
    /// What lists have shown, by the path of the list.
    known: BTreeMap<String, Vec<String>>,
}

impl World {
    pub(super) async fn new() -> Self {
        let served = Served::with_nodes().await;
        let id = served.onboard(&shared("acme")).await;
        served.ended(&id).await;
        let waits = served.onboard(&large("bigger")).await;
        served.asked(&waits).await;
        served.user("olga", &["platform_ops"], None).await;
        let otto = served.user("otto", &["auditor"], None).await;
        let anna = served.user("anna", &["tenant_owner"], Some("acme")).await;
        let world = [
            ("/v1/groups", json!({ "name": "night-watch", "members": ["olga"] })),
            (
                "/v1/holds",
                json!({ "tenant": "acme", "id": "case-9", "kind": "legal", "reason": "litigation" }),
            ),
            ("/v1/limits", json!({ "key": "cluster/eu-1", "concurrency": 4, "rate": "60/1m" })),
            ("/v1/delegations", json!({ "to": "olga", "until": soon(), "reason": "on leave" })),
            (
                "/v1/workloads",
                json!({ "tenant": "acme", "workspace": "research", "name": "train-1", "requests": { "gpu/H100": 1 } }),
            ),
            (
                "/v1/workloads",
                json!({ "tenant": "acme", "workspace": "research", "name": "lent", "requests": { "gpu/H100": 5 } }),
            ),
            (
                "/v1/reservations",
                json!({ "tenant": "acme", "workspace": "serving", "name": "peak", "kind": "H100", "count": 1 }),
            ),
            ("/v1/sweeps/loan_expiry:run", json!({})),
        ];
        for (path, body) in world {
            let made = served.json_as(&served.admin, path, body).await;
            assert!(made.status.is_success(), "{path}: {}", made.body);
        }
        let people =
            vec![("admin", served.admin.clone()), ("otto", otto), ("anna", anna), ("nobody", String::new())];
        Self { served, people, known: BTreeMap::new() }
    }

    /// Ids that the list above a path shows, each split as the path has parts.
    pub(super) async fn ids(&mut self, path: &str) -> Vec<Vec<String>> {
        let list = path.split("/{").next().unwrap().to_owned();
        let parts = path.matches('{').count();
        if !self.known.contains_key(&list) {
            let listed = match list.as_str() {
                // Whose they are stands nowhere else.
                "/v1/agents" => json!([{ "id": "eu-1/n-1" }]),
                "/problems" => json!([{ "id": "route.unknown" }]),
                "/console" => json!([{ "id": "main.js" }]),
                "/v1/sweeps" => json!([{ "id": "loan_expiry" }]),
                _ => self.served.get(&list).await.body["items"].clone(),
            };
            let named = |item: &Value| {
                let name = ["id", "name", "key"].iter().find_map(|field| item.get(*field));
                name.map(|name| name.as_str().map_or_else(|| name.to_string(), ToOwned::to_owned))
            };
            let ids = listed.as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(named);
            self.known.insert(list.clone(), ids.collect());
        }
        let split =
            |id: &String| -> Vec<String> { id.splitn(parts.max(1), '/').map(ToOwned::to_owned).collect() };
        self.known[&list].iter().map(split).filter(|split| split.len() == parts).collect()
    }
}
