//! Admission: decides which workloads use a tenant's GPUs, which wait, and which workspace lends to which.
//!
//! Clusters call [`submit`] and [`finish`]. [`admit`] is the pure decision in six dimensions. The reclaim workflow calls [`fence`], [`release_victim`],
//! [`grant`] and [`unfence`]. All take a [`View`](engine::View), so they work in a workflow's ledger action and in
//! [`Engine::transact`](engine::Engine::transact). Each is one commit: decision, loans and GPUs change together or not at all.
//!
//! Invariant: after each call every promise of `docs/admission.md` holds. Each call rewrites the [`Cohort`](crate::tenancy::Cohort), so of two conflicting
//! calls one is decided again.

pub(crate) mod accounts;
mod admit_waiting;
mod allowances;
mod apply_loans;
mod close_account;
pub mod codes;
pub(crate) mod decision;
mod gpu_allocation;
pub mod invariants;
mod node_changes;
mod observation;
mod outcome;
mod overdue_loans;
mod prefetch;
pub(crate) mod reclaims;
mod skipped;
mod starts;
mod submit;
mod unit_of_work;

pub use crate::scheduling::loans::arithmetic::{lends, spare};
pub use accounts::metering::usage_so_far;
pub use admit_waiting::{MAX_ADMITTED_PER_COMMIT, admit_queued, demands, past_deadline};
pub(crate) use admit_waiting::{lacks, too_large};
pub use allowances::{Allowances, clear_allowances, freeze, freeze_all, set_allowances, set_promises, thaw};
pub use close_account::{EndedWork, MAX_ENDED_PER_COMMIT, close_account, end_work};
pub use decision::evaluate::admit;
pub use decision::rules::{QueueAging, Rules, ThrashLimits, UsageThreshold};
pub use node_changes::{
    bar_gpu, bar_gpus, bar_gpus_after, cut_gpus, forget_nodes, lose_nodes, rest_nodes, serve_nodes,
};
pub use observation::{
    Drift, Observation, ObservationResult, ObservedKind, move_to_observed, observe, observe_running,
};
pub use outcome::{AdmissionEffects, ReclaimDemand, ThresholdCrossed};
pub use overdue_loans::{OverdueLoan, expire_loans};
pub use reclaims::spare_victims::drain_victim;
pub use reclaims::steps::{
    Fence, FenceOutcome, GrantOutcome, UnfenceOutcome, VictimExit, fence, grant, release_victim, unfence,
};
pub use submit::LONGEST_NAME;
pub use submit::{FinishOutcome, SubmitOutcome, WorkloadRequest, finish, parse_amounts, submit};
