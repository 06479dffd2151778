//! A search returns the same as a check of every record, after any writes, and page by page.

use super::{case::Outcome, fixture::*};
use crate::{Attributes, ExecutionId, Query, Record, Timestamp};
use std::{collections::BTreeSet, time::Duration};

pub(super) const CASES: &[Named] = &[
    ("a search finds the same records as a full scan", |on| boxed(as_a_look(on))),
    ("a condition means what it says", |on| boxed(meanings(on))),
    ("a search sees the current record", |on| boxed(as_it_stands(on))),
    ("attributes are kept with their record, and go with it", |on| boxed(attributes(on))),
    ("a value that is too long for an index is found too", |on| boxed(long_values(on))),
    ("a search cursor is not moved by records made meanwhile", |on| boxed(stable(on))),
    ("attributes have limits", |on| boxed(limits(on))),
];

/// A sequence of numbers that is the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pick(&mut self, of: &[&str]) -> String {
        let place = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of.get(place).copied().unwrap_or_default().to_owned()
    }
}

const DAY: u64 = 86_400_000;
const TENANTS: &[&str] = &["", "acme", "ac", "zeta"];
const STATES: &[&str] = &["Reviewing", "Carving", "Active"];
const PHASES: &[&str] = &["forward", "parked", "finished"];
const PEOPLE: &[&str] = &["ada", "bob", "eve"];
const CODES: &[&str] = &["shop.busy", "shop.lost", "net.down", "outcome_unknown"];

fn values(dice: &mut Dice, of: &[&str]) -> BTreeSet<String> {
    (0..=dice.below(2)).map(|_| dice.pick(of)).collect()
}

fn drawn(dice: &mut Dice, n: u64) -> Record {
    let mut attributes = Attributes::new();
    for field in ["error", "action"] {
        if dice.below(2) == 0 {
            attributes.insert(field.into(), values(dice, CODES));
        }
    }
    let phase = dice.pick(PHASES);
    Record {
        tenant: dice.pick(TENANTS),
        workflow: dice.pick(&["onboarding", "reclaim"]),
        state: dice.pick(STATES),
        reason: (phase == "parked").then(|| dice.pick(CODES)),
        open: phase != "finished",
        subject: format!("node/{}", dice.below(60)),
        updated_at: Timestamp(dice.below(80) * DAY / 2),
        requested_by: dice.pick(PEOPLE),
        phase,
        attributes,
        ..record(n)
    }
}

fn query(dice: &mut Dice, depth: u64) -> Query {
    let field = |dice: &mut Dice| {
        dice.pick(&[
            "tenant", "workflow", "state", "phase", "reason", "subject", "open", "error", "action", "none",
        ])
    };
    let range = |dice: &mut Dice, end: u64| {
        let from = dice.below(end);
        (Timestamp(from), Timestamp(from + dice.below(end)))
    };
    let several = |dice: &mut Dice| (0..dice.below(4)).map(|_| query(dice, depth - 1)).collect();
    match dice.below(if depth == 0 { 6 } else { 9 }) {
        0 | 1 => {
            let (name, value) = match dice.below(8) {
                0 => ("tenant", dice.pick(TENANTS)),
                1 => ("state", dice.pick(STATES)),
                2 => ("phase", dice.pick(PHASES)),
                3 => ("reason", dice.pick(CODES)),
                4 => ("subject", format!("node/{}", dice.below(60))),
                5 => ("requested_by", dice.pick(PEOPLE)),
                6 => ("open", dice.pick(&["true", "false", "maybe"])),
                _ => ("error", dice.pick(CODES)),
            };
            Query::is(name, value)
        }
        2 => {
            Query::StartsWith { field: field(dice), with: dice.pick(&["", "a", "shop.", "node/1", "o", "z"]) }
        }
        3 => Query::Has { field: field(dice) },
        4 => {
            let (from, until) = range(dice, 60);
            Query::CreatedBetween { from, until }
        }
        5 => {
            let (from, until) = range(dice, 40 * DAY);
            Query::UpdatedBetween { from, until }
        }
        6 => Query::And(several(dice)),
        7 => Query::Or(several(dice)),
        _ => Query::Not(Box::new(query(dice, depth - 1))),
    }
}

/// All that `query` finds, in pages of `limit`.
async fn found(on: &On, query: &Query, limit: usize) -> Result<Vec<ExecutionId>, String> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = expect_ok(on.search(query, after, limit).await)?;
        expect_true("a page is not longer than asked", page.items.len() <= limit)?;
        expect_true("a partial page has a cursor", !page.partial || page.next.is_some())?;
        ids.extend(page.items.iter().map(|record| record.id));
        after = page.next;
        if after.is_none() {
            return Ok(ids);
        }
    }
}

async fn as_a_look(on: On) -> Outcome {
    let mut dice = Dice(11);
    let mut revisions = std::collections::BTreeMap::new();
    for round in 0..6 {
        for _ in 0..40 {
            let n = dice.below(60);
            let record = drawn(&mut dice, n);
            let change = match revisions.get(&n) {
                Some(revision) => update(record, *revision),
                None => create(record),
            };
            commit(&on, change).await?;
            *revisions.entry(n).or_insert(0) += 1;
        }
        let all = expect_ok(on.search(&Query::All, None, 1_000).await)?.items;
        same("all", all.len(), revisions.len())?;
        for record in &all {
            same("the complete value", expect_ok(on.load(record.id).await)?.as_ref(), Some(record))?;
        }
        for _ in 0..60 {
            let query = query(&mut dice, 2);
            let wanted: Vec<_> =
                all.iter().filter(|record| query.accepts(record)).map(|record| record.id).collect();
            let limit = usize::try_from(1 + dice.below(20)).unwrap_or(1);
            same(&format!("round {round}, {query:?}"), found(&on, &query, limit).await?, wanted)?;
        }
    }
    Ok(())
}

fn with(n: u64, field: &str, value: &str) -> Record {
    let attributes = [(field.to_owned(), [value.to_owned()].into())].into();
    Record { attributes, ..record(n) }
}

/// By examples, because the other cases trust [`Query::accepts`].
async fn meanings(on: On) -> Outcome {
    let made = |n| Record { requested_by: format!("ada{n}"), ..with(n, "error", "shop.busy") };
    for n in [1, 2, 10] {
        commit(&on, create(made(n))).await?;
    }
    let at = Timestamp;
    let begins = |with: &str| Query::StartsWith { field: "requested_by".into(), with: with.into() };
    for (query, wanted) in [
        (Query::is("requested_by", "ada1"), vec![1]),
        (begins("ada1"), vec![1, 10]),
        (Query::CreatedBetween { from: at(1), until: at(10) }, vec![1, 2]),
        (Query::UpdatedBetween { from: at(2), until: at(10) }, vec![2]),
        (Query::Or(vec![]), vec![]),
        (Query::And(vec![]), vec![1, 2, 10]),
        (Query::And(vec![begins("ada1"), Query::Not(Box::new(Query::is("requested_by", "ada1")))]), vec![10]),
        (
            Query::Or(vec![Query::is("requested_by", "ada2"), Query::is("subject", "tenant/t-10")]),
            vec![2, 10],
        ),
    ] {
        let wanted: Vec<_> = wanted.into_iter().map(id).collect();
        same(&format!("{query:?}"), found(&on, &query, 10).await?, wanted)?;
    }
    Ok(())
}

async fn as_it_stands(on: On) -> Outcome {
    commit(&on, create(with(1, "error", "shop.busy"))).await?;
    same("at first", found(&on, &Query::is("error", "shop.busy"), 10).await?, vec![id(1)])?;
    let moved = Record { open: false, ..with(1, "error", "shop.lost") };
    commit(&on, update(moved, 1)).await?;
    same("what it had", found(&on, &Query::is("error", "shop.busy"), 10).await?, vec![])?;
    same("what it has", found(&on, &Query::is("error", "shop.lost"), 10).await?, vec![id(1)])?;
    same("finished", found(&on, &Query::is("open", "false"), 10).await?, vec![id(1)])
}

async fn attributes(on: On) -> Outcome {
    let first = with(1, "error", "shop.busy");
    commit(&on, create(first.clone())).await?;
    same("kept", expect_ok(on.load(id(1)).await)?.map(|record| record.attributes), Some(first.attributes))?;
    commit(&on, update(record(1), 1)).await?;
    same("gone", expect_ok(on.load(id(1)).await)?.map(|record| record.attributes), Some(Attributes::new()))?;
    same("not found", found(&on, &Query::Has { field: "error".into() }, 10).await?, vec![])
}

async fn long_values(on: On) -> Outcome {
    let long = "x".repeat(900);
    let other = format!("{}y", "x".repeat(899));
    commit(&on, create(with(1, "error", &long))).await?;
    commit(&on, create(with(2, "error", &other))).await?;
    refused(on.commit(create(Record { subject: "odd\0name".into(), ..record(3) })).await, invalid)?;
    // At once, and after an index has had time to apply them.
    for _ in 0..2 {
        same("one", found(&on, &Query::is("error", &long), 10).await?, vec![id(1)])?;
        let begins = Query::StartsWith { field: "error".into(), with: "x".repeat(300) };
        same("both", found(&on, &begins, 10).await?, vec![id(1), id(2)])?;
        same("odd", found(&on, &Query::is("subject", "odd\0name"), 10).await?, vec![])?;
        same("no name", found(&on, &Query::is("tenant", "a\0b"), 10).await?, vec![])?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn stable(on: On) -> Outcome {
    for n in [2, 4, 6] {
        commit(&on, create(with(n, "error", "shop.busy"))).await?;
    }
    let query = Query::is("error", "shop.busy");
    let first = expect_ok(on.search(&query, None, 2).await)?;
    same("cursor", first.next, Some(id(4)))?;
    for n in [1, 3, 5] {
        commit(&on, create(with(n, "error", "shop.busy"))).await?;
    }
    let rest = expect_ok(on.search(&query, first.next, 10).await)?;
    let rest: Vec<_> = rest.items.iter().map(|record| record.id).collect();
    same("rest", rest, vec![id(5), id(6)])
}

async fn limits(on: On) -> Outcome {
    for name in ["", "Error", "tenant", "open", "a.b"] {
        refused(on.commit(create(with(1, name, "x"))).await, invalid)?;
    }
    let many = |count: usize| {
        let values = (0..count).map(|n| n.to_string()).collect();
        Record { attributes: [("action".to_owned(), values)].into(), ..record(1) }
    };
    refused(on.commit(create(many(crate::ATTRIBUTES_LIMIT + 1))).await, invalid)?;
    refused(on.commit(create(with(1, "action", &"x".repeat(2_000)))).await, too_large)?;
    commit(&on, create(many(crate::ATTRIBUTES_LIMIT))).await.map(|_| ())
}
