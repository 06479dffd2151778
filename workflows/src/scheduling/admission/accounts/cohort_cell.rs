//! The cohort in a transaction: shared until its first change, and metered up to now before it.

use crate::{
    scheduling::admission::accounts::metering,
    tenancy::{Amounts, Balance, Cohort, Entitlement, MonthlyUsage},
};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};
use store::Timestamp;

/// The cohort. Reading neither copies, meters nor writes it.
#[derive(Clone, Debug)]
pub(in crate::scheduling::admission) struct CohortCell {
    cohort: Arc<Cohort>,
    now: Timestamp,
    changed: bool,
}

impl CohortCell {
    /// Opens the account at `now`. Closes and returns the months that ended. Copies the bought amounts into accounts of earlier versions.
    pub(in crate::scheduling::admission) fn open(
        cohort: Arc<Cohort>,
        entitlement: Option<Entitlement>,
        now: Timestamp,
    ) -> (Self, Vec<MonthlyUsage>) {
        let mut books = Self { cohort, now, changed: false };
        let mut usages = Vec::new();
        if metering::month_ended(&books.cohort, now) {
            books.changed = true;
            usages = metering::count(Arc::make_mut(&mut books.cohort), now);
        }
        let bought = entitlement.map(|line| (line.offer().resource(), line.pieces()));
        let bought: Amounts = bought.into_iter().collect();
        if books.cohort.bought != bought {
            books.bought = bought;
        }
        (books, usages)
    }

    /// Returns true if the account must be written.
    pub(in crate::scheduling::admission) fn changed(&self) -> bool {
        self.changed
    }

    /// Returns the account to write.
    pub(in crate::scheduling::admission) fn shared(&self) -> &Arc<Cohort> {
        &self.cohort
    }

    /// Applies a change to the account.
    pub(in crate::scheduling::admission) fn change(&mut self, change: impl FnOnce(Cohort) -> Cohort) {
        let cohort: &mut Cohort = self;
        *cohort = change(cohort.clone());
    }

    /// Returns the amount that `balance` has borrowed this month up to now, in pieces times milliseconds.
    pub(in crate::scheduling::admission) fn borrowed(&self, balance: &Balance) -> u128 {
        let since = self.now.0.saturating_sub(self.cohort.counted.0);
        u128::from(balance.spent.borrowed) + u128::from(balance.borrowed) * u128::from(since)
    }
}

impl Deref for CohortCell {
    type Target = Cohort;

    fn deref(&self) -> &Cohort {
        &self.cohort
    }
}

impl DerefMut for CohortCell {
    fn deref_mut(&mut self) -> &mut Cohort {
        let cohort = Arc::make_mut(&mut self.cohort);
        if !std::mem::replace(&mut self.changed, true) {
            // Usage up to now is metered under the state up to now. No month has ended since `open`.
            metering::count(cohort, self.now);
        }
        cohort
    }
}
