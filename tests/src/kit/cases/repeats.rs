//! Repeated calls.

use super::{Case, case};
use crate::kit::bench::{Bench, Ended, broken, coded, failure, holds, permanent};
use engine::ActionError;
use store::Epoch;
use workflows::platform::{CallMetadata, FoundObject, codes};

pub(super) const CASES: &[Case] = &[
    case("repeat.make", "a repeated creation gives the same answer and creates nothing more", |b| {
        Box::pin(make(b))
    }),
    case(
        "repeat.make_later",
        "a later attempt with a greater epoch finds the object of the earlier one",
        |b| Box::pin(make_later(b)),
    ),
    case("repeat.make_equal", "an equal object of another step keeps its mark", |b| Box::pin(make_equal(b))),
    case("repeat.make_unequal", "a different object is rejected and unchanged", |b| {
        Box::pin(make_unequal(b))
    }),
    case("repeat.make_old", "a creation repeated after a later change does not revert the change", |b| {
        Box::pin(make_old(b))
    }),
    case("repeat.key_reused", "one key for two different objects does not damage the second one", |b| {
        Box::pin(key_reused(b))
    }),
    case("repeat.change", "a repeated change gives the same answer and changes nothing more", |b| {
        Box::pin(change(b))
    }),
    case("repeat.change_by_other", "the same change by another step is rejected as outdated", |b| {
        Box::pin(change_by_other(b))
    }),
    case("repeat.remove", "a repeated removal succeeds", |b| Box::pin(remove(b))),
    case("repeat.undo", "a repeated undo changes nothing more", |b| Box::pin(undo(b))),
];

fn same(first: &FoundObject, second: Result<FoundObject, ActionError>) -> Ended {
    let second = second.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    let same = second.uid == first.uid && second.step == first.step && second.tenant == first.tenant;
    holds(same, || format!("the first answer was {first:?} and the second is {second:?}"))
}

async fn make(b: &Bench<'_>) -> Ended {
    let first = b.made(5).await?;
    same(&first, b.make(5, &b.stamp("make")).await)?;
    b.really(Some(5)).await
}

async fn make_later(b: &Bench<'_>) -> Ended {
    let first = b.made(5).await?;
    let later = CallMetadata { epoch: Epoch(200), ..b.stamp("make") };
    same(&first, b.make(5, &later).await)?;
    b.really(Some(5)).await
}

async fn make_equal(b: &Bench<'_>) -> Ended {
    let first = b.made(5).await?;
    same(&first, b.make(5, &b.stamp("other")).await)?;
    b.really(Some(5)).await
}

async fn make_unequal(b: &Bench<'_>) -> Ended {
    let first = b.made(5).await?;
    let error = failure(b.make(7, &b.stamp("other")).await)?;
    permanent(&error)?;
    coded(&error, &[codes::OBJECT_FOREIGN])?;
    b.really(Some(5)).await?;
    same(&first, Ok(b.there().await?))
}

async fn make_old(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let changed = b.change(5, 9, &b.stamp("change")).await;
    changed.map_err(|e| broken(format!("changing it failed: {e}")))?;
    // The old answer and a refusal are both allowed.
    let _answer = b.make(5, &b.stamp("make")).await;
    b.really(Some(9)).await
}

async fn key_reused(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let other = b.other();
    let error = failure(b.subject.make(&other, 6, &b.stamp("make")).await)?;
    coded(&error, &[codes::KEY_REUSED])?;
    b.really(Some(5)).await?;
    let stands = b.subject.really(&other).await;
    holds(stands.is_none(), || format!("the second call created one with {stands:?}"))
}

async fn change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let stamp = b.stamp("change");
    let first = b.change(5, 9, &stamp).await.map_err(|e| broken(format!("changing it failed: {e}")))?;
    same(&first, b.change(5, 9, &stamp).await)?;
    b.really(Some(9)).await
}

async fn change_by_other(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let changed = b.change(5, 9, &b.stamp("change")).await;
    changed.map_err(|e| broken(format!("changing it failed: {e}")))?;
    let error = failure(b.change(5, 12, &b.stamp("other")).await)?;
    coded(&error, &[codes::OBJECT_CHANGED])?;
    b.really(Some(9)).await
}

async fn remove(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    let stamp = b.stamp("remove");
    b.removed(&made, &stamp).await?;
    let again = b.subject.remove(&b.thing, &made, &stamp).await;
    again.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    b.really(None).await
}

async fn undo(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let changed = b.change(5, 9, &b.stamp("change")).await;
    changed.map_err(|e| broken(format!("changing it failed: {e}")))?;
    let stamp = b.undo("change");
    let first = b.change(9, 5, &stamp).await.map_err(|e| broken(format!("undoing it failed: {e}")))?;
    same(&first, b.change(9, 5, &stamp).await)?;
    b.really(Some(5)).await
}
