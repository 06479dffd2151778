//! Reads the error counters of each GPU and derives the health of the node.
//!
//! Values that a GPU does not report are unknown. If a GPU reports nothing at all, the health check fails.

use crate::nvml::{
    error::{Fault, Kind},
    facts::supported,
};
use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{EccCounter, MemoryError, RetirementCause},
    enums::device::SampleValue,
    error::NvmlError,
    structs::device::FieldId,
    sys_exports::field_id,
};
use workflows::platform::Recovery;

/// The error counters of one GPU. Values that the GPU does not report are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    name: String,
    lost: bool,
    uncorrected: Option<u64>,
    uncorrected_ever: Option<u64>,
    corrected: Option<u64>,
    retired: Option<usize>,
    retirement_pending: Option<bool>,
    rows_remapped: Option<u64>,
    remap_pending: Option<u64>,
    remap_failed: Option<u64>,
    recovery: Option<u64>,
}

/// The health of a node's GPUs, the recovery action, and the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) fit: bool,
    pub(super) recovery: Recovery,
    pub(super) report: String,
}

pub(super) fn read(nvml: &Nvml) -> Result<Vec<Reading>, Fault> {
    let count = nvml.device_count().map_err(|error| Fault::of("nvmlDeviceGetCount_v2", &error))?;
    (0..count)
        .map(|index| match nvml.device_by_index(index).and_then(|device| reading(&device)) {
            Err(NvmlError::GpuLost) => {
                Ok(Reading { name: format!("GPU {index}"), lost: true, ..Reading::default() })
            }
            other => other.map_err(|error| Fault::of("nvml", &error)),
        })
        .collect()
}

fn reading(device: &Device<'_>) -> Result<Reading, NvmlError> {
    let errors = |kind, counter| supported(device.total_ecc_errors(kind, counter));
    let pages = |cause| supported(device.retired_pages(cause)).map(|pages| pages.map(|pages| pages.len()));
    let single = pages(RetirementCause::MultipleSingleBitEccErrors)?;
    let double = pages(RetirementCause::DoubleBitEccError)?;
    let [corrected, uncorrected, pending, failed, recovery] = fields(device)?;
    Ok(Reading {
        name: device.uuid()?,
        lost: false,
        uncorrected: errors(MemoryError::Uncorrected, EccCounter::Volatile)?,
        uncorrected_ever: errors(MemoryError::Uncorrected, EccCounter::Aggregate)?,
        corrected: errors(MemoryError::Corrected, EccCounter::Volatile)?,
        retired: single.zip(double).map(|(single, double)| single + double),
        retirement_pending: supported(device.are_pages_pending_retired())?,
        rows_remapped: corrected.zip(uncorrected).map(|(corrected, uncorrected)| corrected + uncorrected),
        remap_pending: pending,
        remap_failed: failed,
        recovery,
    })
}

const FIELDS: [u32; 5] = [
    field_id::NVML_FI_DEV_REMAPPED_COR,
    field_id::NVML_FI_DEV_REMAPPED_UNC,
    field_id::NVML_FI_DEV_REMAPPED_PENDING,
    field_id::NVML_FI_DEV_REMAPPED_FAILURE,
    field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
];

/// Reads the remapped rows and the recovery action. Each value can be absent, because older drivers lack the fields.
fn fields(device: &Device<'_>) -> Result<[Option<u64>; 5], NvmlError> {
    let Some(samples) = supported(device.field_values_for(&FIELDS.map(FieldId)))? else {
        return Ok([None; 5]);
    };
    let mut values = [None; 5];
    for (value, sample) in values.iter_mut().zip(samples) {
        let told = match sample.and_then(|sample| sample.value) {
            // A driver that does not know a field returns one of these errors.
            Err(NvmlError::InvalidArg) => None,
            told => supported(told)?,
        };
        *value = match told {
            Some(SampleValue::U32(number)) => Some(number.into()),
            Some(SampleValue::U64(number)) => Some(number),
            Some(SampleValue::I64(number)) => u64::try_from(number).ok(),
            Some(SampleValue::F64(_)) | None => None,
        };
    }
    Ok(values)
}

/// Orders recovery actions by their reach. A reboot also resets all GPUs.
fn rank(recovery: Recovery) -> u8 {
    match recovery {
        Recovery::Nothing => 0,
        Recovery::Reset => 1,
        Recovery::DrainAndReset => 2,
        Recovery::DrainPeers => 3,
        Recovery::Reboot => 4,
    }
}

impl Reading {
    /// Returns all problems of the GPU, each with its recovery action.
    fn complaints(&self) -> Vec<(String, Recovery)> {
        if self.lost {
            return vec![("has fallen off the bus".to_owned(), Recovery::Reboot)];
        }
        let counted = |value: Option<u64>| value.filter(|count| *count > 0);
        let mut all = Vec::new();
        if let Some(count) = counted(self.uncorrected) {
            all.push((format!("{count} uncorrected memory errors since its last reset"), Recovery::Reset));
        }
        if counted(self.remap_failed).is_some() {
            all.push(("a row of its memory could not be remapped".to_owned(), Recovery::Nothing));
        }
        if counted(self.remap_pending).is_some() {
            all.push(("rows of its memory are remapped only at its next reset".to_owned(), Recovery::Reset));
        }
        if self.retirement_pending == Some(true) {
            all.push((
                "pages of its memory are retired only at the next reboot".to_owned(),
                Recovery::Reboot,
            ));
        }
        let asked = match self.recovery {
            None | Some(0) => return all,
            Some(1) => Recovery::Reset,
            Some(2) => Recovery::Reboot,
            Some(3) => Recovery::DrainPeers,
            Some(4) => Recovery::DrainAndReset,
            Some(number) => {
                all.push((
                    format!("the driver requests the unknown recovery action {number}"),
                    Recovery::Reboot,
                ));
                return all;
            }
        };
        all.push((format!("the driver requests recovery: {}", <&str>::from(asked)), asked));
        all
    }

    /// Returns the counters as text, for the journal.
    fn evidence(&self) -> String {
        let shown = |name: &str, value: Option<u64>| {
            value.map_or_else(|| format!("{name} unknown"), |value| format!("{name} {value}"))
        };
        let retired = self.retired.map(|count| count as u64);
        let retired = retired.map(|count| format!(", pages retired {count}")).unwrap_or_default();
        format!(
            "{}: {}, {}, {}, {}{retired}, {}",
            self.name,
            shown("uncorrected", self.uncorrected),
            shown("uncorrected in total", self.uncorrected_ever),
            shown("corrected", self.corrected),
            shown("rows remapped", self.rows_remapped),
            shown("recovery action", self.recovery),
        )
    }

    fn tells_nothing(&self) -> bool {
        !self.lost
            && self.uncorrected.is_none()
            && self.remap_failed.is_none()
            && self.retired.is_none()
            && self.recovery.is_none()
    }
}

/// Derives the health of a node that should have `expected` GPUs.
pub(super) fn judge(readings: &[Reading], expected: Option<u32>) -> Result<Verdict, Fault> {
    if let Some(silent) = readings.iter().find(|reading| reading.tells_nothing()) {
        let why = format!("{} reports neither errors nor a recovery action", silent.name);
        return Err(Fault::new("health", Kind::NotSupported, why));
    }
    let mut complaints: Vec<(String, Recovery)> = Vec::new();
    let expected = expected.map_or(1, |expected| expected as usize);
    if readings.len() < expected {
        let why = format!("{} of {expected} GPUs are present", readings.len());
        complaints.push((why, Recovery::Reboot));
    }
    for reading in readings {
        let each = reading.complaints().into_iter();
        complaints.extend(each.map(|(why, mend)| (format!("{} {why}", reading.name), mend)));
    }
    let recovery =
        complaints.iter().map(|(_, mend)| *mend).max_by_key(|mend| rank(*mend)).unwrap_or_default();
    let words = complaints.iter().map(|(why, _)| why.clone());
    let report: Vec<String> = words.chain(readings.iter().map(Reading::evidence)).collect();
    Ok(Verdict { fit: complaints.is_empty(), recovery, report: report.join("; ") })
}
