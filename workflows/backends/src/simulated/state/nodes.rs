//! Ownership of nodes. A node is created when it is first taken; before that, it is free at epoch 0.

use crate::simulated::{
    Request, Response,
    state::{Applied, State},
};
use engine::ActionError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use workflows::platform::{Ownership, codes};

/// The labels, taint and annotations of a node.
#[derive(Clone, Debug, Default)]
pub(in crate::simulated) struct Node {
    pub(in crate::simulated) owner: Ownership,
    /// The highest epoch of an ownership that has ended or was cancelled.
    spent: u64,
    /// The steps that cordon the node.
    held_by: BTreeSet<String>,
    action: String,
}

impl Node {
    pub(in crate::simulated) fn is_free(&self) -> bool {
        self.owner.tenant.is_none() && !self.owner.cordoned
    }

    pub(in crate::simulated) fn shown(&self) -> Value {
        json!({
            "tenant": self.owner.tenant, "owner_epoch": self.owner.owner_epoch, "cordoned": self.owner.cordoned,
            "action": self.action,
        })
    }
}

pub(in crate::simulated) fn take(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let wanted = ownership(request)?;
    let node = state.nodes.entry(request.address()).or_default();
    if node.owner.tenant == wanted.tenant && node.owner.owner_epoch == wanted.owner_epoch {
        return Ok(Applied::Nothing(answer(node)));
    }
    let seen = node.spent.max(node.owner.owner_epoch);
    if wanted.owner_epoch <= seen {
        let why = format!(
            "{} is at owner epoch {seen}, but the call has epoch {}",
            request.name, wanted.owner_epoch
        );
        return Err(ActionError::permanent(codes::EPOCH_OLD, why));
    }
    if let Some(owner) = &node.owner.tenant {
        let why = format!("{} belongs to {owner:?} at epoch {}", request.name, node.owner.owner_epoch);
        return Err(ActionError::permanent(codes::NODE_OWNED, why));
    }
    node.owner = Ownership { cordoned: node.owner.cordoned, ..wanted };
    node.action.clone_from(&request.action);
    Ok(Applied::Effect(answer(node)))
}

/// Adds the cordon of the request's step.
pub(in crate::simulated) fn cordon(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let of = ownership(request)?;
    let node = state.nodes.entry(request.address()).or_default();
    let ours = node.owner.tenant == of.tenant && node.owner.owner_epoch == of.owner_epoch;
    if !ours || !node.held_by.insert(request.step.clone()) {
        return Ok(Applied::Nothing(answer(node)));
    }
    node.owner.cordoned = true;
    Ok(Applied::Effect(answer(node)))
}

/// Removes the cordon of the step that the request names.
pub(in crate::simulated) fn uncordon(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let of = ownership(request)?;
    let by = request.spec.get("by").and_then(Value::as_str).unwrap_or_default();
    let node = state.nodes.entry(request.address()).or_default();
    let ours = node.owner.tenant == of.tenant && node.owner.owner_epoch == of.owner_epoch;
    if !ours || !node.held_by.remove(by) {
        return Ok(Applied::Nothing(answer(node)));
    }
    node.owner.cordoned = !node.held_by.is_empty();
    Ok(Applied::Effect(answer(node)))
}

pub(in crate::simulated) fn give_back(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let of = ownership(request)?;
    let node = state.nodes.entry(request.address()).or_default();
    let ours = node.owner.tenant == of.tenant && node.owner.owner_epoch == of.owner_epoch;
    node.spent = node.spent.max(of.owner_epoch);
    if !ours {
        return Ok(Applied::Nothing(answer(node)));
    }
    node.owner = Ownership { tenant: None, owner_epoch: of.owner_epoch, cordoned: false };
    node.held_by.clear();
    Ok(Applied::Effect(answer(node)))
}

fn ownership(request: &Request) -> Result<Ownership, ActionError> {
    serde_json::from_value(request.spec.clone())
        .map_err(|e| ActionError::permanent(codes::UNREADABLE, format!("ownership of {}: {e}", request.name)))
}

fn answer(node: &Node) -> Response {
    let value = json!({
        "tenant": node.owner.tenant, "owner_epoch": node.owner.owner_epoch, "cordoned": node.owner.cordoned,
    });
    Response { found: None, value }
}
