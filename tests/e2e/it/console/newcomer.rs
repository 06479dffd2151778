//! The tutorial as a newcomer types it, with the approval in the console.

use super::{PATIENCE, TENURE, browser::Browser};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use tests::newcomer::{Newcomer, WITHIN, Walk};

/// The commands that the tutorial gives to readers of the command line.
const BY_COMMAND: &str =
    r#"tenure --token "$(cat olga.token)" approvals approve "$ASKED" --reason "capacity is there""#;
/// Waits while the reader works in the console.
const WAITS: &str = r#"touch asked; while tenure approvals list | grep -q "$ASKED"; do sleep 0.2; done"#;
/// Copy a token, open a page, read a plan, type a reason, click a button: six actions, ten seconds each.
const BY_HAND: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_newcomer_who_approves_in_the_console_finishes_within_ten_minutes() {
    let profile = tempfile::tempdir().unwrap();
    let Some(browser) = Browser::start(profile.path()).await else {
        return e2e::skipped(
            "chromedriver",
            "tests/servers/prepare.sh installs chromium and chromium-driver",
        );
    };
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tutorial.md")).unwrap();
    let walk = Walk::of(&page);
    assert!(walk.script.contains(BY_COMMAND), "the tutorial has other commands");
    let script = walk.script.replace(BY_COMMAND, WAITS);
    let mut newcomer = Newcomer::begins(&script, Path::new(TENURE));

    let asked = newcomer.dir().join("asked");
    let deadline = Instant::now() + PATIENCE;
    while !asked.exists() {
        let so_far = fs::read_to_string(newcomer.dir().join("said.txt")).unwrap_or_default();
        assert!(Instant::now() < deadline, "{so_far}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let token = fs::read_to_string(newcomer.dir().join("olga.token")).unwrap();
    browser.open(&newcomer.url).await;
    browser.write("input[name=token]", token.trim()).await;
    browser.click("button.primary").await;
    // Keys work only in the console, which appears after the sign-in.
    browser.text("[data-slot=figures]").await;
    browser.press("ga").await;
    browser.click("[data-slot=inbox] a").await;
    assert!(browser.text(".plan").await.contains("globex"), "the plan of the tutorial");
    browser.write("textarea[name=reason]", "capacity is there").await;
    browser.click("[data-verb=approve]").await;

    let said = tokio::task::spawn_blocking(move || newcomer.ended()).await.unwrap();
    assert!(said.contains("Active (finished): completed"), "{said}");
    assert!(walk.told(&said, BY_HAND) < WITHIN);
}
