//! Checks of the server's own reports: readiness, token, store, stuck executions, policy, audit.

use crate::{
    client::contexts::Target,
    commands::doctor::{finding::Findings, server::Served},
    output::{self, timestamps},
};
use backends::outbound;
use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use serde_json::Value;

/// The minutes before the end of a token at which it should be replaced.
const ENDS_SOON: i64 = 30;
/// The longest delay of the audit, in seconds; the same as the alert in `docs/operations.md`.
const AUDIT_LAG: f64 = 60.0;

impl Served {
    pub(super) async fn ready(&self, found: &mut Findings) {
        let (status, told) = self.read("/readyz?verbose").await;
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status) {
            return self.ready_in_short(found).await;
        }
        let checks = told.get("checks").and_then(Value::as_array).cloned().unwrap_or_default();
        if checks.is_empty() {
            return found.failed(
                "server",
                "it does not report whether it is ready",
                "check its log and `/readyz`",
            );
        }
        for check in checks {
            let said = |name: &str| check.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let says = format!("{}: {}", said("name"), said("says"));
            if check.get("ok") == Some(&Value::Bool(true)) {
                found.ok("server", says);
            } else {
                found.failed("server", says, "see the manual, page operations, and the server's log");
            }
        }
    }

    /// Reports readiness for a caller who may not see the single checks.
    async fn ready_in_short(&self, found: &mut Findings) {
        let Ok(answer) = self.ask("/readyz").await else { return };
        if answer.status().is_success() {
            return found.ok("server", "ready; the details need the right `read_metrics`");
        }
        let says = outbound::excerpt_text(answer).await.trim().replace('\n', "; ");
        found.failed("server", says, "see the manual, page operations, and the server's log");
    }

    /// Checks the token. Returns true if further checks can use it.
    pub(super) async fn who(&self, target: &Target, found: &mut Findings) -> bool {
        let Some(token) = &target.token else {
            let says = format!("no token was given, and {} has none", target.token_file.display());
            found.warning("token", says, "use --token, TENURE_TOKEN, --data or a context with a token");
            return false;
        };
        let (status, me) = self.read("/v1/me").await;
        if !status.is_success() {
            let why = me.get("detail").and_then(Value::as_str).unwrap_or("no reason was given");
            let says = format!("the token from {} was rejected ({}): {why}", token.by, status.as_u16());
            let remedy = "sign in with `tenure login`, or ask an admin for a new token";
            found.failed("token", says, remedy);
            return false;
        }
        let said = |name: &str| me.get(name).and_then(Value::as_str).map(output::sanitize);
        let roles: Vec<&str> = me
            .get("roles")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let bound = said("tenant").map(|tenant| format!(", only for tenant {tenant}")).unwrap_or_default();
        let name = said("name").unwrap_or_default();
        let who = format!("{name} with {}{bound} (from {})", roles.join(", "), token.by);
        let ends = me.get("ends_at").and_then(Value::as_str).and_then(timestamps::parse);
        lasting(&who, &name, ends, found);
        true
    }

    pub(super) async fn store(&self, found: &mut Findings) {
        let (status, store) = self.read("/v1/store").await;
        // Only some roles may read it.
        if status == StatusCode::FORBIDDEN {
            return;
        }
        let said = |path: &str| store.pointer(path).and_then(Value::as_str).unwrap_or_default();
        match store.get("held").filter(|held| held.is_object()) {
            Some(_) => {
                let says = format!("held since {}: {}", said("/held/since"), said("/held/why"));
                found.warning(
                    "store",
                    says,
                    "no work is performed until it is released; see `tenure store held`",
                );
            }
            None if status.is_success() => {
                let tasks = store.get("tasks").and_then(Value::as_u64).unwrap_or(0);
                found.ok(
                    "store",
                    format!("{}, reported by the server; not held, {tasks} tasks queued", said("/kind")),
                );
            }
            None => found.failed(
                "store",
                format!("the server answers {status}"),
                "check `/readyz` and the server's log",
            ),
        }
    }

    pub(super) async fn stuck(&self, found: &mut Findings) {
        let (status, listed) = self.read("/v1/stuck?limit=1000").await;
        let items = listed.get("items").and_then(Value::as_array).filter(|_| status.is_success());
        let Some(items) = items else { return };
        let channels =
            listed.get("channels").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if let Some(first) = channels.first() {
            let name = first.get("id").and_then(Value::as_str).unwrap_or_default();
            let dead = channels.iter().filter_map(|channel| channel.get("dead")?.as_u64()).sum::<u64>();
            let says = format!("{dead} notifications were not delivered, for example on channel {name}");
            found.warning(
                "executions",
                says,
                "repair the receiver, then run `tenure notify resend CHANNEL --all`",
            );
        }
        let schedules =
            listed.get("schedules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if let Some(first) = schedules.first() {
            let said = |name: &str| {
                first.get(name).and_then(Value::as_str).map(output::sanitize).unwrap_or_default()
            };
            let (count, name, state) = (schedules.len(), said("id"), said("state"));
            let says =
                format!("{count} schedules do not run, for example {name}: {state}: {}", said("message"));
            found.warning("schedules", says, "`tenure stuck` lists them with remedies");
        }
        if items.is_empty() {
            return found.ok("executions", "no execution needs an operator");
        }
        let id = items.first().and_then(|item| item.get("id")).and_then(Value::as_str).unwrap_or_default();
        let more = if listed.get("next").is_some_and(Value::is_string) { " or more" } else { "" };
        let says = format!("{}{more} need an operator, for example {id}", items.len());
        found.warning("executions", says, "`tenure stuck` lists them with owners and remedies");
    }

    /// Reports contradictions in the policy in force.
    pub(super) async fn policy(&self, found: &mut Findings) {
        let (status, policy) = self.read("/v1/policies/current").await;
        if !status.is_success() {
            return;
        }
        let version = policy.get("id").and_then(Value::as_u64).unwrap_or_default();
        let findings =
            policy.get("findings").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if findings.is_empty() {
            return found.ok("policy", format!("version {version} is in force and consistent"));
        }
        for finding in findings.iter().filter_map(Value::as_str).map(output::sanitize) {
            let says = format!("version {version} in force contradicts itself: {finding}");
            found.warning(
                "policy",
                says,
                "correct it, and publish it with the next version: `tenure policy publish`",
            );
        }
    }

    pub(super) async fn engines(&self, found: &mut Findings) {
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
                "`tenure engines` lists them; other servers take their work when its lease ends",
            ),
        }
    }

    /// Reports missing requirements of each cluster for an onboarding.
    pub(super) async fn clusters(&self, found: &mut Findings) {
        let (_, listed) = self.read("/v1/clusters?limit=1000").await;
        for cluster in listed.get("items").and_then(Value::as_array).into_iter().flatten() {
            let id = cluster.get("id").and_then(Value::as_str).map(output::sanitize).unwrap_or_default();
            let lacks = cluster.get("unready").and_then(Value::as_array).into_iter().flatten();
            for lack in lacks.filter_map(Value::as_str) {
                let says = format!("no tenant can be onboarded in cluster {id}: {}", output::sanitize(lack));
                found.warning("targets", says, "set it in the file of targets, then restart the server");
            }
        }
    }

    /// Reports closed limits, and warnings about the clock and notification channels.
    pub(super) async fn limits(&self, found: &mut Findings) {
        let (_, listed) = self.read("/v1/stuck?workflow=limit").await;
        for row in listed.get("limits").and_then(Value::as_array).into_iter().flatten() {
            let said =
                |name: &str| row.get(name).and_then(Value::as_str).map(output::sanitize).unwrap_or_default();
            let says = format!("{} is {}: {}", said("subject"), said("state"), said("message"));
            found.warning("limits", says, said("next"));
        }
        for warning in listed.get("warnings").and_then(Value::as_array).into_iter().flatten() {
            let says = output::sanitize(warning.as_str().unwrap_or_default());
            found.warning(
                "notifications",
                says,
                "set one under notify.channels; `tenure notify test` checks it",
            );
        }
    }

    /// Checks the delay of the audit and the clock, from the metrics.
    pub(super) async fn audit(&self, found: &mut Findings) {
        let Ok(answer) = self.ask("/metrics").await else { return };
        if [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&answer.status()) {
            return;
        }
        let text = outbound::text(answer, outbound::PAGE).await.unwrap_or_default();
        set_back(metric(&text, "tenure_clock_behind_record_seconds"), found);
        match metric(&text, "tenure_audit_lag_seconds") {
            Some(lag) if lag > AUDIT_LAG => found.warning(
                "audit",
                format!("entries are sealed {lag:.0} s late"),
                "check the server's log for `cannot seal or sign the audit`",
            ),
            Some(lag) => found.ok("audit", format!("sealed up to {lag:.0} s ago")),
            None => found.warning("audit", "its delay is not in the metrics", "check `/metrics`"),
        }
    }
}

/// Warns if the latest recorded time of a schedule is later than the server's clock. `ahead` is in seconds.
fn set_back(ahead: Option<f64>, found: &mut Findings) {
    if let Some(ahead) = ahead.filter(|ahead| *ahead > 0.0) {
        let says = format!(
            "the server's clock was set back: a schedule has recorded times that are {ahead:.0} s in the future"
        );
        let remedy = "if the clock is correct, check for early starts and deadlines: `tenure schedules list`, `tenure approvals list`; \
                      otherwise correct the clock; see the manual, page operations";
        found.warning("clock", says, remedy);
    }
}

/// Reports when the caller's token ends.
fn lasting(who: &str, name: &str, ends: Option<DateTime<Utc>>, found: &mut Findings) {
    let is_session = name.starts_with("oidc:");
    let remedy = if is_session {
        "sign in again before then: `tenure login`"
    } else {
        "ask an admin for a new token before then"
    };
    match ends {
        Some(ends) => {
            let says = format!(
                "{who}; it ends {} ({})",
                timestamps::relative(ends, timestamps::now()),
                ends.to_rfc3339()
            );
            if ends - timestamps::now() < chrono::Duration::minutes(ENDS_SOON) {
                found.warning("token", says, remedy);
            } else {
                found.ok("token", says);
            }
        }
        None if is_session => {
            found.ok("token", format!("{who}; it ends with the session; `tenure login` starts another"))
        }
        None => found.ok("token", format!("{who}; it has no end until an admin revokes it")),
    }
}

/// Returns the value of a metric without labels.
fn metric(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::finding::State;

    #[test]
    fn a_token_is_shown_with_its_end() {
        let says = |name: &str, minutes: Option<i64>| {
            let mut found = Findings::default();
            let ends = minutes.map(|minutes| timestamps::now() + chrono::Duration::minutes(minutes));
            lasting("who", name, ends, &mut found);
            found.0.remove(0)
        };
        let last = says("ada", None);
        assert!(last.state == State::Ok && last.says.contains("it has no end"), "{last:?}");
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
    fn a_clock_that_was_set_back_is_a_warning() {
        let mut found = Findings::default();
        set_back(None, &mut found);
        set_back(Some(0.0), &mut found);
        assert!(found.0.is_empty());
        set_back(Some(28_800.0), &mut found);
        assert!(found.0[0].state == State::Warning && found.0[0].says.contains("28800 s"), "{found:?}");
    }

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# TYPE tenure_audit_lag_seconds gauge\ntenure_audit_lag_seconds_max 9\ntenure_audit_lag_seconds 1.5\n";
        assert_eq!(metric(text, "tenure_audit_lag_seconds"), Some(1.5));
        assert_eq!(metric(text, "tenure_audit_lag"), None);
    }
}
