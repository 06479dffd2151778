//! The complete state of a simulated platform, and the only way to change it.
//!
//! Invariant: [`State::perform`] is deterministic and reads no clock, so that equal requests in equal order produce
//! equal states. A state stored in a file is restored by replaying its requests.

pub(crate) mod checks;
pub(crate) mod machines;
pub(crate) mod nodes;
pub(crate) mod objects;
pub(crate) mod ownership_audit;
pub(crate) mod recovery;
pub(crate) mod workloads;

use crate::simulated::{
    Request, Response, System, Verb,
    state::{machines::Machine, nodes::Node, ownership_audit::Effect},
};
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use workflows::platform::{FoundObject, TenantResource, codes};

/// An object of the simulated platform.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) found: FoundObject,
    /// The action that created it.
    pub(super) action: String,
    /// The number of reads that still return it during its deletion.
    pub(super) reads_left: u32,
}

impl Object {
    /// Returns its GPUs by node, if it has any.
    fn gpus(&self) -> Option<&serde_json::Map<String, Value>> {
        self.found.spec.get("gpus").and_then(Value::as_object)
    }

    /// Returns its GPUs on `node`.
    pub(super) fn on(&self, node: &str) -> Option<&Value> {
        self.gpus()?.get(node)
    }
}

/// A request that was rejected for its epoch, its key or its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The error code.
    pub code: String,
    /// The address that it was for.
    pub address: String,
    /// The action that called.
    pub action: String,
    /// The idempotency key.
    pub key: String,
    /// The fencing token.
    pub epoch: u64,
}

/// The number of recorded addresses per node above which those without GPUs on the node are dropped.
const MOST_SEATS: usize = 128;

#[derive(Clone, Debug)]
struct PastCall {
    verb: Verb,
    address: String,
    response: Response,
}

/// The result of a request.
pub(super) enum Applied {
    /// The request changed something.
    Effect(Response),
    /// The state already was as requested.
    Nothing(Response),
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) objects: BTreeMap<String, Object>,
    pub(super) layouts: BTreeMap<String, objects::Layout>,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) machines: BTreeMap<String, Machine>,
    /// The number of reboots per node.
    pub(super) boots: BTreeMap<String, u64>,
    pub(super) trace: Vec<Effect>,
    /// The state after each change of a limit, in order.
    pub(super) limits: Vec<(String, Value)>,
    pub(super) refused: Vec<Refused>,
    /// Addresses of workloads by the nodes on which they have or had GPUs. An index, because queries by node are
    /// frequent.
    seats: BTreeMap<String, BTreeSet<String>>,
    memory: BTreeMap<String, PastCall>,
    fences: BTreeMap<String, u64>,
    uids: u64,
}

impl State {
    /// Performs a request. The flag is true if the state changed and must be stored; rejected requests count as
    /// changes.
    pub(super) fn perform(&mut self, request: &Request) -> (Result<Response, ActionError>, bool) {
        match request.verb {
            Verb::Read if request.system == System::Machines => return machines::read(self, request),
            Verb::Read => return objects::read(self, request),
            Verb::List => return (objects::list(self, request), false),
            Verb::Check => return (checks::check(self, request), false),
            Verb::Apply
            | Verb::Patch
            | Verb::Swap
            | Verb::Delete
            | Verb::Take
            | Verb::Cordon
            | Verb::Uncordon
            | Verb::Return
            | Verb::Run
            | Verb::Empty => {}
        }
        let before = self.fences.get(&request.step).copied().unwrap_or(0);
        if let Some(answer) = self.repeated(request) {
            return (answer, true);
        }
        match self.change(request) {
            Ok(Applied::Effect(response)) => {
                self.trace.push(Effect::of(request, self.nodes.get(&request.address())));
                self.note_limit(request);
                self.remember(request, &response);
                (Ok(response), true)
            }
            Ok(Applied::Nothing(response)) => {
                self.remember(request, &response);
                (Ok(response), true)
            }
            Err(error) => {
                let kept = [codes::EPOCH_OLD, codes::NODE_OWNED].contains(&error.code.as_str());
                if kept {
                    self.refuse(request, &error.code);
                }
                (Err(error), kept || before < request.epoch)
            }
        }
    }

    /// Returns the answer to an outdated or repeated request.
    fn repeated(&mut self, request: &Request) -> Option<Result<Response, ActionError>> {
        let newest = self.fences.entry(request.step.clone()).or_insert(request.epoch);
        if request.epoch < *newest {
            let why = format!(
                "epoch {} of step {} is outdated: epoch {newest} has already acted",
                request.epoch, request.step
            );
            self.refuse(request, codes::FENCED);
            return Some(Err(ActionError::permanent(codes::FENCED, why)));
        }
        *newest = request.epoch;
        let memory = self.memory.get(&request.key)?;
        if memory.verb == request.verb && memory.address == request.address() {
            return Some(Ok(memory.response.clone()));
        }
        let why = format!(
            "key {} was used for {}, and is now used for {}",
            request.key,
            memory.address,
            request.address()
        );
        self.refuse(request, codes::KEY_REUSED);
        Some(Err(ActionError::permanent(codes::KEY_REUSED, why)))
    }

    fn change(&mut self, request: &Request) -> Result<Applied, ActionError> {
        match request.verb {
            Verb::Take => nodes::take(self, request),
            Verb::Cordon => nodes::cordon(self, request),
            Verb::Uncordon => nodes::uncordon(self, request),
            Verb::Return => nodes::give_back(self, request),
            Verb::Apply if request.kind == objects::LAYOUT => Ok(objects::set_layout(self, request)),
            Verb::Apply if request.system == System::Machines => machines::apply(self, request),
            Verb::Apply => objects::apply(self, request),
            Verb::Patch => {
                let done = objects::patch(self, request)?;
                let drains = [("stopPolicy", "HoldAndDrain"), ("admits", "nothing")];
                if drains.iter().any(|(field, value)| request.spec.get(*field) == Some(&json!(value))) {
                    workloads::drain(self, &request.cluster, &request.tenant);
                }
                Ok(done)
            }
            Verb::Swap => objects::swap(self, request),
            Verb::Delete if workloads::evicts(request) => workloads::evict(self, request),
            Verb::Delete => objects::delete(self, request),
            Verb::Run if request.kind == recovery::REBOOT => Ok(recovery::reboot(self, request)),
            Verb::Run if request.kind == recovery::RESET => recovery::reset(self, request),
            Verb::Run => workloads::run(self, request),
            Verb::Empty => objects::empty(self, request),
            Verb::Read | Verb::Check | Verb::List => Ok(Applied::Nothing(Response::default())),
        }
    }

    fn note_limit(&mut self, request: &Request) {
        let limits = ["Cohort", "ClusterQueue", "ResourceQuota", "Account"].contains(&request.kind.as_str());
        let object = self.objects.get(&request.address()).filter(|_| limits);
        self.limits.extend(object.map(|object| (request.address(), object.found.spec.clone())));
    }

    fn remember(&mut self, request: &Request, response: &Response) {
        let memory = PastCall { verb: request.verb, address: request.address(), response: response.clone() };
        self.memory.insert(request.key.clone(), memory);
    }

    fn refuse(&mut self, request: &Request, code: &str) {
        self.refused.push(Refused {
            code: code.to_owned(),
            address: request.address(),
            action: request.action.clone(),
            key: request.key.clone(),
            epoch: request.epoch,
        });
    }

    /// Adds an object, or extends its spec.
    pub(super) fn furnish(&mut self, thing: &TenantResource, tenant: &str, spec: Value) {
        if thing.system == "machines" {
            return machines::furnish(self, thing, &spec);
        }
        let uid = self.next_uid();
        let fresh = || {
            let (tenant, step) = (tenant.to_owned(), "furnished".to_owned());
            let found = FoundObject { uid, tenant, step, spec: json!({}), terminating: false };
            Object { found, action: "furnished".into(), reads_left: 0 }
        };
        let object = self.objects.entry(thing.to_string()).or_insert_with(fresh);
        if let (Value::Object(there), Value::Object(more)) = (&mut object.found.spec, spec) {
            there.extend(more);
        }
        self.note_seats(&thing.to_string());
    }

    /// Records the nodes on which the object at `address` has GPUs. Called after each assignment of GPUs.
    pub(super) fn note_seats(&mut self, address: &str) {
        let nodes = self.objects.get(address).and_then(|object| object.gpus()).into_iter().flatten();
        for node in nodes.map(|(node, _)| node.clone()).collect::<Vec<_>>() {
            let seats = self.seats.entry(node.clone()).or_default();
            seats.insert(address.to_owned());
            if seats.len() > MOST_SEATS {
                let has = |address: &String| {
                    self.objects.get(address).is_some_and(|object| object.on(&node).is_some())
                };
                seats.retain(has);
            }
        }
    }

    /// Returns the objects with GPUs on `node`, by address, with those GPUs.
    pub(super) fn seated<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let seats = self.seats.get(node).into_iter().flatten();
        seats.filter_map(|address| Some((address, self.objects.get(address)?.on(node)?)))
    }

    pub(super) fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    /// Returns the state without uids and counters, for comparison. Shared objects are excluded, because nothing
    /// removes them; see [`State::shared`].
    pub(super) fn snapshot(&self) -> BTreeMap<String, Value> {
        let objects =
            self.objects.iter().filter(|(address, _)| !is_shared(address)).map(|(address, object)| {
                let FoundObject { tenant, spec, terminating, .. } = &object.found;
                let shown = json!({
                    "tenant": tenant, "action": object.action, "spec": spec, "terminating": terminating,
                });
                (address.clone(), shown)
            });
        let layouts = self.layouts.iter().filter(|(_, layout)| !layout.is_factory());
        let layouts = layouts.map(|(address, layout)| (address.clone(), layout.shown()));
        let nodes = self.nodes.iter().filter(|(_, node)| !node.is_free());
        let nodes = nodes.map(|(address, node)| (address.clone(), node.shown()));
        let machines = self.machines.iter().filter(|(_, machine)| !machine.is_plain());
        let machines = machines.map(|(address, machine)| (address.clone(), machine.shown()));
        objects.chain(layouts).chain(nodes).chain(machines).collect()
    }

    /// Returns the shared objects with their specs.
    pub(super) fn shared(&self) -> BTreeMap<String, Value> {
        let shared = self.objects.iter().filter(|(address, _)| is_shared(address));
        shared.map(|(address, object)| (address.clone(), object.found.spec.clone())).collect()
    }
}

fn is_shared(address: &str) -> bool {
    address.starts_with("kubernetes/") && address.contains("/PriorityClass/")
}
