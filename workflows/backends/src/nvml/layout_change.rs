//! Changes the layout of GPUs: checks all GPUs before the first change, applies the steps in order, verifies the
//! result, and restores the previous layout after a failure.

use crate::nvml::{
    bindings, clients,
    error::{Fault, Kind},
    layout::{
        Goal, GpuInstance, Partition, Placement, PlanError, Profile, Step, Wanted, as_it_is, is_reached,
        plan, steps,
    },
};
use nvml_wrapper::{Device, Nvml, error::NvmlError};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicBool, Ordering},
};

const IN_USE: u32 = 19;

/// One GPU and its partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GpuPartition {
    pub(super) uuid: String,
    pub(super) partition: Partition,
}

/// The outcome of a failed change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// The previous layout was restored.
    Back(Fault),
    /// The change stopped halfway because the caller cancelled it.
    Stopped,
    /// The previous layout could not be restored. `stands` is the layout that was read afterwards, or the error of that
    /// read.
    HalfDone { cause: String, back: String, stands: String },
}

/// Opens a new connection to the driver.
pub(super) type Open<'a> = &'a dyn Fn() -> Result<Nvml, Fault>;

pub(super) fn device<'a>(nvml: &'a Nvml, uuid: &str) -> Result<Device<'a>, Fault> {
    nvml.device_by_uuid(uuid).map_err(|error| Fault::of("nvmlDeviceGetHandleByUUID", &error))
}

/// Returns the GPUs in the driver's order.
pub(super) fn devices(nvml: &Nvml) -> Result<Vec<(String, Device<'_>)>, Fault> {
    let count = nvml.device_count().map_err(|error| Fault::of("nvmlDeviceGetCount_v2", &error))?;
    let each = (0..count).map(|index| {
        let device = nvml.device_by_index(index);
        let device = device.map_err(|error| Fault::of("nvmlDeviceGetHandleByIndex_v2", &error))?;
        let uuid = device.uuid().map_err(|error| Fault::of("nvmlDeviceGetUUID", &error))?;
        Ok((uuid, device))
    });
    each.collect()
}

/// Returns the partition of a GPU and its profiles. A GPU without MIG has neither.
pub(super) fn partition(device: &Device<'_>) -> Result<(Partition, Vec<Profile>), Fault> {
    let mode = match device.mig_mode() {
        Ok(mode) => mode,
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => return Ok(Default::default()),
        Err(error) => return Err(Fault::of("nvmlDeviceGetMigMode", &error)),
    };
    let profiles = bindings::profiles(device)?;
    let enabled = mode.current == 1;
    let instances = if enabled { bindings::instances(device, &profiles)? } else { Vec::new() };
    Ok((Partition { enabled, instances }, profiles))
}

pub(super) fn read(nvml: &Nvml) -> Result<Vec<GpuPartition>, Fault> {
    let each = devices(nvml)?;
    each.into_iter()
        .map(|(uuid, device)| Ok(GpuPartition { uuid, partition: partition(&device)?.0 }))
        .collect()
}

/// Returns the MIG devices that the GPU lists, which schedulers count: pairs of GPU instance and compute instance.
pub(super) fn listed(device: &Device<'_>) -> Result<BTreeSet<(u32, u32)>, Fault> {
    let most = match device.mig_device_count() {
        Ok(most) => most,
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) => 0,
        Err(error) => return Err(Fault::of("nvmlDeviceGetMaxMigDeviceCount", &error)),
    };
    let mut all = BTreeSet::new();
    for index in 0..most {
        match device.mig_device_by_index(index) {
            Ok(mig) => all.insert(bindings::numbers(&mig)?),
            // Device indexes can have gaps.
            Err(NvmlError::NotFound | NvmlError::NotSupported) => continue,
            Err(error) => return Err(Fault::of("nvmlDeviceGetMigDeviceHandleByIndex", &error)),
        };
    }
    Ok(all)
}

/// Changes the GPUs to the wanted layout. After a failure, restores `before`.
pub(super) fn change(
    open: Open<'_>,
    wanted: &[(String, Wanted)],
    before: &[GpuPartition],
    stop: &AtomicBool,
) -> Result<(), Failed> {
    let Err(cause) = forward(open, wanted, stop) else { return Ok(()) };
    if cause.kind == Kind::Stopped {
        return Err(Failed::Stopped);
    }
    match back(open, before) {
        Ok(()) => Err(Failed::Back(cause)),
        Err(back) => {
            let now = open().and_then(|nvml| read(&nvml));
            let stands = now.map_or_else(|error| format!("cannot be read: {error}"), |now| shown(&now));
            Err(Failed::HalfDone { cause: cause.to_string(), back: back.to_string(), stands })
        }
    }
}

/// Formats layouts for error messages.
fn shown(all: &[GpuPartition]) -> String {
    let each = all.iter().map(|one| {
        let instances = one.partition.instances.iter().map(|instance| {
            let place = instance.placement;
            format!(
                "profile {} at {}+{} with {} compute",
                instance.profile,
                place.start,
                place.size,
                instance.compute.len()
            )
        });
        let instances: Vec<String> = instances.collect();
        match one.partition.enabled {
            false => format!("{}: not partitioned", one.uuid),
            true => format!(
                "{}: {}",
                one.uuid,
                if instances.is_empty() { "empty".to_owned() } else { instances.join(", ") }
            ),
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

fn forward(open: Open<'_>, wanted: &[(String, Wanted)], stop: &AtomicBool) -> Result<(), Fault> {
    let nvml = open()?;
    foresee(&nvml, wanted)?;
    for (uuid, _) in wanted.iter().filter(|(_, asked)| *asked != Wanted::Off) {
        set_mode(&device(&nvml, uuid)?, true)?;
    }
    let mut plans = Vec::new();
    for (uuid, asked) in wanted {
        let device = device(&nvml, uuid)?;
        let (now, profiles) = partition(&device)?;
        let busy = if now.enabled { clients::busy_instances(&device)? } else { BTreeSet::new() };
        let goals =
            plan(&profiles, &now.instances, &busy, &asked.names(&profiles)).map_err(|e| unplanned(&e))?;
        plans.push((uuid, asked, now.instances, goals));
    }
    let stop = || stop.load(Ordering::SeqCst);
    for (uuid, _, now, goals) in &plans {
        act(&device(&nvml, uuid)?, now, &steps(now, goals), &stop)?;
    }
    for (uuid, _, _, _) in plans.iter().filter(|(_, asked, _, _)| **asked == Wanted::Off) {
        set_mode(&device(&nvml, uuid)?, false)?;
    }
    drop(nvml);
    let nvml = open()?;
    for (uuid, asked, _, goals) in &plans {
        verify(&device(&nvml, uuid)?, **asked != Wanted::Off, goals)?;
    }
    Ok(())
}

/// Checks that the layout is possible, without a change. The driver reports placements only for GPUs with MIG on, so
/// for other GPUs the check is incomplete.
pub(super) fn foresee(nvml: &Nvml, wanted: &[(String, Wanted)]) -> Result<(), Fault> {
    for (uuid, asked) in wanted {
        let device = device(nvml, uuid)?;
        let (now, profiles) = partition(&device)?;
        if (*asked == Wanted::Off) == now.enabled {
            unused(&device, uuid)?;
        }
        let busy = if now.enabled { clients::busy_instances(&device)? } else { BTreeSet::new() };
        match plan(&profiles, &now.instances, &busy, &asked.names(&profiles)) {
            Err(PlanError::NoFit { .. }) if !now.enabled => {}
            planned => drop(planned.map_err(|error| unplanned(&error))?),
        }
    }
    Ok(())
}

fn unplanned(error: &PlanError) -> Fault {
    let kind = match error {
        PlanError::Unknown { .. } => Kind::NotSupported,
        PlanError::NoFit { .. } => Kind::NoRoom,
        PlanError::Busy { .. } => Kind::InUse,
    };
    Fault::new("layout", kind, error)
}

/// Fails if a process has the GPU open.
fn unused(device: &Device<'_>, uuid: &str) -> Result<(), Fault> {
    let clients = clients::clients_of(device, uuid)?;
    match clients.first() {
        None => Ok(()),
        Some(client) => Err(Fault::new("layout", Kind::InUse, client)),
    }
}

/// Turns MIG on or off. Fails if the new mode is only pending afterwards.
fn set_mode(device: &Device<'_>, on: bool) -> Result<(), Fault> {
    let call = "nvmlDeviceSetMigMode";
    let mode = match device.mig_mode() {
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_)) if !on => return Ok(()),
        mode => mode.map_err(|error| Fault::of("nvmlDeviceGetMigMode", &error))?,
    };
    if (mode.current == 1, mode.pending == 1) == (on, on) {
        return Ok(());
    }
    let activation = device.set_mig_mode(on).map_err(|error| Fault::of(call, &error))?;
    let now = device.mig_mode().map_err(|error| Fault::of("nvmlDeviceGetMigMode", &error))?;
    if (now.current == 1, now.pending == 1) == (on, on) {
        return Ok(());
    }
    let (kind, why) = match activation {
        IN_USE => (Kind::InUse, "the MIG mode is pending, because a process has the GPU open"),
        _ => (Kind::ResetRequired, "the MIG mode is pending: reset the GPU, then retry"),
    };
    Err(Fault::new(call, kind, why))
}

/// Performs the steps in order. Checks `stop` before each one.
fn act(
    device: &Device<'_>,
    now: &[GpuInstance],
    steps: &[Step],
    stop: &dyn Fn() -> bool,
) -> Result<(), Fault> {
    let mut lies: BTreeMap<Placement, u32> = now.iter().map(|one| (one.placement, one.id)).collect();
    for step in steps {
        if stop() {
            return Err(Fault::new("layout", Kind::Stopped, "the caller no longer waits"));
        }
        match step {
            Step::DestroyCompute { instance, compute } => {
                bindings::destroy_compute(device, *instance, *compute)?
            }
            Step::DestroyInstance { instance } => bindings::destroy_instance(device, *instance)?,
            Step::CreateInstance { profile, placement } => {
                lies.insert(*placement, bindings::create_instance(device, *profile, *placement)?);
            }
            Step::CreateCompute { placement, slices } => {
                let within = lies.get(placement).ok_or_else(|| {
                    let why = format!("the GPU has no instance at {}", placement.start);
                    Fault::new("layout", Kind::Failed, why)
                })?;
                bindings::create_compute(device, *within, *slices)?;
            }
        }
    }
    Ok(())
}

/// Checks that the goals, the driver's instances and the listed MIG devices agree.
fn verify(device: &Device<'_>, enabled: bool, goals: &[Goal]) -> Result<(), Fault> {
    let (now, _) = partition(device)?;
    if now.enabled != enabled || !is_reached(&now.instances, goals) {
        let why = "the present instances differ from the created ones";
        return Err(Fault::new("nvmlDeviceGetGpuInstances", Kind::Disagrees, why));
    }
    let stands = now.instances.iter();
    let stands = stands.flat_map(|one| one.compute.iter().map(move |compute| (one.id, compute.id)));
    let (stands, listed) = (stands.collect::<BTreeSet<_>>(), listed(device)?);
    if stands == listed {
        return Ok(());
    }
    let why = format!("the GPU has {} instances, but lists {} devices", stands.len(), listed.len());
    Err(Fault::new("nvmlDeviceGetMigDeviceHandleByIndex", Kind::Disagrees, why))
}

/// Restores the previous partitions and verifies them.
fn back(open: Open<'_>, before: &[GpuPartition]) -> Result<(), Fault> {
    let nvml = open()?;
    for one in before {
        let device = device(&nvml, &one.uuid)?;
        let now = partition(&device)?.0;
        let goals = as_it_is(&one.partition.instances);
        if one.partition.enabled {
            set_mode(&device, true)?;
        }
        act(&device, &now.instances, &steps(&now.instances, &goals), &|| false)?;
        if !one.partition.enabled {
            set_mode(&device, false)?;
        }
    }
    drop(nvml);
    let nvml = open()?;
    for one in before {
        verify(&device(&nvml, &one.uuid)?, one.partition.enabled, &as_it_is(&one.partition.instances))?;
    }
    Ok(())
}
