//! The definition of the command line. `docs/cli.md` lists every command.

use crate::{
    commands,
    common::Common,
    resources::{ListOrShow, watch_list::WatchArgs},
};
use clap::{CommandFactory as _, Parser, Subcommand};

/// Runs the lifecycle of GPU tenants as durable workflows. Without a command, it runs the server.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) serve: commands::serve::Serve,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (the default).
    Serve(commands::serve::Serve),
    /// Sign in and print the token.
    Login(commands::login::Login),
    /// End the session.
    Logout,
    /// Import nodes, clusters and regions.
    #[command(subcommand)]
    Fleet(commands::fleet::Fleet),
    /// Onboard, offboard and show a tenant.
    #[command(subcommand)]
    Tenant(commands::tenant::Tenant),
    /// List and show tenants.
    #[command(subcommand)]
    Tenants(ListOrShow),
    /// List and show clusters.
    #[command(subcommand)]
    Clusters(ListOrShow),
    /// Show, rotate and revoke a cluster key.
    #[command(subcommand)]
    Cluster(commands::cluster::Cluster),
    /// List and show regions.
    #[command(subcommand)]
    Regions(ListOrShow),
    /// List, retire and move nodes.
    #[command(subcommand)]
    Nodes(commands::nodes::Nodes),
    /// List and show workspaces.
    #[command(subcommand)]
    Workspaces(ListOrShow),
    /// List and show quotas.
    #[command(subcommand)]
    Quotas(ListOrShow),
    /// Request a quota change.
    #[command(subcommand)]
    Quota(commands::quota::Quota),
    /// Request a service level change.
    #[command(subcommand)]
    Sla(commands::quota::Sla),
    /// Report a GPU shortage.
    #[command(subcommand)]
    Capacity(commands::quota::Capacity),
    /// Report an incident.
    #[command(subcommand)]
    Incident(commands::quota::Incident),
    /// List and show loans of GPUs.
    #[command(subcommand)]
    Loans(ListOrShow),
    /// List and show reservations.
    #[command(subcommand)]
    Reservations(ListOrShow),
    /// Add and remove a reservation.
    #[command(subcommand)]
    Reservation(commands::reservation::Reservation),
    /// List and show legal holds.
    #[command(subcommand)]
    Holds(ListOrShow),
    /// Place and release a legal hold.
    #[command(subcommand)]
    Hold(commands::hold::Hold),
    /// List and show workloads.
    #[command(subcommand)]
    Workloads(ListOrShow),
    /// Submit and finish a workload.
    #[command(subcommand)]
    Workload(commands::workload::Workload),
    /// List and show admission decisions.
    #[command(subcommand)]
    Decisions(ListOrShow),
    /// List and run scheduled checks.
    #[command(subcommand)]
    Sweep(commands::sweep::Sweep),
    /// Manage schedules and their occurrences.
    #[command(subcommand)]
    Schedules(commands::schedules::Schedules),
    /// List and show certificates of destruction.
    #[command(subcommand)]
    Certificates(ListOrShow),
    /// List and show the looks at closed tenants.
    #[command(subcommand)]
    ClosedTenants(ListOrShow),
    /// List, show and control executions.
    #[command(subcommand)]
    Executions(commands::executions::Executions),
    /// Repair a parked execution.
    #[command(subcommand)]
    Repair(commands::repair::Repair),
    /// List and second proposed commands.
    #[command(subcommand)]
    Proposals(commands::repair::Proposals),
    /// List executions that need an operator.
    Stuck(commands::executions::Stuck),
    /// List and release leftovers of terminated executions.
    #[command(subcommand)]
    Leftovers(commands::leftovers::Leftovers),
    /// List and stop batches of commands.
    #[command(subcommand)]
    Batch(commands::batch::Batch),
    /// List the servers that share the store.
    Engines(WatchArgs),
    /// Show and set limits; open and close keys.
    #[command(subcommand)]
    Limits(commands::limits::Limits),
    /// Show, test and replay notification channels.
    #[command(subcommand)]
    Notify(commands::notify::Notify),
    /// List approvals and vote.
    #[command(subcommand)]
    Approvals(commands::approvals::Approvals),
    /// Delegate approvals for a time.
    #[command(subcommand)]
    Delegations(commands::delegations::Delegations),
    /// Manage groups of approvers.
    #[command(subcommand)]
    Group(commands::group::Group),
    /// Manage users and service accounts.
    #[command(subcommand)]
    User(commands::user::User),
    /// Show workflows and migrate executions.
    #[command(subcommand)]
    Workflow(commands::workflow::Workflow),
    /// Check, export and import a store.
    #[command(subcommand)]
    Store(commands::store::Store),
    /// Check, compare and apply policy documents.
    #[command(subcommand)]
    Policy(commands::policy::Policy),
    /// Manage access policies.
    #[command(subcommand)]
    Access(commands::access::Access),
    /// Plan and start a reclaim.
    #[command(subcommand)]
    Reclaim(commands::reclaim::Reclaim),
    /// Verify, show and print certificates offline.
    #[command(subcommand)]
    Certificate(commands::certificate::Certificate),
    /// List, export and verify the audit.
    #[command(subcommand)]
    Audit(commands::audit::Audit),
    /// List the public signing keys.
    #[command(subcommand)]
    Keys(commands::keys::Keys),
    /// Export the usage of a tenant.
    #[command(subcommand)]
    Usage(commands::usage::Usage),
    /// Preview and run retention.
    #[command(subcommand)]
    Retention(commands::retention::Retention),
    /// Check and show the configuration.
    #[command(subcommand)]
    Config(commands::config::Config),
    /// Show the GPUs of this machine.
    Gpus,
    /// Run the node agent.
    Agent(commands::agent::Agent),
    /// List node agents.
    Agents(WatchArgs),
    /// Replay a trace or scenario offline.
    Simulate(commands::simulate::Simulate),
    /// Run a self-contained demonstration.
    Demo,
    #[command(flatten)]
    Aid(commands::help::HelpCommand),
}

/// Returns the usage and description of every command, for documents and tests.
#[must_use]
pub fn all_commands() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut whole = Cli::command();
    whole.build();
    gather(&whole, "", &mut all);
    all
}

fn gather(command: &clap::Command, before: &str, all: &mut Vec<(String, String)>) {
    let path = format!("{before} {}", command.get_name());
    let path = path.trim();
    // `agent` is a command and also has a subcommand.
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
