//! History is appended, in order, and read in pages.

use super::{case::Outcome, fixture::*};
use crate::{Page, Sequence};

pub(super) const CASES: &[Named] = &[
    ("history keeps the order of commits, and within a commit the order given", |on| boxed(order(on))),
    ("history is read in pages that neither skip nor repeat", |on| boxed(pages(on))),
    ("a history cursor stays where it is while history grows", |on| boxed(growing(on))),
    ("histories of two executions do not mix", |on| boxed(apart(on))),
];

async fn order(on: On) -> Outcome {
    let first = commit(&on, entries(vec![entry(1, "b"), entry(1, "a"), entry(1, "c")])).await?.sequence;
    let second = commit(&on, entries(vec![entry(1, "a")])).await?.sequence;
    let all = expect_ok(on.journal(id(1), None, 10).await)?;
    same("end", all.next, None)?;
    let seen: Vec<(Sequence, String)> = all.items.into_iter().map(|e| (e.sequence, e.event)).collect();
    let wanted = [(first, "b"), (first, "a"), (first, "c"), (second, "a")];
    same("entries", seen, wanted.map(|(sequence, event)| (sequence, event.to_owned())).to_vec())
}

async fn pages(on: On) -> Outcome {
    for commits in 0..4 {
        let names = [format!("{commits}a"), format!("{commits}b"), format!("{commits}c")];
        commit(&on, entries(names.iter().map(|name| entry(1, name)).collect())).await?;
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let Page { items, next } = expect_ok(on.journal(id(1), after, 5).await)?;
        expect_true("a page is not longer than asked", items.len() <= 5)?;
        seen.extend(items.into_iter().map(|entry| entry.event));
        after = next;
        if after.is_none() {
            break;
        }
    }
    let wanted: Vec<String> = (0..4).flat_map(|n| ["a", "b", "c"].map(|part| format!("{n}{part}"))).collect();
    same("entries", seen, wanted)
}

async fn growing(on: On) -> Outcome {
    commit(&on, entries(vec![entry(1, "one"), entry(1, "two")])).await?;
    let first = expect_ok(on.journal(id(1), None, 1).await)?;
    expect_true("there is more", first.next.is_some())?;
    commit(&on, entries(vec![entry(1, "three")])).await?;
    let rest = expect_ok(on.journal(id(1), first.next, 10).await)?;
    let seen: Vec<String> = rest.items.into_iter().map(|entry| entry.event).collect();
    same("rest", seen, vec!["two".to_owned(), "three".to_owned()])
}

async fn apart(on: On) -> Outcome {
    commit(&on, entries(vec![entry(1, "mine"), entry(2, "yours"), entry(1, "mine too")])).await?;
    let mine: Vec<String> =
        expect_ok(on.journal(id(1), None, 10).await)?.items.into_iter().map(|e| e.event).collect();
    same("of 1", mine, vec!["mine".to_owned(), "mine too".to_owned()])?;
    same("of 2", expect_ok(on.journal(id(2), None, 10).await)?.items.len(), 1)?;
    same("of 3", expect_ok(on.journal(id(3), None, 10).await)?.items.len(), 0)
}
