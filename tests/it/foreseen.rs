//! Previews of commands: they predict the effect and change nothing. Against a real server.

use crate::{
    domain_http::{ACME, with_acme},
    served::{Served, large, seen},
};
use serde_json::json;

#[tokio::test]
async fn the_dry_run_of_a_workload_returns_the_decision_and_submits_nothing() {
    let served = with_acme().await;
    seen(&served, ACME).await;
    let work = |name: &str, gpus: u64| json!({ "tenant": ACME, "workspace": "research", "name": name, "requests": { "gpu/H100": gpus } });

    let fits = served.json_as(&served.admin, "/v1/workloads:plan", work("w", 1)).await;
    let never = served.json_as(&served.admin, "/v1/workloads:plan", work("v", 9_000)).await;

    assert_eq!((fits.status.as_u16(), &fits.body["answer"]), (200, &json!("admit")), "{}", fits.body);
    assert_eq!((never.status.as_u16(), &never.body["answer"]), (200, &json!("reject")), "{}", never.body);
    let weighed = never.body["decision"]["weighed"].as_array().unwrap();
    assert!(weighed.iter().any(|weighed| weighed["answer"] == "reject"), "{}", never.body);
    assert_eq!(served.get("/v1/workloads").await.body["items"], json!([]));
    assert_eq!(served.get("/v1/decisions").await.body["items"], json!([]));
}

#[tokio::test]
async fn the_dry_run_of_a_reservation_and_an_import_shows_the_result_and_changes_nothing() {
    let served = with_acme().await;
    let peak = |count: u64| json!({ "tenant": ACME, "workspace": "serving", "name": "peak", "kind": "H100", "count": count });
    let planned = served.json_as(&served.admin, "/v1/reservations:plan", peak(1)).await;
    let beyond = served.json_as(&served.admin, "/v1/reservations:plan", peak(9_000)).await;
    assert_eq!((planned.status.as_u16(), &planned.body["count"]), (200, &json!(1)), "{}", planned.body);
    assert_eq!(beyond.code(), "reservation.beyond_nominal");
    assert_eq!(served.get("/v1/reservations").await.body["items"], json!([]));

    let nodes = "sn,cpu_milli,memory_mib,gpu,model\nnew-1,96000,786432,8,H100\n";
    let path = "/v1/fleet:plan?cluster=eu-1&region=eu";
    let planned = served.post(path, "text/csv", nodes).await;
    assert_eq!((planned.status.as_u16(), &planned.body["kind"]), (200, &json!("nodes")), "{}", planned.body);
    assert_eq!(served.get("/v1/nodes/new-1").await.status, 404);
    let wrong = served.post(path, "text/csv", &nodes.replace("8,H100", "many,H100")).await;
    assert_eq!(wrong.status, 422, "{}", wrong.body);
}

#[tokio::test]
async fn the_dry_run_of_a_cancel_lists_the_undos_and_that_of_a_termination_the_leftovers() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    served.asked(&id).await;
    let path = format!("/v1/executions/{id}");
    let before = served.get(&path).await.body;
    let standing = before["trail"].as_array().unwrap().iter().filter(|mark| mark["fate"] == "done").count();

    let cancel = served.json_as(&served.admin, &format!("{path}:cancel?dry_run=true"), json!({})).await;
    let by_force = json!({ "reason": "it is in the way" });
    let by_force = served.json_as(&served.admin, &format!("{path}:terminate?dry_run=true"), by_force).await;

    assert_eq!(cancel.status, 200, "{}", cancel.body);
    assert_eq!(cancel.body["would_undo"].as_array().unwrap().len(), standing, "{}", cancel.body);
    assert_eq!((by_force.status.as_u16(), &by_force.body["phase"]), (200, &json!("finished")));
    assert_eq!(by_force.body["would_leave"].as_array().unwrap().len(), standing, "{}", by_force.body);
    assert_eq!(served.get(&path).await.body["revision"], before["revision"]);
    let wrong = served.json_as(&served.admin, &format!("{path}:cancel?dryrun=true"), json!({})).await;
    assert_eq!(wrong.code(), "query.invalid");
}

#[tokio::test]
async fn every_list_has_pages_and_refuses_unknown_parameters() {
    let served = with_acme().await;
    for n in 0..3 {
        let limit = json!({ "key": format!("tenant/t-{n}"), "concurrency": 4 });
        assert_eq!(served.json_as(&served.admin, "/v1/limits", limit).await.status, 200);
    }
    for path in [
        "/v1/schedules",
        "/v1/limits",
        "/v1/agents",
        "/v1/channels",
        "/v1/engines",
        "/v1/workflows",
        "/v1/workflow-versions",
    ] {
        let unknown = served.get(&format!("{path}?lmit=2")).await;
        assert_eq!((unknown.status.as_u16(), unknown.code()), (400, "query.invalid"), "{path}");
        let whole = served.get(path).await.body["items"].as_array().unwrap().clone();
        let (mut all, mut asked) = (Vec::new(), format!("{path}?limit=2"));
        loop {
            let page = served.get(&asked).await.body;
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= 2, "{path}: {page}");
            all.extend(items.iter().cloned());
            let Some(next) = page["next"].as_str() else { break };
            asked = format!("{path}?limit=2&cursor={next}");
        }
        let name =
            |item: &serde_json::Value| ["name", "key", "id", "workflow"].map(|field| item[field].clone());
        assert_eq!(
            all.iter().map(name).collect::<Vec<_>>(),
            whole.iter().map(name).collect::<Vec<_>>(),
            "{path}"
        );
    }
}
