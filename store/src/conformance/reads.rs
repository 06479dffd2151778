//! A read sees every commit acknowledged before it began.

use super::{case::Outcome, fixture::*};
use crate::{Filter, Record};

pub(super) const CASES: &[Named] = &[
    ("a read sees every commit acknowledged before it", |on| boxed(acknowledged(on))),
    ("a list sees every commit acknowledged before it", |on| boxed(listed(on))),
    ("bodies are kept byte for byte up to the limit", |on| boxed(bodies(on))),
    ("health counts commits and tasks", |on| boxed(health(on))),
];

async fn acknowledged(on: On) -> Outcome {
    commit(&on, create(record(1))).await?;
    for n in 1..=200 {
        let body = n.to_string().into_bytes();
        commit(&on, update(Record { body: body.clone(), ..record(1) }, n)).await?;
        let found = expect_ok(on.load(id(1)).await)?.ok_or("the record is gone")?;
        same("body", found.body, body)?;
    }
    Ok(())
}

async fn listed(on: On) -> Outcome {
    for n in 1..=100 {
        commit(&on, create(record(n))).await?;
        let wanted = usize::try_from(n).unwrap_or(usize::MAX);
        same("length", expect_ok(on.list(&Filter::default(), None, 1000).await)?.items.len(), wanted)?;
    }
    Ok(())
}

async fn bodies(on: On) -> Outcome {
    for size in [0, 1, 60_000, 61_440, 122_880, crate::BODY_LIMIT] {
        let body: Vec<u8> = (0..size).map(|n| u8::try_from(n % 251).unwrap_or(0)).collect();
        let text = String::from_utf8_lossy(&body).into_owned();
        let text: String = text.chars().filter(char::is_ascii).collect();
        commit(&on, put("large", &text)).await?;
        same("document", body_of(&on, "large").await?, Some(text))?;
        let n = u64::try_from(size).unwrap_or_default() + 1;
        commit(&on, create(Record { body: body.clone(), ..record(n) })).await?;
        let found = expect_ok(on.load(id(n)).await)?.ok_or("the record is gone")?;
        expect_true("the record's body is what was written", found.body == body)?;
    }
    Ok(())
}

async fn health(on: On) -> Outcome {
    commit(&on, schedule(vec![task(1, 0, 1), task(1, 1, 50)])).await?;
    lease_one(&on, 1).await?;
    commit(&on, put("a", "1")).await?;
    let health = on.health().await;
    same("tasks", health.tasks, 2)?;
    same("sequence", health.sequence.0, 2)?;
    same("problem", health.problem, None)?;
    expect_true("it is writable", health.writable)
}
