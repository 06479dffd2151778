//! `tenure tenant`: onboards, offboards and shows tenants.

use crate::{
    client::{Body, Client},
    common::Common,
    execution::start,
    output,
    resources::{self, kinds::TENANTS},
};
use clap::Subcommand;
use program::{
    exit::{Exit, Failure},
    files,
};
use serde_json::json;
use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
};

/// Tenant commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Tenant {
    /// Request a tenant from a policy document.
    Onboard {
        /// Document (YAML); `-` reads standard input.
        #[arg(short, long)]
        file: PathBuf,
        #[command(flatten)]
        starting: start::StartArgs,
    },
    /// Offboard a tenant and destroy its data.
    Offboard {
        /// Tenant name.
        name: String,
        /// Basis: `contract_end`, `tenant_request`, `erasure_request` or `legal_order`.
        #[arg(long, default_value = "tenant_request")]
        basis: String,
        /// Contract clause or order number.
        #[arg(long, default_value = "")]
        reference: String,
        /// Reason.
        #[arg(long, default_value = "")]
        reason: String,
        /// Tenant name again; required without a terminal.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
        /// The tenant is closed: offboard what a look at it finds and what its certificate excepts.
        #[arg(long)]
        remaining: bool,
        #[command(flatten)]
        starting: start::StartArgs,
    },
    /// Classify the data of an unclassified asset.
    Classify {
        /// Tenant.
        name: String,
        /// Asset, as named by the execution.
        asset: String,
        /// Class, such as `workload`, `model`, `secret`, `backup` or `telemetry`.
        #[arg(long)]
        class: String,
        /// Reason for the certificate.
        #[arg(long)]
        reason: String,
    },
    /// Show a tenant.
    Show {
        /// Tenant name.
        name: String,
    },
}

pub(crate) async fn run(common: &Common, command: Tenant) -> Result<Exit, Failure> {
    match command {
        Tenant::Show { name } => resources::show(common, &TENANTS, &name).await,
        Tenant::Offboard { name, basis, reference, reason, confirm, remaining, starting } => {
            if !starting.dry_run.is_wanted() {
                confirmed(&name, confirm)?;
            }
            let mut body =
                json!({ "tenant": name, "basis": basis, "reference": reference, "reason": reason });
            // Absent otherwise, so that an older server takes the request.
            if let Some(fields) = body.as_object_mut().filter(|_| remaining) {
                fields.insert("remaining".into(), json!(true));
            }
            start::start(common, "/v1/offboardings", "", Body::json(&body), starting).await
        }
        Tenant::Classify { name, asset, class, reason } => {
            let body = json!({ "tenant": name, "asset": asset, "class": class, "reason": reason });
            let said = Client::of(common)?.post("/v1/classifications", Body::json(&body)).await?.value()?;
            output::one(common.output, &said)?;
            Ok(Exit::Done)
        }
        Tenant::Onboard { file, starting } => {
            let body =
                Body { media: "application/yaml", text: files::read(&file)?, key: None, labels: Vec::new() };
            start::start(common, "/v1/tenants", "", body, starting).await
        }
    }
}

/// Asks for the tenant's name again before its data is destroyed.
fn confirmed(name: &str, confirm: Option<String>) -> Result<(), Failure> {
    let again = match confirm {
        Some(again) => again,
        None if !io::stdin().is_terminal() => {
            let why = format!(
                "--confirm: confirmation needs a terminal, because the data of {name} will be destroyed: check with --dry-run, then add `--confirm {name}`"
            );
            return Err(Failure::new(Exit::Usage, why));
        }
        None => {
            output::note(&format!("the data of {name} will be destroyed. Type its name to continue:"));
            let mut line = String::new();
            io::stdin().read_line(&mut line).map_err(Failure::other)?;
            line.trim().to_owned()
        }
    };
    if again == name {
        return Ok(());
    }
    let why = format!("--confirm: {again:?} is not {name}; no request was sent");
    Err(Failure::new(Exit::Usage, why))
}
