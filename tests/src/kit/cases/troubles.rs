//! The target is slow, unavailable, or refuses.

use super::{Case, case};
use crate::kit::{
    Trouble,
    bench::{Bench, Ended, broken, coded, failure, holds, permanent, transient},
};
use engine::{ActionError, Class};
use std::time::{Duration, Instant};
use workflows::platform::{CallMetadata, codes};

pub(super) const CASES: &[Case] = &[
    case("slow.make", "a slow answer within the deadline is accepted", |b| Box::pin(slow(b))),
    case("slow.make_too", "a creation past its deadline is aborted and unknown", |b| Box::pin(slow_make(b))),
    case("slow.change_too", "a change past its deadline is aborted and unknown", |b| {
        Box::pin(slow_change(b))
    }),
    case("slow.look_too", "a read past its deadline is aborted and can be repeated", |b| {
        Box::pin(slow_look(b))
    }),
    case("down.make", "a creation that the target did not accept is transient and created nothing", |b| {
        Box::pin(down_make(b))
    }),
    case("down.look", "a read without an answer is never an absence", |b| {
        Box::pin(look(b, Trouble::Down, &[codes::UNAVAILABLE]))
    }),
    case("down.change", "a change that the target did not accept is transient and changed nothing", |b| {
        Box::pin(down_change(b))
    }),
    case("down.remove", "a removal that the target did not accept is transient and removed nothing", |b| {
        Box::pin(down_remove(b))
    }),
    case("down.back", "the same call takes effect when the target is available again", |b| {
        Box::pin(down_back(b))
    }),
    case("deny.make", "a creation without permission fails permanently and creates nothing", |b| {
        Box::pin(deny_make(b))
    }),
    case("deny.look", "a read without permission is never an absence", |b| {
        Box::pin(look(b, Trouble::Deny, DENIED))
    }),
    case("deny.change", "a change without permission fails permanently and changes nothing", |b| {
        Box::pin(deny_change(b))
    }),
    case("deny.remove", "a removal without permission fails permanently and removes nothing", |b| {
        Box::pin(deny_remove(b))
    }),
    case("throttle.make", "a throttled creation waits for the time that the target names", |b| {
        Box::pin(throttle_make(b))
    }),
    case("throttle.look", "a throttled read waits for the time that the target names", |b| {
        Box::pin(throttle_look(b))
    }),
    case("throttle.change", "a throttled change waits for the time that the target names", |b| {
        Box::pin(throttle_change(b))
    }),
    case("garbage.make", "a creation with an unreadable answer is not complete and can be repeated", |b| {
        Box::pin(garbage_make(b))
    }),
    case("garbage.look", "a read with an unreadable answer is never an absence", |b| {
        Box::pin(look(b, Trouble::Garbage, &[codes::UNREADABLE]))
    }),
    case("garbage.change", "a change with an unreadable answer is not complete and can be repeated", |b| {
        Box::pin(garbage_change(b))
    }),
    case("unsupported.make", "an unsupported creation fails permanently and is not retried", |b| {
        Box::pin(unsupported(b))
    }),
];

const DENIED: &[&str] = &[codes::DENIED, codes::REFUSED];

/// The time in which a caller must not retry.
const AWAY: Duration = Duration::from_secs(7);

async fn slow(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Slow(Duration::from_millis(60))).await?;
    let made = b.make(5, &b.stamp("make")).await;
    b.trouble(Trouble::Calm).await?;
    made.map_err(|e| broken(format!("it was slow and in time, and failed: {e}")))?;
    b.really(Some(5)).await
}

/// Returns the call with a deadline shorter than the target's delay.
fn hurried(stamp: CallMetadata) -> CallMetadata {
    CallMetadata { deadline: Duration::from_millis(250), ..stamp }
}

const TOO_SLOW: Trouble = Trouble::Slow(Duration::from_secs(20));
/// Long enough for a busy machine, and less than the target's delay.
const GIVES_UP: Duration = Duration::from_secs(5);

fn in_time(began: Instant) -> Ended {
    let took = began.elapsed();
    holds(took < GIVES_UP, || format!("its deadline was 250 ms and it took {} ms", took.as_millis()))
}

async fn slow_make(b: &Bench<'_>) -> Ended {
    b.trouble(TOO_SLOW).await?;
    let began = Instant::now();
    let error = failure(b.make(5, &hurried(b.stamp("make"))).await)?;
    b.trouble(Trouble::Calm).await?;
    in_time(began)?;
    // A backend that reads before it writes may have been interrupted there.
    holds(matches!(error.class, Class::Unknown | Class::Transient), || format!("the answer is {error:?}"))?;
    b.make(5, &b.stamp("make")).await.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    b.really(Some(5)).await
}

async fn slow_change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.trouble(TOO_SLOW).await?;
    let began = Instant::now();
    let error = failure(b.change(5, 9, &hurried(b.stamp("change"))).await)?;
    b.trouble(Trouble::Calm).await?;
    in_time(began)?;
    holds(matches!(error.class, Class::Unknown | Class::Transient), || format!("the answer is {error:?}"))?;
    let changed = b.change(5, 9, &b.stamp("change")).await;
    changed.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    b.really(Some(9)).await
}

async fn slow_look(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.trouble(TOO_SLOW).await?;
    let began = Instant::now();
    let error = failure(b.subject.look(&b.thing, &hurried(b.stamp("look"))).await)?;
    b.trouble(Trouble::Calm).await?;
    in_time(began)?;
    transient(&error)
}

/// Neither permanent nor an absence: the caller retries.
async fn look(b: &Bench<'_>, what: Trouble, wanted: &[&str]) -> Ended {
    b.made(5).await?;
    b.trouble(what).await?;
    let looked = b.subject.look(&b.thing, &b.stamp("look")).await;
    b.trouble(Trouble::Calm).await?;
    let error = match looked {
        Ok(None) => return Err(broken("it was said to be absent".into())),
        other => failure(other)?,
    };
    coded(&error, wanted)?;
    b.there().await.map(drop)
}

async fn down_make(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Down).await?;
    let error = failure(b.make(5, &b.stamp("make")).await)?;
    b.trouble(Trouble::Calm).await?;
    transient(&error)?;
    coded(&error, &[codes::UNAVAILABLE])?;
    b.really(None).await
}

async fn down_change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.trouble(Trouble::Down).await?;
    let error = failure(b.change(5, 9, &b.stamp("change")).await)?;
    b.trouble(Trouble::Calm).await?;
    transient(&error)?;
    b.really(Some(5)).await
}

async fn down_remove(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    b.trouble(Trouble::Down).await?;
    let error = failure(b.subject.remove(&b.thing, &made, &b.stamp("remove")).await)?;
    b.trouble(Trouble::Calm).await?;
    transient(&error)?;
    b.really(Some(5)).await
}

async fn down_back(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Down).await?;
    failure(b.make(5, &b.stamp("make")).await)?;
    b.trouble(Trouble::Calm).await?;
    let made = b.make(5, &b.stamp("make")).await;
    made.map_err(|e| broken(format!("it is back, and the same call failed: {e}")))?;
    b.really(Some(5)).await
}

fn denied(error: &ActionError) -> Ended {
    permanent(error)?;
    coded(error, DENIED)
}

async fn deny_make(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Deny).await?;
    let error = failure(b.make(5, &b.stamp("make")).await)?;
    b.trouble(Trouble::Calm).await?;
    denied(&error)?;
    b.really(None).await
}

async fn deny_change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.trouble(Trouble::Deny).await?;
    let error = failure(b.change(5, 9, &b.stamp("change")).await)?;
    b.trouble(Trouble::Calm).await?;
    denied(&error)?;
    b.really(Some(5)).await
}

async fn deny_remove(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    b.trouble(Trouble::Deny).await?;
    let error = failure(b.subject.remove(&b.thing, &made, &b.stamp("remove")).await)?;
    b.trouble(Trouble::Calm).await?;
    denied(&error)?;
    b.really(Some(5)).await
}

fn turned_away(error: &ActionError) -> Ended {
    holds(matches!(error.class, Class::Transient | Class::Pending { .. }), || {
        format!("it was turned away for a while and the answer says {:?}: {error}", error.class)
    })?;
    let told = error.retry_after;
    holds(told == Some(AWAY), || {
        format!("the target asked for a pause of {AWAY:?}, and the backend reports {told:?}")
    })
}

async fn throttle_make(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Throttle(AWAY)).await?;
    let error = failure(b.make(5, &b.stamp("make")).await)?;
    b.trouble(Trouble::Calm).await?;
    turned_away(&error)?;
    b.really(None).await
}

async fn throttle_change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.trouble(Trouble::Throttle(AWAY)).await?;
    let error = failure(b.change(5, 9, &b.stamp("change")).await)?;
    b.trouble(Trouble::Calm).await?;
    turned_away(&error)?;
    b.really(Some(5)).await
}

async fn throttle_look(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Throttle(AWAY)).await?;
    let error = failure(b.subject.look(&b.thing, &b.stamp("look")).await)?;
    b.trouble(Trouble::Calm).await?;
    turned_away(&error)
}

async fn garbage_make(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::Garbage).await?;
    let error = failure(b.make(5, &b.stamp("make")).await)?;
    b.trouble(Trouble::Calm).await?;
    coded(&error, &[codes::UNREADABLE])?;
    b.make(5, &b.stamp("make")).await.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    b.really(Some(5)).await
}

async fn garbage_change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.trouble(Trouble::Garbage).await?;
    let error = failure(b.change(5, 9, &b.stamp("change")).await)?;
    b.trouble(Trouble::Calm).await?;
    coded(&error, &[codes::UNREADABLE])?;
    let changed = b.change(5, 9, &b.stamp("change")).await;
    changed.map_err(|e| broken(format!("the repeat failed: {e}")))?;
    b.really(Some(9)).await
}

async fn unsupported(b: &Bench<'_>) -> Ended {
    b.trouble(Trouble::NotSupported).await?;
    let error = failure(b.make(5, &b.stamp("make")).await)?;
    b.trouble(Trouble::Calm).await?;
    permanent(&error)?;
    b.really(None).await
}
