//! Access rules for decisions by HTTP. Against a real server.

use crate::served::{Served, large};
use serde_json::json;

#[tokio::test]
async fn a_role_without_a_seat_does_not_decide() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    let digest = served.asked(&id).await["waiting_for"]["approval"]["digest"].clone();
    let body = json!({ "digest": digest });

    let dpo = served.user("dora", &["dpo"], None).await;
    let answer = served.json_as(&dpo, &format!("/v1/approvals/{id}:refuse"), body.clone()).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (403, "approval.not_entitled"));
    let auditor = served.user("otto", &["auditor"], None).await;
    let answer = served.json_as(&auditor, &format!("/v1/approvals/{id}:approve"), body).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (403, "auth.forbidden"));
}

#[tokio::test]
async fn a_tenants_own_user_never_decides_for_the_platform() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    let digest = served.asked(&id).await["waiting_for"]["approval"]["digest"].clone();

    let tess = served.user("tess", &["platform_ops"], Some("acme")).await;
    let answer =
        served.json_as(&tess, &format!("/v1/approvals/{id}:approve"), json!({ "digest": digest })).await;

    assert_eq!((answer.status.as_u16(), answer.code()), (403, "approval.not_entitled"));
}
