//! `tenure doctor`: checks the installation and gives a remedy for each fault.
//!
//! Invariant: it changes nothing. It works with and without a running server.

mod finding;
mod local;
mod oidc;
mod outbound;
mod server;
mod server_status;
mod targets;

use crate::{
    commands::doctor::finding::{Finding, Findings, State},
    common::{Common, Format},
    output::{
        self,
        style::{Paint, Stream},
    },
};
use clap::Args;
use program::exit::{Exit, Failure};
use serde_json::json;
use std::time::Duration;
use workflows::policy::duration;

/// The width of the longest name of a check.
const WIDEST: usize = "identity provider".len();

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Check this machine only; call no server or target.
    #[arg(long)]
    offline: bool,
    /// Longest wait for each answer.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = span)]
    timeout: Duration,
}

fn span(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "write a span such as 5s".to_owned())
}

pub(crate) async fn run(common: &Common, doctor: Doctor) -> Result<Exit, Failure> {
    let mut found = Findings::default();
    let config = local::configuration(common, &mut found);
    let served = if doctor.offline {
        found.ok("server", "not checked (--offline)");
        None
    } else {
        server::look(common, doctor.timeout, &mut found).await
    };
    if let Some(config) = &config {
        let holder = local::data(config, &mut found);
        local::store(config, holder, served.is_some(), doctor.timeout, &mut found).await;
        let asks = (!doctor.offline).then_some(doctor.timeout);
        oidc::look(config, asks, &mut found).await;
        outbound::look(config, asks, &mut found).await;
        if !doctor.offline {
            targets::look(config, doctor.timeout, &mut found).await;
        }
    }
    local::clock(doctor.timeout, &mut found).await;
    told(common, &found)
}

fn told(common: &Common, found: &Findings) -> Result<Exit, Failure> {
    let (failed, warnings) = (found.count(State::Failed), found.count(State::Warning));
    let exit = if failed > 0 { Exit::Failed } else { Exit::Done };
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(
            format,
            &json!({ "ok": failed == 0, "failed": failed, "warnings": warnings, "checks": found.0 }),
        )?,
        Format::Table => {
            let lines: String = found.0.iter().map(line).collect();
            let ok = found.count(State::Ok);
            output::say(&format!("{lines}{ok} ok, {warnings} warnings, {failed} failed\n"))?;
        }
    }
    Ok(exit)
}

fn line(finding: &Finding) -> String {
    let (word, paint) = match finding.state {
        State::Ok => ("ok     ", Paint::Green),
        State::Warning => ("warning", Paint::Yellow),
        State::Failed => ("failed ", Paint::Red),
    };
    let says: Vec<String> = finding.says.lines().map(output::sanitize).collect();
    let below = " ".repeat(word.len() + WIDEST + 4);
    let mut text = format!(
        "{}  {:WIDEST$}  {}\n",
        paint.on(Stream::Out, word),
        finding.check,
        says.join(&format!("\n{below}"))
    );
    if let Some(remedy) = &finding.remedy {
        text.push_str(&format!("{below}what to do: {}\n", output::sanitize(remedy)));
    }
    text
}
