//! Shares and factors, exact to a thousandth, so that decisions never depend on rounding.

use crate::tenancy::Gpus;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A share (0 to 1) or a factor (2 is twice), in thousandths. Written `0.25` or `2` in documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio {
    /// Thousandths: 250 is a quarter.
    pub thousandths: u32,
}

impl Ratio {
    /// All of it.
    pub const ONE: Self = Self { thousandths: 1_000 };

    /// `thousandths` of the whole.
    #[must_use]
    pub const fn thousandths(thousandths: u32) -> Self {
        Self { thousandths }
    }

    /// So much of `whole`, rounded down to whole GPUs.
    #[must_use]
    pub fn of(self, whole: Gpus) -> Gpus {
        let product = u64::from(whole.0).saturating_mul(u64::from(self.thousandths));
        Gpus(u32::try_from(product / 1_000).unwrap_or(u32::MAX))
    }

    /// Whether `part` is more than so much of `whole`. Exact: nothing is rounded.
    #[must_use]
    pub fn is_exceeded(self, part: Gpus, whole: Gpus) -> bool {
        let allowed = u64::from(whole.0).saturating_mul(u64::from(self.thousandths));
        u64::from(part.0).saturating_mul(1_000) > allowed
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = format!("{}.{:03}", self.thousandths / 1_000, self.thousandths % 1_000);
        f.write_str(shown.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exceeded_by_the_first_gpu_above_it() {
        let quarter = Ratio::thousandths(250);
        assert!(!quarter.is_exceeded(Gpus(2), Gpus(8)));
        assert!(quarter.is_exceeded(Gpus(3), Gpus(8)));
        assert!(quarter.is_exceeded(Gpus(1), Gpus(0)));
        assert_eq!(quarter.of(Gpus(7)), Gpus(1));
        assert_eq!(quarter.to_string(), "0.25");
        assert_eq!(Ratio::thousandths(2_000).to_string(), "2");
    }
}
