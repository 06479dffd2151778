//! Lost calls and lost answers.

use super::{Case, case};
use crate::kit::{
    Trouble,
    bench::{Bench, Ended, broken, failure, holds, unknown},
};
use engine::{ActionError, Class};
use workflows::platform::FoundObject;

pub(super) const CASES: &[Case] = &[
    case("lost_answer.make", "a creation without an answer is unknown, never failed", |b| {
        Box::pin(answer_make(b))
    }),
    case("lost_answer.make_repeat", "a repeat with the same key finds the created object", |b| {
        Box::pin(answer_make_repeat(b))
    }),
    case("lost_answer.make_undo", "an undo after a lost answer leaves nothing", |b| {
        Box::pin(answer_make_undo(b))
    }),
    case("lost_answer.change", "a change without an answer is unknown; its repeat takes effect once", |b| {
        Box::pin(answer_change(b))
    }),
    case(
        "lost_answer.remove",
        "a removal without an answer is unknown; after its repeat the object is absent",
        |b| Box::pin(answer_remove(b)),
    ),
    case(
        "lost_request.make",
        "a creation that never arrived is unknown; its repeat creates the object",
        |b| Box::pin(request_make(b)),
    ),
    case("lost_request.change", "a change that never arrived is unknown; its repeat takes effect", |b| {
        Box::pin(request_change(b))
    }),
    case(
        "lost_request.remove",
        "a removal that never arrived is unknown; after its repeat the object is absent",
        |b| Box::pin(request_remove(b)),
    ),
    case("half_done.make_repeat", "the repeat of an interrupted creation completes it", |b| {
        Box::pin(half_repeat(b))
    }),
    case("half_done.make_undo", "the undo of an interrupted creation leaves nothing", |b| {
        Box::pin(half_undo(b))
    }),
];

async fn lose_make(b: &Bench<'_>, what: Trouble) -> Result<ActionError, crate::kit::Stop> {
    b.trouble(what).await?;
    let error = failure(b.make(5, &b.stamp("make")).await)?;
    b.trouble(Trouble::Calm).await?;
    Ok(error)
}

async fn again(b: &Bench<'_>) -> Result<FoundObject, crate::kit::Stop> {
    b.make(5, &b.stamp("make")).await.map_err(|e| broken(format!("the repeat failed: {e}")))
}

async fn answer_make(b: &Bench<'_>) -> Ended {
    unknown(&lose_make(b, Trouble::LoseAnswer).await?)?;
    b.there().await?;
    b.really(Some(5)).await
}

async fn answer_make_repeat(b: &Bench<'_>) -> Ended {
    lose_make(b, Trouble::LoseAnswer).await?;
    let first = b.there().await?;
    let second = again(b).await?;
    holds(first.uid == second.uid, || format!("there was {first:?} and the repeat made {second:?}"))?;
    b.really(Some(5)).await
}

async fn answer_make_undo(b: &Bench<'_>) -> Ended {
    lose_make(b, Trouble::LoseAnswer).await?;
    let found = b.there().await?;
    let undo = b.undo("make");
    holds(found.may_be_removed(&found.tenant, &undo), || format!("its undo may not take {found:?}"))?;
    b.removed(&found, &undo).await
}

async fn request_make(b: &Bench<'_>) -> Ended {
    unknown(&lose_make(b, Trouble::LoseRequest).await?)?;
    b.really(None).await?;
    again(b).await?;
    b.really(Some(5)).await
}

async fn change(b: &Bench<'_>, what: Trouble, then: u64) -> Ended {
    b.made(5).await?;
    b.trouble(what).await?;
    let error = failure(b.change(5, 9, &b.stamp("change")).await)?;
    b.trouble(Trouble::Calm).await?;
    unknown(&error)?;
    b.really(Some(then)).await?;
    let repeated = b.change(5, 9, &b.stamp("change")).await;
    repeated.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    b.really(Some(9)).await
}

async fn answer_change(b: &Bench<'_>) -> Ended {
    change(b, Trouble::LoseAnswer, 9).await
}

async fn request_change(b: &Bench<'_>) -> Ended {
    change(b, Trouble::LoseRequest, 5).await
}

async fn remove(b: &Bench<'_>, what: Trouble) -> Ended {
    let made = b.made(5).await?;
    b.trouble(what).await?;
    let error = failure(b.subject.remove(&b.thing, &made, &b.stamp("remove")).await)?;
    b.trouble(Trouble::Calm).await?;
    unknown(&error)?;
    if what == Trouble::LoseRequest {
        b.really(Some(5)).await?;
    }
    b.removed(&made, &b.stamp("remove")).await
}

async fn answer_remove(b: &Bench<'_>) -> Ended {
    remove(b, Trouble::LoseAnswer).await
}

async fn request_remove(b: &Bench<'_>) -> Ended {
    remove(b, Trouble::LoseRequest).await
}

/// Interrupts the call half way, or lets it complete if it has no intermediate state.
async fn half(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::HalfDone).await?;
    let answer = b.make(5, &b.stamp("make")).await;
    b.trouble(Trouble::Calm).await?;
    match answer {
        Err(error) if error.class == Class::Permanent => Err(broken(format!(
            "it broke off half way and the answer says that repeating is useless: {error}"
        ))),
        Ok(_) | Err(_) => Ok(()),
    }
}

async fn half_repeat(b: &Bench<'_>) -> Ended {
    half(b).await?;
    again(b).await?;
    b.really(Some(5)).await
}

async fn half_undo(b: &Bench<'_>) -> Ended {
    half(b).await?;
    let undo = b.undo("make");
    match b.look().await? {
        Some(found) => b.removed(&found, &undo).await,
        None => b.really(None).await,
    }
}
