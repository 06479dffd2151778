//! A statement in the columns of FOCUS 1.0, the common form of bills of clouds.

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

/// The lines that are charged, under FOCUS's names. What is lent is in the lines of its borrowers, and slices have no list price:
/// neither is a charge.
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

/// When a month begins and ends, in UTC; the end is the first moment that is not in it.
fn period(month: &str) -> (String, String) {
    let Ok(first) = NaiveDate::parse_from_str(&format!("{month}-01"), "%Y-%m-%d") else {
        return (String::new(), String::new());
    };
    let shown = |day: NaiveDate| format!("{day}T00:00:00Z");
    (shown(first), first.checked_add_months(Months::new(1)).map(shown).unwrap_or_default())
}
