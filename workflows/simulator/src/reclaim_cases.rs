//! Published cases of preemption, read by renaming their fields, so that the planner's answers can be compared.
//!
//! The format is that of Kueue's own tables, transcribed: `cluster_queue` is a workspace, `flavor/resource` a kind. Only
//! what decides is read; other keys are left alone. `docs/examples/reclaim-cases.json` is a small file of that kind.

mod field;
mod parse;

use parse::case;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use workflows::scheduling::planner::{Demand, PlanAnswer, Settings, Snapshot, plan};

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
            Ok(PlanAnswer::Reclaim(plan)) => plan.victims,
            Ok(PlanAnswer::Fits { .. } | PlanAnswer::Wait { .. }) | Err(_) => Vec::new(),
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
    cases.iter().enumerate().map(|(at, value)| case(at, value)).collect()
}
