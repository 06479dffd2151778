//! Removed users. Lets records show that a person in them no longer exists, even if the name is used again.

use crate::Entity;
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// A name whose user was removed at least once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedUser {
    /// The name.
    pub name: String,
    /// When users of this name were removed, earliest first.
    pub removed_at: Vec<Timestamp>,
}

impl RemovedUser {
    /// The most removals stored for one name. The earliest and the latest are always stored.
    const MOST: usize = 50;

    /// Adds a removal.
    #[must_use]
    pub fn removed_again(mut self, at: Timestamp) -> Self {
        if self.removed_at.len() >= Self::MOST {
            self.removed_at.pop();
        }
        self.removed_at.push(at);
        self
    }

    /// Returns when the user who acted at `at` was removed, or `None` if that user still exists.
    #[must_use]
    pub fn removed_since(&self, at: Timestamp) -> Option<Timestamp> {
        self.removed_at.iter().copied().find(|removed| *removed >= at)
    }
}

impl Entity for RemovedUser {
    const COLLECTION: &'static str = "users-removed";
    const RETENTION: crate::Retention<Self> = crate::Retention::Forever;

    fn id(&self) -> String {
        self.name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_concerns_earlier_acts_and_not_the_next_user_of_that_name() {
        let removed = RemovedUser { name: "olga".into(), ..RemovedUser::default() };
        let removed = removed.removed_again(Timestamp(10)).removed_again(Timestamp(30));
        assert_eq!(removed.removed_since(Timestamp(5)), Some(Timestamp(10)));
        assert_eq!(removed.removed_since(Timestamp(20)), Some(Timestamp(30)));
        assert_eq!(removed.removed_since(Timestamp(40)), None);
    }
}
