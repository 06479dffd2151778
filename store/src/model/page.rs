//! Pages of lists.

use crate::{Entry, Sequence};

/// A part of a list, and the cursor of the next part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The items, in order.
    pub items: Vec<T>,
    /// The `after` of the next call; `None` at the end.
    pub next: Option<C>,
}

/// A part of the history of all executions: entries, each with its place within its commit.
pub type History = Page<(u32, Entry), (Sequence, u32)>;
