//! A pool of tokens, and the decisions that take them and give them back.

use engine::{ActionError, Call, Entity, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tokens, and who holds how many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// In all.
    pub total: u64,
    /// With nobody.
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
    /// How many.
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

/// Gives all tokens back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Release {
    /// How many were taken at this step.
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
