//! The hooks of a platform, by name.

use super::{Answer, Request, Verb};
use async_trait::async_trait;
use engine::{ActionError, Probe};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};
use workflows::platform::{CallMetadata, Hook, Hooks};

/// A program or a service that implements a hook.
#[async_trait]
pub trait HookBackend: Debug + Send + Sync {
    /// The kind of backend, for display.
    fn backend(&self) -> &'static str;

    /// Returns the settings for calls to this hook.
    fn manners(&self) -> HookTraits;

    /// Sends the request and reads the answer within the request's deadline.
    async fn ask(&self, request: &Request) -> Result<Answer, ActionError>;
}

/// Settings for calls to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookTraits {
    /// The deadline of each call; it replaces the deadline of the action.
    pub deadline: Option<Duration>,
    /// True if the hook implements `probe`. If false, the hook is called again; its key must make that harmless.
    pub probes: bool,
    /// True if the hook implements `dry_run`. If false, dry runs do not call it.
    pub dry_runs: bool,
}

/// Hooks by name. Unknown names are passed to `rest`, if present.
#[derive(Debug)]
pub struct HookRegistry {
    hooks: BTreeMap<String, Arc<dyn HookBackend>>,
    rest: Option<Arc<dyn Hooks>>,
    said: &'static str,
}

impl HookRegistry {
    /// Combines these hooks with `rest`, which serves all other names.
    #[must_use]
    pub fn new(hooks: BTreeMap<String, Arc<dyn HookBackend>>, rest: Option<Arc<dyn Hooks>>) -> Self {
        let named = hooks.iter().map(|(name, hook)| format!("{name}: {}", hook.backend()));
        let others = rest.iter().map(|rest| format!("others: {}", rest.backend()));
        let said = named.chain(others).collect::<Vec<_>>().join(", ");
        // Lives as long as the process; there is one per process.
        Self { hooks, rest, said: if said.is_empty() { "none" } else { String::leak(said) } }
    }

    fn request(&self, one: &dyn HookBackend, hook: &Hook, verb: Verb, stamp: &CallMetadata) -> Request {
        let deadline = one.manners().deadline.unwrap_or(stamp.deadline);
        Request::of(hook, verb, stamp, deadline)
    }

    async fn act(
        &self,
        one: &dyn HookBackend,
        hook: &Hook,
        verb: Verb,
        stamp: &CallMetadata,
    ) -> Result<Value, ActionError> {
        if stamp.dry_run && !one.manners().dry_runs {
            return Ok(Value::Null);
        }
        let verb = if stamp.dry_run { Verb::DryRun } else { verb };
        let request = self.request(one, hook, verb, stamp);
        one.ask(&request).await?.of_deed(&request)
    }
}

#[async_trait]
impl Hooks for HookRegistry {
    fn backend(&self) -> &'static str {
        self.said
    }

    async fn run(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Value, ActionError> {
        match (self.hooks.get(&hook.name), &self.rest) {
            (Some(one), _) => self.act(one.as_ref(), hook, Verb::Run, stamp).await,
            (None, Some(rest)) => rest.run(hook, stamp).await,
            (None, None) => Err(hook.missing()),
        }
    }

    async fn probe(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Probe<Value>, ActionError> {
        match (self.hooks.get(&hook.name), &self.rest) {
            (Some(one), _) if one.manners().probes => {
                let request = self.request(one.as_ref(), hook, Verb::Probe, stamp);
                Ok(one.ask(&request).await?.of_probe())
            }
            // The hook is called again with the same key, and its answer shows the outcome.
            (Some(_), _) => Ok(Probe::NotDone),
            (None, Some(rest)) => rest.probe(hook, stamp).await,
            (None, None) => Err(hook.missing()),
        }
    }

    async fn undo(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Value, ActionError> {
        match (self.hooks.get(&hook.name), &self.rest) {
            (Some(one), _) => self.act(one.as_ref(), hook, Verb::Undo, stamp).await,
            (None, Some(rest)) => rest.undo(hook, stamp).await,
            (None, None) => Err(hook.missing()),
        }
    }
}
