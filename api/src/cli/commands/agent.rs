//! `tenure agent`.

#[cfg(feature = "nvml")]
use crate::cli::files::{authorities, unread};
use crate::cli::{
    command::{Common, Format},
    output::{self, style::Stream},
};
use crate::{
    auth::Token,
    config::{Log, LogFormat},
    exit::{Exit, Failure},
    telemetry::logs,
};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;

/// What `agent` takes. The servers are named with `--server`, with commas between.
#[cfg_attr(not(feature = "nvml"), allow(dead_code, reason = "a build without GPUs runs no agent"))]
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) command: Option<AgentCommand>,
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

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Draw a key for the agents of a cluster, and print it with its hash: the key is for the nodes, the hash for the servers.
    Key,
}

pub(in crate::cli) fn run(common: &Common, own: &Agent) -> Result<Exit, Failure> {
    match own.command {
        Some(AgentCommand::Key) => key(common),
        None => {
            let format = own.log_format.unwrap_or_default();
            logs::begin(&Log { format, ..Log::default() }, Stream::Err.is_coloured())
                .map_err(Failure::other)?;
            serve(common, own)
        }
    }
}

fn key(common: &Common) -> Result<Exit, Failure> {
    let token = Token::draw().map_err(Failure::other)?;
    let (key, hash) = (token.reveal(), token.hash());
    match common.output {
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &json!({ "key": key, "hash": hash }))?;
        }
        Format::Table => output::say(&format!(
            "key:  {key}\nhash: {hash}\nthe key is shown this once: keep it in the file that `tenure agent --key-file` names, on the cluster's nodes;\n\
             the hash goes into the file of targets: clusters: {{ CLUSTER: {{ agents: {{ keys: [{hash}] }} }} }}\n"
        ))?,
    }
    Ok(Exit::Done)
}

#[cfg(feature = "nvml")]
fn serve(common: &Common, own: &Agent) -> Result<Exit, Failure> {
    let settings = settings(common, own)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(Failure::other)?;
    let ended = runtime.block_on(crate::agent::run(settings));
    // A driver that hangs keeps its thread for ever, and not the process.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    ended
}

#[cfg(not(feature = "nvml"))]
fn serve(_: &Common, _: &Agent) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::Usage, "this tenure was built without GPUs: build it with `--features nvml`"))
}

#[cfg(feature = "nvml")]
fn settings(common: &Common, own: &Agent) -> Result<crate::agent::Settings, Failure> {
    use backends::nvml::NvmlTarget;
    let usage = |why: String| Failure::new(Exit::Usage, why);
    let named = |field: &str, value: &Option<String>| {
        value.clone().filter(|value| !value.is_empty()).ok_or_else(|| usage(format!("--{field}: name it")))
    };
    let (cluster, node) = (named("cluster", &own.cluster)?, named("node", &own.node)?);
    let key_file = own.key_file.clone().ok_or_else(|| usage("--key-file: name it".into()))?;
    let servers = servers(common, own.allow_http).map_err(usage)?;
    let layouts = own.layouts.iter().map(|layout| {
        let parts =
            layout.split_once('=').filter(|(name, profiles)| !name.is_empty() && !profiles.is_empty());
        let (name, profiles) = parts.ok_or_else(|| {
            usage(format!("--layout: {layout:?} is none: write it like mixed=3g.40gb,2g.20gb"))
        })?;
        Ok((name.to_owned(), profiles.split(',').map(str::to_owned).collect()))
    });
    let layouts = layouts.collect::<Result<_, Failure>>()?;
    std::fs::create_dir_all(&own.ledger).map_err(|error| unread(&own.ledger, &error))?;
    let certificates = authorities(common.ca_file.as_deref())?;
    let target = NvmlTarget {
        cluster,
        node,
        state: own.ledger.join("gpus.json"),
        library: own.library.clone(),
        cuda_library: own.cuda_library.clone(),
        gpus: own.gpus,
        layouts,
        diagnosis: own.diagnosis.clone(),
        looks_apart_ms: own.looks_apart_ms,
    };
    let drain = std::time::Duration::from_secs(own.drain);
    Ok(crate::agent::Settings { servers, key_file, ledger: own.ledger.clone(), target, certificates, drain })
}

/// The servers, none of which is spoken to in the clear over a network unless that is wanted.
#[cfg(feature = "nvml")]
fn servers(common: &Common, allow_http: bool) -> Result<Vec<String>, String> {
    let named = common.server.as_deref().unwrap_or_default();
    let all: Vec<String> = named
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
