//! Rules of admission: waiting and warnings.

use crate::policy::{
    Ratio,
    parsing::{
        document::Item,
        reader::{Fields, Reader},
    },
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Rules of admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionRules {
    /// Older observations admit nothing (S-41). Default 2 min.
    pub max_staleness: Duration,
    /// The most queued requests of one workspace; one more is rejected. Default 1,000.
    pub line_limit: u32,
    /// Aging of queued requests.
    pub ageing: AgingRules,
    /// Soft thresholds of usage: they raise notices and never block (S-124). By `at`, lowest first.
    pub soft: Vec<SoftThreshold>,
}

/// Aging: a wait raises a request's priority in its queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgingRules {
    /// The interval of one raise. Default 10 min.
    pub every: Duration,
    /// The raise per interval. Default 1.
    pub priority: u32,
    /// The maximum raise. Default 50, so that aging never raises a request above a higher tier.
    pub at_most: u32,
}

/// A soft threshold. It raises a notice when usage rises to `at`, and again only after usage fell below `clear`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SoftThreshold {
    /// The share of the nominal quota that raises a notice.
    pub at: Ratio,
    /// The share below which it is armed again; less than `at`.
    pub clear: Ratio,
}

impl AdmissionRules {
    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let fields = top.layer("admission", &["max_staleness", "line_limit", "ageing", "soft"])?;
        let reader = fields.reader();
        let max_staleness = fields.required("max_staleness").and_then(|item| reader.duration(item));
        let line_limit = fields.required("line_limit").and_then(|item| reader.whole(item, 1..=1_000_000_u32));
        let ageing =
            fields.layer("ageing", &["every", "priority", "at_most"]).and_then(|fields| ageing(&fields));
        let soft = fields.required("soft").and_then(|item| thresholds(reader, item));
        Some(Self { max_staleness: max_staleness?, line_limit: line_limit?, ageing: ageing?, soft: soft? })
    }
}

fn ageing(fields: &Fields<'_>) -> Option<AgingRules> {
    let reader = fields.reader();
    let every = fields.required("every").and_then(|item| reader.duration(item));
    let priority = fields.required("priority").and_then(|item| reader.whole(item, 0..=1_000_u32));
    let at_most = fields.required("at_most").and_then(|item| reader.whole(item, 0..=1_000_000_u32));
    Some(AgingRules { every: every?, priority: priority?, at_most: at_most? })
}

fn thresholds(reader: &Reader, item: &Item) -> Option<Vec<SoftThreshold>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| threshold(reader, item)).collect();
    let mut all: Vec<SoftThreshold> = read.into_iter().collect::<Option<_>>()?;
    all.sort();
    Some(all)
}

fn threshold(reader: &Reader, item: &Item) -> Option<SoftThreshold> {
    let fields = reader.fields(item, &["at", "clear"])?;
    // Usage above the nominal quota is a loan, so a threshold may exceed 1.
    let at = fields.required("at").and_then(|item| reader.ratio(item, 10));
    let clear = fields.required("clear").and_then(|item| reader.ratio(item, 10));
    let (at, clear) = (at?, clear?);
    if clear >= at {
        reader.note(
            item,
            format!("the threshold {at} is armed again at {clear}, so it would notify without end"),
            "set `clear` below `at`",
        );
    }
    Some(SoftThreshold { at, clear })
}
