//! The API server dies at the worst moments.

use super::{
    objects::free_epoch,
    queues::Controller,
    server::{differences, world},
    steps::{NODE, Pair, Stage, namespace, onboarding},
};
use engine::Class;
use std::time::Duration;
use tests::actions::pairs::Deed;
use workflows::platform::codes;

/// S3. Killed during every step and every undo, at varying moments, and restarted: everything is done once, and everything is
/// undone.
#[tokio::test(flavor = "multi_thread")]
async fn every_step_survives_a_crash_of_the_api_server() {
    let Some(world) = world().await else { return };
    let _kueue = Controller::beside(&world);
    world.node(NODE).await;
    let stage = Stage::new(&world).await;
    let epoch = free_epoch(&world).await;
    let (before, pairs) = (world.snapshot().await, onboarding("outage", epoch));
    let mut seen: Vec<String> = Vec::new();
    let mut moment = 0;
    let mut deeds: Vec<(&str, &dyn Deed, bool)> = Vec::new();
    deeds.extend(pairs.iter().map(|Pair { step, act, .. }| (*step, act.as_ref(), false)));
    deeds.extend(pairs.iter().rev().map(|Pair { step, undo, .. }| (*step, undo.as_ref(), true)));

    for (step, deed, undo) in deeds {
        moment = (moment + 7) % 30;
        let killing = async {
            tokio::time::sleep(Duration::from_millis(moment)).await;
            world.kill().await;
        };
        let (met, ()) = tokio::join!(stage.once(deed, step, undo), killing);
        if let Err(error) = met {
            assert_ne!(error.class, Class::Permanent, "{step} (undo {undo}): {error}");
            seen.push(error.code);
        }
        let down = stage.once(deed, step, undo).await;
        if let Err(error) = down {
            assert_eq!((error.code.as_str(), error.class), (codes::UNAVAILABLE, Class::Transient), "{error}");
        }
        world.start().await;
        stage.done(deed, step, undo).await;
    }

    println!("met in the middle: {seen:?}");
    let gone = format!("/api/v1/namespaces/{}", namespace("outage"));
    assert!(world.get(&gone).await.is_none());
    let mut left = differences(&before, &world.snapshot().await);
    // An API server registers its groups again when it starts.
    left.retain(|line| !line.contains("/apiservices "));
    assert!(left.len() == 1 && left[0].contains("spent-epoch"), "{left:#?}");
}
