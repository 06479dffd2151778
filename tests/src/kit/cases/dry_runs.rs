//! Dry runs: answers of calls without effects.

use super::{Case, case};
use crate::kit::bench::{Bench, Ended, broken, coded, failure, holds};
use workflows::platform::codes;

pub(super) const CASES: &[Case] = &[
    case("dry_run.make", "a dry run of a creation answers like the creation and creates nothing", |b| {
        Box::pin(make(b))
    }),
    case("dry_run.make_then", "the same key takes effect after a dry run", |b| Box::pin(make_then(b))),
    case("dry_run.make_refused", "a dry run rejects a creation that would be rejected", |b| {
        Box::pin(make_refused(b))
    }),
    case("dry_run.change", "a dry run of a change answers like the change and changes nothing", |b| {
        Box::pin(change(b))
    }),
    case("dry_run.change_refused", "a dry run rejects a change that would be rejected", |b| {
        Box::pin(change_refused(b))
    }),
    case("dry_run.remove", "a dry run of a removal answers like the removal and removes nothing", |b| {
        Box::pin(remove(b))
    }),
];

async fn make(b: &Bench<'_>) -> Ended {
    let dry = b.make(5, &b.stamp("make").as_dry_run()).await;
    dry.map_err(|e| broken(format!("the dry run failed: {e}")))?;
    let seen = b.look().await?;
    holds(seen.is_none(), || format!("the dry run made {seen:?}"))?;
    b.really(None).await
}

async fn make_then(b: &Bench<'_>) -> Ended {
    let dry = b.make(5, &b.stamp("make").as_dry_run()).await;
    dry.map_err(|e| broken(format!("the dry run failed: {e}")))?;
    b.made(5).await?;
    b.really(Some(5)).await
}

async fn make_refused(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let error = failure(b.make(7, &b.stamp("other").as_dry_run()).await)?;
    coded(&error, &[codes::OBJECT_FOREIGN])?;
    b.really(Some(5)).await
}

async fn change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let dry = b.change(5, 9, &b.stamp("change").as_dry_run()).await;
    dry.map_err(|e| broken(format!("the dry run failed: {e}")))?;
    b.really(Some(5)).await?;
    let earnest = b.change(5, 9, &b.stamp("change")).await;
    earnest.map_err(|e| broken(format!("in earnest it failed: {e}")))?;
    b.really(Some(9)).await
}

async fn change_refused(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let error = failure(b.change(7, 9, &b.stamp("change").as_dry_run()).await)?;
    coded(&error, &[codes::OBJECT_CHANGED])?;
    b.really(Some(5)).await
}

async fn remove(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    let dry = b.subject.remove(&b.thing, &made, &b.stamp("remove").as_dry_run()).await;
    dry.map_err(|e| broken(format!("the dry run failed: {e}")))?;
    let seen = b.there().await?;
    holds(!seen.terminating, || "the dry run removed it".into())?;
    b.really(Some(5)).await
}
