//! Errors name their field, and a platform names its backends.

use super::{TargetError, Targets};
use crate::simulated::{LocalWorld, simulated_platform};
use std::sync::Arc;

async fn refused(text: &str) -> String {
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let targets = match Targets::parse(text) {
        Ok(targets) => targets,
        Err(error) => return error.to_string(),
    };
    targets.connect(platform).await.map(drop).unwrap_err().to_string()
}

#[tokio::test]
async fn an_invalid_target_is_refused_with_its_field_and_a_remedy() {
    for (text, said) in [
        (
            "clusters: { eu-1: { nomad: {} } }",
            "clusters.eu-1.nomad: is not a kind of backend; use one of: kubernetes, slurm, agents, simulated",
        ),
        (
            "clusters: { eu-1: {} }",
            "clusters.eu-1: is empty: name one of kubernetes, slurm, agents, simulated, or remove the cluster",
        ),
        (
            "clusters: { eu-1: { agents: {} } }",
            "clusters.eu-1.agents.keys: is empty: create a key with `tenure agent key`",
        ),
        (
            "clusters: { eu-1: { agents: { keys: [tn_0011223344556677_00] } } }",
            "clusters.eu-1.agents.keys: has an invalid hash: write the 64 hexadecimal digits that `tenure agent key` prints, not the key itself",
        ),
        (
            "keys: { vault: {}, pkcs11: {} }",
            "keys: only one is allowed, but pkcs11 and vault are set: keep one of them",
        ),
        ("keys: { drawer: {} }", "keys.drawer: is not a kind of backend; use one of: vault, pkcs11"),
        ("objects: { eu: { floppy: {} } }", "objects.eu.floppy: is not a kind of backend; use one of: s3"),
        (
            "machines: { eu-1: { gpu-7: { dd: {} } } }",
            "machines.eu-1.gpu-7.dd: is not a kind of backend; use one of: drives",
        ),
        ("hooks: { dns: {} }", "hooks.dns: is empty: name one of exec, http"),
        (
            "systems: { keys: {} }",
            "systems.keys: is not a system of hooks; use one of identity, storage, backups, registry, logs, network",
        ),
        ("systems: { network: {} }", "systems.network.hook: is empty: name one of exec, http"),
        (
            "systems: { network: { hook: { exec: { program: /bin/true } } } }",
            "systems.network.verifier: is missing: name a hook with read-only credentials, which checks the removal independently",
        ),
        (
            "hooks: { dns: { carrier-pigeon: {} } }",
            "hooks.dns.carrier-pigeon: is not a kind of backend; use one of: exec, http",
        ),
    ] {
        assert_eq!(refused(text).await, said);
    }
    let unknown = refused("cluster: {}").await;
    assert!(unknown.contains("unknown field `cluster`"), "{unknown}");
}

#[cfg(all(feature = "exec", feature = "http"))]
#[tokio::test]
async fn an_invalid_hook_is_refused_with_its_field_and_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (short, secret) = (folder.path().join("short"), folder.path().join("missing"));
    std::fs::write(&short, "too short\n").unwrap();
    let http = |more: &str| format!("hooks: {{ dns: {{ http: {{ {more} }} }} }}");
    let exec = |more: &str| format!("hooks: {{ dns: {{ exec: {{ {more} }} }} }}");
    for (text, said) in [
        (exec("program: hook.sh"), "hooks.dns.exec.program: hook.sh: write an absolute path"),
        (
            exec("program: /nowhere/hook.sh"),
            "hooks.dns.exec.program: /nowhere/hook.sh is not a file: install it",
        ),
        (exec("program: /bin/sh, directory: /nowhere"), "hooks.dns.exec.directory: /nowhere is not a folder"),
        (
            exec("program: /bin/sh, environment: ['A=b']"),
            "hooks.dns.exec.environment: \"A=b\" is not the name of a variable",
        ),
        (exec("program: /bin/sh, deadline: soon"), "hooks.dns.exec: \"soon\" is not a duration"),
        (exec("program: /bin/sh, shell: true"), "hooks.dns.exec: unknown field `shell`"),
        (
            http("url: 'http://hooks.example/'"),
            "hooks.dns.http.url: \"http://hooks.example/\" would be sent unencrypted over the network",
        ),
        (http("url: nowhere"), "hooks.dns.http.url: \"nowhere\" is not a URL"),
        (http("url: 'https://u:p@h.example/'"), "hooks.dns.http.url: has a name or password"),
        (
            http("url: 'https://h.example/', key_id: k"),
            "hooks.dns.http.secret_file: is missing: `key_id` needs a file",
        ),
        (
            http(&format!("url: 'https://h.example/', key_id: k, secret_file: {}", secret.display())),
            "hooks.dns.http.secret_file: the secret in ",
        ),
        (
            http(&format!("url: 'https://h.example/', key_id: k, secret_file: {}", short.display())),
            "hooks.dns.http.secret_file: the secret in ",
        ),
    ] {
        let is = refused(&text).await;
        assert!(is.starts_with(said), "{text}: {is}");
    }
}

#[tokio::test]
async fn a_platform_lists_its_backends() {
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let before = platform.backends();

    let platform = Targets::parse("").unwrap().connect(platform).await.unwrap().platform;

    assert_eq!(platform.backends(), before, "an empty file changes nothing");
    let error = TargetError::new("context", "is not there").within("clusters.eu-1.kubernetes");
    assert_eq!(error.to_string(), "clusters.eu-1.kubernetes.context: is not there");
}

/// A named cluster is surveyed by its own backend. If the cluster is down, the survey fails and does not count it as
/// empty.
#[cfg(feature = "kubernetes")]
#[tokio::test]
async fn a_named_cluster_is_surveyed_and_an_unreachable_one_is_not_empty() {
    use workflows::platform::{CallMetadata, Observer, codes};
    let (folder, listener) = (tempfile::tempdir().unwrap(), std::net::TcpListener::bind("127.0.0.1:0"));
    let closed = listener.unwrap().local_addr().unwrap();
    let file = folder.path().join("kubeconfig");
    let config = serde_json::json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{closed}") } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let text = format!("clusters: {{ eu-1: {{ kubernetes: {{ kubeconfig: {} }} }} }}", file.display());
    let platform = simulated_platform(Arc::new(LocalWorld::new()));

    let estate = Targets::parse(&text).unwrap().connect(platform).await.unwrap().platform.tenant_resources;

    assert!(estate.backend().starts_with("kubernetes eu-1: kubernetes, "), "{}", estate.backend());
    let (step, deadline) = ("look".to_owned(), std::time::Duration::from_secs(5));
    let (key, epoch) = (step.clone(), store::Epoch(1));
    let stamp = CallMetadata { action: "Test", step, key, epoch, undo: false, deadline, dry_run: false };
    let survey = estate.survey("kubernetes", "acme", Observer::Platform, &stamp).await.unwrap_err();
    assert_eq!(survey.code, codes::UNAVAILABLE, "{survey}");
}
