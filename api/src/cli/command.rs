//! The command line, as people write it. `docs/cli.md` describes every command.

pub(crate) use super::common::{Common, Format};

use crate::cli::resources::watch_list::Watching;
use crate::config::LogFormat;
use clap::{Args, Parser, Subcommand};
use std::{net::SocketAddr, path::PathBuf};

/// Tenure runs the lifecycle of GPU tenants as durable workflows. Without a command it serves.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) serve: Serve,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What `serve` takes.
#[derive(Clone, Debug, Args)]
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
}

impl Serve {
    /// What is said behind the command goes over what is said before it.
    pub(super) fn over(self, before: Self) -> Self {
        Self {
            listen: self.listen.or(before.listen),
            platform: self.platform.or(before.platform),
            log_format: self.log_format.or(before.log_format),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (the default).
    Serve(Serve),
    /// Sign in through the identity provider of the server; the token goes to standard output.
    Login(crate::cli::commands::login::Login),
    /// End the session of the token.
    Logout,
    /// Bring in nodes, clusters and regions.
    #[command(subcommand)]
    Fleet(Fleet),
    /// Ask for a tenant.
    #[command(subcommand)]
    Tenant(Tenant),
    /// See tenants.
    #[command(subcommand)]
    Tenants(Things),
    /// See clusters.
    #[command(subcommand)]
    Clusters(Things),
    /// See and change the key of a tenant's own cluster.
    #[command(subcommand)]
    Cluster(crate::cli::commands::cluster::Cluster),
    /// See regions.
    #[command(subcommand)]
    Regions(Things),
    /// See nodes.
    #[command(subcommand)]
    Nodes(Things),
    /// See workspaces, with what each uses and who waits.
    #[command(subcommand)]
    Workspaces(Things),
    /// See quotas, with what is used of each.
    #[command(subcommand)]
    Quotas(Things),
    /// Ask for another quota.
    #[command(subcommand)]
    Quota(crate::cli::commands::quota::Quota),
    /// Ask for another service level.
    #[command(subcommand)]
    Sla(crate::cli::commands::quota::Sla),
    /// Say that GPUs run short.
    #[command(subcommand)]
    Capacity(crate::cli::commands::quota::Capacity),
    /// Report what went wrong.
    #[command(subcommand)]
    Incident(crate::cli::commands::quota::Incident),
    /// See who has lent GPUs to whom, and until when.
    #[command(subcommand)]
    Loans(Things),
    /// See what GPUs workspaces are promised.
    #[command(subcommand)]
    Reservations(Things),
    /// Promise GPUs to a workspace.
    #[command(subcommand)]
    Reservation(crate::cli::commands::reservation::Reservation),
    /// See what may not be destroyed.
    #[command(subcommand)]
    Holds(Things),
    /// Say what may not be destroyed.
    #[command(subcommand)]
    Hold(crate::cli::commands::hold::Hold),
    /// See workloads: where each runs, or since when it waits.
    #[command(subcommand)]
    Workloads(Things),
    /// Ask for GPUs for a workload, or say that it has ended.
    #[command(subcommand)]
    Workload(crate::cli::commands::workload::Workload),
    /// See what workloads were told, and why.
    #[command(subcommand)]
    Decisions(Things),
    /// See what is looked after by the clock, or do it now.
    #[command(subcommand)]
    Sweep(crate::cli::commands::sweep::Sweep),
    /// See what is started when and what became of it, and say so.
    #[command(subcommand)]
    Schedules(crate::cli::commands::schedules::Schedules),
    /// See certificates of destruction.
    #[command(subcommand)]
    Certificates(Things),
    /// See executions, and act on one.
    #[command(subcommand)]
    Executions(Executions),
    /// Mend an execution that cannot go on by itself.
    #[command(subcommand)]
    Repair(crate::cli::commands::repair::Repair),
    /// See commands that wait for a second person, and agree to one.
    #[command(subcommand)]
    Proposals(crate::cli::commands::repair::Proposals),
    /// List what somebody has to look at: since when, who, and what to do.
    Stuck(crate::cli::commands::executions::Stuck),
    /// See commands that were given to many executions at once.
    #[command(subcommand)]
    Batch(crate::cli::commands::batch::Batch),
    /// List the servers that share the store: whether each is alive, and what it holds.
    Engines(Watching),
    /// See and set how much may be asked of a cluster, a tenant or an action; close and open one.
    #[command(subcommand)]
    Limits(crate::cli::commands::limits::Limits),
    /// See through which channels people are told, and what became of it; try one; send dead letters again.
    #[command(subcommand)]
    Notify(crate::cli::commands::notify::Notify),
    /// See what waits for people, and decide.
    #[command(subcommand)]
    Approvals(crate::cli::commands::approvals::Approvals),
    /// Let somebody decide in your place, for a time.
    #[command(subcommand)]
    Delegations(crate::cli::commands::delegations::Delegations),
    /// Say who belongs to groups that approvals ask.
    #[command(subcommand)]
    Group(crate::cli::commands::group::Group),
    /// Say who may use the service.
    #[command(subcommand)]
    User(crate::cli::commands::user::User),
    /// Look at workflows, and at executions of their earlier versions.
    #[command(subcommand)]
    Workflow(crate::cli::commands::workflow::Workflow),
    /// Look after a store, without a server.
    #[command(subcommand)]
    Store(crate::cli::commands::store::Store),
    /// Look at policy documents, and put one into force.
    #[command(subcommand)]
    Policy(Policy),
    /// Say who may do what, and by which policies of access.
    #[command(subcommand)]
    Access(crate::cli::commands::access::Access),
    /// Say who has to give GPUs back.
    #[command(subcommand)]
    Reclaim(crate::cli::commands::reclaim::Reclaim),
    /// Verify, show and print certificates of destruction, without a server.
    #[command(subcommand)]
    Certificate(Certificate),
    /// See who did what, and verify a file of it without a server.
    #[command(subcommand)]
    Audit(crate::cli::commands::audit::Audit),
    /// See what a tenant used, with list prices; write it to a file.
    #[command(subcommand)]
    Usage(crate::cli::commands::usage::Usage),
    /// See which finished executions are kept no longer, and forget them.
    #[command(subcommand)]
    Retention(crate::cli::commands::retention::Retention),
    /// Look at configuration, without a server.
    #[command(subcommand)]
    Config(Config),
    /// Show the GPUs of this machine.
    Gpus,
    /// Run on a node with GPUs, and do there what servers ask for.
    Agent(crate::cli::commands::agent::Agent),
    /// List the agents of nodes that this server has heard: whether each is there, and what it sees.
    Agents(Watching),
    /// Replay a trace or a scenario on a simulated clock and cluster, without a server.
    Simulate(Simulate),
    /// Watch Tenure onboard a tenant, be killed, and go on; leaves nothing behind.
    Demo,
    #[command(flatten)]
    Aid(crate::cli::commands::help::Aid),
}

/// What `simulate` takes.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The trace (CSV of openb or dlrm, or CSV or JSONL of our own) or scenario (YAML); `-` is standard input.
    pub(crate) trace: PathBuf,
    /// The nodes to draw from (sn,cpu_milli,memory_mib,gpu,model) [default: as many of 8 GPUs as are needed].
    #[arg(long, value_name = "NODES.csv")]
    pub(crate) fleet: Option<PathBuf>,
    /// The platform policy [default: the built-in one, under which every class of workspace may borrow].
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Draws what a scenario leaves to chance.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Replay it so many times, one right behind the other: a year, made of weeks.
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Where to write the report, as JSON, text and HTML.
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Fleet {
    /// Bring in a CSV file of nodes (sn,cpu_milli,memory_mib,gpu,model), or a YAML file of regions and clusters.
    Import {
        /// The file; `-` reads CSV from standard input.
        file: PathBuf,
        /// The cluster that the nodes belong to.
        #[arg(long)]
        cluster: Option<String>,
        /// The region that the cluster stands in.
        #[arg(long)]
        region: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// Ask for a tenant by its policy document.
    Onboard {
        /// The document (YAML); `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
        #[command(flatten)]
        starting: crate::cli::execution::start::Starting,
    },
    /// Ask that a tenant leaves: its data is destroyed, and a certificate says so.
    Offboard {
        /// Its name.
        name: String,
        /// Why: `contract_end`, `tenant_request`, `erasure_request` or `legal_order`.
        #[arg(long, default_value = "tenant_request")]
        basis: String,
        /// The contract line, or the order's number.
        #[arg(long, default_value = "")]
        reference: String,
        /// Why, in words.
        #[arg(long, default_value = "")]
        reason: String,
        /// Its name once more; needed where nobody at a terminal can be asked for it.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
        #[command(flatten)]
        starting: crate::cli::execution::start::Starting,
    },
    /// Say what the data of an asset is that the inventory could not settle.
    Classify {
        /// The tenant.
        name: String,
        /// The asset, as the execution names it.
        asset: String,
        /// What it is: such as `workload`, `model`, `secret`, `backup` or `telemetry`.
        #[arg(long)]
        class: String,
        /// Why, for the certificate.
        #[arg(long)]
        reason: String,
    },
    /// Show one tenant.
    Show {
        /// Its name.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Things {
    /// List them all.
    List {
        /// Only those whose field is as said, like `state=active`; may be repeated.
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: Watching,
    },
    /// Show one.
    Show {
        /// Its id, as the list shows it.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Executions {
    /// List them all.
    List {
        /// Only those that match, like `phase = parked and age > 2h`; docs/search.md has the words.
        #[arg(long, value_name = "FILTER")]
        filter: Option<String>,
        /// Only those whose field is as said, like `open=true` or `state=Waitlisted`; may be repeated.
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: Watching,
    },
    /// Show one in full.
    Show(crate::cli::commands::executions::One),
    /// Show the history of one.
    Journal(crate::cli::commands::executions::One),
    /// Show the picture of one, with the current state lit.
    Diagram(crate::cli::commands::executions::One),
    /// Wait until one has finished, or waits for people (exit 10).
    Wait {
        /// Its id; the first digits do if no other begins with them.
        id: String,
        /// How long to wait at most, like `30m`.
        #[arg(long, value_name = "SPAN", value_parser = crate::cli::execution::wait::span)]
        timeout: Option<std::time::Duration>,
    },
    /// Follow one until it has finished, also while people decide.
    Watch {
        /// Its id; the first digits do if no other begins with them.
        id: String,
        /// How long to watch at most, like `30m`.
        #[arg(long, value_name = "SPAN", value_parser = crate::cli::execution::wait::span)]
        timeout: Option<std::time::Duration>,
    },
    /// Turn one, or many, back and undo what was done.
    Cancel(crate::cli::commands::batch::Moves),
    /// Stop one, or many, between two steps.
    Pause(crate::cli::commands::batch::Acts),
    /// Let a paused one, or many, go on.
    Resume(crate::cli::commands::batch::Moves),
    /// Try now: what is parked, or waits for its next attempt.
    Retry(crate::cli::commands::batch::Moves),
    /// Tell one that something it waits for has happened; it looks for itself.
    Signal {
        /// Its id; the first digits do if no other begins with them.
        id: String,
        /// What has happened, such as `export.confirmed`.
        signal: String,
        #[command(flatten)]
        following: crate::cli::execution::start::Following,
    },
    /// Close one by force; says what it leaves behind. Needs --reason.
    Terminate(crate::cli::commands::executions::Act),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Certificate {
    /// Verify a certificate with the issuer's public key; names every field that was changed.
    Verify {
        /// The file; `-` reads standard input.
        file: PathBuf,
        /// A public key that is trusted (PEM); may be repeated [default: that of the data folder].
        #[arg(long = "key", value_name = "PUBLIC.pem")]
        keys: Vec<PathBuf>,
    },
    /// Show what a certificate says, verified or not.
    Show {
        /// The file; `-` reads standard input.
        file: PathBuf,
    },
    /// Write a certificate as an HTML page that prints well on A4.
    Print {
        /// The file; `-` reads standard input.
        file: PathBuf,
        /// A public key that is trusted (PEM); may be repeated [default: that of the data folder].
        #[arg(long = "key", value_name = "PUBLIC.pem")]
        keys: Vec<PathBuf>,
    },
    /// Fetch a certificate from the server, byte by byte as it was signed.
    Download {
        /// Its id; `tenure certificates list` shows them.
        id: String,
        /// The file to write; `-` writes to standard output [default: ID.json].
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Print the public key that this data folder signs with (PEM); made now if there is none.
    Key,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// Say what is wrong with a document, by line and column.
    Check {
        /// The document (YAML): a platform policy, or a tenant's request.
        file: PathBuf,
    },
    /// Say what changes from one document to another, key by key.
    Diff {
        /// The old one.
        old: PathBuf,
        /// The new one.
        new: PathBuf,
    },
    /// Run the examples that a platform policy carries.
    Test {
        /// The policy (YAML).
        file: PathBuf,
    },
    /// Say which rules hold for a tenant, with document, version and line.
    Explain {
        /// A tenant's name, or a file with a request (YAML), for which no server is asked.
        subject: String,
        /// Explain a request by this policy instead of the built-in one.
        #[arg(short, long)]
        file: Option<PathBuf>,
    },
    /// Put a platform policy into force.
    Publish {
        /// The policy (YAML).
        file: PathBuf,
        /// Show what would change and which executions it leaves alone, and change nothing.
        #[arg(long)]
        dry_run: bool,
        /// With --dry-run: end with 11 where something would change.
        #[arg(long, requires = "dry_run")]
        exit_code: bool,
    },
    /// List when which platform policy came into force, and who said so.
    History,
    /// Show one platform policy.
    Show {
        /// Its number [default: the one in force].
        #[arg(default_value = "current")]
        version: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Read file and environment, and print the settings in force.
    Check,
}
