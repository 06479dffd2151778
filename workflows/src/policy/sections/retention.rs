//! Retention of classes of data.

use crate::{
    policy::parsing::{document::Item, reader::Reader},
    tenancy::Compliance,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One retention rule. All rules that match a tenant apply together: the longest `min` and the shortest `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The class of data, such as `audit`, `accounting`, `backup`, `telemetry` or `tenant_data`.
    pub class: String,
    /// The tag of its tenants; `None` for all tenants.
    pub tag: Option<Compliance>,
    /// The shortest time after the tenant's end, in whole days.
    pub min: Duration,
    /// The longest time, in whole days; `None` without limit.
    pub max: Option<Duration>,
    /// The action afterwards.
    pub then: Then,
}

/// The action on data after their retention.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Then {
    /// Destruction.
    Destroy,
    /// The provider's archive, under the provider's own key.
    Archive,
}

pub(in crate::policy) fn read(reader: &Reader, item: &Item) -> Option<Vec<Retention>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| rule(reader, item)).collect();
    read.into_iter().collect()
}

fn rule(reader: &Reader, item: &Item) -> Option<Retention> {
    let fields = reader.fields(item, &["class", "tag", "min", "max", "then"])?;
    let class = fields.required("class").and_then(|item| reader.text(item)).map(str::to_owned);
    let tag = fields.optionally("tag", |item| reader.one_of(item));
    let min = fields.required("min").and_then(|item| reader.days(item));
    let max = fields.optionally("max", |item| reader.days(item));
    let then = fields.required("then").and_then(|item| reader.one_of(item));
    Some(Retention { class: class?, tag: tag?, min: min?, max: max?, then: then? })
}
