//! A tenant's account on the desk: shared until something changes, and counted up to now before it does.

use crate::{
    scheduling::admission::accounts::metering,
    tenancy::{Amounts, Balance, Cohort, Entitlement, MonthlyUsage},
};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};
use store::Timestamp;

/// The account. What is only read is neither copied, nor counted, nor written.
#[derive(Clone, Debug)]
pub(in crate::scheduling::admission) struct CohortCell {
    cohort: Arc<Cohort>,
    now: Timestamp,
    changed: bool,
}

impl CohortCell {
    /// Opens the account at `now`; months that ended are closed, and answered. The account repeats what was bought, and those of
    /// earlier versions learn it here.
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

    /// Whether it has to be written.
    pub(in crate::scheduling::admission) fn changed(&self) -> bool {
        self.changed
    }

    /// The account as it is, to be written.
    pub(in crate::scheduling::admission) fn shared(&self) -> &Arc<Cohort> {
        &self.cohort
    }

    /// Puts another in its place.
    pub(in crate::scheduling::admission) fn change(&mut self, change: impl FnOnce(Cohort) -> Cohort) {
        let cohort: &mut Cohort = self;
        *cohort = change(cohort.clone());
    }

    /// What `balance` of it has borrowed this month up to now, in pieces times milliseconds.
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
            // What was used until now was used under what stood until now; no month has ended since.
            metering::count(cohort, self.now);
        }
        cohort
    }
}
