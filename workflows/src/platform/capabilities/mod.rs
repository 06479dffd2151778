//! The traits that backends implement, one file per capability, with the values they exchange.

pub(crate) mod kubernetes;
pub(crate) mod machines;
pub(crate) mod tenant_resources;
