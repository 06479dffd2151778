//! Checks of closed tenants with slow sources.

use super::*;
use crate::platform::SYSTEMS;
use std::time::Duration;

#[tokio::test]
async fn a_source_that_was_silent_for_two_tenants_is_skipped_and_reported_for_each_tenant() {
    let first = closed().decide(|view| ClosedTenant::read(view, &tenant())).unwrap();
    let named = |name: &str| {
        let mut named = first.clone();
        named.tenant = name.parse().unwrap();
        named
    };
    let (none, when) = (BTreeSet::new(), (at(2), LOOK_WITHIN));
    let mut outside = Outside::with([There::new(BUCKET)]);
    outside.silent.insert(("objects".into(), "platform"));
    let mut silent = SilentSources::default();
    ask(&outside, &first, &none, when, &mut silent).await;

    let answering = Outside::with([There::new(BUCKET)]);
    let other = ask(&answering, &named("other"), &none, when, &mut silent).await;
    assert!(other.unanswered.is_empty(), "one tenant may be slow");
    ask(&outside, &named("second"), &none, when, &mut silent).await;
    let third = ask(&answering, &named("third"), &none, when, &mut silent).await;

    assert_eq!(third.unanswered.len(), 1);
    assert!(!third.surveyed.contains("objects"));
}

#[tokio::test]
async fn a_source_that_is_not_queried_in_time_is_unanswered() {
    let closed = closed().decide(|view| ClosedTenant::read(view, &tenant())).unwrap();
    let names = BTreeSet::from([thing(BUCKET)]);
    let when = (at(2), Duration::ZERO);

    let late = ask(&Outside::default(), &closed, &names, when, &mut SilentSources::default()).await;

    assert!(late.surveyed.is_empty() && late.absent.is_empty());
    assert_eq!(late.unanswered.len(), 2 * SYSTEMS.len(), "each system with each credential");
}
