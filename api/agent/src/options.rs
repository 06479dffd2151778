//! The options of the agent and the settings made from them.

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

/// Options of the agent. `--server` names the servers, separated by commas.
#[cfg_attr(not(feature = "nvml"), allow(dead_code, reason = "a build without GPUs runs no agent"))]
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Cluster of this node.
    #[arg(long, required = true)]
    pub(crate) cluster: Option<String>,
    /// Name of this node in the fleet.
    #[arg(long, required = true)]
    pub(crate) node: Option<String>,
    /// File with the agents' key, read at each use.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) key_file: Option<PathBuf>,
    /// Folder for persistent state, on a disk that survives reboots.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/tenure-agent")]
    pub(crate) ledger: PathBuf,
    /// NVML library.
    #[arg(long, value_name = "FILE", default_value = "libnvidia-ml.so.1")]
    pub(crate) library: PathBuf,
    /// CUDA driver library.
    #[arg(long, value_name = "FILE", default_value = "libcuda.so.1")]
    pub(crate) cuda_library: PathBuf,
    /// Number of GPUs of the node; required to detect a missing GPU.
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<u32>,
    /// Named GPU layout, such as mixed=3g.40gb,2g.20gb (repeatable).
    #[arg(long = "layout", value_name = "NAME=PROFILES")]
    pub(crate) layouts: Vec<String>,
    /// Absolute path of the program that tests the GPUs.
    ///
    /// The agent runs it with the argument `medium` or `long`. Exit code 0 means healthy, 1 means faulty. Without the option, no node of the
    /// cluster can be assigned to a tenant.
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) diagnosis: Option<PathBuf>,
    /// Milliseconds between the three reads after which GPUs count as free.
    #[arg(long, value_name = "MS", default_value_t = 1_000)]
    pub(crate) looks_apart_ms: u64,
    /// Allow http:// servers, which exposes the key on the network.
    #[arg(long)]
    pub(crate) allow_http: bool,
    /// Seconds to wait for running work at a stop.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub(crate) drain: u64,
    /// Log format [default: text].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

/// The settings of the agent.
#[cfg(feature = "nvml")]
pub(super) struct Settings {
    /// The URLs of the servers.
    pub(super) servers: Vec<String>,
    /// The file with the key of the cluster's agents.
    pub(super) key_file: PathBuf,
    /// The folder for persistent state.
    pub(super) ledger: PathBuf,
    /// The node.
    pub(super) target: NvmlTarget,
    /// Authorities to trust in addition to the system's.
    pub(super) certificates: Vec<Certificate>,
    /// How long a stop waits for running work.
    pub(super) drain: Duration,
}

#[cfg(feature = "nvml")]
impl Options {
    /// Returns the settings for `servers` and the file of certificate authorities.
    ///
    /// # Errors
    /// An option is missing or not valid.
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
                .ok_or_else(|| usage(format!("--{field} is required")))
        };
        let (cluster, node) = (named("cluster", &self.cluster)?, named("node", &self.node)?);
        let key_file = self.key_file.clone().ok_or_else(|| usage("--key-file is required".into()))?;
        let servers = parse_servers(servers, self.allow_http).map_err(usage)?;
        let layouts = self.layouts.iter().map(|layout| {
            let parts =
                layout.split_once('=').filter(|(name, profiles)| !name.is_empty() && !profiles.is_empty());
            let (name, profiles) = parts.ok_or_else(|| {
                usage(format!(
                    "--layout: {layout:?} is not valid; write NAME=PROFILES, such as mixed=3g.40gb,2g.20gb"
                ))
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

/// Parses the server URLs. Rejects plain HTTP over a network unless it is allowed.
#[cfg(feature = "nvml")]
fn parse_servers(named: Option<&str>, allow_http: bool) -> Result<Vec<String>, String> {
    let all: Vec<String> = named
        .unwrap_or_default()
        .split(',')
        .map(|url| url.trim().trim_end_matches('/').to_owned())
        .filter(|url| !url.is_empty())
        .collect();
    if all.is_empty() {
        return Err(
            "--server is required: name every server, separated by commas, such as https://tenure.example"
                .into(),
        );
    }
    for server in &all {
        let url = reqwest::Url::parse(server).map_err(|_| {
            format!("--server: {server:?} is not a URL; write a URL such as https://tenure.example")
        })?;
        let host = url.host_str().unwrap_or_default();
        let here = ["127.0.0.1", "localhost", "[::1]"].contains(&host);
        let clear = url.scheme() == "http" && (here || allow_http);
        if url.scheme() != "https" && !clear {
            return Err(format!(
                "--server: {server} sends the key over the network without TLS; use https, or --allow-http on a trusted network"
            ));
        }
    }
    Ok(all)
}
