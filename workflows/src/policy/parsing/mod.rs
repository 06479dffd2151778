//! Reads policy documents strictly: every value keeps its line and column, and all findings are collected.

pub(crate) mod defaults;
pub(crate) mod document;
pub(crate) mod finding;
pub(crate) mod provenance;
pub(crate) mod ratio;
pub(crate) mod reader;
