//! A call whose lease has expired, or whose caller has gone.

use super::{Case, case};
use crate::kit::{
    Trouble,
    bench::{Bench, Ended, broken, coded, failure, holds, permanent},
};
use std::time::Duration;
use store::Epoch;
use workflows::platform::{CallMetadata, codes};

pub(super) const CASES: &[Case] = &[
    case("fence.make", "an earlier holder of a step creates nothing after a later one", |b| {
        Box::pin(make(b))
    }),
    case("fence.change", "an earlier holder of a step changes nothing after a later one", |b| {
        Box::pin(change(b))
    }),
    case("fence.remove", "an earlier holder of a step removes nothing after a later one", |b| {
        Box::pin(remove(b))
    }),
    case("fence.undone", "an earlier holder of a step does not create an undone object again", |b| {
        Box::pin(undone(b))
    }),
    case("fence.equal", "the current holder of a step can continue", |b| Box::pin(equal(b))),
    case("fence.per_step", "epochs of different steps are not compared", |b| Box::pin(per_step(b))),
    case("cancel.make", "the repeat of a creation aborted in flight completes it once", |b| {
        Box::pin(cancel_make(b))
    }),
    case("cancel.change", "the repeat of a change aborted in flight completes it once", |b| {
        Box::pin(cancel_change(b))
    }),
    case("cancel.remove", "the repeat of a removal aborted in flight completes it", |b| {
        Box::pin(cancel_remove(b))
    }),
    case("cancel.ends", "no request or process continues after an aborted call", |b| {
        Box::pin(cancel_ends(b))
    }),
];

fn at(stamp: CallMetadata, epoch: u64) -> CallMetadata {
    CallMetadata { epoch: Epoch(epoch), ..stamp }
}

async fn make(b: &Bench<'_>) -> Ended {
    let (stamp, other) = (b.stamp("make"), b.other());
    let newer = b.make(5, &at(stamp.clone(), 9)).await;
    newer.map_err(|e| broken(format!("making it failed: {e}")))?;
    let late = b.subject.make(&other, 6, &at(stamp.for_part("other"), 3)).await;
    let error = failure(late)?;
    permanent(&error)?;
    coded(&error, &[codes::FENCED])?;
    let stands = b.subject.really(&other).await;
    holds(stands.is_none(), || format!("a late call created one with {stands:?}"))?;
    b.really(Some(5)).await
}

async fn change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let stamp = b.stamp("change");
    let newer = b.change(5, 9, &at(stamp.clone(), 9)).await;
    newer.map_err(|e| broken(format!("changing it failed: {e}")))?;
    let error = failure(b.change(9, 12, &at(stamp.for_part("late"), 3)).await)?;
    permanent(&error)?;
    coded(&error, &[codes::FENCED])?;
    b.really(Some(9)).await
}

async fn remove(b: &Bench<'_>) -> Ended {
    let stamp = b.stamp("make");
    let made = b.make(5, &at(stamp.clone(), 9)).await;
    let made = made.map_err(|e| broken(format!("making it failed: {e}")))?;
    let late = b.subject.remove(&b.thing, &made, &at(b.undo("make"), 3)).await;
    let error = failure(late)?;
    permanent(&error)?;
    coded(&error, &[codes::FENCED])?;
    b.really(Some(5)).await
}

async fn undone(b: &Bench<'_>) -> Ended {
    let stamp = b.stamp("make");
    let made = b.make(5, &at(stamp.clone(), 3)).await;
    let made = made.map_err(|e| broken(format!("making it failed: {e}")))?;
    b.removed(&made, &at(b.undo("make"), 9)).await?;
    // An answer and a refusal are both allowed, as long as nothing is made.
    let _answer = b.make(5, &at(stamp, 3)).await;
    b.really(None).await
}

async fn equal(b: &Bench<'_>) -> Ended {
    let stamp = at(b.stamp("make"), 7);
    b.make(5, &stamp).await.map_err(|e| broken(format!("making it failed: {e}")))?;
    let changed = b.change(5, 9, &stamp.for_part("change")).await;
    changed.map_err(|e| broken(format!("the same holder was refused: {e}")))?;
    b.really(Some(9)).await
}

async fn per_step(b: &Bench<'_>) -> Ended {
    b.make(5, &at(b.stamp("make"), 9)).await.map_err(|e| broken(format!("making it failed: {e}")))?;
    let changed = b.change(5, 9, &at(b.stamp("change"), 1)).await;
    changed.map_err(|e| broken(format!("another step was refused: {e}")))?;
    b.really(Some(9)).await
}

/// How long an abandoned call takes to begin, and when it is abandoned.
const SLOW: Duration = Duration::from_millis(400);
const GIVEN_UP: Duration = Duration::from_millis(120);

async fn cancel_make(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Slow(SLOW)).await?;
    let _given_up = tokio::time::timeout(GIVEN_UP, b.make(5, &b.stamp("make"))).await;
    b.trouble(Trouble::Calm).await?;
    let made = b.make(5, &b.stamp("make")).await;
    let made = made.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    tokio::time::sleep(SLOW).await;
    let seen = b.there().await?;
    holds(made.uid == seen.uid, || format!("the repeat answered {made:?} and there is {seen:?}"))?;
    b.really(Some(5)).await
}

async fn cancel_change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.trouble(Trouble::Slow(SLOW)).await?;
    let _given_up = tokio::time::timeout(GIVEN_UP, b.change(5, 9, &b.stamp("change"))).await;
    b.trouble(Trouble::Calm).await?;
    let changed = b.change(5, 9, &b.stamp("change")).await;
    changed.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    b.really(Some(9)).await
}

async fn cancel_remove(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    b.trouble(Trouble::Slow(SLOW)).await?;
    let stamp = b.stamp("remove");
    let _given_up = tokio::time::timeout(GIVEN_UP, b.subject.remove(&b.thing, &made, &stamp)).await;
    b.trouble(Trouble::Calm).await?;
    b.removed(&made, &b.stamp("remove")).await
}

async fn cancel_ends(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Slow(SLOW)).await?;
    let _given_up = tokio::time::timeout(GIVEN_UP, b.make(5, &b.stamp("make"))).await;
    tokio::time::sleep(SLOW * 2).await;
    b.trouble(Trouble::Calm).await?;
    // The call was slow before its effect: the caller that gave up cancelled it, so it has no effect later.
    b.really(None).await
}
