//! The amount of data in a resource. Approvers see it in the plan, and it is compared again before destruction begins.

use crate::platform::ObservedResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// The growth in percent that an approval covers, of objects and of bytes each.
pub(in crate::offboarding) const TOLERATED_PERCENT: u64 = 5;

/// The fields in which a store counts objects.
const COUNTS: [&str; 5] = ["versions", "markers", "uploads", "objects", "locked"];

/// The amount of data in a resource, as its store reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAmount {
    /// The number of objects, including versions, delete markers and unfinished uploads.
    pub objects: Option<u64>,
    /// The number of bytes.
    pub bytes: Option<u64>,
    /// True if the store holds more than was counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

impl StoredAmount {
    /// Returns the amount that the store reported. `None` if it reported no amount.
    #[must_use]
    pub fn of(seen: &ObservedResource) -> Option<Self> {
        let number = |field: &str| seen.spec.get(field).and_then(Value::as_u64);
        let counted: Vec<u64> = COUNTS.into_iter().filter_map(number).collect();
        let objects = (!counted.is_empty())
            .then(|| counted.into_iter().fold(0, |sum: u64, count| sum.saturating_add(count)));
        let bytes = number("bytes");
        (objects.is_some() || bytes.is_some()).then(|| Self { objects, bytes, at_least: seen.is("more") })
    }

    /// Returns true if `now` exceeds this amount by more than the tolerance. A number that was not reported is not compared.
    #[must_use]
    pub fn has_grown(&self, now: &Self) -> bool {
        let grown = |then: Option<u64>, now: Option<u64>| {
            let (Some(then), Some(now)) = (then, now) else { return false };
            u128::from(now) * 100 > u128::from(then) * u128::from(100 + TOLERATED_PERCENT)
        };
        let began_to_exceed = now.at_least && !self.at_least;
        began_to_exceed || grown(self.objects, now.objects) || grown(self.bytes, now.bytes)
    }
}

impl fmt::Display for StoredAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = [(self.objects, "objects"), (self.bytes, "bytes")];
        let said = said.into_iter().filter_map(|(number, unit)| Some(format!("{} {unit}", number?)));
        let said = said.collect::<Vec<_>>().join(", ");
        write!(f, "{}{said}", if self.at_least { "at least " } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(objects: u64, bytes: u64) -> StoredAmount {
        StoredAmount { objects: Some(objects), bytes: Some(bytes), at_least: false }
    }

    #[test]
    fn an_amount_has_grown_when_objects_or_bytes_exceed_the_tolerance() {
        let agreed = amount(100, 1_000);
        for (objects, bytes, grown) in
            [(100, 1_000, false), (105, 1_050, false), (106, 1_000, true), (100, 1_051, true), (1, 1, false)]
        {
            assert_eq!(agreed.has_grown(&amount(objects, bytes)), grown, "{objects} {bytes}");
        }
        assert!(amount(0, 0).has_grown(&amount(1, 0)), "what was empty holds something");
        assert!(agreed.has_grown(&StoredAmount { at_least: true, ..amount(100, 1_000) }));
    }

    #[test]
    fn an_unknown_amount_does_not_count_as_zero() {
        let unknown = StoredAmount { objects: None, bytes: Some(1), at_least: false };
        assert!(!unknown.has_grown(&amount(9, 1)));
        assert!(!amount(9, 1).has_grown(&unknown));
        assert_eq!(amount(3, 5).to_string(), "3 objects, 5 bytes");
        assert_eq!(StoredAmount { at_least: true, ..unknown }.to_string(), "at least 1 bytes");
    }
}
