//! `tenure serve`: runs the server in this process.

use crate::{
    client::contexts,
    common::Common,
    output::{self, style::Stream},
    settings,
};
use api::{
    config::{Config, admin_file},
    server,
};
use clap::Args;
use program::{
    exit::{Exit, Failure},
    logs::{self, LogFormat},
};
use std::net::SocketAddr;

/// Options of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Serve {
    /// Address to listen on; port 0 selects a free port [default: 127.0.0.1:7878].
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// Simulated platform: `local`, or the URL of a separate one [default: local].
    #[arg(long, value_name = "URL")]
    pub(crate) platform: Option<String>,
    /// Log format [default: text].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Trial mode: one administrator may vote as users that they created; records show this.
    #[arg(long)]
    pub(crate) trial: bool,
}

impl Serve {
    /// Returns these options. Options that are missing are taken from before the command.
    pub(crate) fn over(self, before: Self) -> Self {
        Self {
            listen: self.listen.or(before.listen),
            platform: self.platform.or(before.platform),
            log_format: self.log_format.or(before.log_format),
            trial: self.trial || before.trial,
        }
    }
}

/// Creates the context `local` at the first start of a server with its own data folder, so that commands work in any directory.
///
/// If the file cannot be written, the server starts anyway.
fn note_first_start(config: &Config) {
    let token = admin_file(&config.data);
    let port = config.listen.port();
    if token.exists() || !config.store.url.is_empty() || port == 0 || !config.listen.ip().is_loopback() {
        return;
    }
    let scheme = if config.tls.is_on() { "https" } else { "http" };
    let server = format!("{scheme}://{}", config.listen);
    let written = std::path::absolute(&token).map_err(Failure::other);
    match written.and_then(|token| contexts::keep_local(&server, token)) {
        Ok(Some(file)) => {
            output::note(&format!("created the context `local` for this server in {}", file.display()));
        }
        Ok(None) => {}
        Err(failure) => {
            output::note(&format!("the context `local` could not be written: {}", failure.message))
        }
    }
}

/// Runs the server until it is stopped.
pub(crate) fn run(common: &Common, own: &Serve, more: server::ExtraWorkflows) -> Result<Exit, Failure> {
    let mut config: Config = settings::settings(common)?;
    if let Some(listen) = own.listen {
        config.listen = listen;
    }
    if let Some(format) = own.log_format {
        config.log.format = format;
    }
    config.trial |= own.trial;
    if let Some(platform) = &own.platform {
        config.platform.clone_from(platform);
    }
    let config =
        config.checked().map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    logs::begin(&config.log, Stream::Err.is_coloured()).map_err(Failure::other)?;
    note_first_start(&config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Failure::other)?.block_on(server::serve(config, more))?;
    Ok(Exit::Done)
}
