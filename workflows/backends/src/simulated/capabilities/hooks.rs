//! Hooks of a simulated platform: a run creates an object of the tenant, and its undo removes it.

use crate::simulated::{
    Simulated, System, Verb,
    capabilities::{Call, SIMULATED, found},
};
use async_trait::async_trait;
use engine::{ActionError, Probe};
use ring::digest;
use serde_json::{Value, json};
use workflows::platform::{CallMetadata, Hook, Hooks};

const HOOK: &str = "Hook";

/// Returns the name of the object for a hook, a tenant and these arguments.
fn name_of(hook: &Hook) -> String {
    let digest = digest::digest(&digest::SHA256, hook.arguments.to_string().as_bytes());
    let short = store::hex::encode(digest.as_ref().get(..6).unwrap_or_default());
    format!("{}--{}--{short}", hook.tenant, hook.name)
}

#[async_trait]
impl Hooks for Simulated {
    fn backend(&self) -> &'static str {
        SIMULATED
    }

    async fn run(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Value, ActionError> {
        let name = name_of(hook);
        let ask = Call::new(System::Hooks, "", Verb::Apply, HOOK, &name).of(&hook.tenant);
        let spec = json!({ "hook": hook.name, "arguments": hook.arguments });
        let made = found(self.send(ask.with(spec), stamp).await?)?;
        Ok(json!({ "simulated": made.uid }))
    }

    async fn probe(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Probe<Value>, ActionError> {
        let name = name_of(hook);
        let there = self.send(Call::new(System::Hooks, "", Verb::Read, HOOK, &name), stamp).await?.found;
        Ok(match (there, stamp.undo) {
            (Some(found), false) => Probe::Done(json!({ "simulated": found.uid })),
            (None, true) => Probe::Done(Value::Null),
            (Some(_), true) | (None, false) => Probe::NotDone,
        })
    }

    async fn undo(&self, hook: &Hook, stamp: &CallMetadata) -> Result<Value, ActionError> {
        let name = name_of(hook);
        let there = self.send(Call::new(System::Hooks, "", Verb::Read, HOOK, &name), stamp).await?.found;
        let Some(found) = there else { return Ok(Value::Null) };
        if !found.may_be_removed(&hook.tenant, stamp) {
            return Ok(json!({ "left": found.uid }));
        }
        let ask = Call::new(System::Hooks, "", Verb::Delete, HOOK, &name).only(&found.uid);
        self.send(ask, stamp).await.map(|_| Value::Null)
    }
}
