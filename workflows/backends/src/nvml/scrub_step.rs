//! Clears the memory of a node's GPUs as a workflow step, once per idempotency key.

use crate::nvml::{
    clients,
    error::{Fault, Kind},
    layout_change,
    node::{LocalNode, blocking},
    node_state::LockedNodeState,
};
use engine::ActionError;
use nvml_wrapper::Nvml;
use std::{collections::BTreeSet, time::Duration};
use workflows::platform::{CallMetadata, ScrubLevel, Scrubbed, codes};

/// The longest wait for the state file.
const FILE_WITHIN: Duration = Duration::from_secs(5);

/// Describes a scrub request, as the state file records it.
fn request(gpus: &BTreeSet<u16>, level: ScrubLevel) -> String {
    let gpus: Vec<String> = gpus.iter().map(u16::to_string).collect();
    let gpus = if gpus.is_empty() { "all".to_owned() } else { gpus.join(",") };
    format!("scrub {gpus} {}", <&str>::from(level))
}

/// Returns the UUIDs and sizes of these GPUs, and the driver version. An empty set of indexes means all GPUs.
fn named(nvml: &Nvml, gpus: &BTreeSet<u16>) -> Result<(Vec<(String, u64)>, String), Fault> {
    let version =
        nvml.sys_driver_version().map_err(|error| Fault::of("nvmlSystemGetDriverVersion", &error))?;
    let all: Vec<(u16, _)> = (0..).zip(layout_change::devices(nvml)?).collect();
    if let Some(missing) = gpus.iter().find(|index| usize::from(**index) >= all.len()) {
        let why = format!("GPU {missing} does not exist; the driver lists {}", all.len());
        return Err(Fault::new("nvmlDeviceGetHandleByIndex_v2", Kind::Lost, why));
    }
    let mut found = Vec::new();
    for (_, (uuid, device)) in all.iter().filter(|(index, _)| gpus.is_empty() || gpus.contains(index)) {
        if layout_change::partition(device)?.0.enabled {
            let why =
                format!("{uuid} is partitioned: only a GPU without partitions can be scrubbed completely");
            return Err(Fault::new("scrub", Kind::NotSupported, why));
        }
        if let Some(client) = clients::clients_of(device, uuid)?.first() {
            return Err(Fault::new("scrub", Kind::InUse, client));
        }
        let memory = device.memory_info().map_err(|error| Fault::of("nvmlDeviceGetMemoryInfo_v2", &error))?;
        found.push((uuid.clone(), memory.total));
    }
    Ok((found, format!("{version}; it does not say whether it clears memory that is freed")))
}

impl LocalNode {
    /// Checks if a scrub may begin. Returns the recorded result if this key has already scrubbed, or an empty result if
    /// the level requires nothing.
    ///
    /// # Errors
    ///
    /// `call.fenced` and `call.key_reused` as in [`Gpus`](workflows::platform::Gpus). `platform.unsupported` for a
    /// level that requires more than filling and reading back.
    pub async fn admit_scrub(
        &self,
        gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        stamp: &CallMetadata,
    ) -> Result<Option<Scrubbed>, ActionError> {
        match level {
            // The same workspace continues to use the GPUs and may be running work.
            ScrubLevel::None => {
                let driver = "not asked".to_owned();
                let nothing = Scrubbed { level, driver, covered_bytes: 0, total_bytes: 0, leftovers: false };
                return Ok(Some(nothing));
            }
            ScrubLevel::Driver | ScrubLevel::Verified => {}
            ScrubLevel::Recreate | ScrubLevel::Reset => {
                let why = format!(
                    "{}: memory is filled and read back; for `{}`, reset the GPUs on the node, or set their layout",
                    self.place(),
                    <&str>::from(level)
                );
                return Err(ActionError::permanent(codes::UNSUPPORTED, why));
            }
        }
        let (state, request, of) = (self.state_file(), request(gpus, level), stamp.clone());
        let admitted = blocking(FILE_WITHIN, move |_| {
            let mut held = LockedNodeState::take(&state)?;
            if held.admit(&request, &of)? {
                return Ok(held.scrubbed(&of));
            }
            if !of.dry_run {
                held.noted(&of)?;
            }
            Ok(None)
        });
        admitted.await?.unwrap_or_else(|| Err(self.slow_file()))
    }

    /// Clears the memory of these GPUs one by one. An empty set of indexes means all GPUs. Each GPU may take up to
    /// `within`. Levels below [`ScrubLevel::Verified`] do the same work, because NVML does not report if the driver
    /// clears freed memory.
    ///
    /// # Errors
    ///
    /// As in [`LocalNode::scrub`] and [`LocalNode::admit_scrub`]. `gpu.scrub_failed` (permanent) if memory differs from
    /// the written pattern.
    pub async fn scrub_gpus(
        &self,
        gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        within: Duration,
        stamp: &CallMetadata,
    ) -> Result<Scrubbed, ActionError> {
        if let Some(before) = self.admit_scrub(gpus, level, stamp).await? {
            return Ok(before);
        }
        let wanted = gpus.clone();
        let (found, driver) = self.ask(stamp.deadline, move |_, nvml, _| named(nvml, &wanted)).await?;
        let total = found.iter().map(|(_, bytes)| bytes).sum();
        let verified = ScrubLevel::Verified;
        let mut scrubbed =
            Scrubbed { level: verified, driver, covered_bytes: 0, total_bytes: total, leftovers: false };
        if stamp.dry_run {
            return Ok(Scrubbed { covered_bytes: total, ..scrubbed });
        }
        let mut bytes = 0;
        for (uuid, _) in &found {
            let one = self.scrub(uuid, within).await?;
            if one.mismatches > 0 {
                let why = format!(
                    "{uuid} of {}: {} bytes differ from the written pattern",
                    self.place(),
                    one.mismatches
                );
                return Err(ActionError::permanent(codes::SCRUB_FAILED, why));
            }
            scrubbed.covered_bytes += one.bytes_covered;
            bytes += one.bytes_total;
            scrubbed.leftovers |= one.leftovers > 0;
        }
        scrubbed.total_bytes = bytes.max(total);
        let (state, request, of) = (self.state_file(), request(gpus, level), stamp.clone());
        let outcome = scrubbed.clone();
        let kept =
            blocking(FILE_WITHIN, move |_| LockedNodeState::take(&state)?.cleared(&request, outcome, &of));
        kept.await?.unwrap_or_else(|| Err(self.slow_file()))?;
        Ok(scrubbed)
    }

    fn slow_file(&self) -> ActionError {
        ActionError::transient(codes::UNAVAILABLE, format!("{}: the node's file is slow", self.place()))
    }
}
