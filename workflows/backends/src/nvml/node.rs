//! Implements the GPU actions for this machine.

use crate::nvml::{GpuFacts, NotAvailable};
use crate::nvml::{
    clients::{self, Client},
    diagnosis,
    error::{Fault, Kind},
    health,
    layout::{Partition, Profile, Wanted},
    layout_change::{self, Failed, GpuPartition, change, devices, listed, partition},
    layout_label::{label, wanted},
    node_state::{self, LockedNodeState, PendingChange},
    scrub::{self, Scrub},
    settings::{NvmlTarget, TargetError},
};
use async_trait::async_trait;
use engine::ActionError;
use nvml_wrapper::Nvml;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Mutex, task::spawn_blocking, time::timeout};
use workflows::platform::{
    CallMetadata, Diagnosis, DiagnosisLevel, FilledGpu, GpuHealth, GpuLayout, Gpus, LayoutState, codes,
};

/// The number of consecutive checks without clients after which GPUs count as free.
const LOOKS: u32 = 3;
/// Linux's id of the current boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The GPUs of the machine on which this runs.
#[derive(Clone, Debug)]
pub struct LocalNode {
    target: Arc<NvmlTarget>,
    /// Locked while a change is in progress.
    changing: Arc<Mutex<()>>,
}

/// Signals blocking work on another thread to stop when its caller is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs blocking work on its own thread. Returns `None` if the work does not end in time. When the caller is dropped or
/// the time has passed, the work stops before its next driver call.
pub(super) async fn blocking<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<Option<T>, ActionError> {
    let stop = Arc::new(AtomicBool::new(false));
    let _left = CancelOnDrop(stop.clone());
    match timeout(within, spawn_blocking(move || work(&stop))).await {
        Ok(Ok(answer)) => Ok(Some(answer)),
        Ok(Err(error)) => Err(ActionError::unknown(codes::NO_ANSWER, error)),
        Err(_) => Ok(None),
    }
}

fn open(library: &Path) -> Result<Nvml, Fault> {
    let nvml = Nvml::builder().lib_path(library.as_os_str()).init();
    nvml.map_err(|error| Fault::of("nvmlInit_v2", &error))
}

impl LocalNode {
    /// Creates the node from its settings. Does not call the driver.
    ///
    /// # Errors
    ///
    /// [`TargetError`] if a setting is invalid.
    pub fn connect(target: NvmlTarget) -> Result<Self, TargetError> {
        target.check()?;
        Ok(Self { target: Arc::new(target), changing: Arc::default() })
    }

    pub(super) fn place(&self) -> String {
        format!("node {} of cluster {}", self.target.node, self.target.cluster)
    }

    /// Returns the path of the node's state file.
    pub(super) fn state_file(&self) -> PathBuf {
        self.target.state.clone()
    }

    /// Fails if the call is for another node.
    fn is_meant(&self, cluster: &str, node: &str) -> Result<(), ActionError> {
        if (cluster, node) == (&self.target.cluster, &self.target.node) {
            return Ok(());
        }
        let why = format!("the call is for node {node} of cluster {cluster}, but this is {}", self.place());
        Err(ActionError::permanent(codes::REFUSED, why))
    }

    /// Runs a read-only query on the driver.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        within: Duration,
        question: impl FnOnce(&NvmlTarget, &Nvml, &AtomicBool) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, ActionError> {
        let target = self.target.clone();
        let answer = blocking(within, move |stop| question(&target, &open(&target.library)?, stop)).await?;
        let answer = answer.ok_or_else(|| {
            let why = format!("{}: the NVIDIA driver does not answer", self.place());
            ActionError::transient(codes::UNAVAILABLE, why)
        })?;
        answer.map_err(|fault| fault.at(&self.place()))
    }

    /// Reads the facts about the GPUs.
    ///
    /// # Errors
    ///
    /// [`NotAvailable`] if the library or the driver is missing.
    pub fn facts(&self) -> Result<GpuFacts, NotAvailable> {
        let nvml = open(&self.target.library).map_err(|fault| NotAvailable { why: fault.why })?;
        GpuFacts::of(&nvml)
    }

    /// Returns the processes that have these GPUs open. An empty set of indexes means all GPUs. An empty answer means
    /// that three checks, some time apart, found no process in any of the driver's lists.
    ///
    /// # Errors
    ///
    /// As in [`Gpus`]. A list that cannot be read is an error.
    pub async fn clients(
        &self,
        gpus: &BTreeSet<u16>,
        stamp: &CallMetadata,
    ) -> Result<Vec<Client>, ActionError> {
        for look in 1..=LOOKS {
            let gpus = gpus.clone();
            let seen = self.ask(stamp.deadline, move |_, nvml, _| clients::clients(nvml, &gpus)).await?;
            if !seen.is_empty() {
                return Ok(seen);
            }
            if look < LOOKS {
                tokio::time::sleep(self.target.looks_apart()).await;
            }
        }
        Ok(Vec::new())
    }

    /// Fills nearly all memory of a GPU, reads it back and leaves it zero. `within` limits the duration; plan about one
    /// minute per 100 GB. The GPU is not reset, because NVML and CUDA have no call for it.
    ///
    /// # Errors
    ///
    /// `platform.unsupported` if CUDA's driver library is missing, or if the GPU is partitioned: destroy its instances
    /// first, so that all memory is reachable. `gpu.busy` while a process has the GPU open. `gpu.scrub_failed` if the
    /// scrub is interrupted.
    pub async fn scrub(&self, uuid: &str, within: Duration) -> Result<Scrub, ActionError> {
        let wanted = uuid.to_owned();
        let held = self.changing.clone().lock_owned().await;
        let scrubbed = self.ask(within, move |target, nvml, stop| {
            let _held = held;
            let device = layout_change::device(nvml, &wanted)?;
            if partition(&device)?.0.enabled {
                let why = "it is partitioned: only a GPU without partitions can be scrubbed completely";
                return Err(Fault::new("scrub", Kind::NotSupported, why));
            }
            if let Some(client) = clients::clients_of(&device, &wanted)?.first() {
                return Err(Fault::new("scrub", Kind::InUse, client));
            }
            let memory =
                device.memory_info().map_err(|error| Fault::of("nvmlDeviceGetMemoryInfo_v2", &error))?;
            Ok(match scrub::scrub(&target.cuda_library, &wanted, memory.total, stop) {
                Err(fault) if matches!(fault.kind, Kind::Failed | Kind::NoRoom) => Err(fault),
                other => Ok(other?),
            })
        });
        let broken = |fault: Fault| {
            ActionError::transient(codes::SCRUB_FAILED, format!("{uuid} of {}: {fault}", self.place()))
        };
        scrubbed.await?.map_err(broken)
    }

    /// Returns the layout that `profile` requests for each GPU. Fails if the layout is unknown. Changes nothing.
    fn asked(
        target: &NvmlTarget,
        now: &[GpuPartition],
        profile: &str,
    ) -> Result<Vec<(String, Wanted)>, Fault> {
        let each = wanted(profile, &target.layouts, now.len());
        let each = each.map_err(|why| Fault::new("layout", Kind::NotSupported, why))?;
        Ok(now.iter().map(|one| one.uuid.clone()).zip(each).collect())
    }

    /// Applies a layout while it holds the node's state file.
    fn set(
        target: &NvmlTarget,
        profile: &str,
        stamp: &CallMetadata,
        place: &str,
        stop: &AtomicBool,
    ) -> Result<(), ActionError> {
        let mut held = LockedNodeState::take(&target.state)?;
        if held.admit(profile, stamp)? {
            return Ok(());
        }
        let opener = || open(&target.library);
        let now = opener().and_then(|nvml| layout_change::read(&nvml)).map_err(|fault| fault.at(place))?;
        let asked = Self::asked(target, &now, profile).map_err(|fault| fault.at(place))?;
        let nvml = opener().map_err(|fault| fault.at(place))?;
        layout_change::foresee(&nvml, &asked).map_err(|fault| fault.at(place))?;
        drop(nvml);
        if stamp.dry_run {
            return Ok(());
        }
        if stop.load(Ordering::SeqCst) {
            let why =
                format!("{place}, profile {profile}: the caller no longer waits, and nothing was changed");
            return Err(ActionError::transient(codes::UNAVAILABLE, why));
        }
        // After an interrupted change, the restore target is the layout before that change, not the half-done layout.
        let before = held.left_underway().map_or(now, |underway| underway.before);
        held.begin(PendingChange { profile: profile.to_owned(), before: before.clone() }, stamp)?;
        match change(&opener, &asked, &before, stop) {
            Ok(()) => held.done(profile, stamp),
            Err(Failed::Back(cause)) => {
                held.undone()?;
                Err(cause.at(&format!("{place}, profile {profile}; the previous layout was restored")))
            }
            Err(Failed::Stopped) => {
                let why = format!("{place}, profile {profile}: interrupted; the next call continues it");
                Err(ActionError::unknown(codes::NO_ANSWER, why))
            }
            Err(Failed::HalfDone { cause, back, stands }) => {
                let why = format!(
                    "{place}, profile {profile}: {cause}; the previous layout could not be restored: {back}; present layout: {stands}"
                );
                Err(ActionError::permanent(codes::LAYOUT_FAILED, why))
            }
        }
    }

    /// Returns the partition with only the compute instances that the GPU lists as devices, so that it can be labelled.
    fn as_listed(now: &Partition, listed: &BTreeSet<(u32, u32)>) -> Partition {
        let mut seen = now.clone();
        for one in &mut seen.instances {
            one.compute.retain(|compute| listed.contains(&(one.id, compute.id)));
        }
        seen
    }
}

/// Returns the labels of the hardware's layout and of the listed devices.
fn labels(target: &NvmlTarget, nvml: &Nvml) -> Result<(String, String), Fault> {
    let (mut stands, mut lists): (Vec<(Partition, Vec<Profile>)>, Vec<_>) = (Vec::new(), Vec::new());
    for (_, device) in devices(nvml)? {
        let (now, profiles) = partition(&device)?;
        let listed = if now.enabled { listed(&device)? } else { BTreeSet::new() };
        lists.push((LocalNode::as_listed(&now, &listed), profiles.clone()));
        stands.push((now, profiles));
    }
    Ok((label(&stands, &target.layouts), label(&lists, &target.layouts)))
}

#[async_trait]
impl Gpus for LocalNode {
    fn backend(&self) -> &'static str {
        "nvml"
    }

    async fn layout(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuLayout, ActionError> {
        self.is_meant(cluster, node)?;
        let working = node_state::is_held(&self.target.state);
        let ledger = node_state::read(&self.target.state)?;
        let (hardware, allocatable) =
            self.ask(stamp.deadline, |target, nvml, _| labels(target, nvml)).await?;
        if let Some(underway) = ledger.underway.filter(|_| working) {
            let (profile, state) = (underway.profile, LayoutState::Pending);
            return Ok(GpuLayout { profile, state, allocatable, hardware, manager_active: true });
        }
        // Manual changes and interrupted changes are not corrected automatically, so the observed layout is reported. A
        // new layout needs a new request.
        let profile = ledger.asked.filter(|asked| *asked == hardware).unwrap_or_else(|| hardware.clone());
        let state = LayoutState::Success;
        Ok(GpuLayout { profile, state, allocatable, hardware, manager_active: working })
    }

    async fn set_layout(
        &self,
        cluster: &str,
        node: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.is_meant(cluster, node)?;
        let held = self.changing.clone().lock_owned().await;
        let (target, place, profile, of) =
            (self.target.clone(), self.place(), profile.to_owned(), stamp.clone());
        let done = blocking(stamp.deadline, move |stop| {
            let _held = held;
            Self::set(&target, &profile, &of, &place, stop)
        });
        done.await?.unwrap_or_else(|| {
            let why = format!("{}: the NVIDIA driver does not answer", self.place());
            Err(ActionError::unknown(codes::NO_ANSWER, why))
        })
    }

    /// Runs the configured program, because NVML has no diagnosis.
    async fn diagnose(
        &self,
        cluster: &str,
        node: &str,
        level: DiagnosisLevel,
        stamp: &CallMetadata,
    ) -> Result<Diagnosis, ActionError> {
        self.is_meant(cluster, node)?;
        diagnosis::run(self.target.diagnosis.as_deref(), level, stamp.deadline, &self.place()).await
    }

    async fn health(
        &self,
        cluster: &str,
        node: &str,
        stamp: &CallMetadata,
    ) -> Result<GpuHealth, ActionError> {
        self.is_meant(cluster, node)?;
        let boot = fs::read_to_string(BOOT).map_err(|error| {
            ActionError::transient(codes::UNAVAILABLE, format!("{}: {BOOT}: {error}", self.place()))
        })?;
        let verdict =
            self.ask(stamp.deadline, |target, nvml, _| health::judge(&health::read(nvml)?, target.gpus));
        let health::Verdict { fit, recovery, report } = verdict.await?;
        Ok(GpuHealth { fit, recovery, boot: boot.trim().to_owned(), report })
    }

    /// Not supported by NVML; the error names the command to use.
    async fn reset(&self, cluster: &str, node: &str, _: &CallMetadata) -> Result<(), ActionError> {
        self.is_meant(cluster, node)?;
        let why = format!("{}: NVML has no reset; run `nvidia-smi --gpu-reset` on the node", self.place());
        Err(ActionError::permanent(codes::UNSUPPORTED, why))
    }

    /// Not supported by NVML; the error names the alternative.
    async fn reboot(&self, cluster: &str, node: &str, _: &str, _: &CallMetadata) -> Result<(), ActionError> {
        self.is_meant(cluster, node)?;
        let why = format!("{}: NVML cannot reboot a node; reboot it with its management tool", self.place());
        Err(ActionError::permanent(codes::UNSUPPORTED, why))
    }
}

impl From<Scrub> for FilledGpu {
    fn from(scrub: Scrub) -> Self {
        Self {
            uuid: scrub.uuid,
            bytes_total: scrub.bytes_total,
            bytes_covered: scrub.bytes_covered,
            leftovers: scrub.leftovers,
            mismatches: scrub.mismatches,
            reset: false,
        }
    }
}
