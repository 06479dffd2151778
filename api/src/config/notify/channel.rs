//! `[notify.channels]`: how a channel tells, and what it needs for that.

use crate::config::ConfigDuration;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use workflows::notices::{QuietHours, Severity};

/// How a channel tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ChannelKind {
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
pub enum MailTls {
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
pub struct Channel {
    /// How it tells.
    pub kind: ChannelKind,
    /// `webhook`, `pagerduty`: where to. Of `pagerduty` default the address of its Events API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// `slack`: a file with the address, which is a secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url_file: String,
    /// `webhook`: a file with the secret that signs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret_file: String,
    /// `webhook`: the secret before it, which signs too.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub earlier_secret_file: String,
    /// `pagerduty`: a file with the integration key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// `email`: the server, as `smtp.example.com:587`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// `email`: how it is kept from being read on its way. Default `starttls`.
    #[serde(default)]
    pub tls: MailTls,
    /// `email`: a file with certificates that the server's is signed by, PEM. Default none: those of the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// `email`: as whom to sign in. Default: nobody signs in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// `email`: a file with the password.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub password_file: String,
    /// `email`: from whom.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// `email`: to whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// `file`: which file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// When what is not urgent waits. Default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietHours>,
    /// What is urgent, and so told in quiet hours too: from this on. Default `error`.
    #[serde(default = "urgent")]
    pub urgent: Severity,
    /// How often a notification is tried before it is dead. Default 20.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// How long the same event of the same matter is not told again. Default `10m`.
    #[serde(default = "dedup")]
    pub dedup: ConfigDuration,
}

fn urgent() -> Severity {
    Severity::Error
}

fn attempts() -> u32 {
    20
}

fn dedup() -> ConfigDuration {
    ConfigDuration(Duration::from_secs(600))
}

impl Channel {
    /// Where PagerDuty takes events.
    pub const PAGERDUTY: &'static str = "https://events.pagerduty.com/v2/enqueue";

    /// A channel of this kind, with nothing set.
    pub(super) fn of(kind: ChannelKind) -> Self {
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

    /// Every file that it may read, by its key.
    pub(super) fn files(&self) -> [(&'static str, &str); 6] {
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
    pub(super) fn checked(&self) -> Result<(), String> {
        let (needs, may): (&[&str], &[&str]) = match self.kind {
            ChannelKind::Webhook => (&["url"], &["secret_file", "earlier_secret_file"]),
            ChannelKind::Slack => (&["url_file"], &[]),
            ChannelKind::Pagerduty => (&["key_file"], &["url"]),
            ChannelKind::Email => (&["server", "from", "to"], &["ca_file", "user", "password_file"]),
            ChannelKind::File => (&["path"], &[]),
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

/// Whether `text` is an address of HTTP.
pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}
