//! Admission: who may use a tenant's GPUs now, who waits, and who lends to whom.
//!
//! [`submit`] and [`finish`] are what clusters call; [`admit`] is the decision, pure, in six dimensions; the functions of a
//! reclaim ([`fence`], [`release_victim`], [`grant`], [`unfence`]) are called by its workflow. All take a [`View`](engine::View), so they serve inside
//! a workflow's ledger action and inside [`Engine::ledger`](engine::Engine::ledger) alike, and each is one commit: the decision, the
//! loans and the GPUs stand together or not at all.
//!
//! Invariant: after each of them every promise of `docs/admission.md` holds. The [`Cohort`](crate::tenancy::Cohort) is the
//! head that each of them rewrites, so of two that cannot both hold one is decided again.

mod allow;
mod arithmetic;
mod aside;
pub mod audit;
mod behind;
mod books;
mod close;
pub mod codes;
mod decide;
mod desk;
mod expire;
mod foresee;
mod gpus;
mod loans;
mod needless;
mod news;
mod nodes;
mod objection;
mod place;
mod reclaim;
mod rules;
mod settle;
mod spend;
mod submit;
mod wake;
mod weigh;

pub use allow::{Allowances, clear_allowances, freeze, freeze_all, set_allowances, set_promises, thaw};
pub use arithmetic::{lends, spare};
pub use close::{Ended, MOST_ENDED, close_account, end_work};
pub use expire::{Overdue, expire_loans};
pub use needless::drain_victim;
pub use news::{Crossing, Demand, News};
pub use nodes::{
    Drift, Observation, Observed, Seen, bar_gpu, cut_gpus, forget_nodes, lose_nodes, observe, rest_nodes,
    serve_nodes,
};
pub use reclaim::{Fence, Fenced, Gone, Granted, Unfenced, fence, grant, release_victim, unfence};
pub use rules::{Ageing, Rules, Soft, Thrash};
pub use spend::usage_so_far;
pub(crate) use submit::LONGEST_NAME;
pub use submit::{Finished, Request, Submitted, finish, submit, whole};
pub use wake::{MOST_WOKEN, demands, late, wake};
pub use weigh::admit;
