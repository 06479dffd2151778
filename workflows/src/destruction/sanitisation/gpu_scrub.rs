//! The scrub of a GPU's memory, and the claims that it supports.
//!
//! No vendor certifies cleared GPU memory. A certificate therefore states only observations (a driver setting, or the bytes that a fill-and-verify
//! job covered), and never that memory was zeroed.

use serde::{Deserialize, Serialize};

/// The level of a scrub, the weakest first. Policy sets the minimum for a hand-over.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
    strum::Display,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ScrubLevel {
    /// No scrub.
    None,
    /// The driver is set to clear freed memory, and no setting disables that.
    DriverScrubOnFree,
    /// MIG instances were destroyed and created again. There is no public statement that this clears memory.
    MigRecreated,
    /// A job filled nearly all memory with a pattern and read it back.
    FillVerified,
    /// As `FillVerified`, and the GPU was reset with no client on it.
    FillVerifiedAndReset,
}

/// The minimum level before another tenant may use a GPU.
pub const BETWEEN_TENANTS: ScrubLevel = ScrubLevel::FillVerified;
/// The minimum share of memory that a fill must cover, in percent.
pub const LEAST_COVERAGE_PERCENT: u64 = 95;

/// An observed scrub of the memory of one GPU or slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuScrub {
    /// The level of the scrub.
    pub level: ScrubLevel,
    /// The driver's version, if it was read.
    pub driver_version: Option<String>,
    /// True if the driver reports scrub-on-free. `None` if it was not read.
    pub scrub_on_free: Option<bool>,
    /// The size of the memory, in bytes.
    pub bytes_total: u64,
    /// Bytes that the fill wrote and read back.
    pub bytes_covered: u64,
    /// Samples that were not zero before the fill: left over from earlier work.
    pub leftovers: u64,
    /// Bytes that read back differently.
    pub mismatches: u64,
}

/// The reason why a scrub is insufficient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ScrubGap {
    /// The level is lower than required.
    #[error("its memory was scrubbed at level {was}, and {needed} is needed")]
    TooWeak {
        /// The level of the scrub.
        was: ScrubLevel,
        /// The required level.
        needed: ScrubLevel,
    },
    /// Too little of the memory was covered.
    #[error("the fill covered {covered} of {total} bytes, and {LEAST_COVERAGE_PERCENT} % is needed")]
    Coverage {
        /// Bytes covered.
        covered: u64,
        /// All bytes.
        total: u64,
    },
    /// The data that were read back differ from the data that were written.
    #[error("{0} bytes read back differently from what was written")]
    Mismatches(u64),
    /// The driver's setting is off or unknown.
    #[error("the driver does not say that it scrubs memory on free")]
    ScrubOnFreeUnknown,
}

impl GpuScrub {
    /// Checks that the scrub reaches the level `needed`.
    ///
    /// # Errors
    /// The first missing condition.
    pub fn suffices(&self, needed: ScrubLevel) -> Result<(), ScrubGap> {
        if self.level < needed {
            return Err(ScrubGap::TooWeak { was: self.level, needed });
        }
        if self.level == ScrubLevel::DriverScrubOnFree && self.scrub_on_free != Some(true) {
            return Err(ScrubGap::ScrubOnFreeUnknown);
        }
        if self.level >= ScrubLevel::FillVerified {
            let covered = u128::from(self.bytes_covered) * 100;
            if self.bytes_total == 0
                || self.bytes_covered > self.bytes_total
                || covered < u128::from(self.bytes_total) * u128::from(LEAST_COVERAGE_PERCENT)
            {
                return Err(ScrubGap::Coverage { covered: self.bytes_covered, total: self.bytes_total });
            }
            if self.mismatches > 0 {
                return Err(ScrubGap::Mismatches(self.mismatches));
            }
        }
        Ok(())
    }

    /// Returns the claim as text: only observations.
    #[must_use]
    pub fn claim(&self) -> String {
        let driver = match (&self.driver_version, self.scrub_on_free) {
            (Some(version), Some(true)) => {
                format!("driver {version} reported scrub-on-free enabled and not turned off")
            }
            (Some(version), Some(false)) => format!("driver {version} reported scrub-on-free disabled"),
            (Some(version), None) => format!("driver {version}, not asked whether it scrubs on free"),
            (None, _) => "the driver was not asked whether it scrubs on free".into(),
        };
        match self.level {
            ScrubLevel::None => "nothing was done to its memory".into(),
            ScrubLevel::DriverScrubOnFree => driver,
            ScrubLevel::MigRecreated => {
                format!(
                    "MIG instances were destroyed and made again, which is not known to clear memory; {driver}"
                )
            }
            ScrubLevel::FillVerified => format!("{}; {driver}", self.filled()),
            ScrubLevel::FillVerifiedAndReset => {
                format!("{}, then the GPU was reset; {driver}", self.filled())
            }
        }
    }

    fn filled(&self) -> String {
        format!(
            "a pattern was written to {} of {} bytes of memory and read back with {} mismatches; {} samples taken before were not zero",
            self.bytes_covered, self.bytes_total, self.mismatches, self.leftovers
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(covered: u64) -> GpuScrub {
        GpuScrub {
            level: ScrubLevel::FillVerified,
            driver_version: Some("550.90".into()),
            scrub_on_free: Some(true),
            bytes_total: 1000,
            bytes_covered: covered,
            leftovers: 3,
            mismatches: 0,
        }
    }

    #[test]
    fn a_fill_that_covers_less_than_95_percent_does_not_count() {
        assert_eq!(filled(950).suffices(BETWEEN_TENANTS), Ok(()));
        assert_eq!(
            filled(949).suffices(BETWEEN_TENANTS),
            Err(ScrubGap::Coverage { covered: 949, total: 1000 })
        );
        assert!(filled(1001).suffices(BETWEEN_TENANTS).is_err(), "more than there is was not measured");
    }

    #[test]
    fn no_wording_claims_that_memory_was_zeroed() {
        for level in <ScrubLevel as strum::VariantArray>::VARIANTS {
            for scrub_on_free in [None, Some(true), Some(false)] {
                for driver_version in [None, Some("550".to_owned())] {
                    let claim =
                        GpuScrub { level: *level, scrub_on_free, driver_version, ..filled(990) }.claim();
                    for word in ["zeroed", "erased", "wiped", "cleared", "sanitised"] {
                        assert!(!claim.contains(word), "{claim}");
                    }
                }
            }
        }
    }
}
