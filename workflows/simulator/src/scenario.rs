//! A scenario: nodes, quotas, demands and terms of a replay.

mod file;
mod population;
mod source;

use crate::trace::{
    Demand, Kind, Trace,
    openb::per_gpu,
    quota_shares::{self, Counted, Shares, Split},
};
use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};
use store::Timestamp;
use workflows::{
    fleet::NodeRow,
    policy::{Finding, Invalid},
    tenancy::{
        Allowance, GpuKind, GpuModel, Name, NameKind, NodeId, Profile, Resource, TenantId, WorkspaceClass,
        WorkspaceName,
    },
};

pub use population::Population;
pub use source::{Source, any_model, read};

/// The start of a replay whose trace has no date: 2026-01-05, a Monday, at midnight UTC.
pub const MONDAY: Timestamp = Timestamp(1_767_571_200_000);
/// GPUs per node, if no fleet is given.
const NODE_GPUS: u16 = 8;
/// The percentage of GPUs that are outside of all quotas.
const BUFFER_PERCENT: u64 = 5;

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeSpec {
    /// The serial number.
    pub node: NodeId,
    /// By index: the profile of a partitioned GPU, or `None` for a whole one.
    pub gpus: Vec<Option<Profile>>,
}

/// A workspace and its quotas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkspaceSpec {
    /// The class.
    pub class: WorkspaceClass,
    /// Quotas by resource.
    pub allowances: BTreeMap<Resource, Allowance>,
    /// The part of the nominal quota that is returned within the deadline.
    pub reserved: BTreeMap<GpuKind, u64>,
}

/// The terms of loans and reclaims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReclaimTerms {
    /// The time from a borrower's notice to its eviction.
    pub grace: Duration,
    /// The longest time from a demand inside a reservation to its GPUs.
    pub deadline: Duration,
    /// How long an evicted borrower may not borrow again.
    pub cooldown: Duration,
    /// The interval of the sweeps.
    pub sweep_every: Duration,
}

impl Default for ReclaimTerms {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(120),
            deadline: Duration::from_secs(900),
            cooldown: Duration::from_secs(600),
            sweep_every: Duration::from_secs(60),
        }
    }
}

/// A scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Scenario {
    /// The name.
    pub name: String,
    /// The description, if it has one.
    pub about: String,
    /// The origin.
    pub kind: Kind,
    /// The tenant.
    pub tenant: TenantId,
    /// The model of all GPUs.
    pub model: GpuModel,
    /// The start.
    pub starts: Timestamp,
    /// The duration.
    pub ends: Duration,
    /// The nodes.
    pub machines: Vec<NodeSpec>,
    /// The workspaces.
    pub workspaces: BTreeMap<WorkspaceName, WorkspaceSpec>,
    /// The demands, by time.
    pub demands: Vec<Demand>,
    /// The terms.
    pub terms: ReclaimTerms,
    /// Counts from the derivation of quotas.
    pub counts: Vec<(String, Counted)>,
    /// Assumptions and omissions.
    pub notes: Vec<String>,
}

/// The reason why a scenario cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The trace has no demands.
    #[error("the trace requests no GPUs")]
    Empty,
    /// The fleet is too small.
    #[error("the fleet has {have} GPUs, but the quotas and the buffer need {need}; add nodes")]
    FleetTooSmall {
        /// The GPUs of the fleet.
        have: u64,
        /// The required GPUs.
        need: u64,
    },
    /// The scenario is too long.
    #[error("with these repetitions it would last longer than {days} days; repeat it less often")]
    TooLong {
        /// The limit in days.
        days: u64,
    },
    /// A workload's name is too long for its number.
    #[error(
        "{0}: with the number of its repetition, the name is longer than 64 characters; use shorter names"
    )]
    Name(String),
}

impl Scenario {
    /// The largest number of demands for which the event log is recorded.
    pub const TOLD: usize = 200;
    /// The longest replay: a hundred years.
    pub const LONGEST: Duration = Duration::from_secs(36_525 * 86_400);

    /// Creates the replay of a trace's second half, with quotas derived from its first half.
    ///
    /// # Errors
    ///
    /// If the trace is empty, or if `fleet` has too few GPUs.
    pub fn of(trace: &Trace, fleet: Option<&[NodeRow]>, model: &GpuModel) -> Result<Self, ScenarioError> {
        if trace.demands.is_empty() {
            return Err(ScenarioError::Empty);
        }
        let split = quota_shares::split(trace);
        let shares = shares(trace, &split);
        let mut trace = trace.clone();
        quota_shares::stand(&mut trace.demands, &shares);
        let counts = counts(&trace, &split, &shares);
        let half = quota_shares::second_half(&trace, &split);
        let machines = machines(&half, &shares, fleet)?;
        let mut notes = trace.notes.clone();
        notes.push(format!(
            "cut at half of {}, {:.1} days after its start; the first part sets the shares, the second part is replayed",
            split.of,
            split.at.as_secs_f64() / 86_400.0
        ));
        Ok(Self {
            name: <&str>::from(trace.kind).to_owned(),
            about: String::new(),
            kind: trace.kind,
            tenant: trace.tenant.clone(),
            model: model.clone(),
            starts: MONDAY,
            ends: half.ends,
            machines,
            workspaces: portions(&half, &shares),
            demands: half.demands,
            terms: ReclaimTerms::default(),
            counts,
            notes,
        })
    }

    /// Repeats the scenario `times` times in sequence, for example to make a year from weeks. Nodes and quotas stay;
    /// workloads of later repetitions have a number after their names, such as `-2`. A workload without an end runs
    /// until the end of its repetition.
    ///
    /// # Errors
    ///
    /// If the result is too long, or if a name exceeds its limit.
    pub fn repeated(mut self, times: u32) -> Result<Self, ScenarioError> {
        let whole = self.ends.checked_mul(times).filter(|whole| *whole <= Self::LONGEST);
        let ends = whole.ok_or(ScenarioError::TooLong { days: Self::LONGEST.as_secs() / 86_400 })?;
        let (one, first) = (self.ends, std::mem::take(&mut self.demands));
        for time in 0..times {
            let before = one * time;
            for demand in &first {
                let name =
                    if time == 0 { demand.name.clone() } else { format!("{}-{}", demand.name, time + 1) };
                if name.len() > workflows::scheduling::admission::LONGEST_NAME {
                    return Err(ScenarioError::Name(name));
                }
                let lasts = demand.lasts.or((times > 1).then(|| one.saturating_sub(demand.at)));
                self.demands.push(Demand {
                    name,
                    at: demand.at + before,
                    lasts,
                    left: demand.left.map(|left| left + before),
                    ..demand.clone()
                });
            }
        }
        if times > 1 {
            self.notes.push(format!("replayed {times} times in succession"));
        }
        self.ends = ends;
        Ok(self)
    }

    /// Returns the GPUs or slices of each kind.
    #[must_use]
    pub fn capacity(&self) -> BTreeMap<GpuKind, u64> {
        let mut all = BTreeMap::new();
        for profile in self.machines.iter().flat_map(|machine| &machine.gpus) {
            let kind = GpuKind { model: self.model.clone(), profile: profile.clone() };
            let pieces = profile.as_ref().map_or(1, |profile| u64::from(per_gpu(profile.as_str())));
            *all.entry(kind).or_default() += pieces;
        }
        all
    }

    /// Returns the number of whole GPUs.
    #[must_use]
    pub fn gpus(&self) -> usize {
        self.machines.iter().map(|machine| machine.gpus.len()).sum()
    }
}

/// Returns the quota of each workspace; none for those that only borrow.
fn shares(trace: &Trace, split: &Split) -> Shares {
    quota_shares::reservations(trace, split, |demand| {
        let research = trace.workspaces.get(&demand.workspace) == Some(&WorkspaceClass::Research);
        (!research).then(|| (demand.workspace.clone(), demand.kind.clone()))
    })
}

/// Counts demands by the trace's groups and by the replayed workspaces.
fn counts(trace: &Trace, split: &Split, shares: &Shares) -> Vec<(String, Counted)> {
    let origin = |demand: &Demand| (demand.origin.clone(), demand.kind.clone());
    let mut all = Vec::new();
    if trace.kind == Kind::Dlrm {
        let own = quota_shares::reservations(trace, split, |demand| Some(origin(demand)));
        all.push(("application".to_owned(), quota_shares::count(trace, split, &own, origin)));
    }
    let key = |demand: &Demand| (demand.workspace.clone(), demand.kind.clone());
    all.push(("workspace".to_owned(), quota_shares::count(trace, split, shares, key)));
    all
}

fn portions(trace: &Trace, shares: &Shares) -> BTreeMap<WorkspaceName, WorkspaceSpec> {
    let mut portions: BTreeMap<WorkspaceName, WorkspaceSpec> = BTreeMap::new();
    for (workspace, class) in &trace.workspaces {
        let portion = WorkspaceSpec { class: *class, allowances: BTreeMap::new(), reserved: BTreeMap::new() };
        portions.insert(workspace.clone(), portion);
    }
    // Every workspace may borrow every kind, even without a quota for it.
    let kinds: std::collections::BTreeSet<_> =
        trace.demands.iter().map(|demand| &demand.kind).chain(shares.keys().map(|(_, kind)| kind)).collect();
    for (workspace, portion) in &mut portions {
        for kind in &kinds {
            let nominal = shares.get(&(workspace.clone(), (*kind).clone())).copied().unwrap_or(0);
            let allowance = Allowance { nominal, borrowing_limit: None, lending_limit: None };
            portion.allowances.insert(Resource::Gpu((*kind).clone()), allowance);
            if nominal > 0 {
                portion.reserved.insert((*kind).clone(), nominal);
            }
        }
    }
    portions
}

/// Returns the whole GPUs that the quotas of each kind and the buffer need; at least one for every demanded kind.
fn cards(trace: &Trace, shares: &Shares) -> BTreeMap<GpuKind, u64> {
    let mut promised: BTreeMap<GpuKind, u64> = BTreeMap::new();
    for demand in &trace.demands {
        promised.entry(demand.kind.clone()).or_default();
    }
    for ((_, kind), count) in shares {
        *promised.entry(kind.clone()).or_default() += count;
    }
    let card = |(kind, pieces): (GpuKind, u64)| {
        let each = kind.profile.as_ref().map_or(1, |profile| u64::from(per_gpu(profile.as_str())));
        let with_buffer = (pieces * 100).div_ceil(100 - BUFFER_PERCENT);
        (kind, with_buffer.div_ceil(each).max(1))
    };
    promised.into_iter().map(card).collect()
}

fn machines(
    trace: &Trace,
    shares: &Shares,
    fleet: Option<&[NodeRow]>,
) -> Result<Vec<NodeSpec>, ScenarioError> {
    let cards = cards(trace, shares);
    let need: u64 = cards.values().sum();
    // Whole GPUs first, so that they are on the same nodes.
    let mut cuts: Vec<(Option<Profile>, u64)> =
        cards.into_iter().map(|(kind, cards)| (kind.profile, cards)).collect();
    cuts.sort();
    let mut cuts = cuts.into_iter().flat_map(|(profile, cards)| {
        std::iter::repeat_n(profile, usize::try_from(cards).unwrap_or(usize::MAX))
    });
    let mut machines = Vec::new();
    let (mut placed, mut sizes) = (0_u64, sizes(fleet, need));
    while placed < need {
        let Some((node, size)) = sizes.next() else {
            return Err(ScenarioError::FleetTooSmall { have: placed, need });
        };
        // The remaining GPUs of the last node stay whole and belong to the buffer.
        let gpus: Vec<_> = (0..size).map(|_| cuts.next().flatten()).collect();
        placed += u64::from(size);
        machines.push(NodeSpec { node, gpus });
    }
    Ok(machines)
}

/// Returns nodes with their number of GPUs: those of the fleet, the largest first, or any number of nodes of one size.
fn sizes<'a>(fleet: Option<&'a [NodeRow]>, need: u64) -> Box<dyn Iterator<Item = (NodeId, u16)> + 'a> {
    match fleet {
        Some(rows) => {
            let mut rows: Vec<_> = rows.iter().collect();
            rows.sort_by(|a, b| b.gpus.cmp(&a.gpus).then_with(|| a.node.cmp(&b.node)));
            let size = |row: &NodeRow| u16::try_from(row.gpus.0).unwrap_or(u16::MAX);
            Box::new(rows.into_iter().map(move |row| (row.node.clone(), size(row))))
        }
        None => Box::new(
            (1..=need).filter_map(|number| Some((format!("node-{number:04}").parse().ok()?, NODE_GPUS))),
        ),
    }
}

/// Parses a name from a constant.
fn known<K: NameKind>(text: &str) -> Result<Name<K>, Invalid> {
    text.parse().map_err(|error| Finding::new(None, "", format!("{error}"), Name::<K>::rule()).into())
}
