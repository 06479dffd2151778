//! Executions of earlier and later versions, as operators see them. Against a real server.

use crate::{
    domain_http::{items, with_acme},
    served::Served,
};
use serde_json::json;

async fn incident(served: &Served) -> String {
    let what = json!({ "kind": "other", "tenants": ["acme"], "what": "drill", "evidence": "quarterly" });
    served.json_as(&served.admin, "/v1/incidents", what).await.id()
}

/// S58. With one version there is no obstacle, and the answer confirms this for every workflow.
#[tokio::test]
async fn the_stored_versions_are_counted_and_current_ones_are_not_migrated() {
    let served = with_acme().await;
    incident(&served).await;
    let counted = served.get("/v1/workflow-versions").await;
    let of = |name: &str| items(&counted).iter().find(|row| row["workflow"] == name).unwrap().clone();
    let expected =
        json!({ "workflow": "incident_response", "schema": 1, "open": 1, "here": 1, "standing": "current" });
    assert_eq!(of("incident_response"), expected);
    assert_eq!(of("reclaim")["open"], 0);
    assert!(served.run(&["workflow", "versions"]).out.contains("incident_response"));

    for path in ["/v1/workflow-versions/blockers", "/v1/workflow-versions/blockers?workflow=reclaim"] {
        assert_eq!(items(&served.get(path).await), &Vec::<serde_json::Value>::new());
    }
    assert_eq!(served.get("/v1/workflow-versions/blockers?workflow=recliam").await.status, 404);
    let dry = served.run(&["workflow", "migrate", "--dry-run", "-o", "json"]);
    assert_eq!((dry.exit, dry.json()), (0, json!([])), "{dry:?}");
    assert_eq!(served.run(&["workflow", "migrate", "--workflow", "reclaim"]).exit, 0);
    assert_eq!(served.run(&["workflow", "blockers"]).exit, 0);
    let auditor = served.user("vera", &["auditor"], None).await;
    assert_eq!(served.get_as(&auditor, "/v1/workflow-versions").await.status, 200);
    let refused = served.json_as(&auditor, "/v1/workflow-versions:migrate", json!({})).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (403, "auth.forbidden"));
}
