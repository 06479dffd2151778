//! Stores action results of a sanitisation, and evaluates the conditions of its states.

use super::{NodeSanitisation, TECHNIQUES};
use crate::{
    platform::{
        BeginSanitise, Drive, DriveStatus, DriveTechnique, ReadProgress, SampleDrive, SanitiseStatus,
        ScrubGpu,
    },
    policy::Method,
};
use std::time::Duration;

/// A drive without progress for this number of seconds, or for a quarter of its own estimate, counts as stalled.
const STILL_S: u64 = 600;
/// The minimum interval between two polls of a drive, in seconds.
const LOOK_S: u64 = 5;

impl NodeSanitisation {
    fn place(&self) -> (String, String) {
        (self.cluster.to_string(), self.node.to_string())
    }

    fn drives(&self) -> impl Iterator<Item = &Drive> {
        self.devices.iter().flat_map(|devices| &devices.drives)
    }

    pub(super) fn gpu_scrubs(&self) -> Vec<ScrubGpu> {
        let reset = self.demands.gpu_memory > Method::Clear;
        let scrub = |uuid: &String| {
            let (cluster, node) = self.place();
            ScrubGpu { cluster, node, uuid: uuid.clone(), reset }
        };
        self.devices.iter().flat_map(|devices| &devices.gpus).map(|gpu| scrub(&gpu.uuid)).collect()
    }

    /// Returns the technique for a drive that is sufficient and supported.
    pub(super) fn technique(&self, drive: &Drive) -> Option<DriveTechnique> {
        let good = |(technique, method): &&(DriveTechnique, Method)| {
            *method >= self.demands.drives && drive.can.contains(technique)
        };
        TECHNIQUES.iter().find(good).map(|(technique, _)| *technique)
    }

    /// Returns the drives that are not yet sanitised, each with the initial count of its log.
    pub(super) fn erasures(&self) -> Vec<BeginSanitise> {
        let left = self.drives().filter(|drive| self.status(drive) != SanitiseStatus::Completed);
        let erasure = |drive: &Drive| {
            let (cluster, node) = self.place();
            let begun_before =
                self.drives.get(&drive.serial).map_or(drive.log.begun, |progress| progress.log.begun);
            let (serial, technique) = (drive.serial.clone(), self.technique(drive));
            BeginSanitise { cluster, node, serial, technique, begun_before }
        };
        left.map(erasure).collect()
    }

    /// Returns the status of a drive, as polled since cleaning began.
    pub(super) fn status(&self, drive: &Drive) -> SanitiseStatus {
        self.drives.get(&drive.serial).map_or(SanitiseStatus::Never, |progress| progress.log.status)
    }

    pub(super) fn readings(&self) -> Vec<ReadProgress> {
        let reading = |drive: &Drive| {
            let (cluster, node) = self.place();
            ReadProgress { cluster, node, serial: drive.serial.clone() }
        };
        self.drives().map(reading).collect()
    }

    pub(super) fn samplings(&self) -> Vec<SampleDrive> {
        let sampling = |drive: &Drive| {
            let (cluster, node) = self.place();
            SampleDrive { cluster, node, serial: drive.serial.clone() }
        };
        self.drives().map(sampling).collect()
    }

    /// Stores the state of a drive's log and the time since its last change.
    pub(super) fn progressed(&mut self, progress: DriveStatus) {
        let waited = self.check_interval().as_secs();
        let known = self.drives.entry(progress.serial).or_default();
        let same = known.log == progress.log;
        known.still_s = if same { known.still_s.saturating_add(waited) } else { 0 };
        known.waited_s = known.waited_s.saturating_add(waited);
        known.log = progress.log;
    }

    pub(super) fn erased(&self) -> bool {
        self.drives().all(|drive| self.status(drive) == SanitiseStatus::Completed)
    }

    pub(super) fn failed(&self) -> bool {
        self.drives().any(|drive| self.status(drive) == SanitiseStatus::Failed)
            && !self.drives().any(|drive| self.status(drive) == SanitiseStatus::InProgress)
    }

    /// Returns true if every failed drive may be tried again without an operator.
    pub(super) fn may_retry(&self) -> bool {
        let rounds = |drive: &Drive| {
            let begun = self.drives.get(&drive.serial).map_or(0, |progress| progress.log.begun);
            begun.saturating_sub(drive.log.begun)
        };
        let mut failed = self.drives().filter(|drive| self.status(drive) == SanitiseStatus::Failed);
        failed.all(|drive| rounds(drive) < u64::from(self.demands.attempts))
    }

    /// Returns true if a working drive makes no progress for too long. Also true if it takes three times its estimate, or longer than the timeout.
    pub(super) fn stalled(&self) -> bool {
        self.drives().any(|drive| {
            let Some(progress) = self.drives.get(&drive.serial) else { return false };
            let most =
                drive.estimate_s.map_or(self.demands.within.as_secs(), |s| s.saturating_mul(3).max(STILL_S));
            progress.log.status == SanitiseStatus::InProgress
                && (progress.still_s >= still(drive) || progress.waited_s >= most)
        })
    }

    /// Returns the interval until the next poll of the drives: from their own estimates, and longer without progress.
    pub(super) fn check_interval(&self) -> Duration {
        let of = |drive: &Drive| {
            let still_s = self.drives.get(&drive.serial).map_or(0, |progress| progress.still_s);
            let soon = (drive.estimate_s.unwrap_or(STILL_S) / 8).max(still_s / 2);
            soon.min(still(drive) / 4).max(LOOK_S)
        };
        let working = self.drives().filter(|drive| self.status(drive) == SanitiseStatus::InProgress);
        Duration::from_secs(working.map(of).min().unwrap_or(LOOK_S))
    }
}

fn still(drive: &Drive) -> u64 {
    STILL_S.max(drive.estimate_s.unwrap_or(0) / 4)
}
