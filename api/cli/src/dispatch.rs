//! From a command line to the command that does it.

use crate::{
    client::ask,
    command::{Cli, Command},
    commands::{self, serve::Serve},
    common::Common,
    resources::{
        self, Things,
        kinds::{self, Kind},
    },
};
use api::server;
use clap::CommandFactory as _;
use program::exit::{Exit, Failure};

/// Does what the command line says; without a command it serves.
pub(super) fn dispatch(cli: Cli, more: server::Also) -> Result<Exit, Failure> {
    let common = &cli.common;
    match cli.command.unwrap_or_else(|| Command::Serve(Serve::default())) {
        Command::Serve(own) => commands::serve::run(common, &own.over(cli.serve), more),
        Command::Login(own) => ask(commands::login::login(common, own)),
        Command::Logout => ask(commands::login::logout(common)),
        Command::Fleet(command) => ask(commands::fleet::run(common, command)),
        Command::Tenant(command) => ask(commands::tenant::run(common, command)),
        Command::Tenants(command) => list(common, &kinds::TENANTS, command),
        Command::Clusters(command) => list(common, &kinds::CLUSTERS, command),
        Command::Cluster(command) => ask(commands::cluster::run(common, command)),
        Command::Regions(command) => list(common, &kinds::REGIONS, command),
        Command::Nodes(command) => list(common, &kinds::NODES, command),
        Command::Workspaces(command) => list(common, &kinds::WORKSPACES, command),
        Command::Quotas(command) => list(common, &kinds::QUOTAS, command),
        Command::Quota(command) => ask(commands::quota::quota(common, command)),
        Command::Sla(command) => ask(commands::quota::sla(common, command)),
        Command::Capacity(command) => ask(commands::quota::capacity(common, command)),
        Command::Incident(command) => ask(commands::quota::incident(common, command)),
        Command::Loans(command) => list(common, &kinds::LOANS, command),
        Command::Reservations(command) => list(common, &kinds::RESERVATIONS, command),
        Command::Reservation(command) => ask(commands::reservation::run(common, command)),
        Command::Holds(command) => list(common, &kinds::HOLDS, command),
        Command::Hold(command) => ask(commands::hold::run(common, command)),
        Command::Workloads(command) => list(common, &kinds::WORKLOADS, command),
        Command::Workload(command) => ask(commands::workload::run(common, command)),
        Command::Sweep(command) => ask(commands::sweep::run(common, command)),
        Command::Schedules(command) => ask(commands::schedules::run(common, command)),
        Command::Decisions(command) => list(common, &kinds::DECISIONS, command),
        Command::Certificates(command) => list(common, &kinds::CERTIFICATES, command),
        Command::Executions(command) => ask(commands::executions::run(common, command)),
        Command::Repair(command) => ask(commands::repair::run(common, command)),
        Command::Proposals(command) => ask(commands::repair::proposals(common, command)),
        Command::Stuck(own) => ask(commands::executions::stuck(common, &own)),
        Command::Batch(command) => ask(commands::batch::run(common, command)),
        Command::Engines(watching) => ask(resources::engines(common, &watching)),
        Command::Limits(command) => ask(commands::limits::run(common, command)),
        Command::Notify(command) => ask(commands::notify::run(common, command)),
        Command::Approvals(command) => ask(commands::approvals::run(common, command)),
        Command::Delegations(command) => ask(commands::delegations::run(common, command)),
        Command::Group(command) => ask(commands::group::run(common, command)),
        Command::User(command) => ask(commands::user::run(common, command)),
        Command::Workflow(command) => ask(commands::workflow::run(common, command)),
        Command::Store(command) => ask(commands::store::run(common, command)),
        Command::Policy(command) => ask(commands::policy::run(common, command)),
        Command::Access(command) => ask(commands::access::run(common, command)),
        Command::Reclaim(command) => commands::reclaim::run(common, command),
        Command::Certificate(command) => commands::certificate::run(common, command),
        Command::Audit(command) => commands::audit::run(common, command),
        Command::Usage(command) => commands::usage::run(common, command),
        Command::Retention(command) => ask(commands::retention::run(common, command)),
        Command::Config(command) => commands::config::run(common, &command),
        Command::Gpus => commands::gpus::run(common),
        Command::Agent(own) => commands::agent::run(common, &own),
        Command::Agents(watching) => ask(resources::all(common, &kinds::AGENTS, &watching)),
        Command::Simulate(own) => commands::simulate::run(common, &own),
        Command::Demo => ask(commands::demo::run()),
        Command::Aid(aid) => commands::help::run(common, aid, Cli::command()),
    }
}

/// Lists all of a kind, or shows one.
fn list(common: &Common, kind: &Kind, things: Things) -> Result<Exit, Failure> {
    ask(resources::run(common, kind, things))
}
