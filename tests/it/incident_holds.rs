//! An incident of a tenant places a hold or stops: it never continues without its hold.

use crate::domain_http::{ACME, items, with_acme};
use crate::served::Served;
use serde_json::{Value, json};

impl Served {
    /// Reports a breach of isolation, with additional fields.
    async fn breach(&self, more: Value) -> String {
        let mut report = json!({ "kind": "isolation_breach", "tenants": [ACME] });
        report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let begun = self.json_as(&self.admin, "/v1/incidents", report).await;
        assert_eq!(begun.status, 202, "{}", begun.body);
        begun.id()
    }

    async fn leave(&self) -> String {
        let leave =
            json!({ "tenant": ACME, "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
        let started = self.json_as(&self.admin, "/v1/offboardings", leave).await;
        assert_eq!(started.status, 202, "{}", started.body);
        started.id()
    }

    async fn contains(&self, incident: &str) -> String {
        let shown = self.get(&format!("/v1/approvals/{incident}")).await.body;
        shown["plan"]["decides"]["contains"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
    }
}

#[tokio::test]
async fn an_incident_without_collected_evidence_blocks_the_destruction_of_its_tenant() {
    for (evidence, kept) in [("", "no evidence was given"), (" \n ", "no evidence"), ("XYZ", "XYZ")] {
        let served = with_acme().await;
        let incident = served.breach(json!({ "evidence": evidence })).await;
        served.asked(&incident).await;

        let held = served.get("/v1/holds?tenant=acme").await;
        let hold = &items(&held)[0];
        assert_eq!(hold["id"], format!("{ACME}/incident-{incident}"), "{}", held.body);
        let reason = hold["reason"].as_str().unwrap();
        assert!(reason.contains(&incident) && reason.contains("isolation_breach"), "{reason}");
        assert!(reason.contains(kept), "{reason}");
        let contains = served.contains(&incident).await;
        let named =
            format!("nothing of {ACME} is destroyed while hold {ACME}/incident-{incident} is in force");
        assert!(contains.contains(&named), "{contains}");

        let leaving = served.leave().await;
        let item = served.until(&leaving, |item| item["state"] == "Held").await;
        assert_eq!(item["open"], true, "{item}");
    }
}

/// A hundred holds are the limit: the next one is refused, whatever its reason.
#[tokio::test]
async fn an_incident_whose_hold_cannot_be_placed_is_parked_and_goes_on_once_it_can() {
    let served = with_acme().await;
    for n in 0..100 {
        let hold = json!({ "tenant": ACME, "id": format!("bill-{n}"), "kind": "billing", "reason": "open" });
        assert_eq!(served.json_as(&served.admin, "/v1/holds", hold).await.status, 201);
    }
    let incident = served.breach(json!({})).await;
    let item = served.until(&incident, |item| item["phase"] == "parked").await;
    assert_eq!((&item["state"], &item["reason"]), (&json!("PlacingHolds"), &json!("protection_failed")));
    let stuck = served.run(&["stuck", "-o", "json"]);
    assert!(stuck.out.contains("protection_failed") && stuck.out.contains("hold.refused"), "{stuck:?}");

    let dora = served.user("dora", &["dpo"], None).await;
    let settled = json!({ "reason": "paid" });
    assert_eq!(served.json_as(&dora, "/v1/holds/acme/bill-7:release", settled).await.status, 200);
    let retry = format!("/v1/executions/{incident}:retry");
    let again = served.json_as(&served.admin, &retry, json!({ "reason": "there is room" })).await;
    assert!(again.status.is_success(), "{}", again.body);

    served.asked(&incident).await;
    assert_eq!(served.get(&format!("/v1/holds/acme/incident-{incident}")).await.status, 200);
    assert!(served.contains(&incident).await.contains("is destroyed while hold"));
}

/// The reporter of an incident owns its hold, whatever detector they name.
#[tokio::test]
async fn the_reporter_of_an_incident_cannot_release_its_hold() {
    let served = with_acme().await;
    let incident = served.breach(json!({ "detector": "dcgm" })).await;
    served.asked(&incident).await;

    let release = format!("/v1/holds/acme/incident-{incident}:release");
    let own = served.json_as(&served.admin, &release, json!({ "reason": "over" })).await;
    assert_eq!((own.status.as_u16(), own.code()), (403, "hold.own"), "{}", own.body);
    let dora = served.user("dora", &["dpo"], None).await;
    let done = served.json_as(&dora, &release, json!({ "reason": "over" })).await;
    assert_eq!(done.status, 200, "{}", done.body);
}

/// Each incident has its own hold, also if an earlier one had the same subject.
#[tokio::test]
async fn a_second_incident_about_the_same_asset_has_its_own_hold() {
    let served = with_acme().await;
    let first = served.breach(json!({})).await;
    served.asked(&first).await;
    let cancel = format!("/v1/executions/{first}:cancel");
    let taken_back = served.json_as(&served.admin, &cancel, json!({ "reason": "a false alarm" })).await;
    assert!(taken_back.status.is_success(), "{}", taken_back.body);
    served.ended(&first).await;

    let second = served.breach(json!({ "evidence": "a packet" })).await;
    served.asked(&second).await;

    assert_eq!(items(&served.get("/v1/holds?tenant=acme").await).len(), 2);
}

/// An offboarding that waits for a hold, and a hold that is due for review, are listed as stuck.
#[tokio::test]
async fn a_held_offboarding_and_a_due_review_are_listed_as_stuck_and_measured() {
    let served = with_acme().await;
    let hold = |id: &str, review: &str| json!({ "tenant": ACME, "id": id, "kind": "legal", "reason": "a claim", "review_at": review });
    let past = served.json_as(&served.admin, "/v1/holds", hold("case-1", "2020-01-01T00:00:00.000Z")).await;
    assert_eq!(past.status, 422, "{}", past.body);
    assert!(past.body["detail"].as_str().unwrap().contains("review_at"), "{}", past.body);
    let soon = workflows::signing::Moment::from(store::Timestamp(
        u64::try_from(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis(),
        )
        .unwrap()
            + 1_000,
    ));
    let placed = served.json_as(&served.admin, "/v1/holds", hold("case-1", &soon.to_string())).await;
    assert_eq!(placed.status, 201, "{}", placed.body);
    let leave =
        json!({ "tenant": ACME, "basis": "erasure_request", "reference": "mail 7", "reason": "moves" });
    let started = served.json_as(&served.admin, "/v1/offboardings", leave).await;
    served.until(&started.id(), |item| item["state"] == "Held").await;
    std::thread::sleep(std::time::Duration::from_millis(1_100));

    let stuck = served.get("/v1/stuck").await.body;
    let reasons: Vec<_> = stuck["holds"].as_array().unwrap().iter().map(|row| &row["reason"]).collect();
    assert_eq!(reasons, ["hold_review_due", "offboarding_held"], "{stuck}");
    assert!(stuck["holds"][1]["message"].as_str().unwrap().contains("acme/case-1"), "{stuck}");
    let listed = served.run(&["stuck"]);
    assert!(listed.out.contains("hold_review_due") && listed.out.contains("offboarding_held"), "{listed:?}");
    let metrics = served.get("/metrics").await.body.to_string();
    assert!(metrics.contains("tenure_holds_review_due 1"), "{metrics}");
    assert!(metrics.contains("tenure_offboardings_held 1"), "{metrics}");
    let ran = served.json_as(&served.admin, "/v1/sweeps/reclaim:run", json!({})).await;
    assert_eq!(ran.status, 200, "{}", ran.body);
}

#[tokio::test]
async fn a_misspelt_asset_is_refused_with_similar_names() {
    let served = with_acme().await;
    let typo = "bucket:objects/eu/Bucket/t-acme--ue";
    let hold = json!({ "tenant": ACME, "id": "case-1", "kind": "legal", "reason": "a claim", "asset": typo });
    let said = json!({ "tenant": ACME, "asset": typo, "class": "workload", "reason": "it is" });
    for (path, body) in [("/v1/holds", hold.clone()), ("/v1/classifications", said)] {
        let refused = served.json_as(&served.admin, path, body).await;
        assert_eq!(refused.status, 422, "{}", refused.body);
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.starts_with("asset: ") && detail.contains("did you mean"), "{detail}");
        assert_eq!(refused.body["nearest"][0], "bucket:objects/eu/Bucket/t-acme--eu", "{}", refused.body);
    }
    let mut right = hold;
    right["asset"] = json!("bucket:objects/eu/Bucket/t-acme--eu");
    assert_eq!(served.json_as(&served.admin, "/v1/holds", right).await.status, 201);
}
