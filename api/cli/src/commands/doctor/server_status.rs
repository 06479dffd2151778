//! What the server says of itself: whether it is ready, who asks, its store, what is stuck, the audit.

use crate::{
    client::contexts::Target,
    commands::doctor::{finding::Findings, server::Served},
    output::{self, timestamps},
};
use backends::outbound;
use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use serde_json::Value;

/// How long before its end a token is to be replaced, in minutes.
const ENDS_SOON: i64 = 30;
/// How far the audit may be behind, in seconds; as `docs/operations.md` has it for an alarm.
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
                found.failed(
                    "server",
                    says,
                    "the manual, page operations, first look; the server's log has the rest",
                );
            }
        }
    }

    /// Whether it works, for who is not told by which checks.
    async fn ready_in_short(&self, found: &mut Findings) {
        let Ok(answer) = self.ask("/readyz").await else { return };
        if answer.status().is_success() {
            return found.ok("server", "ready; what its checks say is told to those who may read_metrics");
        }
        let says = outbound::excerpt_text(answer).await.trim().replace('\n', "; ");
        found.failed(
            "server",
            says,
            "the manual, page operations, first look; the server's log has the rest",
        );
    }

    /// Who asks. Whether anything more can be asked.
    pub(super) async fn who(&self, target: &Target, found: &mut Findings) -> bool {
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
        let said = |name: &str| me.get(name).and_then(Value::as_str).map(output::sanitize);
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

    pub(super) async fn store(&self, found: &mut Findings) {
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

    pub(super) async fn stuck(&self, found: &mut Findings) {
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
        let schedules =
            listed.get("schedules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if let Some(first) = schedules.first() {
            let said = |name: &str| {
                first.get(name).and_then(Value::as_str).map(output::sanitize).unwrap_or_default()
            };
            let (count, name, state) = (schedules.len(), said("id"), said("state"));
            let says = format!(
                "{count} schedules do not do their work, such as {name}: {state}: {}",
                said("message")
            );
            found.warning("schedules", says, "`tenure stuck` lists them, with a remedy for each");
        }
        if items.is_empty() {
            return found.ok("executions", "none waits for an operator");
        }
        let id = items.first().and_then(|item| item.get("id")).and_then(Value::as_str).unwrap_or_default();
        let more = if listed.get("next").is_some_and(Value::is_string) { " or more" } else { "" };
        let says = format!("{}{more} wait for somebody, such as {id}", items.len());
        found.warning("executions", says, "`tenure stuck` says since when, who, and what to do");
    }

    /// What the policy in force says that no policy may say any more.
    pub(super) async fn policy(&self, found: &mut Findings) {
        let (status, policy) = self.read("/v1/policies/current").await;
        if !status.is_success() {
            return;
        }
        let version = policy.get("id").and_then(Value::as_u64).unwrap_or_default();
        let findings =
            policy.get("findings").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if findings.is_empty() {
            return found.ok("policy", format!("version {version} is in force, and keeps its own promises"));
        }
        for finding in findings.iter().filter_map(Value::as_str).map(output::sanitize) {
            let says = format!("version {version}, in force, contradicts itself: {finding}");
            found.warning(
                "policy",
                says,
                "correct it, and publish it under the next number: `tenure policy publish`",
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
                "`tenure engines` names them; what they held is taken over when its lease ends",
            ),
        }
    }

    /// What each cluster lacks before a tenant can be onboarded in it.
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

    /// Limits that are closed, so that work stands still there, a clock that jumped, and a missing notification channel.
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
                "set one under notify.channels; `tenure notify test` tries it",
            );
        }
    }

    /// How far the audit is behind, and whether the clock was set back, by the metrics.
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
                format!("what was done is sealed {lag:.0} s late"),
                "see the server's log for `the audit cannot be sealed`",
            ),
            Some(lag) => found.ok("audit", format!("sealed up to {lag:.0} s ago")),
            None => found.warning("audit", "the metrics do not say how far it is behind", "see `/metrics`"),
        }
    }
}

/// Warns if the latest moment on record, so many seconds ahead of the server's clock, is still to come.
fn set_back(ahead: Option<f64>, found: &mut Findings) {
    if let Some(ahead) = ahead.filter(|ahead| *ahead > 0.0) {
        let says = format!(
            "the server's clock was set back: a schedule has moments on record that are {ahead:.0} s ahead"
        );
        let remedy = "if the clock is right now, look at what became due by mistake: `tenure schedules list`, `tenure approvals list`; \
                      if it is wrong, set it: the manual, page operations";
        found.warning("clock", says, remedy);
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
    use super::*;
    use crate::commands::doctor::finding::State;

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
