//! A statement in the columns of FOCUS 1.0, the common format of cloud bills.

use super::{CURRENCY, StatementLine, UsageClass, csv::row, decimal};
use chrono::{Months, NaiveDate};
use serde_json::json;

const COLUMNS: [&str; 31] = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "ResourceId",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
];

/// Returns the charges in FOCUS columns. Lent GPUs are charged to the borrower, and slices have no list price, so neither is included.
#[must_use]
pub fn focus(lines: &[StatementLine]) -> String {
    let charged = lines.iter().filter(|line| line.class != UsageClass::Lent);
    std::iter::once(row(&COLUMNS)).chain(charged.filter_map(charge)).collect()
}

fn charge(line: &StatementLine) -> Option<String> {
    let (price, cost) = (line.hourly?, decimal::fixed(line.cost_micros?, 6));
    let (begins, ends) = period(&line.month);
    let (tenant, sub) = (line.tenant.as_str(), format!("{}/{}", line.tenant, line.workspace));
    let what = format!("{} GPUs, {}", line.gpu, line.class.as_str());
    let tags = json!({ "tenure/class": line.class.as_str(), "tenure/cluster": line.cluster }).to_string();
    Some(row(&[
        &cost,
        tenant,
        tenant,
        CURRENCY,
        &ends,
        &begins,
        "Usage",
        "",
        &what,
        "Usage-Based",
        &decimal::second(line.to),
        &decimal::second(line.from),
        &decimal::fixed(u128::from(line.gpu_millis), 3),
        "GPU-Seconds",
        &cost,
        &cost,
        "Tenure",
        &cost,
        &decimal::fixed(u128::from(price.0), 2),
        &decimal::fixed(decimal::hour_micros(line.gpu_millis), 6),
        "GPU-Hours",
        "Tenure",
        "Tenure",
        &line.region,
        &sub,
        "Compute",
        "GPU",
        &line.gpu,
        &sub,
        line.workspace.as_str(),
        &tags,
    ]))
}

/// Returns the start and the end of a month in UTC. The end is excluded.
fn period(month: &str) -> (String, String) {
    let Ok(first) = NaiveDate::parse_from_str(&format!("{month}-01"), "%Y-%m-%d") else {
        return (String::new(), String::new());
    };
    let shown = |day: NaiveDate| format!("{day}T00:00:00Z");
    (shown(first), first.checked_add_months(Months::new(1)).map(shown).unwrap_or_default())
}
