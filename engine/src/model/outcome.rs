//! Outcomes of executions, the edges that they take, and the policy rule that can replace an approval.

use serde::{Deserialize, Serialize};

/// How an execution ends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// It did what was requested.
    Completed,
    /// Policy rejected it.
    Rejected,
    /// People refused it.
    Refused,
    /// A decision or a signal did not arrive in time.
    Expired,
    /// A failure caused its compensation; everything was undone.
    RolledBack,
    /// A person cancelled it; everything was undone.
    Cancelled,
    /// A person terminated it; the leftovers are listed.
    Terminated,
}

/// A policy rule that replaces an approval, as a waiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The document and the rule.
    pub name: String,
    /// The document's version and digest.
    pub version: String,
}

/// An edge from one state to another, as the diagram, the check and the coverage report it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// The state it leaves.
    pub from: String,
    /// The label: `done`, `approved`, `refused`, `expired`, `escalated`, `extended`, `deadline`, `signal x`, a code,
    /// or a choice's label.
    pub label: String,
    /// The state it leads to, or `[*]` at an end.
    pub to: String,
}
