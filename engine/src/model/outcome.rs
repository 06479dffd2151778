//! How an execution ends, the edges that it takes, and the policy rule that can stand for an approval.

use serde::{Deserialize, Serialize};

/// How an execution ends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// It did what it was asked for.
    Completed,
    /// Policy said no.
    Rejected,
    /// People said no.
    Refused,
    /// Nobody decided, or nothing came, in time.
    Expired,
    /// A failure turned it back, and everything was undone.
    RolledBack,
    /// A person cancelled it, and everything was undone.
    Cancelled,
    /// A person closed it by force; the leak report lists what was left.
    Terminated,
}

/// A policy rule that stands for people: recorded in place of an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Which rule of which document.
    pub name: String,
    /// The document's version and digest.
    pub version: String,
}

/// A way from one state to another, as diagram, check and coverage see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// The state it leaves.
    pub from: String,
    /// What makes it be taken: `done`, `approved`, `refused`, `expired`, `escalated`, `extended`, `deadline`, `signal x`, a code, or a choice's label.
    pub label: String,
    /// The state it leads to, or `[*]` at an end.
    pub to: String,
}
