//! Lists, page by page.
//!
//! A server remembers for some minutes what there was as a list began; a page that is asked for later has run out (410, `Expired`).
//! Invariant: a list is whole, or an error. One that ran out is begun again, and the pages that had come are dropped.

use crate::kubernetes::{
    client::{
        TRIES,
        error::Fault,
        request::{self, ApiRequest},
    },
    labels::text,
};
use engine::ActionError;
use serde_json::Value;
use tokio::time::Instant;
use workflows::platform::codes;

/// How many objects are asked for at once.
const PAGE: &str = "500";
/// How many objects a list may have: 200,000, more than a cluster of 5,000 nodes may have pods (150,000).
const MOST: usize = 200_000;

/// All that is listed by what is asked, from its first page to its last.
///
/// # Errors
/// Those of the server; `platform.unavailable` for a list that ran out again and again, or whose kind is not served while it is read.
pub(in crate::kubernetes) async fn whole(
    client: &kube::Client,
    ask: ApiRequest,
    until: Instant,
) -> Result<Vec<Value>, ActionError> {
    let ask = ask.with("limit", PAGE);
    for _ in 0..TRIES {
        if let Some(all) = pages(client, &ask, until).await? {
            return Ok(all);
        }
    }
    let why = format!("the list ran out between two pages under each of {TRIES} attempts");
    Err(ActionError::transient(codes::UNAVAILABLE, why))
}

/// Every page of a list; nothing where it ran out between two, so that it has to be begun again.
async fn pages(
    client: &kube::Client,
    ask: &ApiRequest,
    until: Instant,
) -> Result<Option<Vec<Value>>, ActionError> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = if next.is_empty() { ask.clone() } else { ask.clone().with("continue", &next) };
        let mut page = match request::send(client, &page, until).await {
            Ok(page) => page,
            Err(Fault::Refused(refusal)) if refusal.is_run_out() => return Ok(None),
            // It was served a moment ago: what is there is not known.
            Err(Fault::Refused(refusal)) if refusal.status == 404 => {
                return Err(ActionError::transient(codes::UNAVAILABLE, refusal.error().message));
            }
            Err(fault) => return Err(fault.into()),
        };
        text(&page, &["metadata", "continue"]).clone_into(&mut next);
        match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if all.len() + items.len() > MOST => {
                let why = format!("the list has more than {MOST} objects, which is all that is read");
                return Err(ActionError::transient(codes::UNREADABLE, why));
            }
            Some(Value::Array(items)) => all.extend(items),
            Some(Value::Null) => {}
            _ => return Err(ActionError::transient(codes::UNREADABLE, "the answer is no list")),
        }
        if next.is_empty() {
            return Ok(Some(all));
        }
    }
}
