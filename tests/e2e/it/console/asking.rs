//! Requests in the console: it shows a preview, and sends exactly that request.

use super::{PATIENCE, browser::Browser, pictures, until, waiting};
use reqwest::Method;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::processes::{Caller, Server};

const PLAN: &str = "dialog [data-order=plan]";
const ASK: &str = "dialog button.primary";

#[tokio::test]
async fn tenants_quotas_and_offboardings_are_requested_after_their_plan_was_shown() {
    let dir = tempfile::tempdir().unwrap();
    let Some(browser) = Browser::start(&dir.path().join("profile")).await else {
        return e2e::skipped(
            "chromedriver",
            "tests/servers/prepare.sh installs chromium and chromium-driver",
        );
    };
    let (server, admin) = with_acme(&dir, &browser).await;

    // A tenant. Unreadable input is reported, and the request cannot be sent before its preview.
    browser.go("tenants").await;
    browser.click("[data-order=onboard]").await;
    for (field, value) in [("name", "globex"), ("gpu_model", "H100"), ("gpus", "8")] {
        browser.write(&format!("dialog input[name={field}]"), value).await;
    }
    browser.write("dialog textarea[name=workspaces]", "serving production many").await;
    browser.click(PLAN).await;
    assert!(browser.text("dialog .problem").await.contains("serving production many"));
    browser.write("dialog textarea[name=workspaces]", "serving production 8").await;
    assert_eq!(browser.run(&disabled()).await, json!(true), "without a preview the button is disabled");
    browser.click(PLAN).await;
    assert!(browser.text("dialog .plan").await.contains("namespace"));
    browser.picture(&pictures().join("asking-tenant.png")).await;
    // Another number changes the plan.
    browser.write("dialog input[name=gpus]", "16").await;
    assert_eq!(browser.run(&disabled()).await, json!(true), "the preview was of another request");
    browser.click(PLAN).await;
    asked(&browser).await;
    let globex = begun(&admin, "tenant=globex").await;
    let item = admin.get(&format!("/v1/executions/{globex}")).await;
    assert_eq!(item["requested_by"], "olga", "{item:#}");
    let request = &item["data"]["request"];
    assert_eq!(
        (&request["entitlement"]["gpus"], &request["workspaces"][0]["name"]),
        (&json!(16), &json!("serving")),
        "{item:#}"
    );

    // Another quota of an existing workspace.
    browser.go("tenants/acme").await;
    browser.click("[data-order=quota]").await;
    browser.write("dialog input[name=to]", "12").await;
    browser.write("dialog textarea[name=reason]", "less to do").await;
    browser.click(PLAN).await;
    assert!(browser.text("dialog .plan").await.contains("12"));
    browser.picture(&pictures().join("asking-quota.png")).await;
    asked(&browser).await;
    let change = begun(&admin, "workflow=quota_decrease").await;
    until(&admin, &change, |item| item["open"] == false).await;

    // Offboarding.
    browser.go("tenants/acme").await;
    browser.click("[data-order=leave]").await;
    browser.write("dialog textarea[name=reason]", "moves").await;
    browser.click(PLAN).await;
    assert!(browser.text("dialog .plan").await.contains("n-1"), "its nodes are cleaned");
    browser.picture(&pictures().join("asking-leave.png")).await;
    asked(&browser).await;
    begun(&admin, "workflow=offboarding").await;

    // A user, with a token that is shown once.
    browser.go("system/people").await;
    browser.click("[data-order=user]").await;
    browser.write("dialog input[name=name]", "ada").await;
    browser.click(ASK).await;
    let token = token(&browser).await;
    assert_eq!(admin.get("/v1/users/ada").await["roles"], json!(["platform_ops"]));
    let me = reqwest::Client::new().get(format!("{}/v1/me", server.url())).bearer_auth(token.trim());
    assert_eq!(me.send().await.unwrap().status(), 200, "the token that is shown opens");
    browser.click("dialog button.close").await;

    // Shows if access is allowed, and by which policy.
    browser.go("system/access").await;
    browser.write("form input[name=user]", "ada").await;
    browser.write("form input[name=action]", "manage_users").await;
    browser.click("form button[type=submit]").await;
    let said = browser.text(".answer .preview").await;
    assert!(said.contains("no policy permits it") && said.contains("admin"), "{said}");
    browser.picture(&pictures().join("asking-access.png")).await;

    // Another policy, after it was tested.
    let policy = admin.get("/v1/policies/current").await;
    let version = policy["id"].as_u64().unwrap();
    let text = policy["text"].as_str().unwrap().replacen(
        &format!("version: {version}"),
        &format!("version: {}", version + 1),
        1,
    );
    browser.go("policies").await;
    browser.write("textarea[name=text]", "policy: platform\nversion: none").await;
    browser.click("[data-slot=try] button[type=submit]").await;
    assert!(browser.text("[data-slot=try] .problem").await.contains("version"));
    browser.write("textarea[name=text]", &text).await;
    browser.click("[data-slot=try] button[type=submit]").await;
    browser.click("[data-order=publish]").await;
    browser.write("dialog input[name=confirm]", "publish").await;
    browser.click(ASK).await;
    until_version(&admin, version + 1).await;
    assert_eq!(browser.complaints(&["422"]).await, Vec::<String>::new());
}

/// A server with a tenant in service, and user olga signed in.
async fn with_acme(dir: &tempfile::TempDir, browser: &Browser) -> (Server, Caller) {
    let (server, admin, id) = waiting(dir).await;
    let olga = admin.user("olga", "admin").await;
    let digest = admin.get(&format!("/v1/approvals/{id}")).await["digest"].clone();
    let vote = json!({ "digest": digest, "reason": "capacity is there" });
    let (status, said) =
        olga.call(Method::POST, &format!("/v1/approvals/{id}:approve"), None, Some(vote)).await;
    assert!(status.is_success(), "{said}");
    until(&admin, &id, |item| item["state"] == "Active").await;
    browser.open(&server.url()).await;
    browser.write("input[name=token]", olga.token()).await;
    browser.click("button.primary").await;
    browser.text("[data-slot=left]").await;
    (server, admin)
}

/// Chooses from a list by keyboard.
async fn choose(browser: &Browser, name: &str, value: &str) {
    let script = format!(
        "const list = document.querySelector('dialog select[name={name}]'); list.value = {}; \
         list.dispatchEvent(new Event('input', {{ bubbles: true }})); return list.value",
        json!(value)
    );
    assert_eq!(browser.run(&script).await, json!(value), "{name} lacks this choice");
}

#[tokio::test]
async fn service_levels_shortages_and_incidents_are_requested_after_their_plan_was_shown() {
    let dir = tempfile::tempdir().unwrap();
    let Some(browser) = Browser::start(&dir.path().join("profile")).await else {
        return e2e::skipped(
            "chromedriver",
            "tests/servers/prepare.sh installs chromium and chromium-driver",
        );
    };
    let (server, admin) = with_acme(&dir, &browser).await;

    browser.go("tenants/acme").await;
    browser.click("[data-order=terms]").await;
    choose(&browser, "tier", "standard").await;
    browser.write("dialog textarea[name=reason]", "a new contract").await;
    browser.click(PLAN).await;
    assert!(browser.text("dialog .plan").await.contains("standard"));
    browser.picture(&pictures().join("asking-terms.png")).await;
    asked(&browser).await;
    let change = begun(&admin, "workflow=sla_change").await;
    let request = admin.get(&format!("/v1/executions/{change}")).await["data"]["request"].clone();
    assert_eq!((&request["tier"], &request["isolation"]), (&json!("standard"), &json!(null)), "{request:#}");

    browser.go("fleet").await;
    browser.click("[data-order=short]").await;
    browser.write("dialog input[name=region]", "eu").await;
    browser.write("dialog input[name=model]", "B300").await;
    browser.click(PLAN).await;
    assert!(browser.text("dialog .problem").await.contains("B300"), "B300 is unknown");
    browser.write("dialog input[name=model]", "H100").await;
    browser.click(PLAN).await;
    browser.text("dialog .plan").await;
    browser.picture(&pictures().join("asking-short.png")).await;
    asked(&browser).await;
    begun(&admin, "workflow=capacity_exhaustion").await;

    bill(&browser).await;

    let nodes = admin.get("/v1/nodes?owner=acme").await;
    let node = nodes["items"][0]["id"].as_str().unwrap_or_else(|| panic!("{nodes:#}")).to_owned();
    browser.go(&format!("fleet/nodes/{node}")).await;
    browser.click("[data-order=incident]").await;
    browser.write("dialog textarea[name=evidence]", "XID 79, twice").await;
    browser.click(PLAN).await;
    assert!(browser.text("dialog .plan").await.contains(&node), "the inspected node is the intended one");
    browser.picture(&pictures().join("asking-incident.png")).await;
    asked(&browser).await;
    let incident = begun(&admin, "workflow=incident_response").await;
    let item = admin.get(&format!("/v1/executions/{incident}")).await;
    assert!(item["data"].to_string().contains("XID 79"), "{item:#}");
    assert_eq!(browser.complaints(&["422", "404"]).await, Vec::<String>::new());
    drop(server);
}

/// Downloads the usage statement with prices, and checks that the file equals the server's answer.
async fn bill(browser: &Browser) {
    browser.go("tenants/acme").await;
    browser.run("window.saved = []; URL.createObjectURL = (blob) => { blob.text().then((text) => saved.push(text)); return 'data:,'; }").await;
    browser.click("[data-order=focus]").await;
    let deadline = Instant::now() + PATIENCE;
    while browser.run("return saved.length").await != json!(1) {
        assert!(Instant::now() < deadline, "the file is not saved");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let saved = browser.run("return saved[0]").await;
    assert!(saved.as_str().is_some_and(|text| text.starts_with("BilledCost,")), "{saved}");
}

/// Returns the shown token, once it has replaced the equivalent command.
async fn token(browser: &Browser) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = browser.text("dialog .command pre").await;
        if text.starts_with("tn_") {
            return text;
        }
        assert!(Instant::now() < deadline, "no token is shown: {text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the one matching execution, once it can be found.
async fn begun(admin: &Caller, so: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = admin.all(&format!("/v1/executions?{so}")).await;
        if let [one] = &all[..] {
            return one["id"].as_str().unwrap().to_owned();
        }
        assert!(all.is_empty() && Instant::now() < deadline, "{so}: {all:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until_version(admin: &Caller, version: u64) {
    let deadline = Instant::now() + PATIENCE;
    while admin.get("/v1/policies/current").await["id"] != version {
        assert!(Instant::now() < deadline, "{}", admin.get("/v1/policies/current").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn disabled() -> String {
    format!("return document.querySelector({ASK:?}).disabled")
}

/// Sends the previewed request and follows the link to its execution.
async fn asked(browser: &Browser) {
    browser.text("dialog .plan").await;
    assert_eq!(browser.run(&disabled()).await, json!(false));
    browser.click(ASK).await;
    assert!(!browser.text("main .standing").await.is_empty());
    assert_eq!(browser.count("dialog").await, 0);
}
