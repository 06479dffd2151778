//! A fake Vault: its transit engine and the metadata of its key-value engine, over HTTP.
//!
//! It is not Vault, and reports this in the header `x-stand-in`. Its effects are real, including encryption with AES-256-GCM. Its
//! answers follow Vault's documentation and sources: 404 with an empty list of errors for a missing object, 404 with a message for
//! a missing engine, 400 for what transit refuses, 403 without a valid token, 503 while sealed. Keys can be imported, backed up,
//! restored and, as in OpenBao, deleted softly; see `backup.rs`. It has only three kinds of token instead of policies, no leases,
//! no storage, no replication.

mod backup;

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::{net::TcpListener, task::JoinHandle};

/// The rights of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Everything except creating a key by encrypting with it.
    All,
    /// Read access.
    Read,
    /// No rights: a known login without a policy.
    Nothing,
}

/// The fake, which listens until it is dropped.
#[derive(Debug)]
pub struct StandIn {
    address: SocketAddr,
    held: Arc<Mutex<Held>>,
    listening: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Held {
    tokens: BTreeMap<String, Rights>,
    keys: BTreeMap<String, Key>,
    metadata: BTreeMap<String, BTreeMap<String, String>>,
    sealed: bool,
    /// True if a deletion only hides a key, which is then listed as softly deleted.
    keeps_deleted: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Key {
    material: [u8; 32],
    made: u64,
    exportable: bool,
    allow_plaintext_backup: bool,
    deletion_allowed: bool,
    imported: bool,
    backup_info: Option<Value>,
    restore_info: Option<Value>,
    soft_deleted: bool,
}

impl StandIn {
    /// Listens, with these tokens, on a port of the system's choice.
    ///
    /// # Errors
    /// If no port is available.
    pub async fn start(tokens: &[(&str, Rights)]) -> io::Result<Self> {
        let tokens = tokens.iter().map(|(token, rights)| ((*token).to_owned(), *rights)).collect();
        let held = Arc::new(Mutex::new(Held { tokens, ..Held::default() }));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let router = Router::new().fallback(answer).with_state(held.clone());
        let listening = tokio::spawn(async move {
            let _ended = axum::serve(listener, router).await;
        });
        Ok(Self { address, held, listening })
    }

    /// Returns its address for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Seals it, or unseals it.
    pub fn seal(&self, sealed: bool) {
        lock(&self.held).sealed = sealed;
    }

    /// Revokes all tokens and gives this one all rights.
    pub fn only_token(&self, token: &str) {
        lock(&self.held).tokens = BTreeMap::from([(token.to_owned(), Rights::All)]);
    }

    /// Returns the names of the keys, without the API.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        lock(&self.held).keys.keys().cloned().collect()
    }

    /// Returns the metadata at this path, without the API.
    #[must_use]
    pub fn metadata(&self, path: &str) -> Option<BTreeMap<String, String>> {
        lock(&self.held).metadata.get(path).cloned()
    }

    /// Makes a key, without the API.
    pub fn plant(&self, name: &str, exportable: bool) {
        lock(&self.held).keys.insert(name.to_owned(), Key::new(exportable, false));
    }

    /// From now on no deletion is final.
    pub fn keep_deleted(&self) {
        lock(&self.held).keeps_deleted = true;
    }

    /// Removes a key, without the API.
    pub fn vanish(&self, name: &str) {
        lock(&self.held).keys.remove(name);
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Key {
    fn new(exportable: bool, allow_plaintext_backup: bool) -> Self {
        let mut material = [0; 32];
        SystemRandom::new().fill(&mut material).expect("the system has randomness");
        Self::of(material, exportable, allow_plaintext_backup)
    }

    fn of(material: [u8; 32], exportable: bool, allow_plaintext_backup: bool) -> Self {
        Self {
            material,
            made: now(),
            exportable,
            allow_plaintext_backup,
            deletion_allowed: false,
            imported: false,
            backup_info: None,
            restore_info: None,
            soft_deleted: false,
        }
    }

    fn cipher(&self) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &self.material).expect("32 bytes are a key"))
    }

    fn encrypt(&self, plaintext: &str) -> String {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).expect("the system has randomness");
        let mut text = plaintext.as_bytes().to_vec();
        let sealed = self.cipher().seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::empty(),
            &mut text,
        );
        sealed.expect("a short text is encrypted");
        let whole: String = nonce.iter().chain(&text).map(|byte| format!("{byte:02x}")).collect();
        format!("vault:v1:{whole}")
    }

    fn decrypt(&self, ciphertext: &str) -> Option<String> {
        let hex = ciphertext.strip_prefix("vault:v1:")?;
        let bytes: Option<Vec<u8>> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()).collect();
        let bytes = bytes?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN)?;
        let mut rest = rest.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self.cipher().open_in_place(nonce, Aad::empty(), &mut rest).ok()?;
        Some(String::from_utf8_lossy(plain).into_owned())
    }

    fn described(&self, name: &str) -> Value {
        let mut described = json!({ "data": {
            "name": name, "type": "aes256-gcm96", "derived": false, "latest_version": 1,
            "deletion_allowed": self.deletion_allowed, "exportable": self.exportable,
            "allow_plaintext_backup": self.allow_plaintext_backup, "min_available_version": 0,
            "min_decryption_version": 1, "min_encryption_version": 0, "imported_key": self.imported,
            "supports_encryption": true, "supports_decryption": true, "keys": { "1": self.made },
        } });
        // Present only if there is a value.
        for (field, told) in [("backup_info", &self.backup_info), ("restore_info", &self.restore_info)] {
            if let Some(told) = told {
                described["data"][field] = told.clone();
            }
        }
        if self.soft_deleted {
            described["data"]["soft_deleted"] = json!(true);
        }
        described
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(status: StatusCode, body: &Value) -> Response {
    (status, [("x-stand-in", "not Vault")], Json(body.clone())).into_response()
}

fn errors(status: StatusCode, said: &[&str]) -> Response {
    say(status, &json!({ "errors": said }))
}

fn nothing() -> Response {
    (StatusCode::NO_CONTENT, [("x-stand-in", "not Vault")]).into_response()
}

async fn answer(
    State(held): State<Arc<Mutex<Held>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut held = lock(&held);
    if held.sealed {
        return errors(StatusCode::SERVICE_UNAVAILABLE, &["Vault is sealed"]);
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let rights = held.tokens.get(text("x-vault-token")).copied().unwrap_or(Rights::Nothing);
    let looks = method == Method::GET;
    let may = rights == Rights::All || (rights == Rights::Read && looks);
    if !may {
        return errors(StatusCode::FORBIDDEN, &["1 error occurred:\n\t* permission denied\n\n"]);
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    // Each namespace has its own engines.
    let (space, path) = (text("x-vault-namespace"), uri.path().trim_start_matches("/v1/").to_owned());
    let within = |name: &str| if space.is_empty() { name.to_owned() } else { format!("{space}:{name}") };
    let parts: Vec<&str> = path.split('/').collect();
    match (method.as_str(), parts.as_slice()) {
        ("GET", ["transit", "keys"]) => listed(&held, space),
        (_, ["transit", "keys", name]) => key(&mut held, &method, name, &within(name), &body),
        ("POST", ["transit", "keys", name, "config"]) => configured(&mut held, name, &within(name), &body),
        ("POST", ["transit", "keys", name, "import"]) => backup::import(&mut held, &within(name), &body),
        ("DELETE", ["transit", "keys", name, "soft-delete"]) => {
            backup::hide(&mut held, name, &within(name), true)
        }
        ("POST", ["transit", "keys", name, "soft-delete-restore"]) => {
            backup::hide(&mut held, name, &within(name), false)
        }
        ("GET", ["transit", "backup", name]) => backup::taken(&mut held, name, &within(name)),
        ("POST", ["transit", "restore", name]) => backup::restored(&mut held, name, &within(name), &body),
        ("POST", ["transit", verb @ ("encrypt" | "decrypt"), name]) => {
            crypted(&held, verb, &within(name), &body)
        }
        (_, ["secret", "metadata", rest @ ..]) => {
            metadata(&mut held, &method, &within(&rest.join("/")), &body)
        }
        _ => {
            let said = format!("no handler for route \"{path}\". route entry not found.");
            errors(StatusCode::NOT_FOUND, &[&said])
        }
    }
}

fn listed(held: &Held, space: &str) -> Response {
    let own = |name: &String| match name.split_once(':') {
        Some((of, name)) if of == space => Some(name.to_owned()),
        None if space.is_empty() => Some(name.clone()),
        Some(_) | None => None,
    };
    let names: Vec<String> = held.keys.keys().filter_map(own).collect();
    if names.is_empty() {
        return errors(StatusCode::NOT_FOUND, &[]);
    }
    say(StatusCode::OK, &json!({ "data": { "keys": names } }))
}

fn key(held: &mut Held, method: &Method, name: &str, at: &str, body: &Value) -> Response {
    let flag = |name: &str| body[name] == json!(true);
    match (method.as_str(), held.keys.get(at)) {
        ("GET", Some(key)) => say(StatusCode::OK, &key.described(name)),
        ("GET", None) => errors(StatusCode::NOT_FOUND, &[]),
        // An existing key is left unchanged and described.
        ("POST", Some(key)) => say(StatusCode::OK, &key.described(name)),
        ("POST", None) => {
            let key = Key::new(flag("exportable"), flag("allow_plaintext_backup"));
            let described = key.described(name);
            held.keys.insert(at.to_owned(), key);
            say(StatusCode::OK, &described)
        }
        ("DELETE", Some(key)) if key.deletion_allowed => {
            match held.keys.get_mut(at).filter(|_| held.keeps_deleted) {
                Some(key) => key.soft_deleted = true,
                None => drop(held.keys.remove(at)),
            }
            nothing()
        }
        ("DELETE", there) => {
            let why = if there.is_some() {
                "deletion is not allowed for this key"
            } else {
                "could not delete key; not found"
            };
            errors(StatusCode::BAD_REQUEST, &[&format!("error deleting policy {name}: {why}")])
        }
        _ => errors(StatusCode::METHOD_NOT_ALLOWED, &["1 error occurred:\n\t* unsupported operation\n\n"]),
    }
}

fn configured(held: &mut Held, name: &str, at: &str, body: &Value) -> Response {
    let Some(key) = held.keys.get_mut(at) else {
        return errors(StatusCode::BAD_REQUEST, &[&format!("no existing key named {name} could be found")]);
    };
    if let Some(allowed) = body["deletion_allowed"].as_bool() {
        key.deletion_allowed = allowed;
    }
    // A flag that is set stays set.
    key.exportable |= body["exportable"] == json!(true);
    key.allow_plaintext_backup |= body["allow_plaintext_backup"] == json!(true);
    say(StatusCode::OK, &key.described(name))
}

fn crypted(held: &Held, verb: &str, at: &str, body: &Value) -> Response {
    let refused = |said| errors(StatusCode::BAD_REQUEST, &[said]);
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    match (verb, held.keys.get(at)) {
        (_, Some(key)) if key.soft_deleted => refused("unable to use key: it is soft-deleted"),
        ("encrypt", Some(key)) => {
            say(StatusCode::OK, &json!({ "data": { "ciphertext": key.encrypt(&text("plaintext")) } }))
        }
        // Encrypting creates a key if the token may create; no token here may.
        ("encrypt", None) => errors(StatusCode::FORBIDDEN, &["1 error occurred:\n\t* permission denied\n\n"]),
        (_, None) => refused("encryption key not found"),
        (_, Some(key)) => match key.decrypt(&text("ciphertext")) {
            Some(plaintext) => say(StatusCode::OK, &json!({ "data": { "plaintext": plaintext } })),
            None => refused("cipher: message authentication failed"),
        },
    }
}

fn metadata(held: &mut Held, method: &Method, path: &str, body: &Value) -> Response {
    match method.as_str() {
        "GET" => match held.metadata.get(path) {
            Some(custom) => say(
                StatusCode::OK,
                &json!({ "data": { "custom_metadata": custom, "current_version": 0, "versions": {} } }),
            ),
            None => errors(StatusCode::NOT_FOUND, &[]),
        },
        "DELETE" => {
            held.metadata.remove(path);
            nothing()
        }
        _ => {
            let custom: BTreeMap<String, String> =
                serde_json::from_value(body["custom_metadata"].clone()).unwrap_or_default();
            if custom.values().any(|value| value.len() > 512) {
                return errors(
                    StatusCode::BAD_REQUEST,
                    &["custom_metadata validation failed: value too long"],
                );
            }
            held.metadata.insert(path.to_owned(), custom);
            nothing()
        }
    }
}
