//! One run from request to end, on the in-memory store and a clock that jumps to the next due task.

use super::{
    crash_store::CrashStore,
    fault_injector::{RecordedCall, ScriptedFaults, lock_unpoisoned},
    scenario::Scenario,
    script::{Answer, RunEnd, Script},
    stage::RunEnvironment,
};
use crate::{Edge, Error, Execution, ManualClock, Phase, Reason, Workflow};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};
use store::{Commit, ExecutionId, Filter, Key, Memory, Store as _, Timestamp};

pub(crate) struct Run {
    pub(crate) end: RunEnd,
    /// Why it was parked during the run, if it was.
    pub(crate) parked: Option<Reason>,
    pub(crate) past_pivot: bool,
    pub(crate) deeds: Vec<RecordedCall>,
    pub(crate) edges: Vec<Edge>,
    /// The edges of child executions, grouped by execution.
    pub(crate) child_edges: Vec<Vec<Edge>>,
    /// The first attempt with a fault, named so that other runs can recognise it.
    pub(crate) first_faulted: Option<String>,
    /// True if it ended with effects that could not be undone, and reports them.
    pub(crate) left_effects: bool,
    pub(crate) undone: Vec<String>,
    /// The same for child executions.
    pub(crate) family_undone: Vec<String>,
    /// For each approval or signal: the answers that were not given.
    pub(crate) questions: Vec<Vec<Answer>>,
    pub(crate) commits: usize,
    pub(crate) before: BTreeMap<String, Value>,
    pub(crate) after: BTreeMap<String, Value>,
    pub(crate) complaints: Vec<String>,
}

pub(crate) async fn run<W: Workflow>(scene: &dyn Scenario<W>, script: &Script) -> Result<Run, Error> {
    let world = scene.world();
    let memory = Arc::new(Memory::new());
    memory.commit(Commit { documents: world.documents, ..Commit::default() }).await?;
    let mut stage: RunEnvironment<W> = RunEnvironment {
        memory: memory.clone(),
        store: Arc::new(CrashStore::new(memory.clone(), script.crash_point)),
        clock: Arc::new(ManualClock::starting_at(Timestamp(1_767_225_600_000))),
        platform: Arc::new(world.platform),
        faults: Arc::new(ScriptedFaults::new(script)),
        edges: Arc::default(),
        questions: Vec::new(),
        unanswered: HashSet::new(),
        retried: HashSet::new(),
        script: script.clone(),
        meanwhile: scene.concurrent_change(),
        interrupted: false,
        idle: (0, 0),
        kind: std::marker::PhantomData,
    };
    let before = scene.snapshot(&stage.platform, &ledger(&memory, &world.collections).await?);
    let id = stage.start(scene.data()).await?;
    let (rest, parked) = stage.run_to_end(id).await?;
    let execution = stage.execution(id).await?;
    let journalled = undone(&execution);
    let after = scene.snapshot(&stage.platform, &ledger(&memory, &world.collections).await?);
    let mut complaints = scene.violations(&stage.platform);
    complaints.extend(stage.child_violations().await?);
    let mut ways = lock_unpoisoned(&stage.edges).clone();
    let edges = ways.remove(&id).unwrap_or_default();
    let mut family: Vec<Vec<Edge>> = ways.into_values().collect();
    family.sort();
    let family_undone = if family.is_empty() { Vec::new() } else { undone_by_others(&memory, id).await? };
    Ok(Run {
        end: rest,
        parked,
        past_pivot: execution.pivot.is_some(),
        deeds: lock_unpoisoned(&stage.faults.deeds).clone(),
        edges,
        child_edges: family,
        first_faulted: lock_unpoisoned(&stage.faults.first_faulted).clone(),
        left_effects: matches!(&execution.phase, Phase::Finished { leaks, .. } if !leaks.is_empty()),
        undone: journalled,
        family_undone,
        questions: stage.questions,
        commits: stage.store.commits(),
        before,
        after,
        complaints,
    })
}

fn undone<W: Workflow>(execution: &Execution<W>) -> Vec<String> {
    let undone = execution.trail.iter().filter(|mark| mark.fate == crate::UndoState::Undone);
    undone.map(|mark| format!("{}: {}", mark.state, mark.undo)).collect()
}

/// Returns the undos of the other executions, of any workflow.
async fn undone_by_others(memory: &Memory, id: ExecutionId) -> Result<Vec<String>, Error> {
    let all = memory.list(&Filter::default(), None, 10_000).await?.items;
    let mut undone = Vec::new();
    for record in all.iter().filter(|record| record.id != id) {
        let body: Value = serde_json::from_slice(&record.body)
            .map_err(|e| Error::Unreadable { id: record.id, why: e.to_string() })?;
        let trail = body.get("trail").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let part = |mark: &Value, name: &str| mark.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let is_undone = |mark: &&Value| part(mark, "fate").as_deref() == Some("undone");
        let named = |mark: &Value| Some(format!("{}: {}", part(mark, "state")?, part(mark, "undo")?));
        undone.extend(trail.iter().filter(is_undone).filter_map(named));
    }
    Ok(undone)
}

async fn ledger(store: &Memory, collections: &[&'static str]) -> Result<BTreeMap<Key, Value>, Error> {
    let mut found = BTreeMap::new();
    for collection in collections {
        let mut after: Option<String> = None;
        loop {
            let page = store.documents(collection, "", after.as_deref(), 1_000).await?;
            found.extend(
                page.items
                    .into_iter()
                    .map(|d| (d.key, serde_json::from_slice(&d.body).unwrap_or(Value::Null))),
            );
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(found)
}
