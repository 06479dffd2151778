//! The first thing that `tenure serve` says.

use crate::{
    config::{Config, admin_file},
    state::{ServerState, targets},
};
use std::net::SocketAddr;

/// Whether others reach the server, and without TLS.
pub(super) fn is_plaintext(app: &ServerState, address: SocketAddr) -> bool {
    app.tls.is_none() && !address.ip().to_canonical().is_loopback()
}

/// The first thing that `serve` says; `drew_admin` is whether this start drew the first admin's token.
pub(super) fn banner(app: &ServerState, address: SocketAddr, drew_admin: bool) -> String {
    let data = app.config.data.display();
    let store = match app.config.store.options() {
        None => "embedded store".to_owned(),
        Some(options) => format!("store: {}, schema {}", options.url, options.schema),
    };
    let scheme = if app.tls.is_some() { "https" } else { "http" };
    let mut text = format!(
        "tenure {} listens on {scheme}://{address}\ndata: {data} ({store})\n",
        env!("CARGO_PKG_VERSION")
    );
    let world = match app.config.platform.as_str() {
        Config::LOCAL => format!("in {data}/world.log"),
        url => format!("at {url}"),
    };
    text.push_str(&targets::describe(app, &world));
    if is_plaintext(app, address) {
        text.push_str(PLAINTEXT_WARNING);
    }
    if app.storage.is_shared() && app.config.platform == Config::LOCAL {
        text.push_str(
            "WARNING: this simulated world is this server's alone. Another server on the same database has another, finds nothing of\n\
             what this one made, and undoes it: run one server, or give all of them one `platform`\n",
        );
    }
    if app.config.trial {
        text.push_str(TRIAL);
    }
    if drew_admin {
        let file = admin_file(&app.config.data);
        // Never the token itself: what a server prints is kept by collectors of logs.
        text.push_str(&format!("admin token: in {} (mode 0600)\n", file.display()));
    }
    let mut flags = String::new();
    if app.storage.is_shared() && !admin_file(&app.config.data).exists() {
        text.push_str(
            "admin token: drawn by the first server on this database; its admin.token serves here too\n",
        );
        flags.push_str(" --token TOKEN");
    }
    if app.config.listen != Config::default().listen || app.tls.is_some() {
        flags.push_str(&format!(" --server {scheme}://{address}"));
    }
    if app.config.data != Config::default().data {
        flags.push_str(&format!(" --data {data}"));
    }
    text.push_str(&format!(
        "try next:\n  tenure{flags} fleet import NODES.csv --cluster eu-1 --region eu\n  \
         tenure{flags} tenant onboard -f TENANT.yaml --wait\n  \
         tenure{flags} approvals list\n(`tenure demo` shows it all on a fleet of its own)\n"
    ));
    text
}

/// What is said of a server that counts votes of people who are not separate.
const TRIAL: &str = "TRIAL: separation is not enforced: whoever adds users may vote as them, and plans, votes and certificates say so\n";

/// What is said of a server that others reach without TLS.
const PLAINTEXT_WARNING: &str = "WARNING: tokens go over the network in the clear: name a certificate (`tls.certificate_file`, `tls.key_file`), or let only a\n\
    proxy with TLS reach this address\n";
