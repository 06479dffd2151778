//! Meters usage from timestamps: exact, in the commits that change it, closed month by month.

use crate::tenancy::{Balance, Cohort, MonthlyUsage, Resource, UsageCounters, WorkspaceName};
use chrono::{DateTime, Datelike as _, Months, NaiveDate, Utc};
use std::collections::BTreeMap;
use store::Timestamp;

/// Returns the month of `at` in UTC, such as `2026-01`, and the start of the next; `None` past the calendar's end.
fn month(at: Timestamp) -> Option<(String, Timestamp)> {
    let day = DateTime::<Utc>::from_timestamp_millis(i64::try_from(at.0).ok()?)?.date_naive();
    let first = NaiveDate::from_ymd_opt(day.year(), day.month(), 1)?;
    let next = first.checked_add_months(Months::new(1))?.and_hms_opt(0, 0, 0)?.and_utc();
    let next = u64::try_from(next.timestamp_millis()).ok()?;
    Some((first.format("%Y-%m").to_string(), Timestamp(next)))
}

/// Returns the counters for `balance` over `millis`. Own, borrowed, over-quota and in-transit amounts add up to the total usage.
fn spent(balance: &Balance, millis: u64) -> UsageCounters {
    let within = balance.in_use().saturating_sub(balance.over_nominal());
    let own = within.saturating_sub(balance.in_transit);
    let times = |pieces: u64| pieces.saturating_mul(millis);
    UsageCounters {
        own: times(own),
        borrowed: times(balance.borrowed),
        over: times(balance.over_quota()),
        in_transit: times(within.saturating_sub(own)),
        lent: times(balance.lent),
    }
}

impl UsageCounters {
    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            own: self.own.saturating_add(more.own),
            borrowed: self.borrowed.saturating_add(more.borrowed),
            over: self.over.saturating_add(more.over),
            in_transit: self.in_transit.saturating_add(more.in_transit),
            lent: self.lent.saturating_add(more.lent),
        }
    }

    /// Returns the usage of the tenant's GPUs without the lent part, which counts for its borrowers.
    #[must_use]
    pub fn consumed(self) -> u64 {
        [self.own, self.borrowed, self.over, self.in_transit].into_iter().fold(0, u64::saturating_add)
    }
}

/// Meters up to `to`. A clock that goes backwards adds nothing.
fn count_to(cohort: &mut Cohort, to: Timestamp) {
    let Some(millis) = to.0.checked_sub(cohort.counted.0).filter(|millis| *millis > 0) else { return };
    for account in cohort.accounts.values_mut() {
        for (resource, balance) in &mut account.balances {
            if resource.gpu().is_some() {
                balance.spent = balance.spent.plus(spent(balance, millis));
            }
        }
    }
    for stock in cohort.stock.values_mut() {
        stock.pieces_spent = stock.pieces_spent.saturating_add(stock.pieces.saturating_mul(millis));
        stock.free_spent = stock.free_spent.saturating_add(stock.free.saturating_mul(millis));
        stock.resting_spent = stock.resting_spent.saturating_add(stock.resting.saturating_mul(millis));
    }
    cohort.counted = to;
}

/// Returns true if the account is still in a month that has ended.
pub(in crate::scheduling::admission) fn month_ended(cohort: &Cohort, now: Timestamp) -> bool {
    month(cohort.since).is_some_and(|(_, end)| end <= now)
}

/// Meters up to `now` and closes every month that ended. Returns the closed months of workspaces with usage.
pub(crate) fn count(cohort: &mut Cohort, now: Timestamp) -> Vec<MonthlyUsage> {
    let mut closed = Vec::new();
    while let Some((month, end)) = month(cohort.since).filter(|(_, end)| *end <= now) {
        count_to(cohort, end);
        closed.extend(usages(cohort, &month));
        for balance in cohort.accounts.values_mut().flat_map(|account| account.balances.values_mut()) {
            balance.spent = UsageCounters::default();
        }
        cohort.since = end;
    }
    count_to(cohort, now);
    closed
}

/// Returns the usage of each workspace since the start of the counters, as documents of `month`.
fn usages(cohort: &Cohort, month: &str) -> Vec<MonthlyUsage> {
    let of = |(workspace, spent): (&WorkspaceName, BTreeMap<Resource, UsageCounters>)| MonthlyUsage {
        tenant: cohort.tenant.clone(),
        workspace: workspace.clone(),
        month: month.to_owned(),
        from: cohort.since,
        to: cohort.counted,
        spent,
    };
    let spent = cohort.accounts.iter().map(|(workspace, account)| {
        let some = account.balances.iter().filter(|(_, balance)| balance.spent != UsageCounters::default());
        (workspace, some.map(|(resource, balance)| (resource.clone(), balance.spent)).collect())
    });
    spent.filter(|(_, spent): &(_, BTreeMap<_, _>)| !spent.is_empty()).map(of).collect()
}

/// Returns the usage of each workspace in the current month, up to `now`.
#[must_use]
pub fn usage_so_far(cohort: &Cohort, now: Timestamp) -> Vec<MonthlyUsage> {
    let mut cohort = cohort.clone();
    let mut closed = count(&mut cohort, now);
    let label = month(cohort.since).map(|(month, _)| month).unwrap_or_default();
    closed.extend(usages(&cohort, &label));
    closed
}
