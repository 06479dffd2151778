//! `[notify]`: who is told of what, through which channels.

use super::Span;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use workflows::notices::{Pattern, Quiet, Severity};

/// Who is told when somebody has to look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Notify {
    /// Where notifications are sent, all of them, as CloudEvents by POST: the channel `default`. Default none.
    pub(crate) url: String,
    /// A file with the secret that signs them, of at least 16 bytes. Default none: they are not signed.
    pub(crate) secret_file: String,
    /// The secret before it, which signs too, so that a receiver may still have that one. Default none.
    pub(crate) earlier_secret_file: String,
    /// A folder of templates, one file an event. Default none: the texts that there are.
    pub(crate) templates: String,
    /// Channels by name; only in the file.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) channels: BTreeMap<String, Channel>,
    /// Which events go to which channels; only in the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) routes: Vec<Routed>,
}

/// How a channel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub(crate) enum Means {
    /// CloudEvents by POST, signed.
    Webhook,
    /// The JSON of incoming webhooks of Slack, which others take too.
    Slack,
    /// Events API v2.
    Pagerduty,
    /// Mail by SMTP.
    Email,
    /// A line of JSON behind those of a file.
    File,
}

/// How mail is kept from being read on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MailTls {
    /// STARTTLS, or nothing is sent.
    #[default]
    Starttls,
    /// TLS from the first byte.
    Wrapped,
    /// Not at all; only to this machine.
    None,
}

/// One channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Channel {
    /// How it tells.
    pub(crate) kind: Means,
    /// `webhook`, `pagerduty`: where to. Of `pagerduty` default the address of its Events API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) url: String,
    /// `slack`: a file with the address, which is a secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) url_file: String,
    /// `webhook`: a file with the secret that signs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) secret_file: String,
    /// `webhook`: the secret before it, which signs too.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) earlier_secret_file: String,
    /// `pagerduty`: a file with the integration key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) key_file: String,
    /// `email`: the server, as `smtp.example.com:587`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) server: String,
    /// `email`: how it is kept from being read on its way. Default `starttls`.
    #[serde(default)]
    pub(crate) tls: MailTls,
    /// `email`: a file with certificates that the server's is signed by, PEM. Default none: those of the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) ca_file: String,
    /// `email`: as whom to sign in. Default: nobody signs in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) user: String,
    /// `email`: a file with the password.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) password_file: String,
    /// `email`: from whom.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) from: String,
    /// `email`: to whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) to: Vec<String>,
    /// `file`: which file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) path: String,
    /// When what is not urgent waits. Default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quiet: Option<Quiet>,
    /// What is urgent, and so told in quiet hours too: from this on. Default `error`.
    #[serde(default = "urgent")]
    pub(crate) urgent: Severity,
    /// How often a notification is tried before it is dead. Default 20.
    #[serde(default = "attempts")]
    pub(crate) attempts: u32,
    /// How long the same event of the same matter is not told again. Default `10m`.
    #[serde(default = "dedup")]
    pub(crate) dedup: Span,
}

/// Which events go to which channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Routed {
    /// The events. Default all.
    #[serde(default = "all")]
    pub(crate) events: Vec<Pattern>,
    /// The tenants whose things are meant. Default all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tenants: Vec<String>,
    /// The roles and groups of which one is asked or told. Default whomever it concerns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<String>,
    /// At least so grave. Default `info`.
    #[serde(default = "info")]
    pub(crate) severity: Severity,
    /// Where to.
    pub(crate) channels: Vec<String>,
    /// Only if the matter is not over so long afterwards. Default `0s`.
    #[serde(default = "at_once")]
    pub(crate) after: Span,
}

fn urgent() -> Severity {
    Severity::Error
}

fn attempts() -> u32 {
    20
}

fn dedup() -> Span {
    Span(Duration::from_secs(600))
}

fn all() -> Vec<Pattern> {
    Pattern::try_from("*".to_owned()).into_iter().collect()
}

fn info() -> Severity {
    Severity::Info
}

fn at_once() -> Span {
    Span(Duration::ZERO)
}

impl Notify {
    /// What the channel of `notify.url` is called.
    pub(crate) const DEFAULT: &'static str = "default";

    /// Every channel, that of `notify.url` included.
    pub(crate) fn all(&self) -> BTreeMap<String, Channel> {
        let mut all = self.channels.clone();
        if !self.url.is_empty() {
            let channel = Channel {
                url: self.url.clone(),
                secret_file: self.secret_file.clone(),
                earlier_secret_file: self.earlier_secret_file.clone(),
                dedup: at_once(),
                ..Channel::of(Means::Webhook)
            };
            all.insert(Self::DEFAULT.into(), channel);
        }
        all
    }

    /// Every route, that to the channel of `notify.url` included.
    pub(crate) fn all_routes(&self) -> Vec<Routed> {
        let to = vec![Self::DEFAULT.to_owned()];
        let (tenants, roles) = (Vec::new(), Vec::new());
        let all = Routed { events: all(), tenants, roles, severity: info(), channels: to, after: at_once() };
        let default = (!self.url.is_empty()).then_some(all);
        self.routes.iter().cloned().chain(default).collect()
    }

    /// Every file with a secret, by its key.
    pub(crate) fn secrets(&self) -> Vec<(String, String)> {
        let own = [("secret_file", &self.secret_file), ("earlier_secret_file", &self.earlier_secret_file)];
        let own = own.into_iter().map(|(key, file)| (format!("notify.{key}"), file.clone()));
        let of = self.channels.iter().flat_map(|(name, channel)| {
            let named = channel.files().into_iter().filter(|(key, _)| *key != "ca_file");
            named.map(move |(key, file)| (format!("notify.channels.{name}.{key}"), file.to_owned()))
        });
        own.chain(of).filter(|(_, file)| !file.is_empty()).collect()
    }

    /// # Errors
    /// The key at fault, and what to write.
    pub(super) fn checked(&self) -> Result<(), String> {
        if !self.url.is_empty() && !is_url(&self.url) {
            return Err(format!("notify.url: {:?} is no http or https URL", self.url));
        }
        for (name, channel) in &self.channels {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || name.len() > 63 || !name.chars().all(fits) {
                return Err(format!("notify.channels.{name}: name it with a-z, 0-9 and hyphens, at most 63"));
            }
            if name == Self::DEFAULT && !self.url.is_empty() {
                return Err(format!(
                    "notify.channels.{name}: that is the channel of notify.url; name it otherwise"
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

impl Routed {
    /// The key at fault, and what to write; `known` are the channels that there are.
    fn checked(&self, known: &[&str]) -> Result<(), String> {
        if self.channels.is_empty() {
            return Err("channels: name at least one".into());
        }
        if self.events.is_empty() {
            return Err("events: name at least one, or leave it out for all".into());
        }
        if let Some(unknown) = self.channels.iter().find(|name| !known.contains(&name.as_str())) {
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            return Err(format!("channels: there is no channel {unknown:?}; there are: {known}"));
        }
        if let Some(wrong) =
            self.tenants.iter().find(|name| name.parse::<workflows::tenancy::TenantId>().is_err())
        {
            return Err(format!("tenants: {wrong:?} is no name of a tenant"));
        }
        if let Some(wrong) =
            self.roles.iter().find(|name| name.is_empty() || name.contains(char::is_whitespace))
        {
            return Err(format!(
                "roles: {wrong:?} is no name of a role or a group; write one like \"capacity_manager\""
            ));
        }
        Ok(())
    }
}

impl Channel {
    /// Where PagerDuty takes events.
    pub(crate) const PAGERDUTY: &'static str = "https://events.pagerduty.com/v2/enqueue";

    fn of(kind: Means) -> Self {
        let none = String::new;
        Self {
            kind,
            url: none(),
            url_file: none(),
            secret_file: none(),
            earlier_secret_file: none(),
            key_file: none(),
            server: none(),
            tls: MailTls::default(),
            ca_file: none(),
            user: none(),
            password_file: none(),
            from: none(),
            to: Vec::new(),
            path: none(),
            quiet: None,
            urgent: urgent(),
            attempts: attempts(),
            dedup: dedup(),
        }
    }

    fn files(&self) -> [(&'static str, &str); 6] {
        [
            ("url_file", &self.url_file),
            ("secret_file", &self.secret_file),
            ("earlier_secret_file", &self.earlier_secret_file),
            ("key_file", &self.key_file),
            ("password_file", &self.password_file),
            ("ca_file", &self.ca_file),
        ]
    }

    /// The key that a channel of this kind does without, or needs.
    fn checked(&self) -> Result<(), String> {
        let (needs, may): (&[&str], &[&str]) = match self.kind {
            Means::Webhook => (&["url"], &["secret_file", "earlier_secret_file"]),
            Means::Slack => (&["url_file"], &[]),
            Means::Pagerduty => (&["key_file"], &["url"]),
            Means::Email => (&["server", "from", "to"], &["ca_file", "user", "password_file"]),
            Means::File => (&["path"], &[]),
        };
        let to = self.to.join(",");
        let plain = [
            ("url", &*self.url),
            ("server", &*self.server),
            ("user", &*self.user),
            ("from", &*self.from),
            ("to", &*to),
            ("path", &*self.path),
        ];
        let kind: &str = self.kind.into();
        for (key, value) in plain.into_iter().chain(self.files()) {
            if needs.contains(&key) && value.is_empty() {
                return Err(format!("{key}: a channel of kind `{kind}` needs it"));
            }
            if !value.is_empty() && !needs.contains(&key) && !may.contains(&key) {
                return Err(format!("{key}: a channel of kind `{kind}` has none; leave it out"));
            }
        }
        if !self.url.is_empty() && !is_url(&self.url) {
            return Err(format!("url: {:?} is no http or https URL", self.url));
        }
        if self.user.is_empty() != self.password_file.is_empty() {
            return Err("user: whoever signs in needs user and password_file".into());
        }
        if !self.server.is_empty() {
            let is_near =
                ["127.0.0.1:", "localhost:", "[::1]:"].iter().any(|near| self.server.starts_with(near));
            let port = self.server.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if port.is_none() {
                return Err(format!(
                    "server: {:?} has no port: write it like `smtp.example.com:587`",
                    self.server
                ));
            }
            if self.tls == MailTls::None && !is_near {
                return Err("tls: `none` only to this machine: what is sent could be read".into());
            }
        } else if self.tls != MailTls::default() {
            return Err(format!("tls: a channel of kind `{kind}` has none; leave it out"));
        }
        if self.attempts == 0 || self.attempts > 100 {
            return Err("attempts: use 1 to 100".into());
        }
        if self.dedup.0 > Duration::from_secs(86_400) {
            return Err("dedup: use `1d` at the most".into());
        }
        Ok(())
    }
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Notify, String> {
        let read: Notify = toml::from_str(text).map_err(|error| error.to_string())?;
        read.checked().map(|()| read)
    }

    #[test]
    fn channels_and_routes_are_read_as_the_page_writes_them() {
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
        assert_eq!(toml::from_str::<Notify>(&written).unwrap(), read, "what is printed reads the same");
    }

    #[test]
    fn what_does_not_fit_is_refused_by_its_key() {
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
