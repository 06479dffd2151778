//! Shares and factors, exact to a thousandth, so that decisions never depend on rounding.

use crate::tenancy::Gpus;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;

/// A share (0 to 1) or a factor (2 is twice), in thousandths. Written as `0.25` or `2` in documents and in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio {
    /// The thousandths: 250 is a quarter.
    pub thousandths: u32,
}

impl Ratio {
    /// The whole.
    pub const ONE: Self = Self { thousandths: 1_000 };

    /// Creates a ratio of `thousandths`.
    #[must_use]
    pub const fn thousandths(thousandths: u32) -> Self {
        Self { thousandths }
    }

    /// Creates a ratio of `value`, if it is a non-negative whole number of thousandths.
    #[must_use]
    pub fn exactly(value: f64) -> Option<Self> {
        let thousandths = value * 1_000.0;
        let rounded = thousandths.round();
        let fits = (0.0..=4e9).contains(&rounded) && (thousandths - rounded).abs() < 1e-6;
        // The range was checked, so the cast does not truncate.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        fits.then_some(Self { thousandths: rounded as u32 })
    }

    /// Returns this share of `whole`, rounded down to whole GPUs.
    #[must_use]
    pub fn apply_to(self, whole: Gpus) -> Gpus {
        let product = u64::from(whole.0).saturating_mul(u64::from(self.thousandths));
        Gpus(u32::try_from(product / 1_000).unwrap_or(u32::MAX))
    }

    /// Returns true if `part` is more than this share of `whole`. Exact, without rounding.
    #[must_use]
    pub fn is_exceeded(self, part: Gpus, whole: Gpus) -> bool {
        let allowed = u64::from(whole.0).saturating_mul(u64::from(self.thousandths));
        u64::from(part.0).saturating_mul(1_000) > allowed
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if self.thousandths.is_multiple_of(1_000) {
            return to.serialize_u32(self.thousandths / 1_000);
        }
        to.serialize_f64(f64::from(self.thousandths) / 1_000.0)
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(from)?;
        Self::exactly(value)
            .ok_or_else(|| D::Error::custom(format!("{value} is not a number with up to three decimals")))
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
        assert_eq!(quarter.apply_to(Gpus(7)), Gpus(1));
        assert_eq!(quarter.to_string(), "0.25");
        assert_eq!(Ratio::thousandths(2_000).to_string(), "2");
        for thousandths in [0, 1, 7, 333, 500, 1_000, 1_001, 2_500, 999_999] {
            let ratio = Ratio::thousandths(thousandths);
            let kept = serde_json::to_string(&ratio).unwrap();
            assert_eq!(serde_json::from_str::<Ratio>(&kept).unwrap(), ratio, "{kept}");
        }
        assert_eq!(
            (Ratio::exactly(0.0004), Ratio::exactly(-1.0), Ratio::exactly(f64::NAN)),
            (None, None, None)
        );
    }
}
