//! The command line, as people write it. `docs/cli.md` describes every command.

use crate::{auth::Role, config::LogFormat};
use clap::{Args, Parser, Subcommand, ValueEnum};
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

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// Output for people or for programs.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
    /// The server to ask [default: http://127.0.0.1:7878].
    #[arg(long, global = true, env = "TENURE_SERVER", value_name = "URL", hide_env_values = true)]
    pub(crate) server: Option<String>,
    /// Who you are [default: the token in DATA/admin.token].
    #[arg(long, global = true, env = "TENURE_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// The data folder [default: ./tenure-data].
    #[arg(long, global = true, env = "TENURE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The configuration file (TOML).
    #[arg(long, global = true, env = "TENURE_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// How answers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// The API's JSON.
    Json,
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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (the default).
    Serve(Serve),
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
    /// See regions.
    #[command(subcommand)]
    Regions(Things),
    /// See nodes.
    #[command(subcommand)]
    Nodes(Things),
    /// See executions, and act on one.
    #[command(subcommand)]
    Executions(Executions),
    /// See what waits for people, and decide.
    #[command(subcommand)]
    Approvals(Approvals),
    /// Say who may use the service.
    #[command(subcommand)]
    User(User),
    /// Look at workflows, without a server.
    #[command(subcommand)]
    Workflow(Workflow),
    /// Look after a store, without a server.
    #[command(subcommand)]
    Store(Store),
    /// Look at policy documents, without a server.
    #[command(subcommand)]
    Policy(Policy),
    /// Say who has to give GPUs back.
    #[command(subcommand)]
    Reclaim(super::reclaim::Reclaim),
    /// Look at configuration, without a server.
    #[command(subcommand)]
    Config(Config),
    /// Show the GPUs of this machine.
    Gpus,
    /// Watch Tenure onboard a tenant, be killed, and go on; leaves nothing behind.
    Demo,
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
        /// Show what would be decided and done, and change nothing.
        #[arg(long)]
        dry_run: bool,
        /// Wait until it has finished, or waits for people (exit 10).
        #[arg(long, conflicts_with = "dry_run")]
        wait: bool,
        /// How long to wait at most, like `30m`.
        #[arg(long, requires = "wait", value_name = "SPAN")]
        timeout: Option<String>,
        /// The same key asks for the same once [default: drawn, and shown on standard error].
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
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
    },
    /// Show one.
    Show {
        /// Its name.
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Executions {
    /// List them all.
    List {
        /// Only those whose field is as said, like `open=true` or `state=Waitlisted`; may be repeated.
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
    },
    /// Show one in full.
    Show(One),
    /// Show the history of one.
    Journal(One),
    /// Show the picture of one, with the current state lit.
    Diagram(One),
    /// Wait until one has finished, or waits for people (exit 10).
    Wait {
        /// Its id; the first digits do if no other begins with them.
        id: String,
        /// How long to wait at most, like `30m`.
        #[arg(long, value_name = "SPAN")]
        timeout: Option<String>,
    },
    /// Turn one back and undo what it has done.
    Cancel(Act),
    /// Stop one between two steps.
    Pause(Act),
    /// Let a paused one go on.
    Resume(Act),
    /// Try now: what is parked, or waits for its next attempt.
    Retry(Act),
    /// Close one by force; says what it leaves behind. Needs --reason.
    Terminate(Act),
}

#[derive(Debug, Args)]
pub(crate) struct One {
    /// Its id; the first digits do if no other begins with them.
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Act {
    /// Its id; the first digits do if no other begins with them.
    pub(crate) id: String,
    /// Why, for the journal.
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List what waits for people.
    List,
    /// Show one with its plan.
    Show(Case),
    /// Agree to the plan.
    Approve(Decide),
    /// Refuse the plan.
    Refuse(Decide),
}

#[derive(Debug, Args)]
pub(crate) struct Case {
    /// The approval's id, or that of the execution that waits for it.
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct Decide {
    /// The approval's id, or that of the execution that waits for it.
    pub(crate) id: String,
    /// Why, for the journal.
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
    /// The plan you have read [default: the one that stands, which is shown first].
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum User {
    /// Add a user, and print the token that is theirs: it is shown once.
    Add {
        /// The name, unique in the service.
        name: String,
        /// What they may do; may be repeated.
        #[arg(long = "role", value_enum, required = true)]
        roles: Vec<Role>,
        /// The only tenant whose things they see.
        #[arg(long)]
        tenant: Option<String>,
    },
    /// List all users.
    List,
    /// Remove a user; the token opens nothing from then on.
    Remove {
        /// The name.
        name: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Workflow {
    /// List them.
    List,
    /// Print the picture of one, as Mermaid.
    Diagram {
        /// Its name.
        name: String,
    },
    /// Prove that one, or all, survive every fault.
    Verify {
        /// Its name.
        name: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Store {
    /// Read everything in the store, and say what is wrong; repairs nothing.
    Check,
    /// Write everything in the store to a file.
    Export {
        /// The file; `-` writes to standard output.
        file: PathBuf,
    },
    /// Read an export into an empty store.
    Import {
        /// The file; `-` reads standard input.
        file: PathBuf,
    },
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
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Read file and environment, and print the settings in force.
    Check,
}
