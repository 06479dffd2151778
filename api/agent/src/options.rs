//! The options of an agent, as a command line has them, and the settings that they come to.

#[cfg(feature = "nvml")]
use backends::nvml::NvmlTarget;
use clap::Args;
use program::logs::LogFormat;
#[cfg(feature = "nvml")]
use program::{
    exit::{Exit, Failure},
    files::{authorities, unreadable},
};
#[cfg(feature = "nvml")]
use reqwest::Certificate;
use std::path::PathBuf;
#[cfg(feature = "nvml")]
use std::{fs, path::Path, time::Duration};

/// What an agent takes beside the servers, which are named with `--server`, with commas between.
#[cfg_attr(not(feature = "nvml"), allow(dead_code, reason = "a build without GPUs runs no agent"))]
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// The cluster that this node belongs to.
    #[arg(long, required = true)]
    pub(crate) cluster: Option<String>,
    /// The name of this node in the fleet.
    #[arg(long, required = true)]
    pub(crate) node: Option<String>,
    /// The file with the key of the cluster's agents; read at each use.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) key_file: Option<PathBuf>,
    /// The folder for what must outlive a restart; on a disk that outlives a reboot.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/tenure-agent")]
    pub(crate) ledger: PathBuf,
    /// NVML's library.
    #[arg(long, value_name = "FILE", default_value = "libnvidia-ml.so.1")]
    pub(crate) library: PathBuf,
    /// The CUDA driver's library.
    #[arg(long, value_name = "FILE", default_value = "libcuda.so.1")]
    pub(crate) cuda_library: PathBuf,
    /// How many GPUs the node has; without it one that is missing is not noticed.
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<u32>,
    /// A layout by name, such as mixed=3g.40gb,2g.20gb; may be repeated.
    #[arg(long = "layout", value_name = "NAME=PROFILES")]
    pub(crate) layouts: Vec<String>,
    /// The program that tests the GPUs, as an absolute path: it is given `medium` or `long`, and ends with 0 where they are fit and with 1
    /// where they are not; without one no node of the cluster can be handed to a tenant.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) diagnosis: Option<PathBuf>,
    /// Milliseconds between two of the three looks after which GPUs count as free.
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    pub(crate) looks_apart_ms: u64,
    /// Speak to servers without TLS, which shows the key to whoever is on the way.
    #[arg(long)]
    pub(crate) allow_http: bool,
    /// How long a stop waits for work in flight, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) drain: u64,
    /// Log lines for people or for collectors [default: text].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

/// What an agent works with.
#[cfg(feature = "nvml")]
pub(super) struct Settings {
    /// Every server, by its URL.
    pub(super) servers: Vec<String>,
    /// The file with the key of the cluster's agents.
    pub(super) key_file: PathBuf,
    /// The folder for what must outlive a restart.
    pub(super) ledger: PathBuf,
    /// The machine.
    pub(super) target: NvmlTarget,
    /// Authorities to trust beside the system's.
    pub(super) certificates: Vec<Certificate>,
    /// How long a stop waits for work in flight.
    pub(super) drain: Duration,
}

#[cfg(feature = "nvml")]
impl Options {
    /// The settings, with `servers` and the file of authorities that the command line names beside.
    ///
    /// # Errors
    /// What to write instead.
    pub(super) fn settings(
        &self,
        servers: Option<&str>,
        ca_file: Option<&Path>,
    ) -> Result<Settings, Failure> {
        let usage = |why: String| Failure::new(Exit::Usage, why);
        let named = |field: &str, value: &Option<String>| {
            value
                .clone()
                .filter(|value| !value.is_empty())
                .ok_or_else(|| usage(format!("--{field}: name it")))
        };
        let (cluster, node) = (named("cluster", &self.cluster)?, named("node", &self.node)?);
        let key_file = self.key_file.clone().ok_or_else(|| usage("--key-file: name it".into()))?;
        let servers = parse_servers(servers, self.allow_http).map_err(usage)?;
        let layouts = self.layouts.iter().map(|layout| {
            let parts =
                layout.split_once('=').filter(|(name, profiles)| !name.is_empty() && !profiles.is_empty());
            let (name, profiles) = parts.ok_or_else(|| {
                usage(format!("--layout: {layout:?} is none: write it like mixed=3g.40gb,2g.20gb"))
            })?;
            Ok((name.to_owned(), profiles.split(',').map(str::to_owned).collect()))
        });
        let layouts = layouts.collect::<Result<_, Failure>>()?;
        fs::create_dir_all(&self.ledger).map_err(|error| unreadable(&self.ledger, &error))?;
        let certificates = authorities(ca_file)?;
        let target = NvmlTarget {
            cluster,
            node,
            state: self.ledger.join("gpus.json"),
            library: self.library.clone(),
            cuda_library: self.cuda_library.clone(),
            gpus: self.gpus,
            layouts,
            diagnosis: self.diagnosis.clone(),
            looks_apart_ms: self.looks_apart_ms,
        };
        let drain = Duration::from_secs(self.drain);
        Ok(Settings { servers, key_file, ledger: self.ledger.clone(), target, certificates, drain })
    }
}

/// The servers, none of which is spoken to in the clear over a network unless that is wanted.
#[cfg(feature = "nvml")]
fn parse_servers(named: Option<&str>, allow_http: bool) -> Result<Vec<String>, String> {
    let all: Vec<String> = named
        .unwrap_or_default()
        .split(',')
        .map(|url| url.trim().trim_end_matches('/').to_owned())
        .filter(|url| !url.is_empty())
        .collect();
    if all.is_empty() {
        return Err("--server: name every server, with commas between, like https://tenure.example".into());
    }
    for server in &all {
        let url = reqwest::Url::parse(server)
            .map_err(|_| format!("--server: {server:?} is no URL: write it like https://tenure.example"))?;
        let host = url.host_str().unwrap_or_default();
        let here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
        let clear = url.scheme() == "http" && (here || allow_http);
        if url.scheme() != "https" && !clear {
            return Err(format!(
                "--server: {server} goes over the network in the clear: use https, or --allow-http where nobody listens"
            ));
        }
    }
    Ok(all)
}
