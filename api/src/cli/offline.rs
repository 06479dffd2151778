//! Commands that need no server: policy documents, configuration, GPUs.

use super::{
    args::{Common, Format, Policy},
    files, output,
};
use crate::{
    config::Config,
    exit::{Exit, Failure},
};
use serde_json::json;
use workflows::{backends::nvml::GpuFacts, policy};

pub(super) fn policies(common: &Common, command: Policy) -> Result<Exit, Failure> {
    match command {
        Policy::Check { file } => {
            let findings = policy::check(&files::read(&file)?);
            match common.output {
                Format::Json => output::one(Format::Json, &json!(findings))?,
                Format::Table if findings.is_empty() => {
                    output::say(&format!("{}: valid\n", file.display()))?;
                }
                Format::Table => {
                    let lines = findings.iter().map(|finding| format!("{}: {finding}\n", file.display()));
                    output::say(&lines.collect::<String>())?;
                }
            }
            Ok(if findings.is_empty() { Exit::Done } else { Exit::Failed })
        }
        Policy::Diff { old, new } => {
            let changes = policy::diff(&files::read(&old)?, &files::read(&new)?).map_err(Failure::other)?;
            let items = changes.iter().map(|change| json!(change)).collect();
            output::list(common.output, items, &[("key", "/key"), ("old", "/old"), ("new", "/new")])?;
            Ok(Exit::Done)
        }
    }
}

/// The settings that the command line, the environment and the file come to.
pub(super) fn settings(common: &Common) -> Result<Config, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut config = Config::load(common.config.as_deref(), environment)
        .map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    if let Some(data) = &common.data {
        config.data.clone_from(data);
    }
    Ok(config)
}

pub(super) fn config_check(common: &Common) -> Result<Exit, Failure> {
    let config = settings(common)?;
    match common.output {
        Format::Json => output::one(Format::Json, &json!(config))?,
        Format::Table => output::say(&toml::to_string(&config).map_err(Failure::other)?)?,
    }
    Ok(Exit::Done)
}

pub(super) fn gpus(common: &Common) -> Result<Exit, Failure> {
    match GpuFacts::read() {
        Ok(facts) => output::one(common.output, &json!(facts))?,
        // A machine without GPUs is no failure.
        Err(none) => match common.output {
            Format::Json => {
                output::one(Format::Json, &json!({ "available": false, "why": none.to_string() }))?
            }
            Format::Table => output::say(&format!("{none}\n"))?,
        },
    }
    Ok(Exit::Done)
}
