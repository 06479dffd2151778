//! The console in a browser: an operator signs in, approves a tenant, and visits every page.

mod asking;
mod browser;
mod live;
mod newcomer;
mod signin;

use browser::Browser;
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tests::processes::{Caller, Server};

const TENURE: &str = env!("CARGO_BIN_EXE_tenure-on-real-servers");

/// How long a page, or an onboarding on the simulated platform, may take; a browser is slow on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that needs an approval.
const ACME: &str = "name: acme\ntenant:\n  tier: enterprise\n  isolation: dedicated\n  data_residency: eu-only\n  \
                    allow_preemption: false\n  allow_gpu_sharing: false\nentitlement:\n  gpu_model: H100\n  gpus: 16\n";

/// Every page that needs no id.
const PAGES: [&str; 22] = [
    "",
    "approvals",
    "approvals?show=all",
    "stuck",
    "executions",
    "executions?filter=open",
    "fleet",
    "fleet?by=use",
    "fleet?view=list",
    "borrowing",
    "workloads",
    "tenants",
    "tenants/acme",
    "certificates",
    "schedules",
    "schedules/reclaim",
    "policies",
    "audit?tenant=acme",
    "system",
    "system/limits",
    "system/people",
    "system/access",
];

/// A server with nodes and an onboarding that waits for approval; returns the requester and the execution.
async fn waiting(dir: &tempfile::TempDir) -> (Server, Caller, String) {
    let server = Server::start_with(TENURE.as_ref(), &dir.path().join("data"), None, Vec::new());
    let admin = server.caller(&server.admin());
    let rows: String = (1..=8).map(|node| format!("n-{node},96000,786432,8,H100\n")).collect();
    sent(
        &server,
        "/v1/fleet:import?cluster=eu-1&region=eu",
        "text/csv",
        &format!("sn,cpu_milli,memory_mib,gpu,model\n{rows}"),
    )
    .await;
    let started = sent(&server, "/v1/tenants", "application/yaml", ACME).await;
    let id = started["id"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    until(&admin, &id, |item| item["state"] == "AwaitingApproval").await;
    (server, admin, id)
}

async fn sent(server: &Server, path: &str, media: &str, body: &str) -> Value {
    let request = reqwest::Client::new().post(format!("{}{path}", server.url())).bearer_auth(server.admin());
    let answer = request.header("content-type", media).body(body.to_owned()).send().await.unwrap();
    let text = answer.error_for_status().unwrap().text().await.unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the execution once it matches.
async fn until(caller: &Caller, id: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let item = caller.get(&format!("/v1/executions/{id}")).await;
        if so(&item) {
            return item;
        }
        assert!(Instant::now() < deadline, "{item:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The folder for screenshots of the pages.
fn pictures() -> PathBuf {
    let dir = PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/console"));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[tokio::test]
async fn an_operator_signs_in_approves_a_tenant_and_opens_every_page_without_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let Some(browser) = Browser::start(&dir.path().join("profile")).await else {
        return e2e::skipped(
            "chromedriver",
            "tests/servers/prepare.sh installs chromium and chromium-driver",
        );
    };
    let (server, admin, id) = waiting(&dir).await;
    let olga = admin.user("olga", "admin").await;

    browser.open(&server.url()).await;
    assert!(
        browser.text("main").await.contains("admin.token"),
        "the first page names the file of the first token"
    );
    browser.write("input[name=token]", "tn_wrong").await;
    browser.click("button.primary").await;
    assert!(browser.text(".problem").await.contains("auth.bad_token"), "a refusal is shown");
    browser.write("input[name=token]", olga.token()).await;
    browser.click("button.primary").await;
    assert!(browser.text("[data-slot=left]").await.contains("onboard acme: 16 H100"), "it waits for olga");

    browser.press("ga").await;
    browser.click("[data-slot=inbox] a").await;
    assert!(browser.text(".plan").await.contains("namespace"), "the plan lists the created objects");
    browser.write("textarea[name=reason]", "capacity is there").await;
    browser.click("[data-verb=approve]").await;
    let item = until(&admin, &id, |item| item["state"] == "Active").await;
    assert_eq!(item["authorisation"]["by"]["people"], json!(["olga"]), "{item:#}");
    let approval = admin.get(&format!("/v1/approvals/{id}")).await;
    assert_eq!(approval["votes"][0]["reason"], "capacity is there", "{approval:#}");

    browser.go(&format!("executions/{id}")).await;
    assert!(browser.text(".standing").await.contains("Active"));
    assert!(browser.count(".machine .current").await == 1 && browser.count(".edge.taken").await > 10);
    // Text of users is shown as text, also if it looks like markup.
    let reason = "<img src=x onerror=\"document.title='taken'\">";
    let hold = json!({ "tenant": "acme", "id": "case-9", "kind": "legal", "reason": reason });
    let (status, said) = admin.call(Method::POST, "/v1/holds", None, Some(hold)).await;
    assert!(status.is_success(), "{said}");
    browser.go("tenants/acme").await;
    assert!(browser.text("main").await.contains(reason));
    assert_eq!(browser.count("main img").await, 0);
    look(&browser, &["executions".to_owned() + "/" + &id, format!("approvals/{id}")]).await;
    assert_eq!(browser.complaints(&["tn_wrong", "401"]).await, Vec::<String>::new());
    drop(server);
}

/// Visits every page, light and dark, wide and narrow: nothing is missing, refused or wider than the screen.
async fn look(browser: &Browser, more: &[String]) {
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")] {
        browser.wear(width, scheme).await;
        for page in PAGES.iter().map(|page| (*page).to_owned()).chain(more.iter().cloned()) {
            browser.go(&page).await;
            assert_eq!(browser.count("main h1").await, 1, "{page}");
            assert_eq!(browser.count(".problem").await, 0, "{page}: {}", browser.text("main").await);
            let beyond = browser.run("return document.documentElement.scrollWidth - innerWidth").await;
            assert!(beyond.as_i64().unwrap_or(1) <= 0, "{page} is wider than {width} pixels by {beyond}");
            let name = page.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            browser.picture(&pictures().join(format!("{name}-{width}-{scheme}.png"))).await;
        }
    }
}
