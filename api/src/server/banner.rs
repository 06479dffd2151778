//! The first output of `tenure serve`.

use crate::{
    config::{Config, admin_file},
    state::{ServerState, targets},
};
use std::net::SocketAddr;

/// Returns true if other machines can reach the server without TLS.
pub(super) fn is_plaintext(app: &ServerState, address: SocketAddr) -> bool {
    app.tls.is_none() && !address.ip().to_canonical().is_loopback()
}

/// Returns the first output of `serve`; `drew_admin` is true if this start created the bootstrap token.
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
            "WARNING: only this server has this simulated world. Another server on the same database has another world, does not find the\n\
             objects of this one, and undoes them: run one server, or set the same `platform` for all\n",
        );
    }
    if app.config.trial {
        text.push_str(TRIAL);
    }
    if drew_admin {
        let file = admin_file(&app.config.data);
        // The token itself is not printed, because log collectors store the output.
        text.push_str(&format!("admin token: in {} (mode 0600)\n", file.display()));
    }
    let mut flags = String::new();
    if app.storage.is_shared() && !admin_file(&app.config.data).exists() {
        text.push_str(
            "admin token: created by the first server on this database; its admin.token is valid here too\n",
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
        "try next:\n\
           tenure{flags} fleet import NODES.csv --cluster eu-1 --region eu\n\
           tenure{flags} tenant onboard -f TENANT.yaml --wait\n\
           tenure{flags} approvals list\n\
         (`tenure demo` shows all of it with simulated nodes)\n"
    ));
    text
}

/// The warning of a server that counts votes of persons who are not separate.
const TRIAL: &str = "TRIAL: separation is not enforced: an admin who adds users can vote as them; plans, votes and certificates show this\n";

/// The warning of a server that other machines can reach without TLS.
const PLAINTEXT_WARNING: &str = "WARNING: tokens are sent unencrypted: set a certificate (`tls.certificate_file`, `tls.key_file`), or let only a\n\
    proxy with TLS reach this address\n";
