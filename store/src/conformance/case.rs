//! The types of a case.

use crate::Store;
use std::{future::Future, pin::Pin, sync::Arc};

/// The result of a case: nothing, or how the promise was broken.
pub type Outcome = Result<(), String>;

/// A running case.
pub type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Starts a case on an empty store.
pub type CaseFn = fn(Arc<dyn Store>) -> Running;

/// The cases of one subject, by name.
pub type Cases = &'static [(&'static str, CaseFn)];
