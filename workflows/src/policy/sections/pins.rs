//! Pins of labelled workloads to clusters.

use crate::{
    policy::parsing::{document::Item, reader::Reader},
    tenancy::ClusterId,
};
use serde::{Deserialize, Serialize};

/// S-13: workloads with this label run only in this cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// A compliance tag of the tenant, such as `hipaa`, or a label of the workload.
    pub label: String,
    /// The only allowed cluster.
    pub cluster: ClusterId,
}

pub(in crate::policy) fn read(reader: &Reader, item: &Item) -> Option<Vec<Pin>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| pin(reader, item)).collect();
    read.into_iter().collect()
}

fn pin(reader: &Reader, item: &Item) -> Option<Pin> {
    let fields = reader.fields(item, &["label", "cluster"])?;
    let label = fields.required("label").and_then(|item| reader.text(item)).map(str::to_owned);
    let cluster = fields.required("cluster").and_then(|item| reader.name(item));
    Some(Pin { label: label?, cluster: cluster? })
}
