//! How far executions are, and when they will be over if they go as the last ones went.
//!
//! How far is read off the picture of the workflow. How long is learned from the histories of the last ones that completed, read when
//! somebody asks and kept for a while: a few numbers for each state of each workflow, whoever's the executions were.

mod graph;

use crate::types::executions::Progress;
use engine::{Diagram, Engine};
use program::encoding::rfc3339::format_time;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::{Entry, ExecutionId, Query, Record, Timestamp};
use tokio::sync::Mutex;
use workflows::platform::Platform;

/// So long is used what was learned.
const FRESH: Duration = Duration::from_secs(60);
/// So long nothing is looked for again where too few had completed.
const NOTHING: Duration = Duration::from_secs(3);
/// Fewer than this say nothing of the next.
const LEAST: usize = 3;
/// No more than this are read.
const MOST: usize = 12;
const HOUR: Duration = Duration::from_secs(3_600);
/// How far is looked back for some that have completed, the nearest first.
const BACK: [Duration; 4] =
    [HOUR, HOUR.saturating_mul(24), HOUR.saturating_mul(24 * 7), HOUR.saturating_mul(24 * 60)];

/// What is known of workflows.
pub(crate) struct DurationStatistics {
    /// By workflow and state: how many states are behind it, and of how many.
    places: BTreeMap<String, BTreeMap<String, (usize, usize)>>,
    /// By workflow, and since when.
    learned: Mutex<BTreeMap<String, (Timestamp, Arc<StateDurations>)>>,
}

/// How long executions of one workflow take, by state.
type StateDurations = BTreeMap<String, StateDuration>;

/// Half of those that were in a state took no longer than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StateDuration {
    /// In it.
    within: Duration,
    /// From leaving it to the end.
    after: Duration,
}

/// What the body of an execution says that is needed here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    since: Option<u64>,
    slots: Vec<Slot>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Slot {
    beat: Option<String>,
}

impl DurationStatistics {
    /// Of these workflows.
    pub(crate) fn of(drawn: &[Diagram]) -> Self {
        let places = drawn.iter().map(|drawn| (drawn.workflow.clone(), graph::places(drawn)));
        Self { places: places.collect(), learned: Mutex::default() }
    }

    /// How far each of `records` is that is open.
    pub(crate) async fn told(
        &self,
        engine: &Engine<Platform>,
        records: &[Record],
    ) -> BTreeMap<ExecutionId, Progress> {
        let open = || records.iter().filter(|record| record.open);
        let going = open().filter(|record| is_running(record)).map(|record| record.workflow.as_str());
        let mut paces = BTreeMap::new();
        for workflow in going.collect::<BTreeSet<_>>() {
            paces.insert(workflow, self.pace(engine, workflow).await);
        }
        let now = engine.clock().now();
        let told = open().map(|record| {
            let pace = paces.get(record.workflow.as_str()).map(|pace| &**pace);
            (record.id, self.progress(record, engine.progress_note(record.id), pace, now))
        });
        told.collect()
    }

    fn progress(
        &self,
        record: &Record,
        said: Option<String>,
        pace: Option<&StateDurations>,
        now: Timestamp,
    ) -> Progress {
        // What is sealed and cannot be opened has none of these.
        let body: Body = serde_json::from_slice(&record.body).unwrap_or_default();
        let since = body.since.map_or(record.updated_at, Timestamp);
        let turned_back = record.phase == "compensating";
        let place = self.places.get(&record.workflow).and_then(|places| places.get(&record.state));
        let place = place.filter(|_| !turned_back);
        let leg = pace.and_then(|pace| pace.get(&record.state)).filter(|_| is_running(record));
        let eta =
            leg.map(|leg| now.after(leg.within.saturating_sub(now.since(since)).saturating_add(leg.after)));
        let kept = || body.slots.iter().rev().find_map(|slot| slot.beat.clone());
        Progress::new(place.copied(), &record.state, said.or_else(kept), eta.map(format_time))
    }

    /// How long executions of a workflow take; nothing of states that none was in.
    async fn pace(&self, engine: &Engine<Platform>, workflow: &str) -> Arc<StateDurations> {
        let mut learned = self.learned.lock().await;
        let now = engine.clock().now();
        if let Some((at, pace)) = learned.get(workflow)
            && at.is_recent(if pace.is_empty() { NOTHING } else { FRESH }, now)
        {
            return pace.clone();
        }
        let pace = measure(engine, workflow, now).await.unwrap_or_else(|error| {
            tracing::debug!(%error, workflow, "how long it takes could not be learned");
            StateDurations::new()
        });
        let pace = Arc::new(pace);
        learned.insert(workflow.to_owned(), (now, pace.clone()));
        pace
    }
}

/// Whether it is on its way and nothing holds it.
fn is_running(record: &Record) -> bool {
    record.phase == "forward"
}

async fn measure(
    engine: &Engine<Platform>,
    workflow: &str,
    now: Timestamp,
) -> Result<StateDurations, engine::Error> {
    let completed = Query::is("workflow", workflow).and(Query::is("reason", "completed"));
    for back in BACK {
        let long = u64::try_from(back.as_millis()).unwrap_or(u64::MAX);
        let since = ExecutionId::first_at(Timestamp(now.0.saturating_sub(long)));
        let found = engine.search(&completed, Some(since), MOST).await?.items;
        if found.len() < LEAST {
            continue;
        }
        let mut visits = Vec::new();
        for record in &found {
            // One that was forgotten meanwhile, or whose key was destroyed, tells nothing.
            let history = engine.journal(record.id).await.unwrap_or_default();
            visits.extend(legs(&history));
        }
        return Ok(medians(visits));
    }
    Ok(StateDurations::new())
}

/// How long one execution was in each of its states, and how long it went on after that.
fn legs(history: &[Entry]) -> Vec<(String, StateDuration)> {
    let Some(end) = history.last().map(|entry| entry.at) else { return Vec::new() };
    let (mut legs, mut here) = (Vec::new(), None::<(&str, Timestamp)>);
    for entry in history.iter().filter(|entry| entry.from != entry.to) {
        if let Some((state, since)) = here {
            legs.push((
                state.to_owned(),
                StateDuration { within: entry.at.since(since), after: end.since(entry.at) },
            ));
        }
        here = Some((&entry.to, entry.at));
    }
    // Where it ended it did not change its state any more.
    legs.extend(here.map(|(state, since)| {
        (state.to_owned(), StateDuration { within: end.since(since), after: Duration::ZERO })
    }));
    legs
}

fn medians(legs: Vec<(String, StateDuration)>) -> StateDurations {
    let mut by_state: BTreeMap<String, Vec<StateDuration>> = BTreeMap::new();
    for (state, leg) in legs {
        by_state.entry(state).or_default().push(leg);
    }
    let leg = |legs: &[StateDuration]| StateDuration {
        within: median(legs.iter().map(|leg| leg.within)),
        after: median(legs.iter().map(|leg| leg.after)),
    };
    let known = by_state.into_iter().filter(|(_, legs)| legs.len() >= LEAST);
    known.map(|(state, legs)| (state, leg(&legs))).collect()
}

/// The one in the middle; the shorter of two.
fn median(spans: impl Iterator<Item = Duration>) -> Duration {
    let mut spans: Vec<Duration> = spans.collect();
    spans.sort_unstable();
    spans.get(spans.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Revision, Sequence};

    const SECOND: Duration = Duration::from_secs(1);

    fn entry(at: u64, from: &str, to: &str) -> Entry {
        Entry {
            sequence: Sequence(1),
            execution: ExecutionId::new(Timestamp(1_000), [7; 10]),
            at: Timestamp(at * 1_000),
            actor: String::new(),
            event: "settled".into(),
            from: from.into(),
            to: to.into(),
            detail: Vec::new(),
        }
    }

    fn record(state: &str, phase: &str, body: &str) -> Record {
        Record {
            id: ExecutionId::new(Timestamp(1_000), [7; 10]),
            revision: Revision(3),
            workflow: "w".into(),
            schema: 1,
            tenant: "acme".into(),
            subject: "tenant/acme".into(),
            guard: None,
            state: state.into(),
            phase: phase.into(),
            reason: None,
            open: true,
            requested_by: "olga".into(),
            created_at: Timestamp(0),
            updated_at: Timestamp(90_000),
            attributes: Default::default(),
            body: body.as_bytes().to_vec(),
        }
    }

    fn paces() -> DurationStatistics {
        let places = [("Making".to_owned(), (1, 3))].into_iter().collect();
        DurationStatistics {
            places: [("w".to_owned(), places)].into_iter().collect(),
            learned: Mutex::default(),
        }
    }

    #[test]
    fn how_long_it_will_take_is_the_median_of_those_that_were_in_the_state() {
        let history = |making: u64, asking: u64| {
            let asked = 10 + making;
            vec![
                entry(10, "", "Making"),
                entry(11, "Making", "Making"),
                entry(asked, "Making", "Asking"),
                entry(asked + asking, "Asking", "Asking"),
            ]
        };
        let legs: Vec<_> =
            [(5, 100), (6, 20), (90, 30)].iter().flat_map(|(m, a)| legs(&history(*m, *a))).collect();
        let pace = medians(legs);
        assert_eq!(pace.get("Making"), Some(&StateDuration { within: 6 * SECOND, after: 30 * SECOND }));
        assert_eq!(pace.get("Asking"), Some(&StateDuration { within: 30 * SECOND, after: Duration::ZERO }));
        assert!(medians(self::legs(&history(5, 5))).is_empty(), "one alone says nothing of the next");
    }

    #[test]
    fn what_is_on_its_way_says_how_far_and_until_when_and_what_is_not_says_neither() {
        let pace: StateDurations =
            [("Making".to_owned(), StateDuration { within: 6 * SECOND, after: 30 * SECOND })].into();
        let body = r#"{"since":98000,"slots":[{"beat":null},{"beat":"2 of 8","other":1}],"data":{}}"#;
        let now = Timestamp(100_000);
        let told = |record: &Record, said: Option<&str>| {
            serde_json::to_value(paces().progress(record, said.map(Into::into), Some(&pace), now)).unwrap()
        };

        let going = told(&record("Making", "forward", body), None);
        assert_eq!((&going["done"], &going["total"]), (&1.into(), &3.into()));
        assert_eq!(going["current"], serde_json::json!({ "state": "Making", "beat": "2 of 8" }));
        assert_eq!(going["eta"], format_time(Timestamp(134_000)), "two of six seconds are over");
        assert_eq!(told(&record("Making", "forward", body), Some("5 of 8"))["current"]["beat"], "5 of 8");

        let late = told(&record("Making", "forward", "sealed"), None);
        assert_eq!(
            late["eta"],
            format_time(Timestamp(130_000)),
            "longer than usual: what comes after is still to come"
        );
        let parked = told(&record("Making", "parked", body), None);
        assert_eq!((&parked["done"], &parked["eta"]), (&1.into(), &serde_json::Value::Null));
        let back = told(&record("Making", "compensating", body), None);
        assert_eq!((&back["done"], &back["eta"]), (&serde_json::Value::Null, &serde_json::Value::Null));
        let off = told(&record("Waitlisted", "forward", body), None);
        assert_eq!((&off["total"], &off["eta"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    }
}
