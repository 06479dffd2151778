//! Single calls, without faults.

use super::{Case, case};
use crate::kit::bench::{Bench, Ended, broken, coded, failure, holds, permanent, transient};
use workflows::platform::{FoundObject, codes};

pub(super) const CASES: &[Case] = &[
    case("make.makes", "a created object exists with the requested amount", |b| Box::pin(make(b))),
    case("make.marks", "a created object carries its step and an identity", |b| Box::pin(marks(b))),
    case("make.foreign", "an object of another owner is rejected and unchanged", |b| Box::pin(foreign(b))),
    case("look.absent", "a missing object is reported as absent, not as an error", |b| Box::pin(absent(b))),
    case("look.harmless", "reading an object changes nothing", |b| Box::pin(harmless(b))),
    case("look.gone", "an object removed outside the backend is reported as absent", |b| Box::pin(gone(b))),
    case("change.changes", "a change sets the amount and keeps identity and mark", |b| Box::pin(change(b))),
    case("change.stale", "a change from an outdated amount is rejected and changes nothing", |b| {
        Box::pin(stale(b))
    }),
    case("change.absent", "a change of a missing object is rejected and creates nothing", |b| {
        Box::pin(change_absent(b))
    }),
    case("change.drifted", "a concurrent change by another writer is not overwritten", |b| {
        Box::pin(drifted(b))
    }),
    case("change.gone", "a change of an object removed outside the backend creates nothing", |b| {
        Box::pin(change_gone(b))
    }),
    case("remove.removes", "a removed object is absent by every way of reading it", |b| Box::pin(remove(b))),
    case("remove.absent", "removing a missing object succeeds", |b| Box::pin(remove_absent(b))),
    case("remove.replaced", "a removal never affects a later object of the same name", |b| {
        Box::pin(remove_replaced(b))
    }),
    case("remove.neighbour", "removing one object keeps the others", |b| Box::pin(neighbour(b))),
    case("remove.again", "a removed object can be created again, with a new identity", |b| {
        Box::pin(made_again(b))
    }),
    case("undo.never_ran", "the undo of an action that never ran succeeds and changes nothing", |b| {
        Box::pin(never_ran(b))
    }),
    case("undo.own", "an undo removes objects of its own step, and none of another step", |b| {
        Box::pin(own(b))
    }),
    case("undo.change", "the undo of a change restores the earlier amount", |b| Box::pin(undo_change(b))),
];

async fn make(b: &Bench<'_>) -> Ended {
    b.really(None).await?;
    b.made(5).await?;
    b.really(Some(5)).await
}

async fn marks(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    let step = b.stamp("make").step;
    holds(made.step == step, || format!("it should bear step {step} and bears {:?}", made.step))?;
    holds(!made.uid.is_empty(), || "it has no identity".into())?;
    holds(!made.tenant.is_empty(), || "it says of no tenant that it is theirs".into())?;
    let seen = b.there().await?;
    holds(seen.step == made.step && seen.uid == made.uid && seen.tenant == made.tenant, || {
        format!("it was made as {made:?} and is seen as {seen:?}")
    })
}

async fn foreign(b: &Bench<'_>) -> Ended {
    b.subject.plant(&b.thing, 5).await.map_err(crate::kit::Stop::Excused)?;
    let error = failure(b.make(7, &b.stamp("make")).await)?;
    permanent(&error)?;
    coded(&error, &[codes::OBJECT_FOREIGN])?;
    b.really(Some(5)).await
}

async fn absent(b: &Bench<'_>) -> Ended {
    let seen = b.look().await?;
    holds(seen.is_none(), || format!("it was never made and is seen: {seen:?}"))
}

async fn harmless(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    for _ in 0..3 {
        let seen = b.there().await?;
        holds(seen.uid == made.uid && !seen.terminating, || format!("looking changed it to {seen:?}"))?;
    }
    b.really(Some(5)).await
}

async fn gone(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    // A backend with a cache has now cached it.
    b.there().await?;
    b.subject.vanish(&b.thing).await.map_err(crate::kit::Stop::Excused)?;
    b.gone().await
}

async fn change(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    let answer = b.change(5, 9, &b.stamp("change")).await;
    let changed = answer.map_err(|e| broken(format!("changing it failed: {e}")))?;
    b.really(Some(9)).await?;
    let seen = b.there().await?;
    let same = |found: &FoundObject| found.uid == made.uid && found.step == made.step;
    holds(same(&changed) && same(&seen), || format!("it was {made:?} and is {seen:?} after a change"))
}

async fn stale(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let error = failure(b.change(7, 9, &b.stamp("change")).await)?;
    transient(&error)?;
    coded(&error, &[codes::OBJECT_CHANGED])?;
    b.really(Some(5)).await
}

async fn change_absent(b: &Bench<'_>) -> Ended {
    let error = failure(b.change(5, 9, &b.stamp("change")).await)?;
    permanent(&error)?;
    coded(&error, &[codes::OBJECT_MISSING])?;
    b.really(None).await
}

async fn drifted(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.subject.tamper(&b.thing, 8).await.map_err(crate::kit::Stop::Excused)?;
    let error = failure(b.change(5, 9, &b.stamp("change")).await)?;
    transient(&error)?;
    coded(&error, &[codes::OBJECT_CHANGED])?;
    b.really(Some(8)).await
}

async fn change_gone(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    b.subject.vanish(&b.thing).await.map_err(crate::kit::Stop::Excused)?;
    let error = failure(b.change(5, 9, &b.stamp("change")).await)?;
    coded(&error, &[codes::OBJECT_MISSING])?;
    b.really(None).await
}

async fn remove(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    b.removed(&made, &b.stamp("remove")).await
}

async fn remove_absent(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    b.removed(&made, &b.stamp("remove")).await?;
    let again = b.subject.remove(&b.thing, &made, &b.stamp("remove-again")).await;
    again.map_err(|e| broken(format!("removing what is gone failed: {e}")))?;
    b.really(None).await
}

async fn remove_replaced(b: &Bench<'_>) -> Ended {
    let first = b.made(5).await?;
    b.removed(&first, &b.stamp("remove")).await?;
    let second = b.make(6, &b.stamp("make-again")).await;
    let second = second.map_err(|e| broken(format!("making it again failed: {e}")))?;
    // Success and refusal are both allowed, as long as the second object stays.
    let late = b.subject.remove(&b.thing, &first, &b.stamp("remove-late")).await;
    if let Err(error) = late {
        coded(&error, &[codes::OBJECT_CHANGED])?;
    }
    let seen = b.there().await?;
    holds(seen.uid == second.uid && !seen.terminating, || format!("a late removal met {seen:?}"))?;
    b.really(Some(6)).await
}

async fn neighbour(b: &Bench<'_>) -> Ended {
    let other = b.other();
    let made = b.made(5).await?;
    let beside = b.subject.make(&other, 6, &b.stamp("make-other")).await;
    beside.map_err(|e| broken(format!("making the other failed: {e}")))?;
    b.removed(&made, &b.stamp("remove")).await?;
    let stands = b.subject.really(&other).await;
    holds(stands == Some(6), || format!("the other resource should be 6 and is {stands:?}"))
}

async fn made_again(b: &Bench<'_>) -> Ended {
    let first = b.made(5).await?;
    b.removed(&first, &b.stamp("remove")).await?;
    let second = b.make(7, &b.stamp("make-again")).await;
    let second = second.map_err(|e| broken(format!("making it again failed: {e}")))?;
    holds(second.uid != first.uid, || format!("both have the identity {}", first.uid))?;
    b.really(Some(7)).await
}

async fn never_ran(b: &Bench<'_>) -> Ended {
    let (tenant, spec) = ("nobody".to_owned(), serde_json::Value::Null);
    let never =
        FoundObject { uid: "never".into(), tenant, step: b.stamp("make").step, spec, terminating: false };
    let undone = b.subject.remove(&b.thing, &never, &b.undo("make")).await;
    undone.map_err(|e| broken(format!("undoing what never ran failed: {e}")))?;
    b.really(None).await
}

async fn own(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    let seen = b.there().await?;
    let (own, others) = (b.undo("make"), b.undo("other"));
    holds(seen.may_be_removed(&made.tenant, &own), || format!("its own undo may not take {seen:?}"))?;
    holds(!seen.may_be_removed(&made.tenant, &others), || format!("another's undo may take {seen:?}"))?;
    b.removed(&seen, &own).await
}

async fn undo_change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let changed = b.change(5, 9, &b.stamp("change")).await;
    changed.map_err(|e| broken(format!("changing it failed: {e}")))?;
    let undone = b.change(9, 5, &b.undo("change")).await;
    undone.map_err(|e| broken(format!("undoing the change failed: {e}")))?;
    b.really(Some(5)).await
}
