//! `[notify.channels]`: the type of a channel, and its settings.

use crate::config::ConfigDuration;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use workflows::notices::{QuietHours, Severity};

/// The type of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ChannelKind {
    /// Signed CloudEvents by POST.
    Webhook,
    /// The JSON of Slack's incoming webhooks, which other services accept too.
    Slack,
    /// PagerDuty Events API v2.
    Pagerduty,
    /// E-mail by SMTP.
    Email,
    /// Lines of JSON, appended to a file.
    File,
}

/// The encryption of SMTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MailTls {
    /// STARTTLS is required.
    #[default]
    Starttls,
    /// TLS from the first byte.
    Wrapped,
    /// No encryption; only allowed to this machine.
    None,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Channel {
    /// The type.
    pub kind: ChannelKind,
    /// `webhook`, `pagerduty`: the URL. Default for `pagerduty`: its Events API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// `slack`: a file with the URL, which is a secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url_file: String,
    /// `webhook`: a file with the signing secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret_file: String,
    /// `webhook`: a file with the previous secret, which also signs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub earlier_secret_file: String,
    /// `pagerduty`: a file with the integration key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    /// `email`: the server, as `smtp.example.com:587`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// `email`: the encryption. Default `starttls`.
    #[serde(default)]
    pub tls: MailTls,
    /// `email`: a file with CA certificates for the server, PEM. Default: those of the system.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    /// `email`: the user name. Default: no authentication.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user: String,
    /// `email`: a file with the password.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub password_file: String,
    /// `email`: the sender.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// `email`: the recipients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// `file`: the path.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Quiet hours, in which notifications that are not urgent wait. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<QuietHours>,
    /// The minimum severity of urgent notifications, which are also sent in quiet hours. Default `error`.
    #[serde(default = "urgent")]
    pub urgent: Severity,
    /// The maximum number of attempts of a delivery. Default 20.
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// The period in which a repeated event of the same matter is not sent again. Default `10m`.
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
    /// The URL of PagerDuty's Events API.
    pub const PAGERDUTY: &'static str = "https://events.pagerduty.com/v2/enqueue";

    /// Creates a channel of this type without settings.
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

    /// Returns every file that it may read, by its key.
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

    /// Returns an error for a missing or unsupported key.
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
                return Err(format!("{key}: required for a channel of kind `{kind}`"));
            }
            if !value.is_empty() && !needs.contains(&key) && !may.contains(&key) {
                return Err(format!("{key}: not supported by a channel of kind `{kind}`; remove it"));
            }
        }
        if !self.url.is_empty() && !is_url(&self.url) {
            return Err(format!("url: {:?} is not an http or https URL", self.url));
        }
        if self.user.is_empty() != self.password_file.is_empty() {
            return Err("user: user and password_file must be set together".into());
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
                return Err("tls: `none` is only allowed to this machine, because the mail could be read on the network".into());
            }
        } else if self.tls != MailTls::default() {
            return Err(format!("tls: not supported by a channel of kind `{kind}`; remove it"));
        }
        if self.attempts == 0 || self.attempts > 100 {
            return Err("attempts: use 1 to 100".into());
        }
        if self.dedup.0 > Duration::from_secs(86_400) {
            return Err("dedup: use at most `1d`".into());
        }
        Ok(())
    }
}

/// Returns true if `text` is an HTTP URL.
pub(super) fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}
