//! The tests of a node before a tenant gets it.

use super::rig::{CLUSTER, Rig, asked};
use backends::agents::{Command, Output};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};
use workflows::platform::{Diagnosis, DiagnosisLevel};

/// A node of eight GPUs and a diagnosis program that passes them unless there is a file `bad`.
async fn rig() -> Rig {
    let rig = Rig::new(json!([{}, {}, {}, {}, {}, {}, {}, {}])).await;
    let (program, bad) = (rig.folder.path().join("diagnosis"), rig.folder.path().join("bad"));
    let text = format!("#!/bin/sh\necho tested $1\ntest ! -e {}\n", bad.display());
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    rig
}

async fn diagnosis(rig: &Rig, step: &str, level: DiagnosisLevel) -> Diagnosis {
    match rig.call(asked(step, 1, Command::Diagnose { level })).await.unwrap() {
        Output::Diagnosis(found) => found,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_remote_node_is_tested_by_the_program_installed_there() {
    let rig = rig().await;
    let _agent = rig.linked().await;
    let fit = diagnosis(&rig, "look", DiagnosisLevel::Medium).await;
    assert_eq!(fit, Diagnosis { fit: true, report: "tested medium".into() });
    fs::write(rig.folder.path().join("bad"), "").unwrap();
    let unfit = diagnosis(&rig, "again", DiagnosisLevel::Long).await;
    assert_eq!(unfit, Diagnosis { fit: false, report: "tested long".into() });
}

fn tenant(name: &str) -> Value {
    json!({
        "name": name,
        "tenant": { "tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                    "allow_preemption": false, "allow_gpu_sharing": false },
        "workspaces": [{ "name": "main", "class": "production" }],
        "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu" },
    })
}

/// Requests a tenant, approves it as another user, and returns the result.
async fn onboarded(rig: &Rig, name: &str) -> Value {
    let (admin, until) = (rig.admin(), Instant::now() + Duration::from_secs(120));
    let ops = admin.user(&format!("ops-of-{name}"), "platform_ops").await;
    let (status, begun) = admin.call(Method::POST, "/v1/tenants", Some(name), Some(tenant(name))).await;
    assert!(status.is_success(), "{begun}");
    let path = format!("/v1/executions/{}", begun["id"].as_str().unwrap());
    loop {
        let item = admin.get(&path).await;
        if item["open"] == json!(false) {
            return item;
        }
        let case = &item["waiting_for"]["approval"];
        if case["ruling"].is_null() && case["digest"].is_string() {
            let (id, body) =
                (begun["id"].as_str().unwrap(), json!({ "digest": case["digest"], "reason": "yes" }));
            ops.call(Method::POST, &format!("/v1/approvals/{id}:approve"), None, Some(body)).await;
        }
        assert!(Instant::now() < until, "{item}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the owner and the state of the node.
async fn stands(rig: &Rig) -> (Value, Value) {
    let nodes = rig.admin().all("/v1/nodes").await;
    let node = nodes.iter().find(|node| node["cluster"] == CLUSTER).unwrap();
    (node["owner"].clone(), node["state"].clone())
}

#[tokio::test]
async fn a_tenant_gets_a_node_that_its_agent_reports_as_fit() {
    let rig = rig().await;
    let _agent = rig.linked().await;
    let ended = onboarded(&rig, "acme").await;
    assert_eq!(ended["reason"], "completed", "{ended}");
    assert_eq!(stands(&rig).await, (json!("acme"), json!("in_service")));
}

#[tokio::test]
async fn a_node_that_its_agent_reports_as_unfit_is_quarantined() {
    let rig = rig().await;
    let _agent = rig.linked().await;
    fs::write(rig.folder.path().join("bad"), "").unwrap();
    let ended = onboarded(&rig, "acme").await;
    assert_ne!(ended["reason"], "completed", "{ended}");
    assert_eq!(stands(&rig).await.1, json!("quarantined"));
}
