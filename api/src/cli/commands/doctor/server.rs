//! The server that is asked, who asks it, and what it says of itself.

use super::Findings;
use crate::{
    cli::{
        client::contexts::{self, Target},
        command::Common,
        common::Place,
        files,
        output::{self, timestamps},
    },
    exit::Failure,
    tls,
};
use chrono::{DateTime, Utc};
use reqwest::{Response, StatusCode, tls::TlsInfo};
use serde_json::Value;
use std::{error::Error, path::Path, time::Duration};

/// How far clocks may be apart before it is said; the server tells its own to the second.
const APART: i64 = 2;
/// From when on leases, schedules and approvals are seen to end at other times than people expect.
const FAR_APART: i64 = 30;
/// How long before its end a certificate is to be renewed.
pub(super) const RENEW_DAYS: i64 = 14;
/// How long before its end a token is to be replaced, in minutes.
const ENDS_SOON: i64 = 30;
/// How far the audit may be behind, in seconds; as `docs/operations.md` has it for an alarm.
const AUDIT_LAG: f64 = 60.0;

/// A server that answers.
pub(super) struct Served {
    base: String,
    token: Option<String>,
    http: reqwest::Client,
}

/// Looks at the server that is named, if there is one; `None` where none answers.
pub(super) async fn look(common: &Common, patience: Duration, found: &mut Findings) -> Option<Served> {
    let target = match contexts::target(common) {
        Ok(target) => target,
        Err(failure) => {
            found.failed(
                "server",
                failure.message,
                "mend the file of contexts, or name --server and --token",
            );
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
                "the certificates that this machine trusts, or those of --ca-file, cannot be read",
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
        served.engines(found).await;
    }
    served.audit(found).await;
    Some(served)
}

fn http(trusted: Option<&Path>, patience: Duration) -> Result<reqwest::Client, Failure> {
    let builder = reqwest::Client::builder().connect_timeout(patience).timeout(patience).tls_info(true);
    let builder = builder.tls_certs_merge(files::authorities(trusted)?);
    builder.user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION"))).build().map_err(Failure::other)
}

/// Nobody answers: a failure where a server was named, and the way it is where none was.
fn unreached(common: &Common, target: &Target, error: &reqwest::Error, found: &mut Findings) {
    let server = &target.server;
    let named = common.said.server != Place::Nowhere || target.context.is_some();
    if !named && error.is_connect() {
        let says = format!("none answers at {}: looked at this machine alone", server.value);
        return found.warning(
            "server",
            says,
            "start one with `tenure serve`, or name one with --server or --context",
        );
    }
    let says = format!("{} (by {}) cannot be reached: {}", server.value, server.by, whole(error));
    let remedy = if error.is_timeout() {
        "see whether a firewall is in the way, and whether it is overloaded; --timeout waits for longer"
    } else if server.value.starts_with("https:") {
        "see whether it runs, whether its name is known, and whether this machine trusts its certificate: --ca-file names an authority of yours"
    } else {
        "see whether it runs, and whether its name is known"
    };
    found.failed("server", says, remedy);
}

/// An error with its causes.
pub(super) fn whole(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}

/// What the connection and the head of an answer tell.
fn reached(target: &Target, answer: &Response, found: &mut Findings) {
    let server = &target.server;
    found.ok("server", format!("{} (by {}) answers", server.value, server.by));
    let secure = answer.url().scheme() == "https";
    if secure {
        let certificate = answer.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate);
        certificate_of(certificate.and_then(tls::ends), found);
    } else if !contexts::is_here(&server.value) {
        let says = "it is spoken to in the clear: whoever is on the way reads the token";
        found.warning("server", says, "let it speak TLS (`tls.certificate_file`), or put a proxy with TLS before it, and name it with https");
    }
    let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
    let Some(theirs) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) else { return };
    clocks((theirs.to_utc() - timestamps::now()).num_seconds(), found);
}

fn certificate_of(ends: Option<DateTime<Utc>>, found: &mut Findings) {
    let Some(ends) = ends else {
        let says = "TLS, with a certificate whose end cannot be read";
        return found.warning("server", says, "look at it: `openssl s_client -connect HOST:443`");
    };
    let left = (ends - timestamps::now()).num_days();
    let says = format!("TLS; the certificate is valid until {}, {left} days", ends.to_rfc3339());
    if left < RENEW_DAYS {
        return found.warning("server", says, "renew it before then");
    }
    found.ok("server", says);
}

/// `offset`: by how many seconds the server's clock is ahead.
pub(super) fn clocks(offset: i64, found: &mut Findings) {
    let says = match offset {
        0 => "the server's clock and this one agree".to_owned(),
        1.. => format!("the server's clock is {offset} s ahead of this one"),
        ..0 => format!("the server's clock is {} s behind this one", offset.unsigned_abs()),
    };
    let remedy = "have both kept by NTP: leases, schedules and deadlines go by the server's clock";
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
    let told = answer.json::<Value>().await.unwrap_or_default();
    let theirs = told.get("version").and_then(Value::as_str).filter(|_| status.is_success());
    match theirs {
        Some(theirs) if theirs == own => {
            found.ok("server", format!("version {own}, the same as this program's"))
        }
        Some(theirs) => {
            let says = format!("version {theirs}, and this program is {own}");
            found.warning(
                "server",
                says,
                "use the program of the server's version: it knows the same commands and codes",
            );
        }
        None => {
            let says = format!("what answers there ({status}) does not say that it is tenure");
            found.failed("server", says, "see what listens there, or name another with --server");
        }
    }
}

impl Served {
    async fn ask(&self, path: &str) -> Result<Response, reqwest::Error> {
        let mut request = self.http.get(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        request.send().await
    }

    /// An answer as JSON, with its status; what is no answer is no JSON either.
    async fn read(&self, path: &str) -> (StatusCode, Value) {
        let Ok(answer) = self.ask(path).await else { return (StatusCode::GATEWAY_TIMEOUT, Value::Null) };
        let status = answer.status();
        (status, answer.json().await.unwrap_or_default())
    }

    async fn ready(&self, found: &mut Findings) {
        let (status, told) = self.read("/readyz?verbose").await;
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status) {
            return self.ready_in_short(found).await;
        }
        let checks = told.get("checks").and_then(Value::as_array).cloned().unwrap_or_default();
        if checks.is_empty() {
            return found.failed(
                "server",
                "it does not say whether it is ready",
                "see its log, and `/readyz`",
            );
        }
        for check in checks {
            let said = |name: &str| check.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let says = format!("{}: {}", said("name"), said("says"));
            if check.get("ok") == Some(&Value::Bool(true)) {
                found.ok("server", says);
            } else {
                found.failed("server", says, "docs/operations.md, first look; the server's log has the rest");
            }
        }
    }

    /// Whether it works, for who is not told by which checks.
    async fn ready_in_short(&self, found: &mut Findings) {
        let Ok(answer) = self.ask("/readyz").await else { return };
        if answer.status().is_success() {
            return found.ok("server", "ready; what its checks say is told to those who may read_metrics");
        }
        let says = answer.text().await.unwrap_or_default().trim().replace('\n', "; ");
        found.failed("server", says, "docs/operations.md, first look; the server's log has the rest");
    }

    /// Who asks. Whether anything more can be asked.
    async fn who(&self, target: &Target, found: &mut Findings) -> bool {
        let Some(token) = &target.token else {
            let says = format!("none is named, and there is none in {}", target.token_file.display());
            found.warning("token", says, "use --token, TENURE_TOKEN, --data or a context with a token");
            return false;
        };
        let (status, me) = self.read("/v1/me").await;
        if !status.is_success() {
            let why = me.get("detail").and_then(Value::as_str).unwrap_or("no reason was given");
            let says = format!("the one by {} is not taken ({}): {why}", token.by, status.as_u16());
            let remedy = "where people sign in through a provider, `tenure login`; or ask an admin for another: `tenure user remove`, then `tenure user add`";
            found.failed("token", says, remedy);
            return false;
        }
        let said = |name: &str| me.get(name).and_then(Value::as_str).map(output::harmless);
        let roles: Vec<&str> = me
            .get("roles")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let bound = said("tenant").map(|tenant| format!(", for tenant {tenant} alone")).unwrap_or_default();
        let name = said("name").unwrap_or_default();
        let who = format!("{name} with {}{bound} (by {})", roles.join(", "), token.by);
        let ends = me.get("ends_at").and_then(Value::as_str).and_then(timestamps::parse);
        lasting(&who, &name, ends, found);
        true
    }

    async fn store(&self, found: &mut Findings) {
        let (status, store) = self.read("/v1/store").await;
        // Not everybody may ask.
        if status == StatusCode::FORBIDDEN {
            return;
        }
        let said = |path: &str| store.pointer(path).and_then(Value::as_str).unwrap_or_default();
        match store.get("held").filter(|held| held.is_object()) {
            Some(_) => {
                let says = format!("held since {}: {}", said("/held/since"), said("/held/why"));
                found.warning("store", says, "nothing is performed until it is let go: `tenure store held`");
            }
            None if status.is_success() => {
                let tasks = store.get("tasks").and_then(Value::as_u64).unwrap_or(0);
                found.ok("store", format!("{}, by the server; not held, {tasks} tasks wait", said("/kind")));
            }
            None => found.failed(
                "store",
                format!("the server answers {status}"),
                "see `/readyz` and the server's log",
            ),
        }
    }

    async fn stuck(&self, found: &mut Findings) {
        let (status, listed) = self.read("/v1/stuck?limit=1000").await;
        let items = listed.get("items").and_then(Value::as_array).filter(|_| status.is_success());
        let Some(items) = items else { return };
        let channels =
            listed.get("channels").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if let Some(first) = channels.first() {
            let name = first.get("id").and_then(Value::as_str).unwrap_or_default();
            let dead = channels.iter().filter_map(|channel| channel.get("dead")?.as_u64()).sum::<u64>();
            let says = format!("nobody took {dead} notifications, such as those of channel {name}");
            found.warning("executions", says, "mend the receiver, then `tenure notify resend CHANNEL --all`");
        }
        if items.is_empty() {
            return found.ok("executions", "none waits for an operator");
        }
        let id = items.first().and_then(|item| item.get("id")).and_then(Value::as_str).unwrap_or_default();
        let more = if listed.get("next").is_some_and(Value::is_string) { " or more" } else { "" };
        let says = format!("{}{more} wait for somebody, such as {id}", items.len());
        found.warning("executions", says, "`tenure stuck` says since when, who, and what to do");
    }

    async fn engines(&self, found: &mut Findings) {
        let (status, listed) = self.read("/v1/engines?limit=1000").await;
        let items = listed.get("items").and_then(Value::as_array).filter(|_| status.is_success());
        let Some(items) = items else { return };
        let is = |item: &&Value, state: &str| item.get("state").and_then(Value::as_str) == Some(state);
        let (alive, silent) = (
            items.iter().filter(|item| is(item, "alive")).count(),
            items.iter().filter(|item| is(item, "silent")).count(),
        );
        let says = format!("{alive} servers share the store, {silent} of them silent");
        match silent {
            0 if alive < 2 => {}
            0 => found.ok("server", format!("{alive} servers share the store")),
            _ => found.warning(
                "server",
                says,
                "`tenure engines` names them; what they held is taken over when its lease ends",
            ),
        }
    }

    /// How far the audit is behind, by the metrics.
    async fn audit(&self, found: &mut Findings) {
        let Ok(answer) = self.ask("/metrics").await else { return };
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status()) {
            return;
        }
        let text = answer.text().await.unwrap_or_default();
        match metric(&text, "tenure_audit_lag_seconds") {
            Some(lag) if lag > AUDIT_LAG => found.warning(
                "audit",
                format!("what was done is sealed {lag:.0} s late"),
                "see the server's log for `the audit cannot be sealed`",
            ),
            Some(lag) => found.ok("audit", format!("sealed up to {lag:.0} s ago")),
            None => found.warning("audit", "the metrics do not say how far it is behind", "see `/metrics`"),
        }
    }
}

/// How long the token lasts that `who` came with, as the server says.
fn lasting(who: &str, name: &str, ends: Option<DateTime<Utc>>, found: &mut Findings) {
    let is_session = name.starts_with("oidc:");
    let remedy = if is_session {
        "sign in again before then: `tenure login`"
    } else {
        "ask an admin for another before then"
    };
    match ends {
        Some(ends) => {
            let says = format!(
                "{who}; it ends {} ({})",
                timestamps::spoken(ends, timestamps::now()),
                ends.to_rfc3339()
            );
            if ends - timestamps::now() < chrono::Duration::minutes(ENDS_SOON) {
                found.warning("token", says, remedy);
            } else {
                found.ok("token", says);
            }
        }
        None if is_session => {
            found.ok("token", format!("{who}; it ends with the session: `tenure login` begins another"))
        }
        None => found.ok("token", format!("{who}; it ends when an admin ends it, and not by itself")),
    }
}

/// The value of a metric without labels.
fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn state(say: impl Fn(&mut Findings)) -> State {
        let mut found = Findings::default();
        say(&mut found);
        assert_eq!(found.0.len(), 1, "{found:?}");
        found.0[0].state
    }

    #[test]
    fn clocks_that_are_apart_are_told_the_louder_the_further() {
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

    #[test]
    fn a_token_that_ends_is_not_said_to_last() {
        let says = |name: &str, minutes: Option<i64>| {
            let mut found = Findings::default();
            let ends = minutes.map(|minutes| timestamps::now() + chrono::Duration::minutes(minutes));
            lasting("who", name, ends, &mut found);
            found.0.remove(0)
        };
        let last = says("ada", None);
        assert!(last.state == State::Ok && last.says.contains("not by itself"), "{last:?}");
        let session = says("oidc:ada", None);
        assert!(session.says.contains("ends with the session"), "{session:?}");
        let later = says("oidc:ada", Some(125));
        assert!(later.state == State::Ok && later.says.contains("it ends in 2h"), "{later:?}");
        let soon = says("oidc:ada", Some(10));
        assert_eq!(soon.state, State::Warning);
        assert!(soon.remedy.is_some_and(|remedy| remedy.contains("`tenure login`")));
        assert!(says("robot", Some(10)).remedy.is_some_and(|remedy| remedy.contains("admin")));
    }

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# TYPE tenure_audit_lag_seconds gauge\ntenure_audit_lag_seconds_max 9\ntenure_audit_lag_seconds 1.5\n";
        assert_eq!(metric(text, "tenure_audit_lag_seconds"), Some(1.5));
        assert_eq!(metric(text, "tenure_audit_lag"), None);
    }
}
