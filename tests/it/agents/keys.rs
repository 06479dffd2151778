//! The access rules of the agents' routes.

use super::rig::{CLUSTER, NODE, OTHER, Rig, asked, set};
use api::{Access, RouteInfo, rules};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::processes::Server;

async fn send(server: &Server, token: &str, method: &str, path: &str) -> (u16, String) {
    let method: Method = method.parse().unwrap();
    let body = json!({ "instance": "i", "id": "1", "outcome": { "Ok": "done" } });
    let asked =
        Client::new().request(method, format!("{}{path}", server.url())).bearer_auth(token).json(&body);
    let answer = asked.send().await.unwrap();
    let status = answer.status().as_u16();
    let said: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default();
    (status, said["code"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn a_key_of_another_cluster_is_refused() {
    let rig = Rig::new(json!([{}])).await;
    let (stranger, _) = super::rig::key();
    let admin = rig.server.admin();
    let agents: Vec<_> = rules().into_iter().filter(|rule| rule.access == Access::Agent).collect();
    assert_eq!(agents.len(), 4);

    for rule in &agents {
        let path = rule.path.replace("{cluster}", CLUSTER).replace("{node}", NODE);
        let as_token = async |token: &str| send(&rig.server, token, &rule.method, &path).await;
        assert_eq!(as_token(&rig.other_key).await, (403, "auth.cross_cluster_attempt".into()), "{path}");
        assert_eq!(as_token(&stranger).await, (401, "auth.bad_token".into()), "{path}");
        assert_eq!(as_token(&admin).await, (403, "auth.forbidden".into()), "{path}: users are no agents");
        assert_eq!(as_token(&rig.key).await.0, 200, "{path}");
        let path = path.replace(NODE, "m-0");
        assert_ne!(send(&rig.server, &rig.other_key, &rule.method, &path).await.0, 200, "{path}");
    }
    let foreign = format!("/v1/agents/{CLUSTER}/m-0:pull");
    assert_eq!(send(&rig.server, &rig.key, "POST", &foreign).await, (404, "resource.not_found".into()));
    assert_eq!(
        send(&rig.server, &rig.other_key, "POST", &format!("/v1/agents/{OTHER}/m-0:pull")).await.0,
        200
    );

    let others = |rule: &RouteInfo| !matches!(rule.access, Access::Open | Access::Near(_) | Access::Agent);
    for rule in rules().into_iter().filter(others) {
        let path = rule.path.replace(['{', '}'], "");
        let (status, code) = send(&rig.server, &rig.key, &rule.method, &path).await;
        assert_eq!((status, code.as_str()), (401, "auth.bad_token"), "{rule:?}");
    }
}

/// Removing its hash revokes a key while the server runs.
#[tokio::test]
async fn a_revoked_key_is_refused() {
    let mut rig = Rig::new(json!([{}])).await;
    let (fresh, hash) = super::rig::key();
    let list = rig.folder.path().join("hashes");
    std::fs::write(&list, format!("# of the nodes\n{hash}\n")).unwrap();
    let targets =
        json!({ "clusters": { CLUSTER: { "agents": { "key_file": list } }, OTHER: { "simulated": {} } } });
    std::fs::write(rig.folder.path().join("targets.yaml"), targets.to_string()).unwrap();
    rig.server.kill();
    rig.server.restart();
    let path = format!("/v1/agents/{CLUSTER}/{NODE}:pull");
    assert_eq!(send(&rig.server, &rig.key, "POST", &path).await.0, 401);
    assert_eq!(send(&rig.server, &fresh, "POST", &path).await.0, 200);

    // The agent reads its key again, and the server reads its list of keys again.
    let _agent = rig.agent();
    std::fs::write(rig.folder.path().join("key"), &fresh).unwrap();
    rig.until_present(true).await;
    rig.call(asked("carve", 1, set("mixed"))).await.unwrap();
    std::fs::write(&list, "").unwrap();
    assert_eq!(send(&rig.server, &fresh, "POST", &path).await.0, 401);
    let began = Instant::now();
    rig.until_present(false).await;
    assert!(began.elapsed() < Duration::from_secs(18), "an open request ends too");
    assert_eq!(
        rig.call(asked("mend", 1, set("all-disabled"))).await.unwrap_err().code,
        "platform.unavailable"
    );
}
