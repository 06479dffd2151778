//! The journal: frames of commits in segment files, and the scan that reads them back.
//!
//! Written by the commit path, read on opening. Invariant: a frame counts only if it is complete, and a later segment
//! overrides an earlier one.

pub(crate) mod frame;
pub(crate) mod segment;
pub(crate) mod survey;
