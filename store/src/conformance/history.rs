//! The global history, of all executions, has the order of commits.

use super::{case::Outcome, fixture::*};
use crate::{Commit, Page, Sequence};

pub(super) const CASES: &[Named] = &[
    ("the global history has the order of commits, each entry once", |on| boxed(whole(on))),
    ("the global history is read in pages that neither skip nor repeat", |on| boxed(pages(on))),
    ("later commits have later entries in the global history", |on| boxed(appended(on))),
    ("a follower of the global history misses no commit of other writers", |on| boxed(followed(on))),
    ("an entry of an execution without a record is part of the global history", |on| boxed(nobody(on))),
];

async fn whole(on: On) -> Outcome {
    let first = commit(&on, entries(vec![entry(2, "b"), entry(1, "a")])).await?.sequence;
    commit(&on, put("a", "1")).await?;
    let second = commit(&on, entries(vec![entry(1, "c")])).await?.sequence;
    let Page { items, next } = expect_ok(on.history(None, 10).await)?;
    same("end", next, None)?;
    let seen: Vec<_> =
        items.into_iter().map(|(place, e)| (e.sequence, place, e.execution, e.event)).collect();
    let wanted = [(first, 0, 2, "b"), (first, 1, 1, "a"), (second, 0, 1, "c")];
    same("entries", seen, wanted.map(|(at, place, n, event)| (at, place, id(n), event.to_owned())).to_vec())
}

async fn all(on: &On, limit: usize) -> Result<Vec<String>, String> {
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let Page { items, next } = expect_ok(on.history(after, limit).await)?;
        expect_true("a page is not longer than asked", items.len() <= limit)?;
        seen.extend(items.into_iter().map(|(_, entry)| entry.event));
        match next {
            Some(_) => after = next,
            None => return Ok(seen),
        }
    }
}

async fn pages(on: On) -> Outcome {
    for commits in 0..60 {
        let of = |part: u64| entry(part * 7 % 3, &format!("{commits}.{part}"));
        commit(&on, entries((0..5).map(of).collect())).await?;
    }
    let wanted: Vec<String> = (0..60).flat_map(|n| (0..5).map(move |part| format!("{n}.{part}"))).collect();
    for limit in [1, 7, 300, 1_000] {
        same("entries", all(&on, limit).await?, wanted.clone())?;
    }
    Ok(())
}

async fn appended(on: On) -> Outcome {
    commit(&on, entries(vec![entry(9, "one"), entry(9, "two")])).await?;
    let Page { items, .. } = expect_ok(on.history(None, 10).await)?;
    let last = items.last().map(|(place, entry)| (entry.sequence, *place));
    commit(&on, entries(vec![entry(1, "three")])).await?;
    let rest = expect_ok(on.history(last, 10).await)?;
    same("rest", rest.items.into_iter().map(|(_, e)| e.event).collect::<Vec<_>>(), vec!["three".to_owned()])?;
    same("after the end", expect_ok(on.history(Some((Sequence(u64::MAX), 0)), 10).await)?.items.len(), 0)
}

async fn nobody(on: On) -> Outcome {
    let both = Commit { journal: vec![entry(4, "alone")], ..create(record(1)) };
    commit(&on, both).await?;
    same("entries", all(&on, 10).await?, vec!["alone".to_owned()])
}

/// Each writer's entries come in its own order, and none of them after the follower has passed its place.
async fn followed(on: On) -> Outcome {
    const WRITERS: u64 = 8;
    const EACH: u64 = 40;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let on = on.clone();
            tokio::spawn(async move {
                for n in 0..EACH {
                    let both = vec![entry(writer, &n.to_string()), entry(writer, &format!("{n}+"))];
                    commit(&on, entries(both)).await?;
                }
                Ok::<(), String>(())
            })
        })
        .collect();
    let (mut seen, mut after) = (Vec::new(), None);
    while seen.len() < usize::try_from(WRITERS * EACH * 2).unwrap_or_default() {
        let page = expect_ok(on.history(after, 7).await)?;
        if let Some((place, last)) = page.items.last() {
            after = Some((last.sequence, *place));
        }
        if page.items.is_empty() && writers.iter().all(tokio::task::JoinHandle::is_finished) {
            let rest = expect_ok(on.history(after, 1).await)?.items.len();
            if rest == 0 {
                for writer in writers {
                    writer.await.map_err(|error| error.to_string())??;
                }
                return Err(format!(
                    "all is committed, and the follower has seen only {} entries",
                    seen.len()
                ));
            }
        }
        seen.extend(page.items.into_iter().map(|(place, entry)| (entry.sequence, place, entry)));
        tokio::task::yield_now().await;
    }
    for writer in writers {
        writer.await.map_err(|error| error.to_string())??;
    }
    expect_true("it is in order", seen.is_sorted_by_key(|(sequence, place, _)| (*sequence, *place)))?;
    for writer in 0..WRITERS {
        let own = seen.iter().filter(|(_, _, entry)| entry.execution == id(writer));
        let events: Vec<String> = own.map(|(_, _, entry)| entry.event.clone()).collect();
        let wanted: Vec<String> = (0..EACH).flat_map(|n| [n.to_string(), format!("{n}+")]).collect();
        same("entries of a writer", events, wanted)?;
    }
    Ok(())
}
