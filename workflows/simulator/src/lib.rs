//! Cluster life replayed: the same engine, store and workflows on a clock that jumps and a platform that is simulated.
//!
//! A trace is read ([`read`]), made a [`Scenario`] (nodes, quotas, demands), and replayed ([`replay_all`]). Invariant: what
//! is decided here is decided by [`workflows::scheduling::admission`] and the workflows, never by this module, which only says when
//! something happens, and watches. `docs/simulate.md` is the page for people.

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
