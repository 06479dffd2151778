//! Replays of cluster traces: the real engine, store and workflows, with a clock that jumps and a simulated platform.
//!
//! A trace is parsed ([`read`]), converted to a [`Scenario`] (nodes, quotas, demands) and replayed ([`replay_all`]).
//! Invariant: all decisions are made by [`workflows::scheduling::admission`] and the workflows. This crate only
//! produces events and measures results. See `docs/simulate.md`.

#[cfg(any(test, feature = "lab"))]
pub mod large_tenants;
#[cfg(feature = "lab")]
pub mod reclaim_cases;
mod replay;
mod report;
mod scenario;
mod trace;
#[cfg(feature = "lab")]
pub mod verification;

pub use replay::{
    Baseline, Measures, Outcome, ReplayError, Sample, Settings, Violation, Waits, WorkspaceMeasures, replay,
    replay_all,
};
pub use report::{Report, page, table};
pub use scenario::{
    MONDAY, NodeSpec, Population, ReclaimTerms, Scenario, ScenarioError, Source, WorkspaceSpec, any_model,
    read,
};
pub use trace::{Counted, Demand, Kind, Split, Trace, Treatment, per_gpu, slice};
