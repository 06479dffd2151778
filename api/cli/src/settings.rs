//! The server's settings from the configuration file, the environment and the command line.

use crate::{common::Common, output};
use api::config::{Config, unknown_variables};
use program::exit::{Exit, Failure};

/// Reads the settings.
pub(super) fn settings(common: &Common) -> Result<Config, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut config = Config::load(common.config.as_deref(), environment)
        .map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown_variables(names).iter().for_each(|strange| output::note(&format!("warning: {strange}")));
    if let Some(data) = &common.data {
        config.data.clone_from(data);
    }
    Ok(config)
}
