//! Checks of the connection to the server: address, TLS, clock, version.

use crate::{
    client::contexts::{self, Target},
    commands::doctor::finding::Findings,
    common::{Common, Source},
    output::timestamps,
};
use api::tls;
use backends::outbound;
use chrono::{DateTime, Utc};
use program::{exit::Failure, files};
use reqwest::{Response, StatusCode, redirect::Policy, tls::TlsInfo};
use serde_json::Value;
use std::{error::Error, path::Path, time::Duration};

/// The difference of the clocks above which the check warns, in seconds. The server sends whole seconds.
const APART: i64 = 2;
/// The difference of the clocks above which the check fails, in seconds.
const FAR_APART: i64 = 30;
/// The days before the end of a certificate at which it should be renewed.
pub(super) const RENEW_DAYS: i64 = 14;

/// A server that answered.
pub(super) struct Served {
    base: String,
    token: Option<String>,
    http: reqwest::Client,
}

/// Checks the server. Returns `None` if it does not answer.
pub(super) async fn look(common: &Common, patience: Duration, found: &mut Findings) -> Option<Served> {
    let target = match contexts::target(common) {
        Ok(target) => target,
        Err(failure) => {
            found.failed("server", failure.message, "correct the contexts file, or use --server and --token");
            return None;
        }
    };
    let trusted = target.ca_file.as_ref().map(|found| found.value.as_path());
    let http = match http(trusted, patience) {
        Ok(http) => http,
        Err(failure) => {
            found.failed(
                "server",
                failure.message,
                "check the system's certificates and the file of --ca-file",
            );
            return None;
        }
    };
    let base = target.server.value.clone();
    let served = Served { base, token: target.token.as_ref().map(|token| token.value.clone()), http };
    let answer = match served.ask("/version").await {
        Ok(answer) => answer,
        Err(error) => {
            unreached(common, &target, &error, found);
            return None;
        }
    };
    reached(&target, &answer, found);
    version(answer, found).await;
    served.ready(found).await;
    if served.who(&target, found).await {
        served.store(found).await;
        served.stuck(found).await;
        served.policy(found).await;
        served.engines(found).await;
        served.clusters(found).await;
        served.limits(found).await;
    }
    served.audit(found).await;
    Some(served)
}

fn http(trusted: Option<&Path>, patience: Duration) -> Result<reqwest::Client, Failure> {
    let builder = outbound::client().redirect(Policy::limited(3));
    let builder = builder.connect_timeout(patience).timeout(patience).tls_info(true);
    let builder = builder.tls_certs_merge(files::authorities(trusted)?);
    builder.user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION"))).build().map_err(Failure::other)
}

/// Reports that the server does not answer: a failure if a server was named, otherwise a warning.
fn unreached(common: &Common, target: &Target, error: &reqwest::Error, found: &mut Findings) {
    let server = &target.server;
    let named = common.said.server != Source::Nowhere || target.context.is_some();
    if !named && error.is_connect() {
        let says = format!("no server answers at {}; checked only this machine", server.value);
        return found.warning(
            "server",
            says,
            "start one with `tenure serve`, or name one with --server or --context",
        );
    }
    let says = format!("{} (from {}) cannot be reached: {}", server.value, server.by, whole(error));
    let remedy = if error.is_timeout() {
        "check firewalls and the load of the server; --timeout sets a longer wait"
    } else if server.value.starts_with("https:") {
        "check that it runs, that its name resolves, and that this machine trusts its certificate; --ca-file adds a certificate authority"
    } else {
        "check that it runs and that its name resolves"
    };
    found.failed("server", says, remedy);
}

/// Returns an error with its causes.
pub(super) fn whole(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}

/// Reports the connection, TLS and the clock.
fn reached(target: &Target, answer: &Response, found: &mut Findings) {
    let server = &target.server;
    found.ok("server", format!("{} (from {}) answers", server.value, server.by));
    let secure = answer.url().scheme() == "https";
    if secure {
        let certificate = answer.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate);
        certificate_of(certificate.and_then(tls::expiry), found);
    } else if !contexts::is_loopback(&server.value) {
        let says = "the connection has no TLS, so the token can be read on the network";
        found.warning(
            "server",
            says,
            "enable TLS (`tls.certificate_file`), or use a proxy with TLS and its https address",
        );
    }
    let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
    let Some(theirs) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) else { return };
    clocks((theirs.to_utc() - timestamps::now()).num_seconds(), found);
}

fn certificate_of(ends: Option<DateTime<Utc>>, found: &mut Findings) {
    let Some(ends) = ends else {
        let says = "TLS; the end of the certificate cannot be read";
        return found.warning("server", says, "check it: `openssl s_client -connect HOST:443`");
    };
    let left = (ends - timestamps::now()).num_days();
    let says = format!("TLS; the certificate is valid until {} ({left} days)", ends.to_rfc3339());
    if left < RENEW_DAYS {
        return found.warning("server", says, "renew it before then");
    }
    found.ok("server", says);
}

/// Reports the difference of the clocks. `offset` is the number of seconds by which the server's clock is ahead.
pub(super) fn clocks(offset: i64, found: &mut Findings) {
    let says = match offset {
        0 => "the server's clock and this one agree".to_owned(),
        1.. => format!("the server's clock is {offset} s ahead of this one"),
        ..0 => format!("the server's clock is {} s behind this one", offset.unsigned_abs()),
    };
    let remedy = "synchronise both by NTP; leases, schedules and deadlines use the server's clock";
    if offset.abs() > FAR_APART {
        found.failed("clock", says, remedy);
    } else if offset.abs() > APART {
        found.warning("clock", says, remedy);
    } else {
        found.ok("clock", says);
    }
}

async fn version(answer: Response, found: &mut Findings) {
    let status = answer.status();
    let own = env!("CARGO_PKG_VERSION");
    let told = json(answer).await;
    let theirs = told.get("version").and_then(Value::as_str).filter(|_| status.is_success());
    match theirs {
        Some(theirs) if theirs == own => {
            found.ok("server", format!("version {own}, the same as this program"))
        }
        Some(theirs) => {
            let says = format!("version {theirs}; this program has version {own}");
            found.warning("server", says, "use a program of the server's version");
        }
        None => {
            let says = format!("the answer ({status}) is not from a Tenure server");
            found.failed(
                "server",
                says,
                "check which program listens there, or name another server with --server",
            );
        }
    }
}

/// Returns an answer as JSON, or null if it is not JSON or too long.
async fn json(answer: Response) -> Value {
    let body = outbound::body(answer, outbound::PAGE).await.unwrap_or_default();
    serde_json::from_slice(&body).unwrap_or_default()
}

impl Served {
    pub(super) async fn ask(&self, path: &str) -> Result<Response, reqwest::Error> {
        let mut request = self.http.get(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send().await
    }

    /// Returns the status and the JSON of an answer. Without an answer, the status is 504 and the JSON is null.
    pub(super) async fn read(&self, path: &str) -> (StatusCode, Value) {
        let Ok(answer) = self.ask(path).await else { return (StatusCode::GATEWAY_TIMEOUT, Value::Null) };
        let status = answer.status();
        (status, json(answer).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::State;

    fn state(say: impl Fn(&mut Findings)) -> State {
        let mut found = Findings::default();
        say(&mut found);
        assert_eq!(found.0.len(), 1, "{found:?}");
        found.0[0].state
    }

    #[test]
    fn a_larger_clock_difference_is_more_severe() {
        for (offset, wanted) in [
            (0, State::Ok),
            (-2, State::Ok),
            (3, State::Warning),
            (-30, State::Warning),
            (31, State::Failed),
            (-86_400, State::Failed),
        ] {
            assert_eq!(state(|found| clocks(offset, found)), wanted, "{offset}");
        }
    }

    #[test]
    fn a_certificate_is_renewed_in_time() {
        let in_days = |days| Some(timestamps::now() + chrono::Duration::days(days));
        assert_eq!(state(|found| certificate_of(in_days(90), found)), State::Ok);
        assert_eq!(state(|found| certificate_of(in_days(13), found)), State::Warning);
        assert_eq!(state(|found| certificate_of(None, found)), State::Warning);
    }
}
