//! Checks of each backend in the file of targets. A check reads a resource that does not exist, so it tests the connection and the
//! credentials and changes nothing.

use crate::commands::doctor::finding::{Findings, State};
use api::config::Config;
use backends::{
    simulated::{LocalWorld, simulated_platform},
    targets::Targets,
};
use engine::ActionError;
use serde_json::{Map, Value, json};
use std::{path::Path, sync::Arc, time::Duration};
use store::Epoch;
use workflows::platform::{CallMetadata, Observer, TenantResource, bucket_name, tenant_name};

/// A tenant that does not exist. The names of its resources have the usual form.
const NOBODY: &str = "doctor-probe";

/// A target: its field in the file, and the resource to read.
struct Target {
    field: String,
    /// A file with only this target.
    alone: Value,
    /// The resource to read, or `None` if only the settings can be checked.
    thing: Option<TenantResource>,
}

/// Checks each target.
pub(super) async fn look(config: &Config, patience: Duration, found: &mut Findings) {
    if config.targets.is_empty() {
        return found.ok("targets", "none are set; every cluster is simulated");
    }
    let file = Path::new(&config.targets);
    let mend = "see the manual, page contract";
    if let Err(error) = Targets::read(file) {
        return found.failed("targets", error.to_string(), mend);
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let whole: Value = workflows::yaml::read(&text).unwrap_or_default();
    let all = apart(&whole);
    if all.is_empty() {
        return found.ok("targets", format!("{} has none; every cluster is simulated", file.display()));
    }
    for target in all {
        let (state, says) = probe(&target, patience).await;
        let says = format!("{}: {says}", target.field);
        match state {
            State::Ok => found.ok("targets", says),
            State::Warning | State::Failed => found.failed("targets", says, mend),
        }
    }
}

/// Splits the file into one target each.
fn apart(whole: &Value) -> Vec<Target> {
    let mut whole = whole.clone();
    whole.sort_all_objects();
    let section = |name: &str| whole.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut all = Vec::new();
    let mut add =
        |field: String, alone: Value, thing: Option<TenantResource>| all.push(Target { field, alone, thing });
    for (name, chosen) in section("clusters") {
        for (kind, settings) in chosen.as_object().into_iter().flatten() {
            let alone = json!({ "clusters": { &name: { kind: settings } } });
            let thing = match kind.as_str() {
                "kubernetes" => Some(TenantResource::new("kubernetes", &name, "Namespace", &own())),
                "slurm" => Some(TenantResource::new("slurm", &name, "Account", &own())),
                _ => None,
            };
            add(format!("clusters.{name}.{kind}"), alone, thing);
        }
    }
    for (kind, settings) in section("keys") {
        let thing = TenantResource::new("keys", "", "Key", &own());
        add(format!("keys.{kind}"), json!({ "keys": { &kind: settings } }), Some(thing));
    }
    for (region, chosen) in section("objects") {
        let name = bucket_name(NOBODY, &region).unwrap_or_default();
        let thing = TenantResource::new("objects", &region, "Bucket", &name);
        add(format!("objects.{region}"), json!({ "objects": { &region: chosen } }), Some(thing));
    }
    for (cluster, nodes) in section("machines") {
        for (node, chosen) in nodes.as_object().cloned().unwrap_or_else(Map::new) {
            let alone = json!({ "machines": { &cluster: { &node: chosen } } });
            add(format!("machines.{cluster}.{node}"), alone, None);
        }
    }
    for (name, chosen) in section("hooks") {
        add(format!("hooks.{name}"), json!({ "hooks": { &name: chosen } }), None);
    }
    all
}

fn own() -> String {
    tenant_name(NOBODY).unwrap_or_default()
}

async fn probe(target: &Target, patience: Duration) -> (State, String) {
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let targets = match Targets::parse(&target.alone.to_string()) {
        Ok(targets) => targets,
        Err(error) => return (State::Failed, error.why),
    };
    let connected = tokio::time::timeout(patience, targets.connect(platform)).await;
    let platform = match connected {
        Ok(Ok(connected)) => connected.platform,
        Ok(Err(error)) => return (State::Failed, error.to_string()),
        Err(_) => return (State::Failed, unanswered(patience)),
    };
    let Some(thing) = &target.thing else {
        return (State::Ok, "its settings are valid; it is not called from here".into());
    };
    let stamp = CallMetadata {
        action: "Doctor",
        step: "doctor".into(),
        key: "doctor".into(),
        epoch: Epoch(0),
        undo: false,
        deadline: patience,
        dry_run: true,
    };
    let looked = platform.tenant_resources.read_resource(thing, Observer::Platform, &stamp);
    match tokio::time::timeout(patience.saturating_mul(2), looked).await {
        Ok(answer) => judged(answer.map(|seen| seen.is_some())),
        Err(_) => (State::Failed, unanswered(patience)),
    }
}

fn unanswered(patience: Duration) -> String {
    format!("it does not answer within {patience:?}; --timeout sets a longer wait")
}

/// Returns the result of a read.
fn judged(answer: Result<bool, ActionError>) -> (State, String) {
    match answer {
        Ok(_) => (State::Ok, "reached; its credentials are accepted".into()),
        Err(error) => {
            (State::Failed, format!("{} ({}; `tenure explain {}`)", error.message, error.code, error.code))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_of_a_file_is_checked_separately() {
        let whole = json!({
            "clusters": { "eu-1": { "kubernetes": {}, "agents": {} }, "eu-2": { "simulated": {} } },
            "keys": { "vault": {} },
            "objects": { "eu": { "s3": {} } },
            "machines": { "eu-1": { "gpu-7": { "drives": {} } } },
            "hooks": { "dns": { "exec": {} } },
        });
        let all = apart(&whole);
        let fields: Vec<&str> = all.iter().map(|target| target.field.as_str()).collect();
        let wanted = [
            "clusters.eu-1.agents",
            "clusters.eu-1.kubernetes",
            "clusters.eu-2.simulated",
            "keys.vault",
            "objects.eu",
            "machines.eu-1.gpu-7",
            "hooks.dns",
        ];
        assert_eq!(fields, wanted);
        assert_eq!(all[1].alone, json!({ "clusters": { "eu-1": { "kubernetes": {} } } }));
        let looked = all.iter().filter(|target| target.thing.is_some()).count();
        assert_eq!(looked, 3, "a cluster, the keys and the buckets");
    }

    #[tokio::test]
    async fn a_wrong_target_is_reported_with_its_field() {
        let whole = json!({ "keys": { "drawer": {} } });
        let (state, says) = probe(&apart(&whole)[0], Duration::from_secs(1)).await;
        assert_eq!(state, State::Failed);
        assert!(says.contains("keys.drawer: is not a kind of backend"), "{says}");
    }
}
