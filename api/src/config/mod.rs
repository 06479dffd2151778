//! Settings: one file, the environment over it, flags over both. Every key has a unit and a default.

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
    /// The folder that holds everything. Default `./tenure-data`.
    pub data: PathBuf,
    /// Where everything is kept.
    pub store: StoreSettings,
    /// Where HTTP is served; port 0 takes a free one. Default `127.0.0.1:7878`.
    pub listen: SocketAddr,
    /// The simulated world to act on: `local` keeps one in the data folder, a URL names another process. Default `local`.
    pub platform: String,
    /// The file that says which backend serves what. Default none: everything is simulated.
    pub targets: String,
    /// For trying it out: votes count also of people who are not separate from each other, and plans, votes and certificates say so.
    /// Default false.
    pub trial: bool,
    /// What is logged and how.
    pub log: Log,
    /// How executions are worked on.
    pub engine: EngineSettings,
    /// What the HTTP server accepts.
    pub http: Http,
    /// With which certificate it speaks TLS, if it does.
    pub tls: Tls,
    /// How the simulated world behaves.
    pub simulated: SimulatedSettings,
    /// How those who wait for capacity are woken.
    pub waitlist: Waitlist,
    /// When the audit is signed.
    pub audit: Audit,
    /// How long finished executions are kept.
    pub retention: Retention,
    /// Who is told when somebody has to look.
    pub notify: Notify,
    /// Whether records are sealed.
    pub seal: EncryptionSettings,
    /// Through whom people sign in.
    pub oidc: Oidc,
    /// Where traces are sent.
    pub traces: Traces,
    /// Who may do what, beside what is shipped.
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
    /// The platform that is kept in the data folder.
    pub const LOCAL: &'static str = "local";

    /// The settings, if each makes sense by itself.
    ///
    /// # Errors
    /// The key at fault, and what to write.
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
