//! Concurrent calls.

use super::{Case, case};
use crate::kit::bench::{Bench, Ended, broken, holds};
use workflows::platform::codes;

pub(super) const CASES: &[Case] = &[
    case("twins.make", "one creation sent twice at once creates one object", |b| Box::pin(make(b))),
    case(
        "twins.make_rivals",
        "of two different creations of one name, one succeeds and the other is rejected",
        |b| Box::pin(rivals(b)),
    ),
    case("twins.change", "one change sent twice at once takes effect once", |b| Box::pin(change(b))),
    case(
        "twins.change_rivals",
        "of two changes from the same amount, one succeeds and the other is rejected",
        |b| Box::pin(change_rivals(b)),
    ),
    case("twins.remove", "one removal sent twice at once succeeds", |b| Box::pin(remove(b))),
];

async fn make(b: &Bench<'_>) -> Ended {
    let stamp = b.stamp("make");
    let (one, two) = tokio::join!(b.make(5, &stamp), b.make(5, &stamp));
    // One of them may have to retry; neither may fail permanently.
    let mut uids = Vec::new();
    for answer in [one, two] {
        match answer {
            Ok(found) => uids.push(found.uid),
            Err(error) if error.class == engine::Class::Permanent => {
                return Err(broken(format!("a twin was refused for good: {error}")));
            }
            Err(_) => {}
        }
    }
    let seen = b.there().await?;
    holds(uids.iter().all(|uid| *uid == seen.uid), || format!("{uids:?} were made and there is {seen:?}"))?;
    b.really(Some(5)).await
}

async fn rivals(b: &Bench<'_>) -> Ended {
    let (first, second) = (b.stamp("first"), b.stamp("second"));
    let (five, seven) = tokio::join!(b.make(5, &first), b.make(7, &second));
    let won: Vec<u64> =
        [(five.is_ok(), 5), (seven.is_ok(), 7)].into_iter().filter(|w| w.0).map(|w| w.1).collect();
    let stands = b.subject.really(&b.thing).await;
    let one = won.len() == 1 && won.first().copied() == stands;
    holds(one, || format!("{won:?} were answered as created and {stands:?} exists"))
}

async fn change(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let stamp = b.stamp("change");
    let (one, two) = tokio::join!(b.change(5, 9, &stamp), b.change(5, 9, &stamp));
    holds(one.is_ok() || two.is_ok(), || format!("neither was done: {one:?}, {two:?}"))?;
    b.really(Some(9)).await
}

async fn change_rivals(b: &Bench<'_>) -> Ended {
    b.made(5).await?;
    let (first, second) = (b.stamp("first"), b.stamp("second"));
    let (seven, nine) = tokio::join!(b.change(5, 7, &first), b.change(5, 9, &second));
    let stands = b.subject.really(&b.thing).await;
    let (won, lost) = match (seven, nine) {
        (Ok(_), Err(lost)) => (7, lost),
        (Err(lost), Ok(_)) => (9, lost),
        (seven, nine) => {
            return Err(broken(format!("neither call took effect: {seven:?}, {nine:?}; {stands:?} exists")));
        }
    };
    holds(lost.code == codes::OBJECT_CHANGED, || format!("the other call got {lost}"))?;
    b.really(Some(won)).await
}

async fn remove(b: &Bench<'_>) -> Ended {
    let made = b.made(5).await?;
    let stamp = b.stamp("remove");
    let (one, two) =
        tokio::join!(b.subject.remove(&b.thing, &made, &stamp), b.subject.remove(&b.thing, &made, &stamp));
    holds(one.is_ok() || two.is_ok(), || format!("neither was done: {one:?}, {two:?}"))?;
    b.gone().await
}
