//! `tenure agent`: runs the node agent, and generates keys for agents.

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

/// Arguments of `agent`. `--server` names the servers, separated by commas.
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
    /// Generate a key for a cluster's agents.
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
            "store the key on the cluster's nodes, in the file that `tenure agent --key-file` names;\n\
             add the hash to the file of targets: clusters: {{ CLUSTER: {{ agents: {{ keys: [{hash}] }} }} }}\n\
             hash: {hash}"
        ));
    }
    place.hand_over(common, "key for the cluster's agents", &json!({ "key": key, "hash": hash }), "key")?;
    Ok(Exit::Done)
}
