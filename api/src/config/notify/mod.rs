//! `[notify]`: notification channels and routes.

mod channel;

pub use channel::{Channel, ChannelKind, MailTls};

use super::ConfigDuration;
use channel::is_url;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use workflows::notices::{Pattern, Severity};

/// Notifications for operators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// The URL of the channel `default`, which gets all notifications as CloudEvents by POST. Default: none.
    pub url: String,
    /// A file with the signing secret, of at least 16 bytes. Default: none, not signed.
    pub secret_file: String,
    /// A file with the previous secret, which also signs, so that receivers can switch. Default: none.
    pub earlier_secret_file: String,
    /// A folder of templates, one file per event. Default: the built-in texts.
    pub templates: String,
    /// The channels by name; only in the file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, Channel>,
    /// The routes of events to channels; only in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteSettings>,
}

/// A route of events to channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSettings {
    /// The events. Default: all.
    #[serde(default = "all")]
    pub events: Vec<Pattern>,
    /// The tenants. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// The roles and groups that an event must concern. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// The minimum severity. Default `info`.
    #[serde(default = "info")]
    pub severity: Severity,
    /// The channels.
    pub channels: Vec<String>,
    /// The delay; nothing is sent if the matter ends before. Default `0s`.
    #[serde(default = "at_once")]
    pub after: ConfigDuration,
}

fn all() -> Vec<Pattern> {
    Pattern::try_from("*".to_owned()).into_iter().collect()
}

fn info() -> Severity {
    Severity::Info
}

fn at_once() -> ConfigDuration {
    ConfigDuration(Duration::ZERO)
}

impl Notify {
    /// The name of the channel of `notify.url`.
    pub const DEFAULT: &'static str = "default";

    /// Returns every channel, including that of `notify.url`.
    pub fn all(&self) -> BTreeMap<String, Channel> {
        let mut all = self.channels.clone();
        if !self.url.is_empty() {
            let channel = Channel {
                url: self.url.clone(),
                secret_file: self.secret_file.clone(),
                earlier_secret_file: self.earlier_secret_file.clone(),
                dedup: at_once(),
                ..Channel::of(ChannelKind::Webhook)
            };
            all.insert(Self::DEFAULT.into(), channel);
        }
        all
    }

    /// Returns every route, including that to the channel of `notify.url`.
    pub fn all_routes(&self) -> Vec<RouteSettings> {
        let to = vec![Self::DEFAULT.to_owned()];
        let (tenants, roles) = (Vec::new(), Vec::new());
        let all =
            RouteSettings { events: all(), tenants, roles, severity: info(), channels: to, after: at_once() };
        let default = (!self.url.is_empty()).then_some(all);
        self.routes.iter().cloned().chain(default).collect()
    }

    /// Returns every file with a secret, by its key.
    pub fn secrets(&self) -> Vec<(String, String)> {
        let own = [("secret_file", &self.secret_file), ("earlier_secret_file", &self.earlier_secret_file)];
        let own = own.into_iter().map(|(key, file)| (format!("notify.{key}"), file.clone()));
        let of = self.channels.iter().flat_map(|(name, channel)| {
            let named = channel.files().into_iter().filter(|(key, _)| *key != "ca_file");
            named.map(move |(key, file)| (format!("notify.channels.{name}.{key}"), file.to_owned()))
        });
        own.chain(of).filter(|(_, file)| !file.is_empty()).collect()
    }

    /// # Errors
    /// The invalid key, and the remedy.
    pub(super) fn checked(&self) -> Result<(), String> {
        if !self.url.is_empty() && !is_url(&self.url) {
            return Err(format!("notify.url: {:?} is not an http or https URL", self.url));
        }
        for (name, channel) in &self.channels {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || name.len() > 63 || !name.chars().all(fits) {
                return Err(format!("notify.channels.{name}: names have a-z, 0-9 and hyphens, at most 63"));
            }
            if name == Self::DEFAULT && !self.url.is_empty() {
                return Err(format!(
                    "notify.channels.{name}: this is the channel of notify.url; use another name"
                ));
            }
            channel.checked().map_err(|why| format!("notify.channels.{name}.{why}"))?;
        }
        let all = self.all();
        let known: Vec<_> = all.keys().map(String::as_str).collect();
        for (number, route) in self.routes.iter().enumerate() {
            route.checked(&known).map_err(|why| format!("notify.routes[{number}].{why}"))?;
        }
        Ok(())
    }
}

impl RouteSettings {
    /// The invalid key, and the remedy; `known` are the existing channels.
    fn checked(&self, known: &[&str]) -> Result<(), String> {
        if self.channels.is_empty() {
            return Err("channels: name at least one".into());
        }
        if self.events.is_empty() {
            return Err("events: name at least one, or remove the key for all".into());
        }
        if let Some(unknown) = self.channels.iter().find(|name| !known.contains(&name.as_str())) {
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            return Err(format!("channels: there is no channel {unknown:?}; use {known}"));
        }
        if let Some(wrong) =
            self.tenants.iter().find(|name| name.parse::<workflows::tenancy::TenantId>().is_err())
        {
            return Err(format!("tenants: {wrong:?} is not a tenant name"));
        }
        if let Some(wrong) =
            self.roles.iter().find(|name| name.is_empty() || name.contains(char::is_whitespace))
        {
            return Err(format!(
                "roles: {wrong:?} is not a role or a group; write it like \"capacity_manager\""
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Notify, String> {
        let read: Notify = toml::from_str(text).map_err(|error| error.to_string())?;
        read.checked().map(|()| read)
    }

    #[test]
    fn channels_and_routes_of_the_documentation_are_accepted() {
        let text = "url = \"http://127.0.0.1:1\"\n\
            [channels.night]\nkind = \"pagerduty\"\nkey_file = \"/k\"\n\
            [channels.mail]\nkind = \"email\"\nserver = \"localhost:25\"\ntls = \"none\"\nfrom = \"a@b.c\"\nto = [\"d@e.f\"]\n\
            quiet = { from = \"22:00\", to = \"07:00\", zone = \"Europe/Berlin\" }\nurgent = \"critical\"\n\
            [[routes]]\nevents = [\"approval.*\"]\ntenants = [\"acme\"]\nseverity = \"warning\"\nchannels = [\"mail\"]\n\
            [[routes]]\nevents = [\"approval.opened\"]\nchannels = [\"night\"]\nafter = \"30m\"\n";
        let read = read(text).unwrap();
        assert_eq!(read.all().keys().collect::<Vec<_>>(), ["default", "mail", "night"]);
        assert_eq!(read.all_routes().len(), 3);
        assert_eq!(read.secrets(), [("notify.channels.night.key_file".to_owned(), "/k".to_owned())]);
        let written = toml::to_string(&read).unwrap();
        assert_eq!(
            toml::from_str::<Notify>(&written).unwrap(),
            read,
            "printed settings parse to the same settings"
        );
    }

    #[test]
    fn an_invalid_setting_is_refused_with_its_key() {
        let slack = "[channels.a]\nkind = \"slack\"\nurl_file = \"/u\"\n";
        let mail = "[channels.a]\nkind = \"email\"\nserver = \"smtp.example.com:25\"\nfrom = \"a@b.c\"\nto = [\"d@e.f\"]\n";
        for (text, wanted) in [
            ("[channels.a]\nkind = \"slack\"\n".to_owned(), "notify.channels.a.url_file"),
            (format!("{slack}key_file = \"/k\"\n"), "notify.channels.a.key_file"),
            (format!("{slack}path = \"/f\"\n"), "notify.channels.a.path"),
            ("[channels.a]\nkind = \"file\"\n".to_owned(), "notify.channels.a.path"),
            (
                format!("{slack}[[routes]]\nchannels = [\"a\"]\nroles = [\"two words\"]\n"),
                "notify.routes[0].roles",
            ),
            (format!("{slack}attempts = 0\n"), "notify.channels.a.attempts"),
            (format!("{slack}tls = \"none\"\n"), "notify.channels.a.tls"),
            (format!("{mail}tls = \"none\"\n"), "notify.channels.a.tls"),
            (format!("{mail}user = \"u\"\n"), "notify.channels.a.user"),
            ("[channels.\"A b\"]\nkind = \"slack\"\nurl_file = \"/u\"\n".to_owned(), "notify.channels.A b"),
            (format!("{slack}[[routes]]\nchannels = [\"b\"]\n"), "notify.routes[0].channels"),
            (format!("{slack}[[routes]]\nchannels = []\n"), "notify.routes[0].channels"),
            (format!("{slack}[[routes]]\nchannels = [\"a\"]\nevents = []\n"), "notify.routes[0].events"),
            (
                format!("{slack}[[routes]]\nchannels = [\"a\"]\ntenants = [\"A b\"]\n"),
                "notify.routes[0].tenants",
            ),
            (
                format!("{slack}[[routes]]\nchannels = [\"a\"]\nevents = [\"approval.open\"]\n"),
                "approval.opened",
            ),
            (format!("{slack}quiet = {{ from = \"22\", to = \"07:00\", zone = \"UTC\" }}\n"), "from"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(wanted), "{wanted}: {error}");
        }
    }
}
