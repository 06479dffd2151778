//! `tenure agent`.

use crate::{
    common::{Common, Format},
    output::{self, style::Stream},
    secret::SecretTo,
};
use agent::{self, Options};
use clap::{Args, Subcommand};
use program::{
    exit::{Exit, Failure},
    token::Token,
};
use serde_json::json;

/// What `agent` takes. The servers are named with `--server`, with commas between.
#[derive(Clone, Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) command: Option<AgentCommand>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Draw a key for the agents of a cluster, and print it with its hash: the key is for the nodes, the hash for the servers.
    Key {
        #[command(flatten)]
        to: SecretTo,
    },
}

pub(crate) fn run(common: &Common, own: &Agent) -> Result<Exit, Failure> {
    match &own.command {
        Some(AgentCommand::Key { to }) => key(common, to),
        None => agent::run(
            &own.options,
            common.server.as_deref(),
            common.ca_file.as_deref(),
            Stream::Err.is_coloured(),
        ),
    }
}

fn key(common: &Common, to: &SecretTo) -> Result<Exit, Failure> {
    let place = to.prepare()?;
    let token = Token::draw().map_err(Failure::other)?;
    let (key, hash) = (token.reveal(), token.hash());
    if matches!(common.output, Format::Table) {
        output::note(&format!(
            "keep the key in the file that `tenure agent --key-file` names, on the cluster's nodes;\n\
             its hash goes into the file of targets: clusters: {{ CLUSTER: {{ agents: {{ keys: [{hash}] }} }} }}\n\
             hash: {hash}"
        ));
    }
    place.hand_over(common, "key of the agents", &json!({ "key": key, "hash": hash }), "key")?;
    Ok(Exit::Done)
}
