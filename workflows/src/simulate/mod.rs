//! Cluster life replayed: the same engine, store and workflows on a clock that jumps and a platform that is simulated.
//!
//! A trace is read ([`read`]), made a [`Scene`] (nodes, quotas, demands), and replayed ([`replay_all`]). Invariant: what
//! is decided here is decided by [`crate::admission`] and the workflows, never by this module, which only says when
//! something happens, and watches. `docs/simulate.md` is the page for people.

mod audit;
mod baseline;
mod checks;
mod dlrm;
mod events;
mod feed;
mod gauge;
mod generate;
mod life;
mod measure;
mod openb;
mod people;
mod read;
mod reclaimer;
mod replay;
mod report;
mod rows;
mod scenario;
mod scene;
mod share;
mod stage;
mod story;
mod together;
mod trace;

pub use baseline::Baseline;
pub use generate::Population;
pub use measure::{Measures, Part, Sample, Waits};
pub use openb::{per_gpu, slice};
pub use read::{Source, any_model, read};
pub use replay::{Outcome, ReplayError, Settings, Violation, replay};
pub use report::{Report, page, table};
pub use scene::{MONDAY, Machine, Portion, Scene, SceneError, Terms};
pub use share::{Counted, Split};
pub use together::replay_all;
pub use trace::{Demand, Kind, Standing, Trace};
