//! `tenure serve`: the server, in this process.

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

/// What `serve` takes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Serve {
    /// Where to serve HTTP; port 0 takes a free one [default: 127.0.0.1:7878].
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<SocketAddr>,
    /// The simulated world: `local`, or the URL of one that runs by itself [default: local].
    #[arg(long, value_name = "URL")]
    pub(crate) platform: Option<String>,
    /// Log lines for people or for collectors [default: text].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// For trying it out: one administrator may vote as users of their own making; plans, votes and certificates say so.
    #[arg(long)]
    pub(crate) trial: bool,
}

impl Serve {
    /// What is said behind the command goes over what is said before it.
    pub(crate) fn over(self, before: Self) -> Self {
        Self {
            listen: self.listen.or(before.listen),
            platform: self.platform.or(before.platform),
            log_format: self.log_format.or(before.log_format),
            trial: self.trial || before.trial,
        }
    }
}

/// Makes the context `local` at the first start of a server with its own data folder, so that commands work from any directory.
///
/// A server starts also where that cannot be written.
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
            output::note(&format!("the context `local` in {} names this server", file.display()));
        }
        Ok(None) => {}
        Err(failure) => {
            output::note(&format!("the context `local` could not be written: {}", failure.message))
        }
    }
}

/// Serves until it is told to stop.
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
