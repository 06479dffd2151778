//! Lists the processes that have a GPU open: compute, graphics and MPS clients, on the GPU and on each of its MIG
//! devices.
//!
//! Fails closed: a list that cannot be read is an error, not an empty list.

use crate::nvml::{
    bindings,
    error::{Fault, Kind},
    layout_change::devices,
};
use nvml_wrapper::{Device, Nvml, error::NvmlError, struct_wrappers::device::ProcessInfo};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// A process that has a GPU open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// The GPU's UUID.
    pub gpu: String,
    /// The process id on the node.
    pub pid: u32,
    /// The kind of use: `compute`, `graphics` or `mps`.
    pub kind: &'static str,
    /// The GPU instance that the process uses, if the GPU is partitioned.
    pub instance: Option<u32>,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}) has {} open", self.pid, self.kind, self.gpu)?;
        self.instance.map_or(Ok(()), |instance| write!(f, ", in GPU instance {instance}"))
    }
}

/// The number of retries if a list grows while it is read.
const TRIES: u32 = 3;

/// Reads a list of processes. The driver returns an error if the list grows between counting and reading, and the read
/// is repeated.
fn list(
    call: &str,
    read: impl Fn() -> Result<Vec<ProcessInfo>, NvmlError>,
) -> Result<Vec<ProcessInfo>, Fault> {
    let mut tries = 0;
    loop {
        tries += 1;
        match read() {
            Ok(list) => return Ok(list),
            Err(NvmlError::InsufficientSize(_)) if tries < TRIES => {}
            Err(error) => return Err(Fault::of(call, &error)),
        }
    }
}

/// Adds the clients of one device: the GPU itself or one of its MIG devices.
fn of_device(
    device: &Device<'_>,
    gpu: &str,
    within: Option<u32>,
    to: &mut BTreeSet<Client>,
) -> Result<(), Fault> {
    let lists = [
        ("compute", list("nvmlDeviceGetComputeRunningProcesses_v3", || device.running_compute_processes())?),
        (
            "graphics",
            list("nvmlDeviceGetGraphicsRunningProcesses_v3", || device.running_graphics_processes())?,
        ),
        (
            "mps",
            list("nvmlDeviceGetMPSComputeRunningProcesses_v3", || device.mps_running_compute_processes())?,
        ),
    ];
    for (kind, list) in lists {
        to.extend(list.into_iter().map(|process| Client {
            gpu: gpu.to_owned(),
            pid: process.pid,
            kind,
            instance: process.gpu_instance_id.filter(|id| *id != u32::MAX).or(within),
        }));
    }
    Ok(())
}

/// Returns the processes that have a GPU open.
pub(super) fn clients_of(device: &Device<'_>, uuid: &str) -> Result<Vec<Client>, Fault> {
    let mut all = BTreeSet::new();
    of_device(device, uuid, None, &mut all)?;
    let most = match device.mig_mode() {
        Ok(mode) if mode.current == 1 => {
            device.mig_device_count().map_err(|error| Fault::of("nvmlDeviceGetMaxMigDeviceCount", &error))?
        }
        Ok(_) | Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => 0,
        Err(error) => return Err(Fault::of("nvmlDeviceGetMigMode", &error)),
    };
    for index in 0..most {
        let mig = match device.mig_device_by_index(index) {
            Ok(mig) => mig,
            Err(NvmlError::NotFound) => continue,
            Err(error) => return Err(Fault::of("nvmlDeviceGetMigDeviceHandleByIndex", &error)),
        };
        let (instance, _) = bindings::numbers(&mig)?;
        of_device(&mig, uuid, Some(instance), &mut all)?;
    }
    Ok(all.into_iter().collect())
}

/// Returns the GPU instances that processes use.
pub(super) fn busy_instances(device: &Device<'_>) -> Result<BTreeSet<u32>, Fault> {
    Ok(clients_of(device, "the GPU")?.into_iter().filter_map(|client| client.instance).collect())
}

/// Returns the processes that have these GPUs open. An empty set of indexes means all GPUs.
pub(super) fn clients(nvml: &Nvml, gpus: &BTreeSet<u16>) -> Result<Vec<Client>, Fault> {
    let all: BTreeMap<u16, _> = (0..).zip(devices(nvml)?).collect();
    if let Some(missing) = gpus.iter().find(|index| !all.contains_key(index)) {
        let why = format!("GPU {missing} does not exist; the driver lists {}", all.len());
        return Err(Fault::new("nvmlDeviceGetHandleByIndex_v2", Kind::Lost, why));
    }
    let mut clients = Vec::new();
    for (_, (uuid, device)) in all.iter().filter(|(index, _)| gpus.is_empty() || gpus.contains(index)) {
        clients.extend(clients_of(device, uuid)?);
    }
    Ok(clients)
}
