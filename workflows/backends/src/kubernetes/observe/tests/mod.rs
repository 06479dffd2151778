//! Decoding of objects, and streams from a scripted server.

mod objects;
mod streams;

use super::decode::Names;
use crate::kubernetes::labels::LabelNames;

pub(super) fn names() -> Names {
    Names::new(&LabelNames::new("tenure.dev"), "nvidia.com/gpu")
}
