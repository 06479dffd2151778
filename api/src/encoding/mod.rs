//! Text encodings that several layers share.

pub(crate) mod hex;
