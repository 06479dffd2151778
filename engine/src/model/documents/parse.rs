//! Reads a stored document as a value.

use crate::Error;
use serde::de::DeserializeOwned;
use store::Document;

pub(crate) fn parse<T: DeserializeOwned>(found: &Document) -> Result<T, Error> {
    let corrupt =
        |e: serde_json::Error| store::Error::Corrupt { what: found.key.to_string(), why: e.to_string() };
    Ok(serde_json::from_slice(&found.body).map_err(corrupt)?)
}
