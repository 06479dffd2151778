//! Progress of executions, and their estimated end.
//!
//! The progress follows from the diagram of the workflow. The estimate uses the journals of the last completed executions of any tenant, reduced to a few
//! numbers per state. They are read on request and cached.

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

/// How long durations are cached.
const FRESH: Duration = Duration::from_secs(60);
/// How long it is cached that too few executions have completed.
const NOTHING: Duration = Duration::from_secs(3);
/// The minimum number of executions for an estimate.
const LEAST: usize = 3;
/// The maximum number of executions that are read.
const MOST: usize = 12;
const HOUR: Duration = Duration::from_secs(3_600);
/// The periods in which completed executions are searched, shortest first.
const BACK: [Duration; 4] =
    [HOUR, HOUR.saturating_mul(24), HOUR.saturating_mul(24 * 7), HOUR.saturating_mul(24 * 60)];

/// Durations of workflows.
pub(crate) struct DurationStatistics {
    /// By workflow and state: the number of completed states, and of all.
    places: BTreeMap<String, BTreeMap<String, (usize, usize)>>,
    /// By workflow: durations with the time of their computation.
    learned: Mutex<BTreeMap<String, (Timestamp, Arc<StateDurations>)>>,
}

/// The durations of one workflow, by state.
type StateDurations = BTreeMap<String, StateDuration>;

/// The median durations of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StateDuration {
    /// The time in the state.
    within: Duration,
    /// The time from leaving the state to the end.
    after: Duration,
}

/// The fields of an execution's body that are needed here.
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
    /// Creates the statistics of these workflows.
    pub(crate) fn of(drawn: &[Diagram]) -> Self {
        let places = drawn.iter().map(|drawn| (drawn.workflow.clone(), graph::places(drawn)));
        Self { places: places.collect(), learned: Mutex::default() }
    }

    /// Returns the progress of each open execution in `records`.
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
        // An encrypted body that cannot be decrypted has none of these fields.
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

    /// Returns the durations of a workflow, without states that no execution visited.
    async fn pace(&self, engine: &Engine<Platform>, workflow: &str) -> Arc<StateDurations> {
        let mut learned = self.learned.lock().await;
        let now = engine.clock().now();
        if let Some((at, pace)) = learned.get(workflow)
            && at.is_recent(if pace.is_empty() { NOTHING } else { FRESH }, now)
        {
            return pace.clone();
        }
        let pace = measure(engine, workflow, now).await.unwrap_or_else(|error| {
            tracing::debug!(%error, workflow, "cannot compute durations of a workflow");
            StateDurations::new()
        });
        let pace = Arc::new(pace);
        learned.insert(workflow.to_owned(), (now, pace.clone()));
        pace
    }
}

/// Returns true if the execution progresses and is not held up.
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
            // An execution that was removed, or whose key was destroyed, is skipped.
            let history = engine.journal(record.id).await.unwrap_or_default();
            visits.extend(legs(&history));
        }
        return Ok(medians(visits));
    }
    Ok(StateDurations::new())
}

/// Returns the time that an execution spent in each of its states, and the time from there to its end.
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
    // The final state has no transition.
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

/// Returns the median; the lower one of two.
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
    fn the_estimate_is_the_median_of_executions_that_visited_the_state() {
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
        assert!(
            medians(self::legs(&history(5, 5))).is_empty(),
            "one execution is not enough for an estimate"
        );
    }

    #[test]
    fn only_a_progressing_execution_has_progress_and_an_estimated_end() {
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
        assert_eq!(going["eta"], format_time(Timestamp(134_000)), "two of six seconds have passed");
        assert_eq!(told(&record("Making", "forward", body), Some("5 of 8"))["current"]["beat"], "5 of 8");

        let late = told(&record("Making", "forward", "sealed"), None);
        assert_eq!(
            late["eta"],
            format_time(Timestamp(130_000)),
            "longer than usual: the later states still take their time"
        );
        let parked = told(&record("Making", "parked", body), None);
        assert_eq!((&parked["done"], &parked["eta"]), (&1.into(), &serde_json::Value::Null));
        let back = told(&record("Making", "compensating", body), None);
        assert_eq!((&back["done"], &back["eta"]), (&serde_json::Value::Null, &serde_json::Value::Null));
        let off = told(&record("Waitlisted", "forward", body), None);
        assert_eq!((&off["total"], &off["eta"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    }
}
