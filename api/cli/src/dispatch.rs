//! Calls the command that the command line names.

use crate::{
    client::block_on,
    command::{Cli, Command},
    commands::{self, serve::Serve},
    common::Common,
    resources::{
        self, ListOrShow,
        kinds::{self, Kind},
    },
};
use api::server;
use clap::CommandFactory as _;
use program::exit::{Exit, Failure};

/// Runs the command. Without a command, runs the server.
#[allow(clippy::too_many_lines, reason = "one line for each command")]
pub(super) fn dispatch(cli: Cli, more: server::ExtraWorkflows) -> Result<Exit, Failure> {
    let common = &cli.common;
    match cli.command.unwrap_or_else(|| Command::Serve(Serve::default())) {
        Command::Serve(own) => commands::serve::run(common, &own.over(cli.serve), more),
        Command::Login(own) => block_on(commands::login::login(common, own)),
        Command::Logout => block_on(commands::login::logout(common)),
        Command::Fleet(command) => block_on(commands::fleet::run(common, command)),
        Command::Tenant(command) => block_on(commands::tenant::run(common, command)),
        Command::Tenants(command) => list(common, &kinds::TENANTS, command),
        Command::Clusters(command) => list(common, &kinds::CLUSTERS, command),
        Command::Cluster(command) => block_on(commands::cluster::run(common, command)),
        Command::Regions(command) => list(common, &kinds::REGIONS, command),
        Command::Nodes(command) => block_on(commands::nodes::run(common, command)),
        Command::Workspaces(command) => list(common, &kinds::WORKSPACES, command),
        Command::Quotas(command) => list(common, &kinds::QUOTAS, command),
        Command::Quota(command) => block_on(commands::quota::quota(common, command)),
        Command::Sla(command) => block_on(commands::quota::sla(common, command)),
        Command::Capacity(command) => block_on(commands::quota::capacity(common, command)),
        Command::Incident(command) => block_on(commands::quota::incident(common, command)),
        Command::Loans(command) => list(common, &kinds::LOANS, command),
        Command::Reservations(command) => list(common, &kinds::RESERVATIONS, command),
        Command::Reservation(command) => block_on(commands::reservation::run(common, command)),
        Command::Holds(command) => list(common, &kinds::HOLDS, command),
        Command::Hold(command) => block_on(commands::hold::run(common, command)),
        Command::Workloads(command) => list(common, &kinds::WORKLOADS, command),
        Command::Workload(command) => block_on(commands::workload::run(common, command)),
        Command::Sweep(command) => block_on(commands::sweep::run(common, command)),
        Command::Schedules(command) => block_on(commands::schedules::run(common, command)),
        Command::Decisions(command) => list(common, &kinds::DECISIONS, command),
        Command::Certificates(command) => list(common, &kinds::CERTIFICATES, command),
        Command::ClosedTenants(command) => list(common, &kinds::CLOSED_TENANTS, command),
        Command::Executions(command) => block_on(commands::executions::run(common, command)),
        Command::Repair(command) => block_on(commands::repair::run(common, command)),
        Command::Proposals(command) => block_on(commands::repair::proposals(common, command)),
        Command::Stuck(own) => block_on(commands::executions::stuck(common, &own)),
        Command::Leftovers(command) => block_on(commands::leftovers::run(common, command)),
        Command::Batch(command) => block_on(commands::batch::run(common, command)),
        Command::Engines(watching) => block_on(resources::engines(common, &watching)),
        Command::Limits(command) => block_on(commands::limits::run(common, command)),
        Command::Notify(command) => block_on(commands::notify::run(common, command)),
        Command::Approvals(command) => block_on(commands::approvals::run(common, command)),
        Command::Delegations(command) => block_on(commands::delegations::run(common, command)),
        Command::Group(command) => block_on(commands::group::run(common, command)),
        Command::User(command) => block_on(commands::user::run(common, command)),
        Command::Workflow(command) => block_on(commands::workflow::run(common, command)),
        Command::Store(command) => block_on(commands::store::run(common, command)),
        Command::Policy(command) => block_on(commands::policy::run(common, command)),
        Command::Access(command) => block_on(commands::access::run(common, command)),
        Command::Reclaim(command) => commands::reclaim::run(common, command),
        Command::Certificate(command) => commands::certificate::run(common, command),
        Command::Audit(command) => commands::audit::run(common, command),
        Command::Keys(command) => commands::keys::run(common, command),
        Command::Usage(command) => commands::usage::run(common, command),
        Command::Retention(command) => block_on(commands::retention::run(common, command)),
        Command::Config(command) => commands::config::run(common, &command),
        Command::Gpus => commands::gpus::run(common),
        Command::Agent(own) => commands::agent::run(common, &own),
        Command::Agents(watching) => block_on(resources::all(common, &kinds::AGENTS, &watching)),
        Command::Simulate(own) => commands::simulate::run(common, &own),
        Command::Demo => block_on(commands::demo::run()),
        Command::Aid(aid) => commands::help::run(common, aid, Cli::command()),
    }
}

/// Lists all items of a kind, or shows one.
fn list(common: &Common, kind: &Kind, things: ListOrShow) -> Result<Exit, Failure> {
    block_on(resources::run(common, kind, things))
}
