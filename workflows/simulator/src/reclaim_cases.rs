//! Published cases of preemption, read by renaming their fields, so that the planner's answers can be compared.
//!
//! The format is that of Kueue's own tables, transcribed: `cluster_queue` is a workspace, `flavor/resource` a kind. Only
//! what decides is read; other keys are left alone. `docs/examples/reclaim-cases.json` is a small file of that kind.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use workflows::scheduling::planner::{
    Algorithm, Amounts, Answer, BorrowWithinCohort, Demand, Kind, Preempt, Preemption, Quota, Settings,
    Sharing, Snapshot, Strategy, Weight, Workload, plan,
};

/// A file that cannot be read as cases: which case, which key, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("case {case}: {key}: {why}")]
pub struct Broken {
    /// The id of the case, or its place in the file.
    pub case: String,
    /// The key, with the way to it.
    pub key: String,
    /// What is wrong.
    pub why: String,
}

/// A victim and why it is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    name: String,
    /// None where the case does not say.
    reason: Option<String>,
    ongoing: Option<bool>,
}

/// Targets as they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets(BTreeSet<Target>);

impl fmt::Display for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "nobody");
        }
        for (at, target) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{}", target.name)?;
            if let Some(reason) = &target.reason {
                write!(f, " {reason}")?;
            }
            if target.ongoing == Some(true) {
                write!(f, " ongoing")?;
            }
        }
        Ok(())
    }
}

/// One case: a state, a demand, and who should give way.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its id.
    pub id: String,
    snapshot: Snapshot,
    demand: Demand,
    settings: Settings,
    /// Names of workloads by the ids that they are ordered by.
    names: BTreeMap<String, String>,
    want: BTreeSet<Target>,
    want_count: u64,
}

impl Case {
    /// Plans the case.
    ///
    /// # Errors
    /// If other victims are chosen, or for other reasons, than it says: what it says, and what was chosen.
    pub fn check(&self) -> Result<(), (String, Targets)> {
        let victims = match plan(&self.snapshot, &self.demand, &self.settings) {
            Ok(Answer::Reclaim(plan)) => plan.victims,
            Ok(Answer::Fits { .. } | Answer::Wait { .. }) | Err(_) => Vec::new(),
        };
        let known = |id: &String| self.names.get(id).unwrap_or(id).clone();
        let got = victims.iter().map(|victim| Target {
            name: known(&victim.workload),
            reason: Some(victim.reason.to_string()),
            ongoing: Some(victim.ongoing),
        });
        let got: BTreeSet<Target> = got.collect();
        let meets = |(want, got): (&Target, &Target)| {
            want.name == got.name
                && (want.reason.is_none() || want.reason == got.reason)
                && (want.ongoing.is_none() || want.ongoing == got.ongoing)
        };
        let alike = self.want.len() == got.len() && self.want.iter().zip(&got).all(meets);
        if alike && u64::try_from(got.len()) == Ok(self.want_count) {
            return Ok(());
        }
        let said = Targets(self.want.clone());
        let expected = if u64::try_from(self.want.len()) == Ok(self.want_count) {
            said.to_string()
        } else {
            format!("{} of {said}", self.want_count)
        };
        Err((expected, Targets(got)))
    }
}

/// Reads a file of cases.
///
/// # Errors
/// If it is not JSON or a case lacks something, naming the case and the key.
pub fn read(text: &str) -> Result<Vec<Case>, Broken> {
    let broken = |why: String| Broken { case: "none".to_owned(), key: "cases".to_owned(), why };
    let whole: Value = serde_json::from_str(text).map_err(|error| broken(format!("no JSON: {error}")))?;
    let cases = whole.get("cases").unwrap_or(&whole).as_array();
    let cases = cases.ok_or_else(|| broken("must be a list of cases".to_owned()))?;
    cases.iter().enumerate().map(|(at, case)| one(at, case)).collect()
}

/// A place in a case, for errors.
#[derive(Clone)]
struct At<'a> {
    case: &'a str,
    key: String,
    value: &'a Value,
}

impl<'a> At<'a> {
    fn wrong<T>(&self, why: impl Into<String>) -> Result<T, Broken> {
        let key = if self.key.is_empty() { "the case" } else { &self.key };
        Err(Broken { case: self.case.to_owned(), key: key.to_owned(), why: why.into() })
    }

    fn refuse(&self, why: &dyn fmt::Display) -> Broken {
        Broken { case: self.case.to_owned(), key: self.key.clone(), why: why.to_string() }
    }

    /// A key below; null is as good as absent.
    fn maybe(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Some(Self { case: self.case, key, value })
    }

    fn get(&self, key: &str) -> Result<Self, Broken> {
        if let Some(found) = self.maybe(key) {
            return Ok(found);
        }
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Err(Broken { case: self.case.to_owned(), key, why: "is missing".to_owned() })
    }

    fn list(&self) -> Result<Vec<Self>, Broken> {
        let Some(list) = self.value.as_array() else { return self.wrong("must be a list") };
        let each = list.iter().enumerate();
        Ok(each
            .map(|(at, value)| Self { case: self.case, key: format!("{}[{at}]", self.key), value })
            .collect())
    }

    fn map(&self) -> Result<Vec<(&'a String, Self)>, Broken> {
        let Some(map) = self.value.as_object() else { return self.wrong("must be an object") };
        let each = map.iter().collect::<BTreeMap<_, _>>().into_iter();
        Ok(each
            .map(|(name, value)| {
                (name, Self { case: self.case, key: format!("{}[\"{name}\"]", self.key), value })
            })
            .collect())
    }

    fn text(&self) -> Result<&'a str, Broken> {
        self.value.as_str().map_or_else(|| self.wrong("must be a text"), Ok)
    }

    fn count(&self) -> Result<u64, Broken> {
        self.value.as_u64().map_or_else(|| self.wrong("must be a whole number, not below zero"), Ok)
    }

    fn integer(&self) -> Result<i64, Broken> {
        self.value.as_i64().map_or_else(|| self.wrong("must be a whole number"), Ok)
    }

    /// Seconds, as ms.
    fn seconds(&self) -> Result<i64, Broken> {
        match (self.value.as_i64(), self.value.as_f64()) {
            (Some(whole), _) => Ok(whole.saturating_mul(1000)),
            #[allow(clippy::cast_possible_truncation, reason = "casts from floats saturate")]
            (None, Some(part)) => Ok((part * 1000.0).round() as i64),
            (None, None) => self.wrong("must be a number of seconds"),
        }
    }

    fn flag(&self) -> Result<bool, Broken> {
        self.value.as_bool().map_or_else(|| self.wrong("must be true or false"), Ok)
    }

    fn kind(&self, name: &str) -> Result<Kind, Broken> {
        name.parse().map_err(|error| self.refuse(&error))
    }

    fn amounts(&self) -> Result<Amounts, Broken> {
        self.map()?.into_iter().map(|(name, amount)| Ok((amount.kind(name)?, amount.count()?))).collect()
    }

    fn weight(&self) -> Result<Sharing, Broken> {
        let Some(weight) = self.maybe("fair_weight") else { return Ok(Sharing::default()) };
        let Some(number) = weight.value.as_f64().filter(|number| *number >= 0.0) else {
            return weight.wrong("must be a number, not below zero");
        };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "casts from floats saturate"
        )]
        let billionths = (number * 1e9).round() as u64;
        Ok(Sharing { weight: Weight::billionths(billionths), min_runtime: None })
    }

    fn quotas(&self) -> Result<Vec<(Kind, Quota)>, Broken> {
        let Some(quotas) = self.maybe("quotas") else { return Ok(Vec::new()) };
        let each = quotas.map()?.into_iter().map(|(name, quota)| {
            let count = |key| quota.maybe(key).map(|count| count.count()).transpose();
            let of = Quota {
                nominal: count("nominal")?.unwrap_or_default(),
                borrowing_limit: count("borrowing_limit")?,
                lending_limit: count("lending_limit")?,
            };
            Ok((quota.kind(name)?, of))
        });
        each.collect()
    }
}

fn one(at: usize, value: &Value) -> Result<Case, Broken> {
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

/// Adds cohorts, those above first, and those that are only named as somebody's parent.
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
            return list.wrong(format!("{} are above one another in a circle", names.join(", ")));
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
        let Some(policy) = preemption.maybe(key) else { return Ok(Preempt::Never) };
        match policy.text()? {
            "Never" => Ok(Preempt::Never),
            "LowerPriority" => Ok(Preempt::LowerPriority),
            "LowerOrNewerEqualPriority" => Ok(Preempt::LowerOrNewerEqualPriority),
            "Any" => Ok(Preempt::Any),
            other => policy.wrong(format!("`{other}` is no policy")),
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
        return workspace.wrong(format!("there is no cluster queue {}", workspace.text()?));
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
