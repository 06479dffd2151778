//! Closed tenants over HTTP and the command line: surveys, withdrawals of their certificates, and leftovers.

use crate::served::{NODES, Served, shared};
use serde_json::{Value, json};
use std::{fs, time::Duration};

/// A server with one closed tenant, and the id of its certificate.
async fn closed() -> (Served, String) {
    let served = Served::start_with(&[("TENURE_TRIAL", "true")]);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let onboarding = served.onboard(&shared("acme")).await;
    served.ended(&onboarding).await;
    let leave =
        json!({ "tenant": "acme", "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    let id = served.json_as(&served.admin, "/v1/offboardings", leave).await.id();
    for (names, roles) in
        [(["d1", "o2"], ["dpo", "platform_ops"]), (["c1", "s1"], ["compliance", "security"])]
    {
        for (name, role) in names.iter().zip(roles) {
            let token = served.user(name, &[role], None).await;
            let digest = served.asked(&id).await["waiting_for"]["approval"]["digest"].clone();
            let vote = json!({ "digest": digest, "reason": "the very order 4711" });
            let voted = served.json_as(&token, &format!("/v1/approvals/{id}:approve"), vote).await;
            assert_eq!(voted.status, 200, "{}", voted.body);
        }
        if names[0] == "d1" {
            served.until(&id, |item| item["state"] == "ExportWindow").await;
            let signal = json!({ "signal": "export.confirmed" });
            served.json_as(&served.admin, &format!("/v1/executions/{id}:signal"), signal).await;
            served.until(&id, |item| item["state"] == "AwaitingDestruction").await;
        }
    }
    assert_eq!(served.ended(&id).await["reason"], "completed");
    (served, id)
}

fn row(served: &Served, id: &str) -> Value {
    let rows = served.run(&["certificates", "list", "-o", "json"]).json();
    rows.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone()
}

/// Waits until the tenant's audit contains this text.
async fn audited(served: &Served, text: &str) {
    let mut said = String::new();
    for _ in 0..100 {
        said = served.get("/v1/audit?tenant=acme&order=newest&limit=50").await.body.to_string();
        if said.contains(text) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{text} is not in {said}");
}

#[tokio::test]
async fn every_verifier_with_the_withdrawal_statement_refuses_a_withdrawn_certificate() {
    let (served, id) = closed().await;
    assert_eq!(row(&served, &id)["withdrawn"], false);
    for to in ["acme.json", "other.json"] {
        assert_eq!(served.run(&["certificate", "download", &id, "--to", to]).exit, 0);
    }
    assert_eq!(served.run(&["certificate", "withdrawals", "--to", "none.jsonl"]).exit, 0);
    let holds = served.run(&["certificate", "verify", "acme.json", "--withdrawals", "none.jsonl"]);
    assert_eq!(holds.exit, 0, "{holds:?}");

    let path = format!("/v1/certificates/{id}:withdraw");
    let olga = served.user("olga", &["platform_ops", "compliance", "security", "dpo"], None).await;
    let refused = served.json_as(&olga, &path, json!({ "reason": "mine" })).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (403, "auth.forbidden"), "{}", refused.body);
    let silent = served.json_as(&served.admin, &path, json!({ "reason": " " })).await;
    assert_eq!((silent.status.as_u16(), silent.code()), (422, "request.reason_missing"), "{}", silent.body);
    let found = "objects/eu/Bucket/t-acme--eu was restored";
    let done =
        ["certificate", "withdraw", &id, "--reason", "a backup came back", "--found", found, "-o", "json"];
    let done = served.run(&done);
    assert_eq!((done.exit, &done.json()["withdrawn_by"]), (0, &json!("admin")), "{done:?}");
    let again = served.json_as(&served.admin, &path, json!({ "reason": "once more" })).await;
    assert_eq!((again.status.as_u16(), again.code()), (409, "execution.already"), "{}", again.body);

    let shown = row(&served, &id);
    assert_eq!((&shown["withdrawn"], &shown["withdrawal"]["by"]), (&json!(true), &json!("admin")), "{shown}");
    assert_eq!(served.run(&["certificate", "withdrawals", "--to", "all.jsonl"]).exit, 0);
    assert_eq!(served.run(&["certificate", "withdrawals", &id, "--to", "one.jsonl"]).exit, 0);
    for statements in ["all.jsonl", "one.jsonl"] {
        let refused = served.run(&["certificate", "verify", "acme.json", "--withdrawals", statements]);
        assert!(refused.exit == 1 && refused.out.contains("WITHDRAWN"), "{refused:?}");
        for said in ["admin", "a backup came back", found] {
            assert!(refused.out.contains(said), "{said}: {refused:?}");
        }
    }
    let still = served.run(&["certificate", "verify", "acme.json"]);
    assert_eq!(still.exit, 0, "without the statement the file is the signed one: {still:?}");

    let statement = served.dir.path().join("one.jsonl");
    let damaged = fs::read_to_string(&statement).unwrap().replacen("ewog", "ewoh", 1);
    fs::write(&statement, damaged).unwrap();
    let unsure = served.run(&["certificate", "verify", "acme.json", "--withdrawals", "one.jsonl"]);
    assert!(unsure.exit == 1 && !unsure.out.contains("WITHDRAWN"), "{unsure:?}");

    audited(&served, "a backup came back").await;
}

#[tokio::test]
async fn a_closed_tenant_is_checked_and_without_findings_there_is_nothing_to_offboard() {
    let (served, _) = closed().await;
    let swept = served.run(&["sweep", "run", "drift", "-o", "json"]);
    assert_eq!(swept.exit, 0, "{swept:?}");

    let look = served.run(&["closed-tenants", "show", "acme", "-o", "json"]).json();
    assert_eq!((&look["findings"], &look["unanswered"]), (&json!(0), &json!([])), "{look}");
    assert_eq!(look["complete_at"], look["at"]);
    assert_eq!(served.get("/v1/stuck").await.body["closed_tenants"], json!([]));
    let refused = ["tenant", "offboard", "acme", "--remaining", "--confirm", "acme", "--wait"];
    let refused = served.run(&refused);
    assert!(
        refused.exit != 0 && format!("{refused:?}").contains("nothing remains to offboard"),
        "{refused:?}"
    );
}

/// A reader who has only the old public key accepts the withdrawal that the new key signed.
#[tokio::test]
async fn a_certificate_can_be_withdrawn_after_the_signing_key_was_changed() {
    let (served, id) = closed().await;
    assert_eq!(served.run(&["certificate", "download", &id, "--to", "acme.json"]).exit, 0);
    let old = served.run(&["certificate", "key"]).out;
    fs::write(served.dir.path().join("old.pem"), &old).unwrap();

    let rotated = served.run(&["certificate", "rotate-key", "--reason", "yearly"]);
    assert_eq!(rotated.exit, 0, "{rotated:?}");
    assert_ne!(served.run(&["certificate", "key"]).out, old);
    let withdrawn = served.run(&["certificate", "withdraw", &id, "--reason", "a backup came back"]);
    assert_eq!(withdrawn.exit, 0, "{withdrawn:?}");

    for list in [
        vec!["certificate", "withdrawals", "--to", "all.jsonl"],
        vec!["certificate", "withdrawals", &id, "--to", "all.jsonl"],
    ] {
        assert_eq!(served.run(&list).exit, 0);
        let verify = ["certificate", "verify", "acme.json", "--key", "old.pem", "--withdrawals", "all.jsonl"];
        let refused = served.run(&verify);
        assert!(refused.exit == 1 && refused.out.contains("WITHDRAWN"), "{refused:?}");
    }
    let own = served.run(&["certificate", "verify", "acme.json"]);
    assert_eq!(own.exit, 0, "the data folder trusts its earlier keys: {own:?}");
}
