//! Settings: one file, the environment over it, flags over both. Every key has a unit and a default.

mod access;
mod duration;
mod environment;
mod execution;
pub(crate) mod files;
mod http;
mod log;
mod notify;
mod oidc;
mod paths;
mod records;
mod storage;
mod suggest;
mod tls;
mod traces;

pub(crate) use access::Access;
pub(crate) use duration::{Kept, Span};
pub(crate) use environment::unknown_variables;
pub(crate) use execution::{Simulated, Waitlist, Work};
pub(crate) use http::{ANSWER_WITHIN, Http};
pub(crate) use log::{Log, LogFormat};
pub(crate) use notify::{Channel, MailTls, Means, Notify, Routed};
#[cfg(test)]
pub(crate) use oidc::Granted;
pub(crate) use oidc::Oidc;
pub(crate) use paths::{admin_file, store_dir};
pub(crate) use records::{Audit, Retention, Seal};
pub(crate) use storage::Keep;
pub(crate) use tls::Tls;
pub(crate) use traces::Traces;

use serde::{Deserialize, Serialize};
use std::{net::SocketAddr, path::PathBuf};

/// All settings of `tenure serve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// The folder that holds everything. Default `./tenure-data`.
    pub(crate) data: PathBuf,
    /// Where everything is kept.
    pub(crate) store: Keep,
    /// Where HTTP is served; port 0 takes a free one. Default `127.0.0.1:7878`.
    pub(crate) listen: SocketAddr,
    /// The simulated world to act on: `local` keeps one in the data folder, a URL names another process. Default `local`.
    pub(crate) platform: String,
    /// The file that says which backend serves what. Default none: everything is simulated.
    pub(crate) targets: String,
    /// What is logged and how.
    pub(crate) log: Log,
    /// How executions are worked on.
    pub(crate) engine: Work,
    /// What the HTTP server accepts.
    pub(crate) http: Http,
    /// With which certificate it speaks TLS, if it does.
    pub(crate) tls: Tls,
    /// How the simulated world behaves.
    pub(crate) simulated: Simulated,
    /// How those who wait for capacity are woken.
    pub(crate) waitlist: Waitlist,
    /// When the audit is signed.
    pub(crate) audit: Audit,
    /// How long finished executions are kept.
    pub(crate) retention: Retention,
    /// Who is told when somebody has to look.
    pub(crate) notify: Notify,
    /// Whether records are sealed.
    pub(crate) seal: Seal,
    /// Through whom people sign in.
    pub(crate) oidc: Oidc,
    /// Where traces are sent.
    pub(crate) traces: Traces,
    /// Who may do what, beside what is shipped.
    pub(crate) access: Access,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data: "./tenure-data".into(),
            store: Keep::default(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7878)),
            platform: Self::LOCAL.into(),
            targets: String::new(),
            log: Log::default(),
            engine: Work::default(),
            http: Http::default(),
            tls: Tls::default(),
            simulated: Simulated::default(),
            waitlist: Waitlist::default(),
            audit: Audit::default(),
            retention: Retention::default(),
            notify: Notify::default(),
            seal: Seal::default(),
            oidc: Oidc::default(),
            traces: Traces::default(),
            access: Access::default(),
        }
    }
}

impl Config {
    /// The platform that is kept in the data folder.
    pub(crate) const LOCAL: &'static str = "local";

    /// The settings, if each makes sense by itself.
    ///
    /// # Errors
    /// The key at fault, and what to write.
    pub(crate) fn checked(self) -> Result<Self, String> {
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
