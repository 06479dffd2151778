//! Published cases of preemption, converted to the planner's terms to compare its decisions.
//!
//! The format transcribes Kueue's test tables: `cluster_queue` is a workspace, `flavor/resource` a kind. Keys without
//! influence on the decision are ignored. `docs/examples/reclaim-cases.json` is a small example.

mod field;
mod parse;

use parse::case;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use workflows::scheduling::planner::{Demand, PlanAnswer, Settings, Snapshot, plan};

/// An error in a case file: case, key and problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("case {case}: {key}: {why}")]
pub struct Broken {
    /// The id of the case, or its position in the file.
    pub case: String,
    /// The path of the key.
    pub key: String,
    /// The problem.
    pub why: String,
}

/// A victim and the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    name: String,
    /// `None` if the case does not state it.
    reason: Option<String>,
    ongoing: Option<bool>,
}

/// Victims for display.
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

/// A case: a state, a demand, and the expected victims.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its id.
    pub id: String,
    snapshot: Snapshot,
    demand: Demand,
    settings: Settings,
    /// Names of workloads by the ids that determine their order.
    names: BTreeMap<String, String>,
    want: BTreeSet<Target>,
    want_count: u64,
}

impl Case {
    /// Plans the case.
    ///
    /// # Errors
    ///
    /// If other victims or reasons are chosen than expected: the expected and the chosen ones.
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

/// Parses a case file.
///
/// # Errors
///
/// If it is not JSON or a case is incomplete; the error names case and key.
pub fn read(text: &str) -> Result<Vec<Case>, Broken> {
    let broken = |why: String| Broken { case: "none".to_owned(), key: "cases".to_owned(), why };
    let whole: Value = serde_json::from_str(text).map_err(|error| broken(format!("not JSON: {error}")))?;
    let cases = whole.get("cases").unwrap_or(&whole).as_array();
    let cases = cases.ok_or_else(|| broken("must be a list of cases".to_owned()))?;
    cases.iter().enumerate().map(|(at, value)| case(at, value)).collect()
}
