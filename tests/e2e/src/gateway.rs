//! Ceph's object gateway, and a client for it that shares no code with the tested backend.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{Client, Method, StatusCode};
use ring::hmac;
use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tempfile::TempDir;

/// The gateway that tests share if they do not stop it.
static SHARED: Mutex<Weak<Gateway>> = Mutex::new(Weak::new());

/// A gateway in a folder of its own, stopped when it is dropped.
#[derive(Debug)]
pub struct Gateway {
    dir: TempDir,
    env: BTreeMap<String, String>,
}

impl Gateway {
    /// Returns the shared gateway; `None` after a skip message if it cannot be installed.
    #[must_use]
    pub fn shared() -> Option<Arc<Self>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = shared.upgrade() {
            return Some(running);
        }
        let started = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&started);
        Some(started)
    }

    /// Starts a separate gateway; `None` after a skip message if it cannot be installed.
    #[must_use]
    pub fn start() -> Option<Self> {
        let dir = tempfile::tempdir().ok()?;
        let env = script("radosgw-up.sh", &[path(dir.path())]);
        match env {
            Ok(env) => Some(Self { dir, env }),
            Err(why) => {
                let _stopped = script("radosgw-down.sh", &[path(dir.path())]);
                crate::skipped("Ceph's object gateway", &why);
                None
            }
        }
    }

    /// Returns a variable that the script prints.
    #[must_use]
    pub fn env(&self, name: &str) -> &str {
        self.env.get(name).map_or("", String::as_str)
    }

    /// Returns its address.
    #[must_use]
    pub fn url(&self) -> &str {
        self.env("RADOSGW_URL")
    }

    /// Kills the gateway's process; its store stays.
    pub fn kill(&self) {
        let _killed = script("radosgw-down.sh", &[path(self.dir.path()), "gateway"]);
    }

    /// Starts the gateway's process again.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&self) {
        script("radosgw-up.sh", &[path(self.dir.path())]).expect("the gateway comes up again");
    }

    /// Returns true if the store behind the gateway contains these bytes. The store's own tool reads every object of every
    /// pool for buckets, without the gateway.
    ///
    /// # Panics
    /// If the store cannot be read.
    #[must_use]
    pub fn stores(&self, secret: &str) -> bool {
        !self.holding(secret).is_empty()
    }

    /// Returns the store's own objects that contain the text, each with its pool.
    ///
    /// # Panics
    /// If the store cannot be read.
    #[must_use]
    pub fn holding(&self, secret: &str) -> Vec<String> {
        let conf = self.dir.path().join("ceph.conf");
        let read = r#"
            radosgw-admin -n client.admin gc process --include-all >/dev/null 2>&1
            set -e
            for pool in $(rados lspools | grep buckets); do
                echo "read $pool"
                rados -p "$pool" --all ls | while IFS= read -r line; do
                    space=${line%%$'\t'*} rest=${line#*$'\t'} name=${rest%%$'\t'*}
                    echo "object $pool $name"
                    rados -p "$pool" ${space:+-N "$space"} get "$name" - 2>/dev/null || true
                done
            done"#;
        let mut bash = Command::new("bash");
        let output = bash.arg("-c").arg(read).env("CEPH_CONF", conf).output().expect("bash runs");
        let (all, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && all.contains(".buckets.data"), "the store can be read: {said}");
        let holds = all.split("object ").filter(|one| one.contains(secret));
        holds.map(|one| one.lines().next().unwrap_or_default().to_owned()).collect()
    }

    /// A client with these credentials: `PLATFORM`, `VERIFIER` or `STRANGER`.
    #[must_use]
    pub fn raw(&self, who: &str) -> Raw {
        Raw {
            http: Client::new(),
            url: self.url().to_owned(),
            key: self.env(&format!("{who}_KEY")).to_owned(),
            secret: self.env(&format!("{who}_SECRET")).to_owned(),
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _stopped = script("radosgw-down.sh", &[path(self.dir.path())]);
    }
}

fn path(dir: &Path) -> &str {
    dir.to_str().unwrap_or_default()
}

/// Runs a script; returns its `NAME=VALUE` output.
///
/// # Errors
/// The end of its log.
pub fn script(name: &str, arguments: &[&str]) -> Result<BTreeMap<String, String>, String> {
    // Servers that keep running must not hold this test's output open.
    let log = tempfile::NamedTempFile::new().map_err(|e| e.to_string())?;
    let file = log.reopen().map_err(|e| e.to_string())?;
    let status = Command::new(crate::scripts().join(name))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(|e| e.to_string())?)
        .stderr(file)
        .status()
        .map_err(|e| format!("{name}: {e}"))?;
    let said = std::fs::read_to_string(log.path()).unwrap_or_default();
    if !status.success() {
        return Err(format!("{name}: {}", said.lines().last().unwrap_or("it failed without a word")));
    }
    let pairs = said.lines().filter_map(|line| line.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

/// Speaks S3 with the older of its two signatures.
#[derive(Clone, Debug)]
pub struct Raw {
    http: Client,
    url: String,
    key: String,
    secret: String,
}

impl Raw {
    /// Sends a request; `path` is encoded, and begins with a slash. Returns status and body.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (StatusCode, Vec<u8>) {
        let date = chrono::Utc::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let mut own: Vec<String> = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        own.sort();
        let text = format!("{method}\n\n\n{date}\n{}{}", own.concat(), signed(path));
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, self.secret.as_bytes());
        let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request =
            request.header("date", date).header("authorization", format!("AWS {}:{signature}", self.key));
        let answer = request.body(body.to_vec()).send().await.expect("an answer comes");
        (answer.status(), answer.bytes().await.expect("it has an end").to_vec())
    }

    /// Sends a request that must succeed; returns the body as text.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn ok(&self, method: Method, path: &str, body: &[u8]) -> String {
        let (status, answer) = self.send(method.clone(), path, &[], body).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(status.is_success(), "{method} {path}: {status} {answer}");
        answer
    }

    /// Returns every bucket that this account lists.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn buckets(&self) -> Vec<String> {
        between(&self.ok(Method::GET, "/", b"").await, "<Name>", "</Name>")
    }

    /// Returns the raw listings of a bucket's versions and uploads; `None` without the bucket.
    pub async fn listings(&self, bucket: &str) -> Option<(String, String)> {
        let (status, versions) = self.send(Method::GET, &format!("/{bucket}?versions"), &[], b"").await;
        if status == StatusCode::NOT_FOUND {
            return None;
        }
        let versions = String::from_utf8_lossy(&versions).into_owned();
        Some((versions, self.ok(Method::GET, &format!("/{bucket}?uploads"), b"").await))
    }

    /// Returns true if the gateway serves these bytes in any version of any object of any listed bucket.
    ///
    /// # Panics
    /// If a listing has more than a page.
    pub async fn serves(&self, secret: &str) -> bool {
        for bucket in self.buckets().await {
            let (versions, _) = self.listings(&bucket).await.unwrap_or_default();
            assert!(!versions.contains("<IsTruncated>true"), "only one page is read here");
            for version in between(&versions, "<Version>", "</Version>") {
                let key = between(&version, "<Key>", "</Key>").concat();
                let id = between(&version, "<VersionId>", "</VersionId>").concat();
                if !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
                    continue;
                }
                let path = format!("/{bucket}/{key}?versionId={id}");
                let (_, body) = self.send(Method::GET, &path, &[], b"").await;
                if body.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()) {
                    return true;
                }
            }
        }
        false
    }
}

/// Returns the signed part of a path: the path itself and S3's query parameters.
fn signed(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let known = [
        "object-lock",
        "partNumber",
        "tagging",
        "uploadId",
        "uploads",
        "versionId",
        "versioning",
        "versions",
    ];
    let mut parts: Vec<&str> =
        query.split('&').filter(|part| known.contains(&part.split('=').next().unwrap_or_default())).collect();
    parts.sort_unstable();
    if parts.is_empty() { path.to_owned() } else { format!("{path}?{}", parts.join("&")) }
}

/// Returns every text between these two.
#[must_use]
pub fn between(text: &str, open: &str, close: &str) -> Vec<String> {
    text.split(open).skip(1).filter_map(|rest| rest.split(close).next()).map(str::to_owned).collect()
}
