//! The command line, as people write it. `docs/cli.md` describes every command.

use crate::{
    commands,
    common::Common,
    resources::{ListOrShow, watch_list::WatchArgs},
};
use clap::{CommandFactory as _, Parser, Subcommand};

/// Tenure runs the lifecycle of GPU tenants as durable workflows. Without a command it serves.
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
    /// Sign in through the identity provider of the server; the token goes to standard output.
    Login(commands::login::Login),
    /// End the session of the token.
    Logout,
    /// Bring in nodes, clusters and regions.
    #[command(subcommand)]
    Fleet(commands::fleet::Fleet),
    /// Ask for a tenant.
    #[command(subcommand)]
    Tenant(commands::tenant::Tenant),
    /// See tenants.
    #[command(subcommand)]
    Tenants(ListOrShow),
    /// See clusters.
    #[command(subcommand)]
    Clusters(ListOrShow),
    /// See and change the key of a tenant's own cluster.
    #[command(subcommand)]
    Cluster(commands::cluster::Cluster),
    /// See regions.
    #[command(subcommand)]
    Regions(ListOrShow),
    /// List, retire and move nodes.
    #[command(subcommand)]
    Nodes(commands::nodes::Nodes),
    /// See workspaces, with what each uses and who waits.
    #[command(subcommand)]
    Workspaces(ListOrShow),
    /// See quotas, with what is used of each.
    #[command(subcommand)]
    Quotas(ListOrShow),
    /// Ask for another quota.
    #[command(subcommand)]
    Quota(commands::quota::Quota),
    /// Ask for another service level.
    #[command(subcommand)]
    Sla(commands::quota::Sla),
    /// Say that GPUs run short.
    #[command(subcommand)]
    Capacity(commands::quota::Capacity),
    /// Report what went wrong.
    #[command(subcommand)]
    Incident(commands::quota::Incident),
    /// See who has lent GPUs to whom, and until when.
    #[command(subcommand)]
    Loans(ListOrShow),
    /// See what GPUs workspaces are promised.
    #[command(subcommand)]
    Reservations(ListOrShow),
    /// Promise GPUs to a workspace.
    #[command(subcommand)]
    Reservation(commands::reservation::Reservation),
    /// See what may not be destroyed.
    #[command(subcommand)]
    Holds(ListOrShow),
    /// Say what may not be destroyed.
    #[command(subcommand)]
    Hold(commands::hold::Hold),
    /// See workloads: where each runs, or since when it waits.
    #[command(subcommand)]
    Workloads(ListOrShow),
    /// Ask for GPUs for a workload, or say that it has ended.
    #[command(subcommand)]
    Workload(commands::workload::Workload),
    /// See what workloads were told, and why.
    #[command(subcommand)]
    Decisions(ListOrShow),
    /// See what is looked after by the clock, or do it now.
    #[command(subcommand)]
    Sweep(commands::sweep::Sweep),
    /// See what is started when and what became of it, and say so.
    #[command(subcommand)]
    Schedules(commands::schedules::Schedules),
    /// See certificates of destruction.
    #[command(subcommand)]
    Certificates(ListOrShow),
    /// See whether anything of closed tenants is there, as the last look at each found it.
    #[command(subcommand)]
    ClosedTenants(ListOrShow),
    /// See executions, and act on one.
    #[command(subcommand)]
    Executions(commands::executions::Executions),
    /// Mend an execution that cannot go on by itself.
    #[command(subcommand)]
    Repair(commands::repair::Repair),
    /// See commands that wait for a second person, and agree to one.
    #[command(subcommand)]
    Proposals(commands::repair::Proposals),
    /// List what somebody has to look at: since when, who, and what to do.
    Stuck(commands::executions::Stuck),
    /// See what executions that were closed by force left behind, and release it.
    #[command(subcommand)]
    Leftovers(commands::leftovers::Leftovers),
    /// See commands that were given to many executions at once.
    #[command(subcommand)]
    Batch(commands::batch::Batch),
    /// List the servers that share the store: whether each is alive, and what it holds.
    Engines(WatchArgs),
    /// See and set how much may be asked of a cluster, a tenant or an action; close and open one.
    #[command(subcommand)]
    Limits(commands::limits::Limits),
    /// See through which channels people are told, and what became of it; try one; send dead letters again.
    #[command(subcommand)]
    Notify(commands::notify::Notify),
    /// See what waits for people, and decide.
    #[command(subcommand)]
    Approvals(commands::approvals::Approvals),
    /// Let somebody decide in your place, for a time.
    #[command(subcommand)]
    Delegations(commands::delegations::Delegations),
    /// Say who belongs to groups that approvals ask.
    #[command(subcommand)]
    Group(commands::group::Group),
    /// Say who may use the service.
    #[command(subcommand)]
    User(commands::user::User),
    /// Look at workflows, and at executions of their earlier versions.
    #[command(subcommand)]
    Workflow(commands::workflow::Workflow),
    /// Look after a store, without a server.
    #[command(subcommand)]
    Store(commands::store::Store),
    /// Look at policy documents, and put one into force.
    #[command(subcommand)]
    Policy(commands::policy::Policy),
    /// Say who may do what, and by which policies of access.
    #[command(subcommand)]
    Access(commands::access::Access),
    /// Say who has to give GPUs back.
    #[command(subcommand)]
    Reclaim(commands::reclaim::Reclaim),
    /// Verify, show and print certificates of destruction, without a server.
    #[command(subcommand)]
    Certificate(commands::certificate::Certificate),
    /// See who did what, and verify a file of it without a server.
    #[command(subcommand)]
    Audit(commands::audit::Audit),
    /// See the public keys that verify certificates and the audit.
    #[command(subcommand)]
    Keys(commands::keys::Keys),
    /// See what a tenant used, with list prices; write it to a file.
    #[command(subcommand)]
    Usage(commands::usage::Usage),
    /// See which finished executions are kept no longer, and forget them.
    #[command(subcommand)]
    Retention(commands::retention::Retention),
    /// Look at configuration, without a server.
    #[command(subcommand)]
    Config(commands::config::Config),
    /// Show the GPUs of this machine.
    Gpus,
    /// Run on a node with GPUs, and do there what servers ask for.
    Agent(commands::agent::Agent),
    /// List the agents of nodes that this server has heard: whether each is there, and what it sees.
    Agents(WatchArgs),
    /// Replay a trace or a scenario on a simulated clock and cluster, without a server.
    Simulate(commands::simulate::Simulate),
    /// Watch Tenure onboard a tenant, be killed, and go on; leaves nothing behind.
    Demo,
    #[command(flatten)]
    Aid(commands::help::HelpCommand),
}

/// Every command with its usage and what it does, for documents and tests.
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
