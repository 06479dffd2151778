//! A server with data of every kind, and users of several roles.

use crate::{
    approvals::soon,
    served::{NODES, Served, large, shared, small, tenure},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const SITES: &str = "regions: [{id: eu, jurisdiction: eu}]\nclusters:\n  - {id: far-1, region: eu, kind: bare_metal}\n  - {id: own-1, region: eu, tenancy: dedicated}\n";

/// Generates a key of agents and its hash, as the product does.
fn agent_key() -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let drawn = tenure(folder.path()).args(["agent", "key", "-o", "json"]).output().unwrap();
    let drawn: Value = serde_json::from_slice(&drawn.stdout).unwrap();
    (drawn["key"].as_str().unwrap().to_owned(), drawn["hash"].as_str().unwrap().to_owned())
}

/// A server and its callers.
pub(super) struct World {
    pub(super) served: Served,
    /// Names of users and their tokens.
    pub(super) people: Vec<(&'static str, String)>,
    /// The ids that lists have shown, by the path of the list.
    known: BTreeMap<String, Vec<String>>,
    /// Names the keys of agents.
    _targets: tempfile::NamedTempFile,
}

impl World {
    pub(super) async fn new() -> Self {
        let (agents, hash) = agent_key();
        let targets = tempfile::NamedTempFile::new().unwrap();
        let of_agents = json!({ "clusters": { "far-1": { "agents": { "keys": [hash] } } } });
        std::fs::write(&targets, of_agents.to_string()).unwrap();
        let served = Served::start_with(&[("TENURE_TARGETS", &targets.path().display().to_string())]);
        let nodes = served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
        assert_eq!(nodes.status, 200, "{}", nodes.body);
        let far = NODES.lines().take(2).collect::<Vec<_>>().join("\n").replace("n-1", "far-n");
        for (query, media, body) in [
            ("", "application/yaml", SITES),
            ("?cluster=far-1&region=eu", "text/csv", far.as_str()),
            ("?cluster=own-1&region=eu", "text/csv", &far.replace("far-n", "own-n")),
        ] {
            let made = served.post(&format!("/v1/fleet:import{query}"), media, body).await;
            assert_eq!(made.status, 200, "{}", made.body);
        }
        let own = small("uno").replace("isolation: dedicated", "isolation: dedicated_cluster");
        let own = served.post("/v1/tenants", "application/yaml", &own).await;
        let cluster = own.headers["tenure-cluster-key"].to_str().unwrap().to_owned();
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
        let people = vec![
            ("admin", served.admin.clone()),
            ("otto", otto),
            ("anna", anna),
            ("nobody", String::new()),
            ("the cluster of uno", cluster),
            ("the agents of far-1", agents),
        ];
        Self { served, people, known: BTreeMap::new(), _targets: targets }
    }

    /// Returns the ids of the list above a path, each split into the path's parts.
    pub(super) async fn ids(&mut self, path: &str) -> Vec<Vec<String>> {
        let list = path.split("/{").next().unwrap().to_owned();
        let parts = path.matches('{').count();
        if !self.known.contains_key(&list) {
            let listed = match list.as_str() {
                // No list has the ids of these.
                "/v1/agents" => json!([{ "id": "far-1/far-n" }, { "id": "eu-1/n-1" }]),
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
