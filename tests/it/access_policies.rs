//! Access policies of an operator: they take effect over HTTP at once, are explained, stored and audited. An invalid policy
//! changes nothing.

use crate::{
    denied,
    served::{Ran, Running, Served, tenure},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{fs, process::Stdio, time::Duration};

const NO_FINANCE: &str = "@id(\"house.no-holds-from-here\")\n\
    forbid (principal in Tenure::Role::\"finance\", action == Tenure::Action::\"hold\", resource)\n\
    when { context has from && context.from.isLoopback() };\n";
const NO_DPO: &str = "@id(\"house.no-dpo\")\n\
    forbid (principal in Tenure::Role::\"dpo\", action == Tenure::Action::\"hold\", resource);\n\
    @id(\"house.finance-plans\")\n\
    permit (principal in Tenure::Role::\"finance\", action == Tenure::Action::\"offboard\", resource)\n\
    when { context.plans };\n";

fn hold() -> Value {
    json!({ "tenant": "acme", "id": "h", "kind": "billing", "reason": "open bill" })
}

async fn asked(served: &Served, token: &str) -> (u16, Value) {
    let answer = served.json_as(token, "/v1/holds", hold()).await;
    (answer.status.as_u16(), answer.body)
}

/// Returns the versions that were in force, once there are `many`.
async fn versions(served: &Served, many: usize) -> Vec<Value> {
    for _ in 0..200 {
        let found = served.get("/v1/access-policies").await.body;
        let found = found["items"].as_array().unwrap().clone();
        if found.len() == many {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{}", served.get("/v1/access-policies").await.body);
}

/// Fails unless the audit lists the writing of each of these versions within a deadline.
async fn on_record(served: &Served, versions: impl Iterator<Item = &str>) {
    let mut missing: Vec<String> = versions.map(|version| format!("access-policies/{version}")).collect();
    for _ in 0..200 {
        let audit = served.get("/v1/audit?limit=1000").await.body.to_string();
        missing.retain(|version| !audit.contains(version));
        if missing.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the audit does not tell of {missing:?}");
}

#[tokio::test]
async fn an_access_policy_of_the_operator_takes_effect_at_once_and_is_explained_and_audited() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("house.cedar");
    fs::write(&file, NO_FINANCE).unwrap();
    let served = Served::start_with(&[("TENURE_ACCESS_POLICIES", file.to_str().unwrap())]);
    let finance = served.user("fritz", &["finance"], None).await;
    let dpo = served.user("dora", &["dpo"], None).await;
    let first = versions(&served, 1).await[0]["id"].as_str().unwrap().to_owned();

    let (status, problem) = asked(&served, &finance).await;
    assert_eq!((status, &problem["policies"]), (403, &json!(["house.no-holds-from-here"])), "{problem}");
    assert_eq!(problem["policies_version"], first.as_str());
    let says = "fritz has finance and may not hold: policy house.no-holds-from-here forbids it";
    assert_eq!(problem["detail"], says);
    assert_ne!(asked(&served, &dpo).await.0, 403);
    denied::are_on_record(
        &served,
        [("fritz".into(), "POST /v1/holds".into(), "auth.forbidden".into())].into(),
    )
    .await;
    let told = denied::entries(&served, &served.admin).await;
    assert!(told.iter().any(|entry| entry["reason"] == says), "{told:#?}");

    let explain = |arguments: &[&str]| {
        served.run(&[&["--token", &served.admin, "access", "explain", "-o", "json"], arguments].concat())
    };
    let no = explain(&["hold", "--user", "fritz", "--from", "127.0.0.1"]);
    assert_eq!((no.exit, &no.json()["policies"]), (1, &json!(["house.no-holds-from-here"])), "{no:?}");
    let yes = explain(&["hold", "--user", "fritz", "--from", "192.0.2.7"]);
    assert_eq!((yes.exit, &yes.json()["policies"]), (0, &json!(["finance"])), "{yes:?}");
    let bound = explain(&["hold", "--role", "tenant_owner", "--tenant", "acme"]);
    assert_eq!((bound.exit, bound.json()["why"].as_str()), (1, Some("no policy permits it")), "{bound:?}");
    assert!(bound.json()["may"].as_array().unwrap().contains(&json!("dpo")));
    let strange = explain(&["holt", "--user", "fritz"]);
    assert!(
        strange.exit != 0 && strange.err.contains("did you mean") && strange.err.contains("hold"),
        "{strange:?}"
    );

    // An invalid file changes nothing; a valid one takes effect within a few seconds.
    fs::write(&file, "@id(\"x\") permit (principal, action == Tenure::Action::\"holt\", resource);").unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(asked(&served, &finance).await.0, 403);
    fs::write(&file, NO_DPO).unwrap();
    let both = versions(&served, 2).await;
    assert_ne!(asked(&served, &finance).await.0, 403);
    assert_eq!(asked(&served, &dpo).await.1["policies"], json!(["house.no-dpo"]));
    let now: Vec<_> = both.iter().filter(|one| one["in_force"] == true).collect();
    assert!(now.len() == 1 && now[0]["id"] != first.as_str(), "{both:#?}");
    let before = served.get(&format!("/v1/access-policies/{first}")).await.body;
    assert_eq!((&before["text"], &before["in_force"]), (&json!(NO_FINANCE), &json!(false)));
    let current = served.get("/v1/access-policies/current").await.body;
    assert!(current["text"] == NO_DPO && current["shipped"].as_str().unwrap().contains("tenants.apart"));
    let asks =
        |path: &str| served.ask(Method::POST, path).bearer_auth(&finance).json(&json!({ "tenant": "acme" }));
    assert_eq!(served.send(asks("/v1/offboardings")).await.code(), "auth.forbidden");
    assert_ne!(served.send(asks("/v1/offboardings:plan")).await.status, 403);
    on_record(&served, both.iter().map(|one| one["id"].as_str().unwrap())).await;
}

#[tokio::test]
async fn an_invalid_policy_file_is_reported_by_line_and_stops_the_start_of_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("house.cedar");
    let path = file.to_str().unwrap();
    fs::write(&file, "\n@id(\"x\") permit (principal, action == Tenure::Action::\"holt\", resource);")
        .unwrap();
    let wrong = format!("{path}:2: ");
    let checked = Ran::of(tenure(dir.path()).args(["access", "check", path]));
    assert!(checked.exit == 1 && checked.out.starts_with(&wrong), "{checked:?}");
    let configured =
        Ran::of(tenure(dir.path()).args(["config", "check"]).env("TENURE_ACCESS_POLICIES", path));
    let begun = Ran::of(
        tenure(dir.path())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("TENURE_ACCESS_POLICIES", path)
            .stdin(Stdio::null()),
    );
    for refused in [configured, begun] {
        let named = refused.err.contains("access.policies: ") && refused.err.contains(&wrong);
        assert!(refused.exit == 2 && named && refused.err.contains("did you mean \"hold\"?"), "{refused:?}");
    }
    fs::write(&file, NO_FINANCE).unwrap();
    let checked = Ran::of(tenure(dir.path()).args(["access", "check", path, "-o", "json"]));
    assert!(checked.exit == 0 && checked.json()["valid"] == true, "{checked:?}");
    let schema = Ran::of(tenure(dir.path()).args(["access", "schema"])).out;
    assert!(schema.contains("action \"hold_store\" in [\"change\"]"), "{schema}");
    drop(Running::start(dir.path(), &[("TENURE_ACCESS_POLICIES", path)]));
}
