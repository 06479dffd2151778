//! `tenure keys`: the public keys that verify the certificates and the audit of a server.

use crate::{
    client::{Client, block_on},
    common::{Common, Format},
    output,
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::Value;

/// Public key commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Show public signing keys with fingerprints to compare.
    Show,
}

pub(crate) fn run(common: &Common, command: Keys) -> Result<Exit, Failure> {
    match command {
        Keys::Show => block_on(show(common)),
    }
}

async fn show(common: &Common) -> Result<Exit, Failure> {
    // The unchanged answer, because a PEM key has several lines. They are sanitised below.
    let page = Client::of(common)?.get("/v1/keys?limit=1000").await?.exact()?;
    let items = page.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    match common.output {
        Format::Json | Format::Yaml => {
            let columns = [("fingerprint", "/id"), ("algorithm", "/algorithm"), ("signs", "/signs")];
            output::list(common.output, items, &columns)?;
        }
        Format::Table => {
            for item in &items {
                let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
                output::say(&format!(
                    "# fingerprint {}\n{}",
                    output::sanitize(text("id")),
                    pem(text("pem"))
                ))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Returns the lines of a PEM file, each sanitised. A key stays valid.
fn pem(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", output::sanitize(line))).collect()
}
