//! How long classes of data are kept, and what becomes of them then.

use crate::{
    policy::parsing::{document::Item, reader::Reader},
    tenancy::Compliance,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One rule of retention. All rules that match a tenant hold together: the longest `min` and the shortest `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// The class of data, such as `audit`, `accounting`, `backup`, `telemetry` or `tenant_data`.
    pub class: String,
    /// Only for tenants with this tag; `None` for all.
    pub tag: Option<Compliance>,
    /// Kept at least so long after the tenant's end; whole days.
    pub min: Duration,
    /// Kept at most so long; `None` without limit. Whole days.
    pub max: Option<Duration>,
    /// What becomes of it then.
    pub then: Then,
}

/// What becomes of data whose time is over.
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
    /// It is destroyed.
    Destroy,
    /// It goes to the provider's archive, under the provider's own key.
    Archive,
}

pub(in crate::policy) fn read(reader: &Reader, item: &Item) -> Option<Vec<Retention>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| rule(reader, item)).collect();
    read.into_iter().collect()
}

fn rule(reader: &Reader, item: &Item) -> Option<Retention> {
    let fields = reader.fields(item, &["class", "tag", "min", "max", "then"])?;
    let class = fields.required("class").and_then(|item| reader.text(item)).map(str::to_owned);
    let tag = fields.optional("tag").map_or(Some(None), |item| reader.one_of(item).map(Some));
    let min = fields.required("min").and_then(|item| reader.days(item));
    let max = fields.optional("max").map_or(Some(None), |item| reader.days(item).map(Some));
    let then = fields.required("then").and_then(|item| reader.one_of(item));
    Some(Retention { class: class?, tag: tag?, min: min?, max: max?, then: then? })
}
