//! Reads lists page by page.
//!
//! A server keeps the state of a list for a few minutes. A later request for the next page fails with 410, `Expired`.
//! Invariant: a list is complete or an error. After an expiry, the list starts again and received pages are dropped.

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

/// The number of objects per page.
const PAGE: &str = "500";
/// The largest list: 200,000 objects. A cluster of 5,000 nodes has at most 150,000 pods.
const MOST: usize = 200_000;

/// Reads a complete list.
///
/// # Errors
///
/// Errors of the server. `platform.unavailable` if the list expired repeatedly, or if its kind stops being served in
/// between.
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
    let why = format!("the list expired between two pages in each of {TRIES} attempts");
    Err(ActionError::transient(codes::UNAVAILABLE, why))
}

/// Reads all pages. Returns `None` if the list expired between two pages and must start again.
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
            // The kind was served just now, so the error is transient.
            Err(Fault::Refused(refusal)) if refusal.status == 404 => {
                return Err(ActionError::transient(codes::UNAVAILABLE, refusal.error().message));
            }
            Err(fault) => return Err(fault.into()),
        };
        text(&page, &["metadata", "continue"]).clone_into(&mut next);
        match page.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) if all.len() + items.len() > MOST => {
                let why = format!("the list has more than {MOST} objects, the limit");
                return Err(ActionError::transient(codes::UNREADABLE, why));
            }
            Some(Value::Array(items)) => all.extend(items),
            Some(Value::Null) => {}
            _ => return Err(ActionError::transient(codes::UNREADABLE, "the answer is not a list")),
        }
        if next.is_empty() {
            return Ok(Some(all));
        }
    }
}
