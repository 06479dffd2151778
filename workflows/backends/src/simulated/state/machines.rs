//! Machines: drives, GPUs, memory and firmware, and the tenant whose data is on each.
//!
//! A machine is created at its first read. After its tenant receives credentials, the tenant's data is on all parts.
//! Invariant: data is removed only by an effective erasure. A fault can change the reported result, but not the data.

use crate::simulated::{
    Request, Response,
    state::{Applied, State},
};
use engine::ActionError;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use workflows::platform::{
    Devices, Drive, DriveTechnique, Environment, FilledGpu, GpuDevice, Reset, Samples, SanitiseLog,
    SanitiseStatus, Segment, TenantResource, VerifiedAs, codes,
};

/// The kinds of requests for parts of machines.
pub(in crate::simulated) const DEVICES: &str = "Devices";
pub(in crate::simulated) const LOG: &str = "SanitizeLog";
pub(in crate::simulated) const SAMPLES: &str = "Samples";
const MEMORY_BYTES: u64 = 80 << 30;
const HALF: u32 = 32_768;

/// A machine.
#[derive(Clone, Debug, Default)]
pub(in crate::simulated) struct Machine {
    devices: Devices,
    /// The tenant whose data is on each part: `memory`, `firmware`, a GPU's UUID, or a drive's serial number.
    data: BTreeMap<String, String>,
    drain: bool,
    /// Faults of drives, by serial number.
    flaws: BTreeMap<String, String>,
}

impl Machine {
    fn of(node: &str) -> Self {
        let drive = Drive {
            serial: format!("NVME-{node}-0"),
            model: "simulated".into(),
            firmware: "1.0".into(),
            capacity_bytes: 3_840_755_982_336,
            can: vec![DriveTechnique::BlockErase, DriveTechnique::CryptoErase],
            estimate_s: Some(60),
            log: SanitiseLog::default(),
            tool: None,
        };
        let devices = Devices {
            serial: format!("SN-{node}"),
            nics: vec![format!("NIC-{node}-0")],
            drives: vec![drive],
            ..Devices::default()
        };
        Self { devices, ..Self::default() }
    }

    fn grow(&mut self, node: &str, gpus: u64) {
        let owner = self.data.get("memory").cloned();
        for number in self.devices.gpus.len() as u64..gpus {
            let uuid = format!("GPU-{node}-{number}");
            self.data.extend(owner.clone().map(|owner| (uuid.clone(), owner)));
            self.devices.gpus.push(GpuDevice {
                uuid,
                driver_version: "550.90".into(),
                scrub_on_free: true,
                memory_bytes: MEMORY_BYTES,
            });
        }
    }

    fn fill(&mut self, tenant: &str) {
        let gpus = self.devices.gpus.iter().map(|gpu| gpu.uuid.clone());
        let drives = self.devices.drives.iter().map(|drive| drive.serial.clone());
        for part in ["memory".to_owned(), "firmware".to_owned()].into_iter().chain(gpus).chain(drives) {
            self.data.insert(part, tenant.to_owned());
        }
    }

    pub(in crate::simulated) fn is_plain(&self) -> bool {
        self.data.is_empty() && self.devices.environment == Environment::Tenant
    }

    pub(in crate::simulated) fn shown(&self) -> Value {
        let Devices { environment, network, workloads, .. } = &self.devices;
        json!({ "data": self.data, "environment": environment, "network": network, "workloads": workloads })
    }
}

/// Puts workloads on a machine, one of which ends at each read.
pub(in crate::simulated) fn furnish(state: &mut State, thing: &TenantResource, spec: &Value) {
    let machine = state.machines.entry(thing.to_string()).or_insert_with(|| Machine::of(&thing.name));
    machine.devices.workloads = spec.get("workloads").and_then(Value::as_u64).unwrap_or(0);
    machine.drain = true;
}

fn key(cluster: &str, node: &str) -> String {
    format!("machines/{cluster}/Machine/{node}")
}

fn machine<'a>(state: &'a mut State, request: &Request) -> (&'a mut Machine, String) {
    let (node, part) = request.name.split_once('/').unwrap_or((&request.name, ""));
    let machine = state.machines.entry(key(&request.cluster, node)).or_insert_with(|| Machine::of(node));
    (machine, part.to_owned())
}

/// Puts the tenant's data on all parts of its nodes, from the moment it can use them.
pub(in crate::simulated) fn used(state: &mut State, tenant: &str) {
    let owned = state.nodes.iter().filter(|(_, node)| node.owner.tenant.as_deref() == Some(tenant));
    let owned: Vec<String> = owned.map(|(address, _)| address.clone()).collect();
    for address in owned {
        let mut parts = address.trim_start_matches("kubernetes/").splitn(3, '/');
        let (Some(cluster), _, Some(node)) = (parts.next(), parts.next(), parts.next()) else { continue };
        state.machines.entry(key(cluster, node)).or_insert_with(|| Machine::of(node)).fill(tenant);
    }
}

/// Reads a machine, which also advances its work.
pub(in crate::simulated) fn read(
    state: &mut State,
    request: &Request,
) -> (Result<Response, ActionError>, bool) {
    let (machine, part) = machine(state, request);
    if request.kind == LOG {
        let Some(drive) = machine.devices.drives.iter_mut().find(|drive| drive.serial == part) else {
            return (Err(absent(request)), false);
        };
        let flaw = machine.flaws.get(&part).cloned().unwrap_or_default();
        let moved = advance(drive, &flaw, &mut machine.data);
        return (answer(&drive.log), moved);
    }
    let gpus = request.spec.get("gpus").and_then(Value::as_u64).unwrap_or(0);
    let node = request.name.clone();
    machine.grow(&node, gpus);
    let seen = machine.devices.clone();
    if machine.drain {
        machine.devices.workloads = machine.devices.workloads.saturating_sub(1);
    }
    (answer(&seen), true)
}

/// Advances a drive's erasure by half at each read, and removes its data at the end. A fault makes it stall or fail.
fn advance(drive: &mut Drive, flaw: &str, data: &mut BTreeMap<String, String>) -> bool {
    let log = &mut drive.log;
    if log.status != SanitiseStatus::InProgress {
        return false;
    }
    match flaw {
        "stalls" => return false,
        "fails" => log.status = SanitiseStatus::Failed,
        _ if log.progress < HALF => log.progress = HALF,
        "lies" => log.status = SanitiseStatus::Completed,
        _ => {
            log.status = SanitiseStatus::Completed;
            data.remove(&drive.serial);
        }
    }
    true
}

pub(in crate::simulated) fn apply(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let fault = request.spec.get("fault").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (machine, part) = machine(state, request);
    match request.kind.as_str() {
        "Environment" => boot(machine, request, &fault),
        "Network" => {
            machine.devices.network = Segment::Scrub;
            Ok(Applied::Effect(Response::default()))
        }
        "GpuMemory" => scrub(machine, request, &part, &fault),
        "Sanitize" => sanitise(machine, request, &part, &fault),
        "Firmware" => {
            for part in ["memory", "firmware"] {
                machine.data.remove(part);
            }
            let differs = (fault == "scripted").then(|| "simulated: the measurement of PCR 0".to_owned());
            let baseline = "simulated: firmware 7.2, secure boot on, PCR 0, 2, 4, 7".into();
            let reset = Reset { memory_overwritten: true, controllers_reset: true, baseline, differs };
            answer(&reset).map(Applied::Effect)
        }
        other => Err(ActionError::permanent(codes::REFUSED, format!("a machine has no {other}"))),
    }
}

fn boot(machine: &mut Machine, request: &Request, fault: &str) -> Result<Applied, ActionError> {
    if machine.devices.workloads > 0 {
        let why = format!("{} runs {} workloads", request.name, machine.devices.workloads);
        return Err(ActionError::permanent(codes::NODE_BUSY, why));
    }
    if fault == "scripted" {
        let why = format!("{} failed its attestation", request.name);
        return Err(ActionError::permanent(codes::ATTESTATION, why));
    }
    let into: Environment = serde_json::from_value(request.spec.get("into").cloned().unwrap_or_default())
        .map_err(|e| ActionError::permanent(codes::UNREADABLE, e))?;
    if machine.devices.environment == into {
        return Ok(Applied::Nothing(Response::default()));
    }
    if into == Environment::Image {
        machine.devices.network = Segment::Tenant;
    }
    machine.devices.environment = into;
    Ok(Applied::Effect(Response::default()))
}

fn scrub(machine: &mut Machine, request: &Request, uuid: &str, fault: &str) -> Result<Applied, ActionError> {
    in_scrub(machine, request)?;
    let Some(gpu) = machine.devices.gpus.iter().find(|gpu| gpu.uuid == uuid) else {
        return Err(absent(request));
    };
    let partly = fault == "scripted";
    let scrubbed = FilledGpu {
        uuid: gpu.uuid.clone(),
        bytes_total: gpu.memory_bytes,
        bytes_covered: if partly { gpu.memory_bytes / 2 } else { gpu.memory_bytes / 100 * 99 },
        leftovers: u64::from(machine.data.contains_key(uuid)),
        mismatches: 0,
        reset: request.spec.get("reset") == Some(&json!(true)),
    };
    if !partly {
        machine.data.remove(uuid);
    }
    answer(&scrubbed).map(Applied::Effect)
}

fn sanitise(
    machine: &mut Machine,
    request: &Request,
    serial: &str,
    fault: &str,
) -> Result<Applied, ActionError> {
    in_scrub(machine, request)?;
    let Some(drive) = machine.devices.drives.iter_mut().find(|drive| drive.serial == serial) else {
        return Err(absent(request));
    };
    if drive.log.status == SanitiseStatus::InProgress {
        return Err(ActionError::permanent(codes::DRIVE_BUSY, format!("{serial}: Sanitize In Progress")));
    }
    if ["fails", "stalls", "lies"].contains(&fault) {
        machine.flaws.insert(serial.to_owned(), fault.to_owned());
    }
    drive.log = SanitiseLog { status: SanitiseStatus::InProgress, progress: 0, begun: drive.log.begun + 1 };
    Ok(Applied::Effect(Response::default()))
}

/// Fails unless the machine is booted into the scrub environment, from which drives and GPUs must be cleaned.
fn in_scrub(machine: &Machine, request: &Request) -> Result<(), ActionError> {
    if machine.devices.environment == Environment::Scrub {
        return Ok(());
    }
    let why = format!("{} is not booted into the scrub environment", request.name);
    Err(ActionError::permanent(codes::REFUSED, why))
}

/// Samples a drive.
pub(in crate::simulated) fn sample(state: &State, request: &Request) -> Result<Response, ActionError> {
    let (node, serial) = request.name.split_once('/').unwrap_or((&request.name, ""));
    let machine = state.machines.get(&key(&request.cluster, node)).ok_or_else(|| absent(request))?;
    let drive = machine.devices.drives.iter().find(|drive| drive.serial == serial);
    let drive = drive.ok_or_else(|| absent(request))?;
    let seed = request.spec.get("seed").and_then(Value::as_str).unwrap_or_default().to_owned();
    let mismatches = if machine.data.contains_key(serial) { 2_002 } else { 0 };
    answer(&Samples {
        serial: drive.serial.clone(),
        seed,
        read: 2_002,
        mismatches,
        unreadable: 0,
        tool: None,
        verified_as: Some(VerifiedAs::Verifier),
    })
}

/// Returns the tenant's machines, for a survey.
pub(in crate::simulated) fn of_tenant(state: &State, tenant: &str) -> Vec<String> {
    let owned = state.nodes.iter().filter(|(_, node)| node.owner.tenant.as_deref() == Some(tenant));
    owned.map(|(address, _)| address.clone()).collect()
}

fn absent(request: &Request) -> ActionError {
    ActionError::permanent(codes::OBJECT_MISSING, format!("there is no {}", request.address()))
}

fn answer<T: Serialize>(said: &T) -> Result<Response, ActionError> {
    let value = serde_json::to_value(said).map_err(|e| ActionError::permanent(codes::UNREADABLE, e))?;
    Ok(Response { found: None, value })
}
