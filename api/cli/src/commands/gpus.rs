//! `tenure gpus`: the GPUs of this machine.

use crate::{
    common::{Common, Format},
    output,
};
use backends::nvml::GpuFacts;
use program::exit::{Exit, Failure};
use serde_json::json;

/// Shows the GPUs.
pub(crate) fn run(common: &Common) -> Result<Exit, Failure> {
    match GpuFacts::read() {
        Ok(facts) => output::one(common.output, &json!(facts))?,
        // A machine without GPUs is not a failure.
        Err(none) => match common.output {
            format @ (Format::Json | Format::Yaml) => {
                output::one(format, &json!({ "available": false, "why": none.to_string() }))?
            }
            Format::Table => output::say(&format!("{none}\n"))?,
        },
    }
    Ok(Exit::Done)
}
