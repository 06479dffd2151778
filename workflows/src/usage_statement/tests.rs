//! Tests of usage statements.

use super::*;

const HOUR: u64 = 3_600_000;

fn usage(workspace: &str, spent: UsageCounters) -> MonthlyUsage {
    MonthlyUsage {
        tenant: "acme".parse().unwrap(),
        workspace: workspace.parse().unwrap(),
        month: "2026-01".into(),
        from: Timestamp(1_767_225_600_000),
        to: Timestamp(1_769_904_000_000),
        spent: [("gpu/H100".parse().unwrap(), spent)].into(),
    }
}

fn statement_of(usages: &[MonthlyUsage]) -> Vec<StatementLine> {
    let policy =
        PlatformPolicy { price: Cents(300), prices: BTreeMap::new(), ..PlatformPolicy::built_in().unwrap() };
    lines(usages, &StatementPlace { cluster: "c-1".into(), region: "de-1".into() }, &policy)
}

/// A lender and a borrower of two GPUs for an hour.
fn two() -> Vec<MonthlyUsage> {
    let lender = UsageCounters { own: HOUR, lent: 2 * HOUR, ..UsageCounters::default() };
    let borrower = UsageCounters { own: 4 * HOUR, borrowed: 2 * HOUR, ..UsageCounters::default() };
    vec![usage("lender", lender), usage("borrower", borrower)]
}

#[test]
fn a_loan_is_charged_once_to_its_borrower() {
    let lines = statement_of(&two());
    let cost = |class| {
        lines.iter().filter(|line| line.class == class).map(|line| line.cost_micros.unwrap()).sum::<u128>()
    };
    assert_eq!(
        (cost(UsageClass::Own), cost(UsageClass::Borrowed), cost(UsageClass::Lent)),
        (15_000_000, 6_000_000, 0)
    );
    let taken: u64 = two().iter().flat_map(|usage| usage.spent.values().map(|spent| spent.consumed())).sum();
    let charged: u64 =
        lines.iter().filter(|line| line.class != UsageClass::Lent).map(|line| line.gpu_millis).sum();
    assert_eq!(charged, taken);
}

#[test]
fn a_cost_is_rounded_half_up_to_a_millionth() {
    assert_eq!(decimal::cost_micros(179, Cents(1)), 0);
    assert_eq!(decimal::cost_micros(180, Cents(1)), 1);
    assert_eq!(decimal::cost_micros(HOUR, Cents(1)), 10_000);
    assert_eq!(
        decimal::cost_micros(u64::MAX, Cents(u64::MAX)),
        (u128::from(u64::MAX) * u128::from(u64::MAX) + 180) / 360
    );
    assert_eq!(decimal::fixed(1_002, 3), "1.002");
}

#[test]
fn a_month_that_has_just_ended_is_counted_once() {
    assert_eq!(once(two(), two()).len(), 2);
}

#[test]
fn a_slice_has_no_price() {
    let mut slice = usage("a", UsageCounters::default());
    slice.spent =
        [("gpu/H100/1g.10gb".parse().unwrap(), UsageCounters { own: 5, ..UsageCounters::default() })].into();
    let lines = statement_of(&[slice]);
    assert_eq!((lines[0].gpu_millis, lines[0].cost_micros), (5, None));
    assert_eq!(focus(&lines).lines().count(), 1);
}

#[test]
fn every_row_has_a_cell_for_each_column() {
    let text = csv(&statement_of(&two()));
    assert!(text.lines().all(|line| line.split(',').count() == 13), "{text}");
    let first = "acme,lender,c-1,de-1,H100,own,2026-01,2026-01-01T00:00:00.000Z,2026-02-01T00:00:00.000Z,3600.000,3.00,3.000000,EUR";
    assert_eq!(text.lines().nth(1), Some(first));
}

#[test]
fn a_statement_in_the_focus_format_has_its_periods_and_no_lent_seconds() {
    let text = focus(&statement_of(&two()));
    assert_eq!(text.lines().count(), 4, "own twice, and borrowed: {text}");
    let row = text.lines().nth(1).unwrap();
    assert!(
        row.starts_with("3.000000,acme,acme,EUR,2026-02-01T00:00:00Z,2026-01-01T00:00:00Z,Usage,,"),
        "{row}"
    );
    assert!(
        row.contains("2026-02-01T00:00:00Z,2026-01-01T00:00:00Z,3600.000,GPU-Seconds,3.000000,3.000000,Tenure,3.000000,3.00,1.000000,GPU-Hours,Tenure,"),
        "{row}"
    );
    assert!(row.ends_with(r#","{""tenure/class"":""own"",""tenure/cluster"":""c-1""}""#), "{row}");
}
