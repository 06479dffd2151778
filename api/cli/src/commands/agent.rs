//! `tenure agent`.

use crate::{
    common::{Common, Format},
    output::{self, style::Stream},
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
    Key,
}

pub(crate) fn run(common: &Common, own: &Agent) -> Result<Exit, Failure> {
    match own.command {
        Some(AgentCommand::Key) => key(common),
        None => agent::run(
            &own.options,
            common.server.as_deref(),
            common.ca_file.as_deref(),
            Stream::Err.is_coloured(),
        ),
    }
}

fn key(common: &Common) -> Result<Exit, Failure> {
    let token = Token::draw().map_err(Failure::other)?;
    let (key, hash) = (token.reveal(), token.hash());
    match common.output {
        format @ (Format::Json | Format::Yaml) => {
            output::one(format, &json!({ "key": key, "hash": hash }))?;
        }
        Format::Table => output::say(&format!(
            "key:  {key}\nhash: {hash}\nthe key is shown this once: keep it in the file that `tenure agent --key-file` names, on the cluster's nodes;\n\
             the hash goes into the file of targets: clusters: {{ CLUSTER: {{ agents: {{ keys: [{hash}] }} }} }}\n"
        ))?,
    }
    Ok(Exit::Done)
}
