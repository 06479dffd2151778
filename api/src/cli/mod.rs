//! The command line: reads it, does what it says, and ends with a code that scripts can rely on.

mod access;
mod agent;
mod aid;
mod approvals;
mod args;
mod audit;
mod batch;
mod certificate;
mod client;
mod cluster;
mod common;
mod context;
mod contexts;
mod delegation;
mod doctor;
mod executions;
mod explain;
mod files;
mod fleet;
mod get;
mod group;
mod held;
mod hold;
mod limits;
mod login;
mod moment;
mod notify;
mod offline;
mod output;
mod pages;
mod plan;
mod policy;
mod progress;
mod quota;
mod reading;
mod reclaim;
mod repair;
mod reservation;
mod retention;
mod schedules;
mod simulate;
mod sink;
mod start;
mod store;
mod stream;
mod style;
mod sweep;
mod tenant;
mod things;
mod usage;
mod user;
mod watch;
mod watch_list;
mod within;
mod workflow;
mod workload;

pub(crate) use approvals::page as approval_page;
#[cfg(feature = "nvml")]
pub(crate) use client::escape;
pub(crate) use client::{Body, Client};
pub(crate) use fleet::page as import_page;
pub(crate) use output::say;
pub use reading::{Reading, reads};
pub(crate) use watch::progress;

use crate::{
    config::Config,
    exit::{Exit, Failure},
    logs, server,
};
use args::{Cli, Command, Common, Format, Serve};
use clap::{CommandFactory as _, FromArgMatches as _};
use std::future::Future;
use style::When;

/// Every command with its usage and what it does, for documents and tests.
#[must_use]
pub fn commands() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut whole = Cli::command();
    whole.build();
    gather(&whole, "", &mut all);
    all
}

fn gather(command: &clap::Command, before: &str, all: &mut Vec<(String, String)>) {
    let path = format!("{before} {}", command.get_name());
    let path = path.trim();
    // `agent` does something by itself, and has a command beside.
    let alone = !command.has_subcommands() || command.is_args_conflicts_with_subcommands_set();
    if alone {
        let own = command.get_arguments().filter(|argument| {
            !argument.is_global_set() && !["help", "version"].contains(&argument.get_id().as_str())
        });
        let usage = own.fold(path.to_owned(), |usage, argument| {
            let shown = argument.to_string();
            if argument.is_required_set() {
                format!("{usage} {shown}")
            } else {
                format!("{usage} [{}]", shown.trim_matches(['[', ']']))
            }
        });
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        all.push((usage, about));
    }
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        gather(inner, path, all);
    }
}

/// Does what the command line says.
pub(crate) fn run(more: server::Also) -> Exit {
    let cli = match parsed() {
        Ok(cli) => cli,
        Err(error) => {
            if error.use_stderr() && asks_for_json(std::env::args()) {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                output::note(&Failure::new(Exit::Usage, first).body().to_string());
                return Exit::Usage;
            }
            // Help goes to standard output and is no failure; a closed pipe is none either.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let format = cli.common.output;
    match dispatch(cli, more) {
        Ok(exit) => exit,
        Err(failure) => {
            if !failure.message.is_empty() {
                match format {
                    Format::Json | Format::Yaml => output::note(&failure.body().to_string()),
                    Format::Table => {
                        let error = style::Paint::Red.on(style::Stream::Err, "error:");
                        output::note(&format!("{error} {failure}"));
                    }
                }
            }
            failure.exit
        }
    }
}

/// The command line, understood. How text looks is settled with it.
fn parsed() -> Result<Cli, clap::Error> {
    let mut whole = Cli::command().color(When::asked(std::env::args()).into());
    let matches = whole.try_get_matches_from_mut(std::env::args_os())?;
    let mut cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut whole))?;
    cli.common.settle(&matches);
    style::settle(cli.common.color, cli.common.is_wide());
    Ok(cli)
}

/// Whether a command line that could not be understood wants its answer for a program.
fn asks_for_json(arguments: impl Iterator<Item = String>) -> bool {
    let mut before = String::new();
    for argument in arguments {
        let value = argument.strip_prefix("--output=").or_else(|| argument.strip_prefix("-o"));
        let value =
            if matches!(before.as_str(), "-o" | "--output") { Some(argument.as_str()) } else { value };
        if value.is_some_and(|value| matches!(value.trim_start_matches('='), "json" | "yaml")) {
            return true;
        }
        before = argument;
    }
    false
}

fn dispatch(cli: Cli, more: server::Also) -> Result<Exit, Failure> {
    let common = &cli.common;
    match cli.command {
        None => serve(common, &cli.serve, more),
        Some(Command::Serve(own)) => serve(common, &own.over(cli.serve), more),
        Some(Command::Login(own)) => ask(login::login(common, own)),
        Some(Command::Logout) => ask(login::logout(common)),
        Some(Command::Fleet(command)) => ask(fleet::run(common, command)),
        Some(Command::Tenant(command)) => ask(tenant::run(common, command)),
        Some(Command::Tenants(command)) => ask(things::run(common, &things::TENANTS, command)),
        Some(Command::Clusters(command)) => ask(things::run(common, &things::CLUSTERS, command)),
        Some(Command::Cluster(command)) => ask(cluster::run(common, command)),
        Some(Command::Regions(command)) => ask(things::run(common, &things::REGIONS, command)),
        Some(Command::Nodes(command)) => ask(things::run(common, &things::NODES, command)),
        Some(Command::Workspaces(command)) => ask(things::run(common, &things::WORKSPACES, command)),
        Some(Command::Quotas(command)) => ask(things::run(common, &things::QUOTAS, command)),
        Some(Command::Quota(command)) => ask(quota::quota(common, command)),
        Some(Command::Sla(command)) => ask(quota::sla(common, command)),
        Some(Command::Capacity(command)) => ask(quota::capacity(common, command)),
        Some(Command::Incident(command)) => ask(quota::incident(common, command)),
        Some(Command::Loans(command)) => ask(things::run(common, &things::LOANS, command)),
        Some(Command::Reservations(command)) => ask(things::run(common, &things::RESERVATIONS, command)),
        Some(Command::Reservation(command)) => ask(reservation::run(common, command)),
        Some(Command::Holds(command)) => ask(things::run(common, &things::HOLDS, command)),
        Some(Command::Hold(command)) => ask(hold::run(common, command)),
        Some(Command::Workloads(command)) => ask(things::run(common, &things::WORKLOADS, command)),
        Some(Command::Workload(command)) => ask(workload::run(common, command)),
        Some(Command::Sweep(command)) => ask(sweep::run(common, command)),
        Some(Command::Schedules(command)) => ask(schedules::run(common, command)),
        Some(Command::Decisions(command)) => ask(things::run(common, &things::DECISIONS, command)),
        Some(Command::Certificates(command)) => ask(things::run(common, &things::CERTIFICATES, command)),
        Some(Command::Executions(command)) => ask(executions::run(common, command)),
        Some(Command::Repair(command)) => ask(repair::run(common, command)),
        Some(Command::Proposals(command)) => ask(repair::proposals(common, command)),
        Some(Command::Stuck(own)) => ask(executions::stuck(common, &own)),
        Some(Command::Batch(command)) => ask(batch::run(common, command)),
        Some(Command::Engines(watching)) => ask(things::engines(common, &watching)),
        Some(Command::Limits(command)) => ask(limits::run(common, command)),
        Some(Command::Notify(command)) => ask(notify::run(common, command)),
        Some(Command::Approvals(command)) => ask(approvals::run(common, command)),
        Some(Command::Delegations(command)) => ask(delegation::run(common, command)),
        Some(Command::Group(command)) => ask(group::run(common, command)),
        Some(Command::User(command)) => ask(user::run(common, command)),
        Some(Command::Workflow(command)) => ask(workflow::run(common, command)),
        Some(Command::Store(command)) => ask(store::run(common, command)),
        Some(Command::Policy(command)) => ask(policy::run(common, command)),
        Some(Command::Access(command)) => ask(access::run(common, command)),
        Some(Command::Reclaim(command)) => reclaim::run(common, command),
        Some(Command::Certificate(command)) => certificate::run(common, command),
        Some(Command::Audit(command)) => audit::run(common, command),
        Some(Command::Usage(command)) => usage::run(common, command),
        Some(Command::Retention(command)) => ask(retention::run(common, command)),
        Some(Command::Config(args::Config::Check)) => offline::config_check(common),
        Some(Command::Gpus) => offline::gpus(common),
        Some(Command::Agent(own)) => agent::run(common, &own),
        Some(Command::Agents(watching)) => ask(things::all(common, &things::AGENTS, &watching)),
        Some(Command::Simulate(own)) => simulate::run(common, &own),
        Some(Command::Demo) => ask(crate::demo::run()),
        Some(Command::Aid(aid)) => aid::run(common, aid),
    }
}

/// Runs what a client does.
fn ask(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::other)?.block_on(work)
}

fn serve(common: &Common, own: &Serve, more: server::Also) -> Result<Exit, Failure> {
    let mut config: Config = offline::settings(common)?;
    if let Some(listen) = own.listen {
        config.listen = listen;
    }
    if let Some(format) = own.log_format {
        config.log.format = format;
    }
    if let Some(platform) = &own.platform {
        config.platform.clone_from(platform);
    }
    let config =
        config.checked().map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    logs::begin(&config.log, style::Stream::Err.is_coloured()).map_err(Failure::other)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Failure::other)?.block_on(server::serve(config, more))?;
    Ok(Exit::Done)
}
