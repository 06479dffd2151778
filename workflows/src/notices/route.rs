//! Routes from events to channels.

use super::kind::{KINDS, MatterChange, NoticeKind, Severity, kind_of, matter};
use engine::Notification;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::Timestamp;

/// A pattern for events: `approval.opened`, `execution.parked/outcome_unknown` (with its reason), `approval.*` or `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let name = text.split('/').next().unwrap_or_default();
        let front = name.strip_suffix('*');
        let known = match front {
            Some(front) => KINDS.iter().any(|kind| kind.name.starts_with(front)),
            None => KINDS.iter().any(|kind| kind.name == name),
        };
        if known && !front.unwrap_or(name).contains('*') {
            return Ok(Self(text));
        }
        let near = engine::nearest(name, KINDS.iter().map(|kind| kind.name));
        let meant = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        Err(format!("{text:?} means no event{meant} (the manual, page notifications lists them)"))
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

impl Pattern {
    fn takes(&self, kind: &str, reason: Option<&str>) -> bool {
        let (name, wanted) = self.0.split_once('/').map_or((&*self.0, None), |(name, why)| (name, Some(why)));
        let named = match name.strip_suffix('*') {
            Some(front) => kind.starts_with(front),
            None => kind == name,
        };
        named && wanted.is_none_or(|wanted| reason == Some(wanted))
    }
}

/// One route: an event that meets all its conditions goes to each of its channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The event patterns. One of them must match.
    pub events: Vec<Pattern>,
    /// The tenants. Empty matches all tenants and events without a tenant.
    pub tenants: Vec<String>,
    /// The roles and groups of the recipients. One of them must match. Empty matches all.
    pub roles: Vec<String>,
    /// The minimum severity.
    pub severity: Severity,
    /// The channels.
    pub channels: Vec<String>,
    /// The delay before sending. Nothing is sent if the matter is closed by then.
    pub after: Duration,
}

/// All routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The routes. Each is checked.
    pub routes: Vec<Route>,
    /// The channels that also get the closing event of a matter, whatever the routes specify for that event.
    pub closing: Vec<String>,
}

/// A delivery of a notification to one channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelShare {
    /// The channel's name.
    pub channel: String,
    /// The earliest time to send.
    pub due: Timestamp,
}

impl Routes {
    /// Returns the channels for a notification, each once, with the earliest time. If several routes lead to the same channel, the earliest time
    /// applies.
    #[must_use]
    pub fn channel_shares(&self, told: &Notification) -> Vec<ChannelShare> {
        let kind = kind_of(told);
        let mut due: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for route in &self.routes {
            let meant = route.takes(told, kind);
            for channel in &route.channels {
                let closes =
                    kind.act != MatterChange::Opens && self.closing.contains(channel) && route.opens(told);
                if !meant && !closes {
                    continue;
                }
                // A closing event has no delay. It is sent after the opening event.
                let after = if kind.act == MatterChange::Opens { route.after } else { Duration::ZERO };
                let at = told.at.after(after);
                due.entry(channel).and_modify(|first| *first = (*first).min(at)).or_insert(at);
            }
        }
        due.into_iter().map(|(channel, due)| ChannelShare { channel: channel.into(), due }).collect()
    }
}

impl Route {
    fn takes(&self, told: &Notification, kind: NoticeKind) -> bool {
        self.matches_tenant(&told.tenant)
            && self.concerns(&told.to)
            && kind.severity >= self.severity
            && self.events.iter().any(|event| event.takes(&told.kind, told.reason.as_deref()))
    }

    fn matches_tenant(&self, tenant: &str) -> bool {
        self.tenants.is_empty() || self.tenants.iter().any(|wanted| wanted == tenant)
    }

    fn concerns(&self, to: &[String]) -> bool {
        self.roles.is_empty() || to.iter().any(|role| self.roles.contains(role))
    }

    /// Returns true if an event that opens the matter of this notification would use this route. The recipients of the opening event may differ, so
    /// roles are ignored.
    fn opens(&self, told: &Notification) -> bool {
        let about = matter(told);
        let opens = |kind: &&NoticeKind| {
            let same = Notification { kind: kind.name.into(), ..told.clone() };
            kind.act == MatterChange::Opens && matter(&same) == about
        };
        let name = |event: &Pattern, kind: &NoticeKind| {
            let name = event.0.split('/').next().unwrap_or_default();
            Pattern(name.into()).takes(kind.name, None)
        };
        self.matches_tenant(&told.tenant)
            && kind_of(told).act != MatterChange::Tells
            && KINDS.iter().filter(opens).any(|kind| self.events.iter().any(|event| name(event, kind)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(kind: &str, tenant: &str) -> Notification {
        Notification {
            id: format!("x.{kind}"),
            kind: kind.into(),
            reason: None,
            about: "x".into(),
            tenant: tenant.into(),
            to: Vec::new(),
            text: String::new(),
            at: Timestamp(1_000),
        }
    }

    fn pattern(text: &str) -> Pattern {
        Pattern::try_from(text.to_owned()).unwrap()
    }

    fn route(events: &[&str], channels: &[&str]) -> Route {
        Route {
            events: events.iter().map(|event| pattern(event)).collect(),
            tenants: Vec::new(),
            roles: Vec::new(),
            severity: Severity::Info,
            channels: channels.iter().map(|&channel| channel.into()).collect(),
            after: Duration::ZERO,
        }
    }

    fn channels(routes: &Routes, told: &Notification) -> Vec<String> {
        routes.channel_shares(told).into_iter().map(|share| share.channel).collect()
    }

    #[test]
    fn events_are_routed_by_name_tenant_and_severity() {
        let routes = vec![
            route(&["approval.*"], &["chat"]),
            Route { tenants: vec!["acme".into()], ..route(&["*"], &["acme-mail"]) },
            Route { severity: Severity::Error, ..route(&["*"], &["pager"]) },
        ];
        let routes = Routes { routes, closing: Vec::new() };
        assert_eq!(channels(&routes, &notification("approval.opened", "acme")), ["acme-mail", "chat"]);
        assert_eq!(channels(&routes, &notification("approval.opened", "zeta")), ["chat"]);
        assert_eq!(channels(&routes, &notification("execution.parked", "zeta")), ["pager"]);
        assert_eq!(channels(&routes, &notification("certificate.issued", "zeta")), [""; 0]);
    }

    #[test]
    fn a_route_by_role_matches_approvals_of_that_role_or_group_and_their_ends() {
        let roles = vec!["capacity_manager".to_owned(), "night-shift".into()];
        let routes = vec![Route { roles, ..route(&["approval.opened"], &["capacity"]) }];
        let routes = Routes { routes, closing: vec!["capacity".into()] };
        let asks = |kind: &str, to: &[&str]| Notification {
            to: to.iter().map(|&role| role.into()).collect(),
            ..notification(kind, "acme")
        };
        assert_eq!(
            channels(&routes, &asks("approval.opened", &["finance", "capacity_manager"])),
            ["capacity"]
        );
        assert_eq!(channels(&routes, &asks("approval.opened", &["night-shift"])), ["capacity"]);
        assert_eq!(channels(&routes, &asks("approval.opened", &["finance"])), [""; 0]);
        assert_eq!(channels(&routes, &asks("approval.opened", &[])), [""; 0]);
        assert_eq!(channels(&routes, &asks("approval.granted", &["finance"])), ["capacity"]);
    }

    #[test]
    fn a_route_can_restrict_an_event_by_reason() {
        let routes = vec![route(&["execution.parked/outcome_unknown"], &["chat"])];
        let routes = Routes { routes, closing: Vec::new() };
        let parked = notification("execution.parked", "acme");
        let unknown = Notification { reason: Some("outcome_unknown".into()), ..parked.clone() };
        assert_eq!(channels(&routes, &unknown), ["chat"]);
        assert_eq!(channels(&routes, &parked), [""; 0]);
    }

    #[test]
    fn a_closing_channel_gets_the_end_of_its_matters() {
        let opened =
            vec![route(&["approval.opened", "execution.parked/outcome_unknown"], &["pager", "chat"])];
        let routes = Routes { routes: opened, closing: vec!["pager".into()] };
        assert_eq!(channels(&routes, &notification("approval.granted", "acme")), ["pager"]);
        assert_eq!(channels(&routes, &notification("approval.voted", "acme")), ["pager"]);
        assert_eq!(channels(&routes, &notification("execution.unparked", "acme")), ["pager"]);
        assert_eq!(
            channels(&routes, &notification("execution.ended_late", "acme")),
            [""; 0],
            "another matter"
        );
        assert_eq!(channels(&routes, &notification("approval.glass_broken", "acme")), [""; 0]);
    }

    #[test]
    fn the_first_route_to_a_channel_applies_and_only_open_matters_wait() {
        let later = Route { after: Duration::from_secs(60), ..route(&["approval.*"], &["pager"]) };
        let routes = Routes { routes: vec![later.clone()], closing: Vec::new() };
        assert_eq!(routes.channel_shares(&notification("approval.opened", "acme"))[0].due, Timestamp(61_000));
        assert_eq!(routes.channel_shares(&notification("approval.granted", "acme"))[0].due, Timestamp(1_000));
        let both = Routes { routes: vec![later, route(&["*"], &["pager"])], closing: Vec::new() };
        assert_eq!(both.channel_shares(&notification("approval.opened", "acme"))[0].due, Timestamp(1_000));
    }

    #[test]
    fn an_unknown_event_is_refused_with_the_nearest_name() {
        let error = Pattern::try_from("approval.open".to_owned()).unwrap_err();
        assert!(error.contains("`approval.opened`"), "{error}");
        for wrong in ["nothing.*", "*.opened", "approval.**", ""] {
            assert!(Pattern::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
