//! How keys leave the fake and return: import, backup and restore as in Vault's documentation, and soft deletion as in OpenBao.
//!
//! A backup is base64 of plain JSON, so its holder can change the flags before restoring it: then only `backup_info` and
//! `restore_info` show that the key was outside. Unlike in Vault, an imported key is not wrapped.

use super::{Held, Key, errors, nothing, now, say};
use axum::{http::StatusCode, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The content of a backup.
#[derive(Serialize, Deserialize)]
struct Backup {
    policy: Key,
}

fn failed(said: &str) -> Response {
    errors(StatusCode::INTERNAL_SERVER_ERROR, &[&format!("1 error occurred:\n\t* {said}\n\n")])
}

fn missing(name: &str) -> Response {
    errors(StatusCode::BAD_REQUEST, &[&format!("no existing key named {name} could be found")])
}

/// Imports a key whose material is in `ciphertext`, as base64.
pub(super) fn import(held: &mut Held, at: &str, body: &Value) -> Response {
    if held.keys.contains_key(at) {
        let said = "the import path cannot be used with an existing key; use import-version to rotate an existing imported key";
        return errors(StatusCode::BAD_REQUEST, &[said]);
    }
    let material = STANDARD.decode(body["ciphertext"].as_str().unwrap_or_default()).unwrap_or_default();
    let Ok(material) = <[u8; 32]>::try_from(material) else {
        return errors(StatusCode::BAD_REQUEST, &["the ciphertext is no key of 32 bytes"]);
    };
    let flag = |name: &str| body[name] == json!(true);
    let key = Key::of(material, flag("exportable"), flag("allow_plaintext_backup"));
    held.keys.insert(at.to_owned(), Key { imported: true, ..key });
    nothing()
}

/// Takes a backup, and records it in the key.
pub(super) fn taken(held: &mut Held, name: &str, at: &str) -> Response {
    let Some(key) = held.keys.get_mut(at) else { return missing(name) };
    if !key.exportable {
        return failed("exporting is disallowed on the policy");
    }
    if !key.allow_plaintext_backup {
        return failed("plaintext backup is disallowed on the policy");
    }
    key.backup_info = Some(json!({ "time": now(), "version": 1 }));
    let text = json!(Backup { policy: key.clone() }).to_string();
    say(StatusCode::OK, &json!({ "data": { "backup": STANDARD.encode(text) } }))
}

/// Restores a backup with the backup's flags, and records it in the key.
pub(super) fn restored(held: &mut Held, name: &str, at: &str, body: &Value) -> Response {
    if held.keys.contains_key(at) && body["force"] != json!(true) {
        return failed(&format!("key {name:?} already exists"));
    }
    let text = STANDARD.decode(body["backup"].as_str().unwrap_or_default()).unwrap_or_default();
    let Ok(Backup { policy }) = serde_json::from_slice(&text) else {
        return errors(StatusCode::BAD_REQUEST, &["the backup cannot be read"]);
    };
    let restore_info = Some(json!({ "time": now(), "version": 1 }));
    held.keys.insert(at.to_owned(), Key { restore_info, ..policy });
    nothing()
}

/// Hides a key from all use, or restores it.
pub(super) fn hide(held: &mut Held, name: &str, at: &str, hidden: bool) -> Response {
    let Some(key) = held.keys.get_mut(at) else { return missing(name) };
    key.soft_deleted = hidden;
    nothing()
}
