//! HTTP: workloads, loans, usage and reclaims.

use super::{ACME, items, submit, with_acme};
use crate::served::{Answer, Served, seen, shared};
use serde_json::json;

#[tokio::test]
async fn a_workload_is_admitted_queued_or_rejected_with_every_reason() {
    let served = with_acme().await;

    let unseen = submit(&served, "research", "blind", 1).await;
    assert_eq!(unseen.status, 202, "{}", unseen.body);
    let codes = unseen.body["decision"]["weighed"].to_string();
    assert!(codes.contains("facts.stale"), "no workload is admitted on unobserved GPUs: {codes}");

    seen(&served, ACME).await;
    let blind = served.get("/v1/workloads/acme/blind").await;
    assert_eq!(blind.body["state"], "admitted", "observed GPUs serve the queue: {}", blind.body);
    let fits = submit(&served, "research", "fits", 3).await;
    assert_eq!((fits.status.as_u16(), &fits.body["answer"]), (200, &json!("admit")), "{}", fits.body);
    assert_eq!(fits.headers["location"], "/v1/workloads/acme/fits");
    let never = submit(&served, "research", "never", 1_000).await;
    assert_eq!((never.status.as_u16(), never.code()), (422, "workload.rejected"), "{}", never.body);
    assert!(!never.body["weighed"].as_array().unwrap().is_empty());
    let decision = never.body["decision"].as_str().unwrap();
    let kept = served.get(&format!("/v1/decisions/{decision}")).await;
    assert_eq!((kept.status.as_u16(), &kept.body["answer"]), (200, &json!("reject")), "{}", kept.body);

    let again = submit(&served, "research", "fits", 3).await;
    assert_eq!(again.body["decision"]["id"], fits.body["decision"]["id"], "a repeat has the same decision");
    let other = submit(&served, "research", "fits", 2).await;
    assert_eq!((other.status.as_u16(), other.code()), (409, "workload.differs"));
    let nowhere = submit(&served, "nowhere", "x", 1).await;
    assert_eq!((nowhere.status.as_u16(), nowhere.code()), (404, "workspace.unknown"), "{}", nowhere.body);
}

/// Four of eight GPUs are promised. The others are lent to any workspace, and an owner does not wait while they are
/// free.
#[tokio::test]
async fn bought_gpus_outside_every_quota_are_lent_at_once() {
    let served = Served::unobserved().await;
    let id = served.onboard(&shared(ACME).replace("{gpus: 4}", "{gpus: 2}")).await;
    assert_eq!(served.ended(&id).await["reason"], "completed");
    seen(&served, ACME).await;

    for (workspace, name, gpus) in [("research", "a1", 4), ("serving", "b1", 1), ("research", "a2", 2)] {
        let answer = submit(&served, workspace, name, gpus).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.body["answer"]),
            (200, &json!("admit")),
            "{}",
            answer.body
        );
    }

    let loans = served.get("/v1/loans?tenant=acme&lender=@pool").await;
    let lent: u64 = items(&loans).iter().map(|loan| loan["amount"].as_u64().unwrap()).sum();
    assert_eq!(lent, 4, "{}", loans.body);
    assert!(items(&served.get("/v1/executions?workflow=reclaim").await).is_empty());
}

#[tokio::test]
async fn a_name_that_is_invalid_in_kubernetes_is_refused() {
    let served = with_acme().await;
    for name in ["Ax", "a_bx", "-a2x", &"b".repeat(64)] {
        let refused = submit(&served, "research", name, 1).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "workload.invalid"), "{}", refused.body);
        assert_eq!(served.get(&format!("/v1/workloads/acme/{name}")).await.status, 404);
    }
}

#[tokio::test]
async fn a_workload_that_ends_frees_its_gpus_and_its_usage_is_charged() {
    let served = with_acme().await;
    seen(&served, ACME).await;
    submit(&served, "research", "long", 8).await;
    let loans = served.get("/v1/loans?tenant=acme&state=active").await;
    assert_eq!(items(&loans).len(), 1, "{}", loans.body);
    assert_eq!((&items(&loans)[0]["lender"], &items(&loans)[0]["amount"]), (&json!("serving"), &json!(4)));
    assert_eq!(served.get("/v1/loans/acme/1").await.body["borrower"], "research");
    assert!(items(&served.get("/v1/loans?state=returned").await).is_empty());
    assert_eq!(served.get("/v1/loans?colour=red").await.code(), "query.invalid");
    let waits = submit(&served, "research", "next", 2).await;
    assert_eq!(waits.status, 202, "{}", waits.body);
    let research = served.get("/v1/workspaces/acme/research").await.body;
    assert_eq!(research["use"]["gpu/H100"]["used"], 8, "{research}");
    assert_eq!(research["waiting"], 1, "{research}");

    let ended = served.json_as(&served.admin, "/v1/workloads/acme/long:finish", json!({})).await;
    assert_eq!(ended.status, 200, "{}", ended.body);
    assert_eq!(ended.body["admitted_by_that"], json!(["next"]));
    assert_eq!(served.get("/v1/loans/acme/1").await.body["state"], "returned");
    assert_eq!(items(&served.get("/v1/workloads?state=admitted").await).len(), 1);
    let usage = served.get("/v1/usage/acme").await;
    assert!(usage.body.to_string().contains("gpu/H100"), "{}", usage.body);
}

#[tokio::test]
async fn usage_is_exported_to_its_tenant_as_csv_and_in_the_focus_format() {
    let served = with_acme().await;
    seen(&served, ACME).await;
    assert_eq!(submit(&served, "research", "borrows", 6).await.status, 200);
    let export = "/v1/usage/acme:export";

    let whole = served.get(export).await;
    assert_eq!((whole.status.as_u16(), &whole.headers["content-type"]), (200, &"text/csv".parse().unwrap()));
    let rows = |answer: &Answer| answer.body.as_str().unwrap().lines().map(str::to_owned).collect::<Vec<_>>();
    let of = |rows: &[String], workspace: &str, class: &str| {
        rows.iter()
            .any(|row| row.starts_with(&format!("acme,{workspace},")) && row.contains(&format!(",{class},")))
    };
    let lines = rows(&whole);
    assert!(lines[0].starts_with("tenant,workspace,cluster,region,gpu,class,month,"), "{}", lines[0]);
    for (workspace, class) in [("research", "own"), ("research", "borrowed"), ("serving", "lent")] {
        assert!(of(&lines, workspace, class), "{workspace} {class}: {lines:#?}");
    }
    let one = rows(&served.get(&format!("{export}?workspace=serving")).await);
    assert!(of(&one, "serving", "lent") && !of(&one, "research", "own"), "{one:#?}");
    assert_eq!(rows(&served.get(&format!("{export}?to=1999-12")).await).len(), 1, "only the header");

    let focus = rows(&served.get(&format!("{export}?format=focus")).await);
    let columns: Vec<_> = focus[0].split(',').collect();
    assert!(columns.contains(&"BilledCost") && columns.contains(&"InvoiceIssuerName"), "{columns:?}");
    assert!(!focus.iter().any(|row| row.contains("serving")), "loans are no charges: {focus:#?}");

    for wrong in ["from=2026-13", "to=2026", "format=xml", "colour=red"] {
        assert_eq!(served.get(&format!("{export}?{wrong}")).await.code(), "query.invalid", "{wrong}");
    }
    let stranger = served.user("eve", &["auditor"], Some("globex")).await;
    let refused = served.get_as(&stranger, export).await;
    assert_eq!(refused.status, 404, "{}", refused.body);
    let own = served.user("ann", &["auditor"], Some(ACME)).await;
    assert_eq!(served.get_as(&own, export).await.status, 200);
}

#[tokio::test]
async fn a_demand_within_quota_recalls_loans_and_a_reclaim_can_be_planned_and_cancelled() {
    let served = with_acme().await;
    seen(&served, ACME).await;
    assert_eq!(submit(&served, "research", "borrows", 8).await.status, 200);
    let overdue = json!({ "tenant": ACME, "overdue": true, "resource": "gpu/H100" });
    let plan = served.json_as(&served.admin, "/v1/reclaims:plan", overdue.clone()).await;
    assert_eq!(plan.status, 200, "{}", plan.body);
    assert!(plan.body["plan"]["title"].as_str().unwrap().contains("overdue"), "{}", plan.body);
    assert!(items(&served.get("/v1/executions?workflow=reclaim").await).is_empty(), "a plan changes nothing");

    let wants = submit(&served, "serving", "peak", 4).await;
    assert_eq!(wants.status, 202, "{}", wants.body);
    // The commit that queues the demand requests the reclaim; a worker opens it a moment later.
    let mut found = served.get("/v1/executions?workflow=reclaim").await;
    while items(&found).is_empty() {
        tokio::task::yield_now().await;
        found = served.get("/v1/executions?workflow=reclaim").await;
    }
    let id = items(&found)[0]["id"].as_str().unwrap().to_owned();
    let asks = served.until(&id, |item| item["state"] == "AwaitingApproval").await;
    assert_eq!(
        asks["subject"], "workload/acme/peak",
        "the guard does not allow all of a tenant's GPUs: {asks}"
    );

    let second = json!({ "tenant": ACME, "workload": "peak" });
    let busy = served.json_as(&served.admin, "/v1/reclaims", second).await;
    assert_eq!((busy.status.as_u16(), busy.code()), (409, "execution.busy"), "{}", busy.body);
    assert_eq!(busy.body["execution"], id.as_str());
    let two = json!({ "tenant": ACME, "workload": "peak", "overdue": true });
    assert_eq!(served.json_as(&served.admin, "/v1/reclaims", two).await.code(), "document.invalid");
    let typo = json!({ "tenant": ACME, "overdue": true, "resource": "gpu/A100" });
    let refused = served.json_as(&served.admin, "/v1/reclaims", typo).await;
    assert_eq!(refused.code(), "document.invalid", "{}", refused.body);
    assert!(refused.body["detail"].as_str().unwrap().contains("gpu/A100, only gpu/H100"), "{}", refused.body);
    let nobody = json!({ "tenant": ACME, "workspace": "nosuch", "amount": 1, "resource": "gpu/H100" });
    let refused = served.json_as(&served.admin, "/v1/reclaims:plan", nobody).await;
    assert_eq!(refused.code(), "workspace.unknown", "{}", refused.body);

    let cancel = format!("/v1/executions/{id}:cancel");
    let cancelled = served.json_as(&served.admin, &cancel, json!({ "reason": "a mistake" })).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.body);
    assert_eq!(served.ended(&id).await["reason"], "cancelled");
    assert_eq!(served.get("/v1/workloads/acme/borrows").await.body["state"], "admitted");
}
