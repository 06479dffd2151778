//! An operator's admission webhook, as on clusters without admission policies: real TLS, called by the API server.

use super::server::World;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use std::{path::Path, process::Command, sync::Arc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// Its name, as the settings of the backend give it.
pub const NAME: &str = "images.house.example";
const PATH: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// The allowed registries.
const HOUSE: [&str; 2] = ["registry.tenure.internal/", "registry.example/"];

/// The running webhook.
pub struct Webhook<'a> {
    world: &'a World,
    serving: JoinHandle<()>,
}

impl<'a> Webhook<'a> {
    /// Registers it with the server.
    pub async fn beside(world: &'a World) -> Self {
        let acceptor = acceptor(world.dir());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move { answer(acceptor, stream).await });
            }
        });
        let certificate = std::fs::read(world.dir().join("webhook.pem")).unwrap();
        let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] });
        let hook = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": { "name": "house" },
            "webhooks": [{
                "name": NAME, "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": { "url": format!("https://127.0.0.1:{port}/"), "caBundle": BASE64_STANDARD.encode(certificate) },
            }],
        });
        world.delete(&format!("{PATH}/house")).await;
        world.post(PATH, hook).await;
        Self { world, serving }
    }

    /// Removes the registration.
    pub async fn end(self) {
        self.world.delete(&format!("{PATH}/house")).await;
        self.serving.abort();
    }
}

fn acceptor(dir: &Path) -> TlsAcceptor {
    let (key, certificate) = (dir.join("webhook.key"), dir.join("webhook.pem"));
    let mut make = Command::new("openssl");
    make.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ])
    .args(["-subj", "/CN=house", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout"])
    .arg(&key)
    .arg("-out")
    .arg(&certificate);
    let made = make.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// Reviews all requests of one connection.
async fn answer(acceptor: TlsAcceptor, stream: TcpStream) -> Option<()> {
    let mut stream = acceptor.accept(stream).await.ok()?;
    let mut seen = Vec::new();
    loop {
        let head = loop {
            if let Some(at) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut seen).await.ok()? == 0 {
                return None;
            }
        };
        let said = String::from_utf8_lossy(&seen[..head]).to_ascii_lowercase();
        let length =
            said.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
        let end = head + length.unwrap_or(0);
        while seen.len() < end {
            stream.read_buf(&mut seen).await.ok()?;
        }
        let review = verdict(&serde_json::from_slice(&seen[head..end]).ok()?).to_string();
        seen.drain(..end);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{review}",
            review.len()
        );
        stream.write_all(answer.as_bytes()).await.ok()?;
        stream.flush().await.ok()?;
    }
}

fn verdict(review: &Value) -> Value {
    let containers =
        review["request"]["object"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let image = |container: &Value| container["image"].as_str().unwrap_or_default().to_owned();
    let foreign =
        containers.iter().map(image).find(|image| !HOUSE.iter().any(|house| image.starts_with(house)));
    let message = foreign.as_ref().map(|image| format!("{image} is not of this house"));
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": { "uid": review["request"]["uid"], "allowed": foreign.is_none(), "status": { "message": message } },
    })
}
