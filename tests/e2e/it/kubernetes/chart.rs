//! The shipped chart: a real API server accepts its objects, field by field.

use super::server::{World, world};
use serde_json::{Value, json};
use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

/// Returns the objects of the chart with these values, or `None` with a message if it cannot be rendered.
fn rendered(values: &Value) -> Option<Vec<Value>> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("values.yaml");
    std::fs::write(&file, values.to_string()).unwrap();
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api/packaging/helm/tenure");
    let ran = Command::new(e2e::scripts().join("chart.sh"))
        .arg(chart)
        .args(["prod", "tenure"])
        .arg(file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    if ran.status.code() == Some(3) {
        e2e::skipped("a renderer of charts", &said);
        return None;
    }
    assert!(ran.status.success(), "{values}: {said}");
    let text = String::from_utf8(ran.stdout).unwrap();
    let documents = text.split("\n---\n").map(|text| text.trim_start_matches("---\n"));
    let read = |text| serde_saphyr::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    // A template without output for these values leaves an empty document.
    Some(documents.map(read).filter(|object: &Value| !object.is_null()).collect())
}

/// Sends an object as a dry run; the server reports unknown fields.
fn tried(world: &World, object: &Value) {
    let mut apply = Command::new("kubectl")
        .args([
            "apply",
            "--server-side",
            "--force-conflicts",
            "--dry-run=server",
            "--validate=false",
            "-f",
            "-",
        ])
        .env("KUBECONFIG", world.kubeconfig("admin"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    apply.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    let applied = apply.wait_with_output().unwrap();
    assert!(applied.status.success(), "{}\n{object:#}", String::from_utf8_lossy(&applied.stderr));
}

fn find<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// No container runs as root, only the data volume is writable, and all capabilities are dropped.
fn contained(workload: &Value, scheme: &str) {
    let pod = &workload["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{pod:#}");
    let inits = pod["initContainers"].as_array().into_iter().flatten();
    for container in pod["containers"].as_array().unwrap().iter().chain(inits) {
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true, "{container:#}");
        assert_eq!(context["allowPrivilegeEscalation"], false, "{container:#}");
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{container:#}");
        assert!(container["resources"]["limits"]["memory"].is_string(), "{container:#}");
    }
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let asked = &pod["containers"][0][probe]["httpGet"];
        assert!(asked["path"].is_string() && asked["scheme"] == scheme, "{probe}: {asked}");
    }
}

#[tokio::test]
async fn a_real_api_server_accepts_every_object_of_the_chart() {
    let Some(world) = world().await else { return };
    let Some(plain) = rendered(&json!({})) else { return };
    let many = json!({
        "image": { "repository": "repo/tenure", "digest": format!("sha256:{}", "0".repeat(64)) },
        "store": { "kind": "postgres", "replicas": 3, "url": "postgres://tenure@db.example/tenure" },
        "secret": "tenure",
        "settings": {
            "notify": { "url": "https://hooks.example/tenure" },
            "tls": { "certificate_file": "/etc/kubeconfigs/tls.crt", "key_file": "/etc/kubeconfigs/tls.key" },
        },
        "targets": { "clusters": { "eu-1": { "kubernetes": {} } } },
        "rbac": { "create": true },
        "networkPolicy": {
            "metricsFrom": [{ "namespaceSelector": { "matchLabels": { "name": "monitoring" } } }],
            "egress": [{ "to": [{ "ipBlock": { "cidr": "10.0.0.0/8" } }] }],
        },
        "monitoring": { "serviceMonitor": true, "tokenSecret": { "name": "tenure-prometheus", "key": "token" },
                        "tlsConfig": { "serverName": "tenure.example" }, "rules": true, "dashboards": true,
                        "runbooks": "https://docs.example/tenure/", "labels": { "release": "prom" } },
        "extraVolumes": [{ "name": "kubeconfigs", "secret": { "secretName": "kubeconfigs" } }],
        "extraVolumeMounts": [{ "name": "kubeconfigs", "mountPath": "/etc/kubeconfigs" }],
        "tolerations": [{ "key": "a", "operator": "Exists" }],
    });
    let many = rendered(&many).unwrap();

    for object in plain.iter().chain(&many) {
        // The Prometheus operator is not installed, so its kinds are unknown.
        if object["apiVersion"] != "monitoring.coreos.com/v1" {
            tried(&world, object);
        }
    }

    contained(find(&plain, "StatefulSet"), "HTTP");
    assert_eq!(find(&plain, "StatefulSet")["spec"]["replicas"], 1);
    let servers = find(&many, "Deployment");
    contained(servers, "HTTPS");
    let scraped = &find(&many, "ServiceMonitor")["spec"]["endpoints"][0];
    assert_eq!(
        (&scraped["scheme"], &scraped["tlsConfig"]["serverName"]),
        (&json!("https"), &json!("tenure.example"))
    );
    assert_eq!(scraped["authorization"]["credentials"]["name"], "tenure-prometheus");
    assert_eq!(servers["spec"]["replicas"], 3);
    assert_eq!(find(&many, "PodDisruptionBudget")["spec"]["maxUnavailable"], 1);
    let alerts = find(&many, "PrometheusRule").to_string();
    assert!(alerts.contains("\"https://docs.example/tenure/docs/operations.md#alert-down\""));
    assert!(alerts.contains("{{ $labels.reason }}"), "placeholders of alerts are not rendered by the chart");
    let roles = many.iter().filter(|object| object["kind"] == "ClusterRole").count();
    assert_eq!(roles, 5, "the rights are those of rbac.yaml");
}
