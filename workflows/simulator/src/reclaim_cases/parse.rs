//! Parses one case: snapshot, demand, settings and expected victims.

use super::{Broken, Case, Target, field::At};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use workflows::scheduling::planner::{
    Algorithm, BorrowWithinCohort, Demand, PreemptPolicy, Preemption, Settings, Sharing, Snapshot, Strategy,
    Workload,
};

pub(super) fn case(at: usize, value: &Value) -> Result<Case, Broken> {
    let place = format!("number {}", at + 1);
    let id = At { case: &place, key: String::new(), value }.get("id")?.text()?;
    let case = At { case: id, key: String::new(), value };
    let mut snapshot = Snapshot::new();
    cohorts(&case, &mut snapshot)?;
    workspaces(&case, &mut snapshot)?;
    let names = admitted(&case, &mut snapshot)?;
    let want = case.get("want_preempted")?.list()?.iter().map(target).collect::<Result<_, _>>()?;
    Ok(Case {
        id: id.to_owned(),
        settings: settings(&case)?,
        demand: demand(&case, &snapshot)?,
        want_count: case.get("want_count")?.count()?,
        snapshot,
        names,
        want,
    })
}

fn target(at: &At<'_>) -> Result<Target, Broken> {
    Ok(Target {
        name: at.get("name")?.text()?.to_owned(),
        reason: at
            .maybe("reason")
            .map(|reason| reason.text())
            .transpose()?
            .filter(|text| !text.is_empty())
            .map(ToOwned::to_owned),
        ongoing: at.maybe("ongoing").map(|ongoing| ongoing.flag()).transpose()?,
    })
}

fn settings(case: &At<'_>) -> Result<Settings, Broken> {
    let algorithm = case.get("algorithm")?;
    let algorithm = match algorithm.text()? {
        "classical" => Algorithm::Classical,
        "fair" => match case.maybe("fair_strategies") {
            Some(named) => {
                Algorithm::Fair { strategies: named.list()?.iter().map(strategy).collect::<Result<_, _>>()? }
            }
            None => Algorithm::fair(),
        },
        other => return algorithm.wrong(format!("`{other}` is neither classical nor fair")),
    };
    Ok(Settings { algorithm, guard: None, ..Settings::default() })
}

fn strategy(at: &At<'_>) -> Result<Strategy, Broken> {
    match at.text()? {
        "LessThanOrEqualToFinalShare" => Ok(Strategy::LessThanOrEqualToFinalShare),
        "LessThanInitialShare" => Ok(Strategy::LessThanInitialShare),
        other => {
            at.wrong(format!("`{other}` is neither LessThanOrEqualToFinalShare nor LessThanInitialShare"))
        }
    }
}

/// Adds cohorts, parents first, including those that are only named as a parent.
fn cohorts(case: &At<'_>, snapshot: &mut Snapshot) -> Result<(), Broken> {
    let list = case.get("cohorts")?;
    let mut open = Vec::new();
    for cohort in list.list()? {
        let name = cohort.get("name")?.text()?;
        let parent = cohort.maybe("parent").map(|parent| parent.text()).transpose()?;
        open.push((name, parent, cohort));
    }
    let named: BTreeSet<&str> = open.iter().map(|(name, ..)| *name).collect();
    for parent in open.iter().filter_map(|(_, parent, _)| *parent).collect::<BTreeSet<_>>() {
        if !named.contains(parent) {
            snapshot.add_cohort(parent, None, Sharing::default()).map_err(|error| list.refuse(&error))?;
        }
    }
    let mut known: BTreeSet<&str> =
        open.iter().filter_map(|(_, parent, _)| parent.filter(|parent| !named.contains(parent))).collect();
    while !open.is_empty() {
        let (ready, later): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|(_, parent, _)| parent.is_none_or(|parent| known.contains(parent)));
        if ready.is_empty() {
            let names: Vec<&str> = later.iter().map(|(name, ..)| *name).collect();
            return list.wrong(format!("the parents of {} form a cycle", names.join(", ")));
        }
        for (name, parent, cohort) in ready {
            snapshot.add_cohort(name, parent, cohort.weight()?).map_err(|error| cohort.refuse(&error))?;
            for (kind, quota) in cohort.quotas()? {
                snapshot.set_cohort_quota(name, &kind, quota).map_err(|error| cohort.refuse(&error))?;
            }
            known.insert(name);
        }
        open = later;
    }
    Ok(())
}

fn workspaces(case: &At<'_>, snapshot: &mut Snapshot) -> Result<(), Broken> {
    for workspace in case.get("cluster_queues")?.list()? {
        let name = workspace.get("name")?.text()?;
        let cohort = workspace.maybe("cohort").map(|cohort| cohort.text()).transpose()?;
        if let Some(cohort) = cohort {
            // A cohort that is only named here is a root without quota.
            let _ = snapshot.add_cohort(cohort, None, Sharing::default());
        }
        let added = snapshot.add_workspace(name, cohort, preemption(&workspace)?, workspace.weight()?);
        added.map_err(|error| workspace.refuse(&error))?;
        for (kind, quota) in workspace.quotas()? {
            snapshot.set_quota(name, &kind, quota).map_err(|error| workspace.refuse(&error))?;
        }
    }
    Ok(())
}

fn preemption(workspace: &At<'_>) -> Result<Preemption, Broken> {
    let Some(preemption) = workspace.maybe("preemption") else { return Ok(Preemption::default()) };
    let policy = |key: &str| {
        let Some(policy) = preemption.maybe(key) else { return Ok(PreemptPolicy::Never) };
        match policy.text()? {
            "Never" => Ok(PreemptPolicy::Never),
            "LowerPriority" => Ok(PreemptPolicy::LowerPriority),
            "LowerOrNewerEqualPriority" => Ok(PreemptPolicy::LowerOrNewerEqualPriority),
            "Any" => Ok(PreemptPolicy::Any),
            other => policy.wrong(format!("`{other}` is not a policy")),
        }
    };
    let borrow = match preemption.maybe("borrow_within_cohort") {
        None => BorrowWithinCohort::Never,
        Some(borrow) => {
            let named = borrow.get("policy")?;
            let threshold = borrow.maybe("max_priority_threshold").map(|most| most.integer()).transpose()?;
            match named.text()? {
                "Never" => BorrowWithinCohort::Never,
                "LowerPriority" => BorrowWithinCohort::LowerPriority { max_priority_threshold: threshold },
                other => return named.wrong(format!("`{other}` is neither Never nor LowerPriority")),
            }
        }
    };
    Ok(Preemption {
        within_workspace: policy("within_cluster_queue")?,
        reclaim_within_cohort: policy("reclaim_within_cohort")?,
        borrow_within_cohort: borrow,
    })
}

fn admitted(case: &At<'_>, snapshot: &mut Snapshot) -> Result<BTreeMap<String, String>, Broken> {
    let mut names = BTreeMap::new();
    for load in case.get("admitted")?.list()? {
        let name = load.get("name")?.text()?;
        let id = load.maybe("uid").map(|uid| uid.text()).transpose()?.unwrap_or(name);
        let workload = Workload {
            priority: load.get("priority")?.integer()?,
            queued_at: time(&load, "created_at", i64::MIN)?,
            reserved_at: time(&load, "quota_reserved_at", 0)?,
            evicted: load.maybe("evicted").map(|evicted| evicted.flag()).transpose()?.unwrap_or_default(),
            ..Workload::new(id, load.get("cluster_queue")?.text()?, load.get("usage")?.amounts()?)
        };
        snapshot.admit(workload).map_err(|error| load.refuse(&error))?;
        names.insert(id.to_owned(), name.to_owned());
    }
    Ok(names)
}

fn time(at: &At<'_>, key: &str, otherwise: i64) -> Result<i64, Broken> {
    at.maybe(key).map_or(Ok(otherwise), |time| time.seconds())
}

fn demand(case: &At<'_>, snapshot: &Snapshot) -> Result<Demand, Broken> {
    let incoming = case.get("incoming")?;
    let workspace = incoming.get("cluster_queue")?;
    if !snapshot.has_workspace(workspace.text()?) {
        return workspace.wrong(format!("cluster queue {} does not exist", workspace.text()?));
    }
    let mut contested = BTreeSet::new();
    for (name, mode) in case.get("assignment_modes")?.map()? {
        if mode.text()? == "Preempt" {
            contested.insert(mode.kind(name)?);
        }
    }
    let name = incoming.maybe("name").map(|name| name.text()).transpose()?.unwrap_or("incoming");
    Ok(Demand {
        priority: incoming.get("priority")?.integer()?,
        queued_at: time(&incoming, "created_at", i64::MIN)?,
        contested: Some(contested),
        ..Demand::new(name, workspace.text()?, incoming.get("requests")?.amounts()?)
    })
}
