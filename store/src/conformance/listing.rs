//! Lists are filtered, ordered, and paged by cursors that stay valid while others write.

use super::{case::Outcome, fixture::*};
use crate::{ExecutionId, Filter, Page, Record};

pub(super) const CASES: &[Named] = &[
    ("records are listed oldest first", |on| boxed(oldest_first(on))),
    ("each field of a filter narrows the list", |on| boxed(filters(on))),
    ("a filter sees the current record", |on| boxed(as_it_stands(on))),
    ("records are listed in pages that neither skip nor repeat", |on| boxed(pages(on))),
    ("a list cursor is not moved by records made meanwhile", |on| boxed(stable(on))),
    ("a last page says that it is the last", |on| boxed(last_page(on))),
    ("documents are listed by prefix, in the order of their bytes", |on| boxed(prefixes(on))),
    ("documents are listed in pages by cursor", |on| boxed(document_pages(on))),
];

fn ids(page: &Page<Record, ExecutionId>) -> Vec<ExecutionId> {
    page.items.iter().map(|record| record.id).collect()
}

async fn oldest_first(on: On) -> Outcome {
    for n in [3, 1, 2] {
        commit(&on, create(record(n))).await?;
    }
    same("ids", ids(&expect_ok(on.list(&Filter::default(), None, 10).await)?), vec![id(1), id(2), id(3)])
}

/// Records that differ from [`record`] in one field each, and the filters that find just them.
fn varied() -> Vec<(Record, Filter)> {
    let some = |text: &str| Some(text.to_owned());
    let none = Filter::default;
    vec![
        (Record { tenant: "zeta".into(), ..record(1) }, Filter { tenant: some("zeta"), ..none() }),
        (Record { workflow: "reclaim".into(), ..record(2) }, Filter { workflow: some("reclaim"), ..none() }),
        (Record { state: "Active".into(), ..record(3) }, Filter { state: some("Active"), ..none() }),
        (Record { phase: "parked".into(), ..record(4) }, Filter { phase: some("parked"), ..none() }),
        (Record { reason: some("overdue"), ..record(5) }, Filter { reason: some("overdue"), ..none() }),
        (Record { subject: "node/7".into(), ..record(6) }, Filter { subject: some("node/7"), ..none() }),
        (Record { open: false, ..record(7) }, Filter { open: Some(false), ..none() }),
    ]
}

async fn filters(on: On) -> Outcome {
    let varied = varied();
    for (record, _) in &varied {
        commit(&on, create(record.clone())).await?;
    }
    for (record, filter) in &varied {
        same(&format!("{filter:?}"), ids(&expect_ok(on.list(filter, None, 10).await)?), vec![record.id])?;
    }
    let open = Filter { open: Some(true), ..Filter::default() };
    same("open", expect_ok(on.list(&open, None, 10).await)?.items.len(), varied.len() - 1)?;
    let both =
        Filter { tenant: Some("acme".into()), phase: Some("forward".into()), open: Some(true), ..open };
    same(
        "three fields at once",
        ids(&expect_ok(on.list(&both, None, 10).await)?),
        [2, 3, 5, 6].map(id).to_vec(),
    )
}

async fn as_it_stands(on: On) -> Outcome {
    commit(&on, create(record(1))).await?;
    let moved = Record { tenant: "zeta".into(), open: false, ..record(1) };
    commit(&on, update(moved, 1)).await?;
    let of = |tenant: &str| Filter { tenant: Some(tenant.into()), ..Filter::default() };
    same("former tenant", ids(&expect_ok(on.list(&of("acme"), None, 10).await)?), vec![])?;
    same("present tenant", ids(&expect_ok(on.list(&of("zeta"), None, 10).await)?), vec![id(1)])?;
    let open = Filter { open: Some(true), ..Filter::default() };
    same("open", ids(&expect_ok(on.list(&open, None, 10).await)?), vec![])
}

async fn pages(on: On) -> Outcome {
    for n in 1..=10 {
        let tenant = if n % 3 == 0 { "zeta" } else { "acme" };
        commit(&on, create(Record { tenant: tenant.into(), ..record(n) })).await?;
    }
    let filter = Filter { tenant: Some("acme".into()), ..Filter::default() };
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = expect_ok(on.list(&filter, after, 2).await)?;
        expect_true("a page is not longer than asked", page.items.len() <= 2)?;
        seen.extend(ids(&page));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    same("ids", seen, [1, 2, 4, 5, 7, 8, 10].map(id).to_vec())
}

async fn stable(on: On) -> Outcome {
    for n in [2, 4, 6] {
        commit(&on, create(record(n))).await?;
    }
    let first = expect_ok(on.list(&Filter::default(), None, 2).await)?;
    same("first page", ids(&first), vec![id(2), id(4)])?;
    for n in [1, 3, 5] {
        commit(&on, create(record(n))).await?;
    }
    same("rest", ids(&expect_ok(on.list(&Filter::default(), first.next, 10).await)?), vec![id(5), id(6)])
}

async fn last_page(on: On) -> Outcome {
    for n in [1, 2] {
        commit(&on, create(record(n))).await?;
    }
    same("exactly full", expect_ok(on.list(&Filter::default(), None, 2).await)?.next, None)?;
    same("one of two", expect_ok(on.list(&Filter::default(), None, 1).await)?.next, Some(id(1)))?;
    same("none at all", ids(&expect_ok(on.list(&Filter::default(), Some(id(2)), 2).await)?), vec![])
}

async fn prefixes(on: On) -> Outcome {
    let all = ["b/1", "a/10", "a/2", "a", "a/é", "a0", "a/"];
    commit(&on, puts(&all.map(|id| (id, Some("x"))))).await?;
    commit(&on, delete("a/2")).await?;
    let page = expect_ok(on.documents("nodes", "a/", None, 10).await)?;
    let seen: Vec<String> = page.items.into_iter().map(|document| document.key.id).collect();
    same("ids", seen, ["a/", "a/10", "a/é"].map(str::to_owned).to_vec())?;
    same("all", expect_ok(on.documents("nodes", "", None, 10).await)?.items.len(), 6)?;
    same("none", expect_ok(on.documents("nodes", "c", None, 10).await)?.items.len(), 0)
}

async fn document_pages(on: On) -> Outcome {
    commit(&on, puts(&["a/1", "a/2", "a/3", "b/1"].map(|id| (id, Some("x"))))).await?;
    let first = expect_ok(on.documents("nodes", "a/", None, 2).await)?;
    same("cursor", first.next.as_deref(), Some("a/2"))?;
    commit(&on, put("a/15", "x")).await?;
    let rest = expect_ok(on.documents("nodes", "a/", first.next.as_deref(), 2).await)?;
    let seen: Vec<String> = rest.items.into_iter().map(|document| document.key.id).collect();
    same("rest", seen, vec!["a/3".to_owned()])?;
    same("end", rest.next, None)?;
    let early = expect_ok(on.documents("nodes", "b/", Some("a/1"), 2).await)?;
    same("a cursor before the prefix", early.items.len(), 1)
}
