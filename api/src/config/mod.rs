//! Settings: one file, overridden by the environment, overridden by flags. Every key has a unit and a default.

mod access;
mod duration;
mod environment;
mod execution;
mod http;
mod notify;
mod oidc;
mod paths;
mod records;
mod storage;
mod suggest;
mod tls;
mod traces;

pub use access::Access;
pub use duration::{ConfigDuration, RetentionPeriod};
pub use environment::unknown_variables;
pub use execution::{EngineSettings, SimulatedSettings, Waitlist};
pub use http::{ANSWER_WITHIN, Http};
pub use notify::{Channel, ChannelKind, MailTls, Notify, RouteSettings};
#[cfg(test)]
pub use oidc::GroupGrant;
pub use oidc::Oidc;
pub use paths::{admin_file, store_dir};
pub use records::{Audit, EncryptionSettings, Retention};
pub use storage::StoreSettings;
pub use tls::Tls;
pub use traces::Traces;

use program::logs::Log;
use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::PathBuf};

/// All settings of `tenure serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The data folder. Default `./tenure-data`.
    pub data: PathBuf,
    /// The store.
    pub store: StoreSettings,
    /// The address of the HTTP server; port 0 selects a free port. Default `127.0.0.1:7878`.
    pub listen: SocketAddr,
    /// The simulated platform: `local` for one in the data folder, or the URL of another process. Default `local`.
    pub platform: String,
    /// The file of targets, which assigns backends to clusters. Default: none, everything is simulated.
    pub targets: String,
    /// Trial mode: votes of persons who are not separate count, and plans, votes and certificates show this. Default false.
    pub trial: bool,
    /// Logging.
    pub log: Log,
    /// The engine.
    pub engine: EngineSettings,
    /// The HTTP server.
    pub http: Http,
    /// The TLS certificate, if any.
    pub tls: Tls,
    /// The simulated platform.
    pub simulated: SimulatedSettings,
    /// Waking of waitlists.
    pub waitlist: Waitlist,
    /// When the audit is signed.
    pub audit: Audit,
    /// How long finished executions are kept.
    pub retention: Retention,
    /// Notifications for operators.
    pub notify: Notify,
    /// Encryption at rest.
    pub seal: EncryptionSettings,
    /// The identity provider.
    pub oidc: Oidc,
    /// The export of traces.
    pub traces: Traces,
    /// Access policies in addition to the built-in ones.
    pub access: Access,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: "./tenure-data".into(),
            store: StoreSettings::default(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            platform: Self::LOCAL.into(),
            targets: String::new(),
            trial: false,
            log: Log::default(),
            engine: EngineSettings::default(),
            http: Http::default(),
            tls: Tls::default(),
            simulated: SimulatedSettings::default(),
            waitlist: Waitlist::default(),
            audit: Audit::default(),
            retention: Retention::default(),
            notify: Notify::default(),
            seal: EncryptionSettings::default(),
            oidc: Oidc::default(),
            traces: Traces::default(),
            access: Access::default(),
        }
    }
}

impl Config {
    /// The platform in the data folder.
    pub const LOCAL: &'static str = "local";

    /// Returns the settings if they are valid.
    ///
    /// # Errors
    /// The invalid key, and the remedy.
    pub fn checked(self) -> Result<Self, String> {
        let is_url = self.platform.starts_with("http://") || self.platform.starts_with("https://");
        if self.platform != Self::LOCAL && !is_url {
            return Err(format!("platform: {:?} is neither `local` nor a URL", self.platform));
        }
        self.notify.checked()?;
        self.store.checked()?;
        self.http.checked()?;
        self.tls.checked()?;
        self.oidc.checked()?;
        self.traces.checked()?;
        self.seal.checked()?;
        self.engine.checked()?;
        self.waitlist.checked()?;
        self.audit.checked()?;
        self.retention.checked()?;
        Ok(self)
    }
}
