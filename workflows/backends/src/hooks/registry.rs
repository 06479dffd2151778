//! The hooks of a platform, by name.

use super::{Answer, Request, Verb};
use async_trait::async_trait;
use engine::{ActionError, Probe};
use serde_json::Value;
use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};
use workflows::platform::{CallMetadata, Hook, Hooks};

/// A program or a service that stands behind the name of a hook.
#[async_trait]
pub trait HookBackend: Debug + Send + Sync {
    /// What it is, for people.
    fn backend(&self) -> &'static str;

    /// How it is to be called.
    fn manners(&self) -> HookTraits;

    /// Sends the request and reads the answer, within the request's deadline.
    async fn ask(&self, request: &Request) -> Result<Answer, ActionError>;
}

/// How a hook is to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookTraits {
    /// How long it has for an answer, in place of the call's own deadline.
    pub deadline: Option<Duration>,
    /// Whether it answers probes. One that does not is called again instead, which its key must make harmless.
    pub probes: bool,
    /// Whether it answers dry runs. One that does not is not called for them.
    pub dry_runs: bool,
}

/// Hooks by name; every other is called on `rest`, where there is one.
#[derive(Debug)]
pub struct HookRegistry {
    hooks: BTreeMap<String, Arc<dyn HookBackend>>,
    rest: Option<Arc<dyn Hooks>>,
    said: &'static str,
}

impl HookRegistry {
    /// These hooks, and `rest` for all that are not among them.
    #[must_use]
    pub fn new(hooks: BTreeMap<String, Arc<dyn HookBackend>>, rest: Option<Arc<dyn Hooks>>) -> Self {
        let named = hooks.iter().map(|(name, hook)| format!("{name}: {}", hook.backend()));
        let others = rest.iter().map(|rest| format!("others: {}", rest.backend()));
        let said = named.chain(others).collect::<Vec<_>>().join(", ");
        // Said for as long as the process runs, once a process.
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
            // It is called again with the same key, which says how it stands.
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
