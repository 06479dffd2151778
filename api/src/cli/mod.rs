//! The command line: reads it, does what it says, and ends with a code that scripts can rely on.

mod client;
mod command;
pub(crate) mod commands;
mod common;
pub(crate) mod execution;
mod files;
mod output;
mod parse;
mod resources;
mod settings;

pub(crate) use crate::cli::commands::approvals::page as approval_page;
pub(crate) use crate::cli::commands::fleet::page as import_page;
pub(crate) use crate::cli::execution::wait::progress;
pub use crate::cli::parse::{Reading, reads};
pub(crate) use client::{Body, Client};
pub(crate) use output::say;

use crate::cli::command::{Cli, Command, Common, Format, Serve};
use crate::cli::output::style::When;
use crate::{
    config::Config,
    exit::{Exit, Failure},
    server,
    telemetry::logs,
};
use clap::{CommandFactory as _, FromArgMatches as _};
use std::future::Future;

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
                        let error = output::style::Paint::Red.on(output::style::Stream::Err, "error:");
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
    output::style::settle(cli.common.color, cli.common.is_wide());
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
        Some(Command::Login(own)) => ask(commands::login::login(common, own)),
        Some(Command::Logout) => ask(commands::login::logout(common)),
        Some(Command::Fleet(command)) => ask(commands::fleet::run(common, command)),
        Some(Command::Tenant(command)) => ask(commands::tenant::run(common, command)),
        Some(Command::Tenants(command)) => ask(resources::run(common, &resources::TENANTS, command)),
        Some(Command::Clusters(command)) => ask(resources::run(common, &resources::CLUSTERS, command)),
        Some(Command::Cluster(command)) => ask(commands::cluster::run(common, command)),
        Some(Command::Regions(command)) => ask(resources::run(common, &resources::REGIONS, command)),
        Some(Command::Nodes(command)) => ask(resources::run(common, &resources::NODES, command)),
        Some(Command::Workspaces(command)) => ask(resources::run(common, &resources::WORKSPACES, command)),
        Some(Command::Quotas(command)) => ask(resources::run(common, &resources::QUOTAS, command)),
        Some(Command::Quota(command)) => ask(commands::quota::quota(common, command)),
        Some(Command::Sla(command)) => ask(commands::quota::sla(common, command)),
        Some(Command::Capacity(command)) => ask(commands::quota::capacity(common, command)),
        Some(Command::Incident(command)) => ask(commands::quota::incident(common, command)),
        Some(Command::Loans(command)) => ask(resources::run(common, &resources::LOANS, command)),
        Some(Command::Reservations(command)) => {
            ask(resources::run(common, &resources::RESERVATIONS, command))
        }
        Some(Command::Reservation(command)) => ask(commands::reservation::run(common, command)),
        Some(Command::Holds(command)) => ask(resources::run(common, &resources::HOLDS, command)),
        Some(Command::Hold(command)) => ask(commands::hold::run(common, command)),
        Some(Command::Workloads(command)) => ask(resources::run(common, &resources::WORKLOADS, command)),
        Some(Command::Workload(command)) => ask(commands::workload::run(common, command)),
        Some(Command::Sweep(command)) => ask(commands::sweep::run(common, command)),
        Some(Command::Schedules(command)) => ask(commands::schedules::run(common, command)),
        Some(Command::Decisions(command)) => ask(resources::run(common, &resources::DECISIONS, command)),
        Some(Command::Certificates(command)) => {
            ask(resources::run(common, &resources::CERTIFICATES, command))
        }
        Some(Command::Executions(command)) => ask(commands::executions::run(common, command)),
        Some(Command::Repair(command)) => ask(commands::repair::run(common, command)),
        Some(Command::Proposals(command)) => ask(commands::repair::proposals(common, command)),
        Some(Command::Stuck(own)) => ask(commands::executions::stuck(common, &own)),
        Some(Command::Batch(command)) => ask(commands::batch::run(common, command)),
        Some(Command::Engines(watching)) => ask(resources::engines(common, &watching)),
        Some(Command::Limits(command)) => ask(commands::limits::run(common, command)),
        Some(Command::Notify(command)) => ask(commands::notify::run(common, command)),
        Some(Command::Approvals(command)) => ask(commands::approvals::run(common, command)),
        Some(Command::Delegations(command)) => ask(commands::delegations::run(common, command)),
        Some(Command::Group(command)) => ask(commands::group::run(common, command)),
        Some(Command::User(command)) => ask(commands::user::run(common, command)),
        Some(Command::Workflow(command)) => ask(commands::workflow::run(common, command)),
        Some(Command::Store(command)) => ask(commands::store::run(common, command)),
        Some(Command::Policy(command)) => ask(commands::policy::run(common, command)),
        Some(Command::Access(command)) => ask(commands::access::run(common, command)),
        Some(Command::Reclaim(command)) => commands::reclaim::run(common, command),
        Some(Command::Certificate(command)) => commands::certificate::run(common, command),
        Some(Command::Audit(command)) => commands::audit::run(common, command),
        Some(Command::Usage(command)) => commands::usage::run(common, command),
        Some(Command::Retention(command)) => ask(commands::retention::run(common, command)),
        Some(Command::Config(command::Config::Check)) => settings::config_check(common),
        Some(Command::Gpus) => settings::gpus(common),
        Some(Command::Agent(own)) => commands::agent::run(common, &own),
        Some(Command::Agents(watching)) => ask(resources::all(common, &resources::AGENTS, &watching)),
        Some(Command::Simulate(own)) => commands::simulate::run(common, &own),
        Some(Command::Demo) => ask(crate::cli::commands::demo::run()),
        Some(Command::Aid(aid)) => commands::help::run(common, aid),
    }
}

/// Runs what a client does.
fn ask(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::other)?.block_on(work)
}

fn serve(common: &Common, own: &Serve, more: server::Also) -> Result<Exit, Failure> {
    let mut config: Config = settings::settings(common)?;
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
    logs::begin(&config.log, output::style::Stream::Err.is_coloured()).map_err(Failure::other)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(Failure::other)?.block_on(server::serve(config, more))?;
    Ok(Exit::Done)
}
