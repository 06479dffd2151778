//! Cluster life replayed: the same engine, store and workflows on a clock that jumps and a platform that is simulated.
//!
//! A trace is read ([`read`]), made a [`Scene`] (nodes, quotas, demands), and replayed ([`replay_all`]). Invariant: what
//! is decided here is decided by [`crate::scheduling::admission`] and the workflows, never by this module, which only says when
//! something happens, and watches. `docs/simulate.md` is the page for people.

mod read;
mod replay;
mod report;
mod scenario;
mod trace;

pub use crate::simulate::replay::baseline::Baseline;
pub use crate::simulate::replay::measures::{Measures, Part, Sample, Waits};
pub use crate::simulate::replay::parallel::replay_all;
pub use crate::simulate::scenario::population::Population;
pub use crate::simulate::scenario::{MONDAY, Machine, Portion, Scene, SceneError, Terms};
pub use crate::simulate::trace::openb::{per_gpu, slice};
pub use crate::simulate::trace::quota_shares::{Counted, Split};
pub use read::{Source, any_model, read};
pub use replay::{Outcome, ReplayError, Settings, Violation, replay};
pub use report::{Report, page, table};
pub use trace::{Demand, Kind, Standing, Trace};
