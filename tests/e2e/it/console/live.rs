//! Live updates of the console: the page follows events, and does not move the element that a user works on.

use super::{browser::Browser, until, waiting};
use serde_json::json;
use std::time::{Duration, Instant};

/// How soon a page shows an event; without a stream it would poll every 3 to 15 s.
const SOON: Duration = Duration::from_secs(3);

/// Waits until the script returns true in the page.
async fn shows(browser: &Browser, script: &str, within: Duration) {
    let deadline = Instant::now() + within;
    while browser.run(script).await != json!(true) {
        assert!(Instant::now() < deadline, "{script}: {}", browser.text("body").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_page_updates_live_and_keeps_the_focus() {
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
    browser.write("input[name=token]", olga.token()).await;
    browser.click("button.primary").await;
    browser.text("[data-slot=left]").await;

    browser.go("executions?open=true").await;
    let live = "return document.querySelector('#live .live')?.innerText === 'live'";
    shows(&browser, live, SOON).await;
    // Long enough for the slow polling interval.
    tokio::time::sleep(Duration::from_secs(8)).await;
    let focus = "const link = document.querySelector('#main [data-row] a, #main tbody a'); link.focus(); \
                 window.before = link; return link.href";
    let href = browser.run(focus).await;
    let order = json!({ "reason": "tea" });
    let (status, said) = admin
        .call(reqwest::Method::POST, &format!("/v1/executions/{id}:pause"), None, Some(order.clone()))
        .await;
    assert!(status.is_success(), "{said}");
    shows(&browser, "return document.querySelector('#main').innerText.includes('paused')", SOON).await;
    let kept = "return document.activeElement === window.before && document.activeElement.href";
    assert_eq!(browser.run(kept).await, href, "the row stays in place, and its link keeps the focus");

    browser.go(&format!("executions/{id}")).await;
    shows(&browser, live, SOON).await;
    shows(&browser, "return document.querySelector('#main .standing').innerText.includes('paused')", SOON)
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (status, said) =
        admin.call(reqwest::Method::POST, &format!("/v1/executions/{id}:resume"), None, Some(order)).await;
    assert!(status.is_success(), "{said}");
    shows(&browser, "return !document.querySelector('#main .standing').innerText.includes('paused')", SOON)
        .await;

    browser.go("fleet").await;
    // Nodes have no stream, and the page says that it polls.
    shows(&browser, "return document.querySelector('#live .live')?.innerText === 'asking'", SOON).await;
    until(&admin, &id, |item| item["state"] == "AwaitingApproval").await;
    assert_eq!(browser.complaints(&[]).await, Vec::<String>::new());
    drop(server);
    shows(
        &browser,
        "return document.querySelector('#live .live').innerText.startsWith('no answer')",
        SOON * 6,
    )
    .await;
}
