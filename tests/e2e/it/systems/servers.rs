//! The servers of the recipes.

use reqwest::{Client, Method, header::LOCATION};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::{path::Path, process::Command};
use tempfile::TempDir;
use tests::processes::Process;

/// A SCIM service with the tokens `platform` and `verifier`.
pub struct Scim {
    pub url: String,
    dir: TempDir,
    client: Client,
    _process: Process,
}

impl Scim {
    /// Starts it; `None` with a message if it cannot be installed.
    pub fn start() -> Option<Self> {
        let mut command = Command::new(e2e::scripts().join("scim-up.sh"));
        let started = Process::try_start(command.args(["platform", "verifier"]), "Serving SCIM on ");
        let Some((process, line)) = started else {
            e2e::skipped("a SCIM service", "tests/servers/prepare.sh installs it by pip");
            return None;
        };
        let url = line.rsplit(' ').next().unwrap_or_default().to_owned();
        let dir = tempfile::tempdir().unwrap();
        for name in ["platform", "verifier"] {
            std::fs::write(dir.path().join(name), format!("{name}\n")).unwrap();
        }
        std::fs::create_dir(dir.path().join("owners")).unwrap();
        Some(Self { url, dir, client: client(), _process: process })
    }

    /// Returns the path of a file: a token, or the administrators of a tenant.
    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Adds a user of the service who administers the tenant.
    pub async fn owner(&self, tenant: &str, name: &str) {
        let user = json!({ "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": name });
        self.call(Method::POST, "Users", Some(user)).await;
        std::fs::write(self.file("owners") + "/" + tenant, format!("{name}\n")).unwrap();
    }

    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let mut request = self.client.request(method, format!("{}/{path}", self.url)).bearer_auth("platform");
        if let Some(body) = body {
            request = request.header("content-type", "application/scim+json").body(body.to_string());
        }
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default()
    }

    /// Returns every group with its name and its number of members.
    pub async fn groups(&self) -> Vec<(String, usize, String)> {
        let all = self.call(Method::GET, "Groups?count=500", None).await;
        let of = |group: &Value| {
            let members = group["members"].as_array().map_or(0, Vec::len);
            (text(&group["displayName"]), members, text(&group["id"]))
        };
        let mut all: Vec<_> = all["Resources"].as_array().into_iter().flatten().map(of).collect();
        all.sort();
        all
    }

    pub async fn plant(&self, name: &str) {
        let group =
            json!({ "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": name });
        self.call(Method::POST, "Groups", Some(group)).await;
    }
}

pub fn client() -> Client {
    program::install_tls();
    Client::builder().no_proxy().build().unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A container registry with the users `tenure` and `reader`.
pub struct Registry {
    pub url: String,
    pub dir: TempDir,
    client: Client,
    _process: Process,
}

impl Registry {
    /// Starts it; `None` with a message if it cannot be installed.
    pub fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(e2e::scripts().join("registry-up.sh"));
        let Some((process, line)) = Process::try_start(command.arg(dir.path()), "registry http") else {
            e2e::skipped("docker-registry", "tests/servers/prepare.sh installs it");
            return None;
        };
        for name in ["tenure", "reader"] {
            std::fs::write(dir.path().join(name), format!("{name}:pw\n")).unwrap();
        }
        let url = line.rsplit(' ').next().unwrap_or_default().to_owned();
        Some(Self { url, dir, client: client(), _process: process })
    }

    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    async fn blob(&self, name: &str, content: &[u8]) -> Value {
        let bytes = digest(&SHA256, content);
        let hex: String = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let digest = format!("sha256:{hex}");
        let begun = self.client.post(format!("{}/v2/{name}/blobs/uploads/", self.url));
        let begun = begun.basic_auth("tenure", Some("pw")).send().await.unwrap();
        let at = begun.headers()[LOCATION].to_str().unwrap();
        let glue = if at.contains('?') { '&' } else { '?' };
        let sent = self.client.put(format!("{at}{glue}digest={digest}")).basic_auth("tenure", Some("pw"));
        let sent = sent.header("content-type", "application/octet-stream").body(content.to_vec());
        assert!(sent.send().await.unwrap().status().is_success(), "the layer is pushed");
        json!({ "size": content.len(), "digest": digest })
    }

    /// Pushes an image of one layer.
    pub async fn push(&self, name: &str, tag: &str, content: &str) {
        let media = |blob: Value, media: &str| json!({ "mediaType": media, "size": blob["size"], "digest": blob["digest"] });
        let config = media(self.blob(name, b"{}").await, "application/vnd.oci.image.config.v1+json");
        let layer =
            media(self.blob(name, content.as_bytes()).await, "application/vnd.oci.image.layer.v1.tar");
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let manifest = json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer] });
        let sent = self.client.put(format!("{}/v2/{name}/manifests/{tag}", self.url));
        let sent =
            sent.basic_auth("tenure", Some("pw")).header("content-type", kind).body(manifest.to_string());
        assert!(sent.send().await.unwrap().status().is_success(), "the manifest is pushed");
    }

    /// Returns the files of the registry that contain these bytes.
    pub fn files_with(&self, secret: &str) -> Vec<String> {
        let mut found = Vec::new();
        scan(&self.dir.path().join("data"), secret.as_bytes(), &mut found);
        found
    }
}

fn scan(dir: &Path, secret: &[u8], found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().map(Result::unwrap) {
        if entry.path().is_dir() {
            scan(&entry.path(), secret, found);
        } else if std::fs::read(entry.path()).unwrap().windows(secret.len()).any(|window| window == secret) {
            found.push(entry.path().display().to_string());
        }
    }
}

/// A name server of the zone `gpus.example`.
pub struct Dns {
    pub port: String,
    dir: TempDir,
    _process: Process,
}

impl Dns {
    /// Starts it with these records in the zone; `None` with a message if it cannot be installed.
    pub fn start(records: &[&str]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(e2e::scripts().join("dns-up.sh"));
        let Some((process, line)) = Process::try_start(command.arg(dir.path()).args(records), "port ") else {
            e2e::skipped("knotd", "tests/servers/prepare.sh installs it");
            return None;
        };
        let port = line.rsplit(' ').next().unwrap_or_default().to_owned();
        Some(Self { port, dir, _process: process })
    }

    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Returns the name server's answer for a name.
    pub fn answer(&self, name: &str, kind: &str) -> String {
        let mut dig = Command::new("dig");
        dig.args(["+short", "@127.0.0.1", "-p", &self.port, kind, name]);
        String::from_utf8(dig.output().unwrap().stdout).unwrap().trim().to_owned()
    }
}
