//! A pool of tokens, and the decisions that take and return them.

use engine::{ActionError, Call, Entity, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tokens, and their holders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// In total.
    pub total: u64,
    /// Not held.
    pub free: u64,
    /// By execution.
    pub held: BTreeMap<String, u64>,
}
impl Pool {
    /// The one pool's name.
    pub const ID: &'static str = "tokens";
}
impl Entity for Pool {
    const COLLECTION: &'static str = "pools";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;
    fn id(&self) -> String {
        Self::ID.into()
    }
}

/// Takes tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reserve {
    /// The number of tokens.
    pub tokens: u64,
}
impl LedgerAction for Reserve {
    const NAME: &'static str = "Reserve";
    type Output = ();
    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let mut pool = view.require::<Pool>(Pool::ID)?;
        let Some(free) = pool.free.checked_sub(self.tokens) else {
            return Err(ActionError::transient("pool.empty", "not enough tokens").into());
        };
        pool.free = free;
        *pool.held.entry(call.execution.to_string()).or_default() += self.tokens;
        view.put(&pool)
    }
}

/// Returns all tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Release {
    /// The number of tokens taken at this step.
    pub tokens: u64,
}
impl LedgerAction for Release {
    const NAME: &'static str = "Release";
    type Output = ();
    fn decide(&self, view: &mut View, call: &Call) -> Result<(), Undecided> {
        let mut pool = view.require::<Pool>(Pool::ID)?;
        let back = pool.held.remove(&call.execution.to_string()).unwrap_or(0);
        pool.free += back;
        view.put(&pool)
    }
}
