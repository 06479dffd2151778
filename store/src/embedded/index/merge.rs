//! Merges frames of the journal into one set of rows.

use super::Rows;
use crate::{Error, Sequence, embedded::journal::frame::Frame};
use std::sync::Arc;

/// The rows of `frames` behind commit `after`, the last write of each key, and the last commit among them.
pub(crate) fn merged(frames: &[Arc<Frame>], after: Sequence) -> Result<(Rows<'_>, Sequence), Error> {
    let mut rows = Rows::new();
    let mut upto = after;
    for frame in frames {
        for row in frame.rows() {
            let row = row.ok_or_else(|| Error::Corrupt {
                what: format!("the frame of commit {}", frame.header.first.0),
                why: "its rows are malformed".into(),
            })?;
            if row.sequence > after {
                rows.insert(row.key, row.value);
            }
        }
        upto = upto.max(frame.header.last());
    }
    Ok((rows, upto))
}
