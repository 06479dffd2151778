//! TLS by the server itself: a new connection gets the current certificate, and a replacement does not disturb open ones.

use crate::{
    served::{Ran, Served, small, tenure},
    streams::Stream,
};
use reqwest::{Certificate, Client, Method, tls::TlsInfo};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A private authority, in a folder with its certificates. The server reads `server.pem` and `server.key`.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let me = Self(tempfile::tempdir().unwrap());
        me.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 9 -subj /CN=authority -keyout ca.key -out ca.pem");
        fs::write(me.at("ext"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n").unwrap();
        me
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let made = Command::new("openssl").args(arguments.split(' ')).current_dir(self.0.path()).output();
        let made = made.unwrap_or_else(|e| panic!("openssl makes the certificates of these tests: {e}"));
        assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
    }

    /// Signs a pair of this name, valid for `days` days.
    fn signs(&self, name: &str, days: i32) {
        self.openssl(&format!("req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"));
        self.openssl(&format!("x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days {days} -extfile ext -out {name}.pem"));
    }

    /// Writes a certificate and a key to the server's paths.
    fn lays(&self, certificate: &str, key: &str) {
        for (from, to) in [(format!("{certificate}.pem"), "server.pem"), (format!("{key}.key"), "server.key")]
        {
            fs::copy(self.at(&from), self.at("part")).unwrap();
            fs::rename(self.at("part"), self.at(to)).unwrap();
        }
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        let text = |name: &str| self.at(name).to_str().unwrap().to_owned();
        [("TENURE_TLS_CERTIFICATE_FILE", text("server.pem")), ("TENURE_TLS_KEY_FILE", text("server.key"))]
    }

    /// A client that trusts this authority, without an open connection.
    fn client(&self) -> Client {
        let pem = fs::read(self.at("ca.pem")).unwrap();
        let trusted = Certificate::from_pem_bundle(&pem).unwrap();
        Client::builder().tls_certs_merge(trusted).tls_info(true).build().unwrap()
    }

    fn serves(&self) -> Served {
        let variables = self.variables();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Served::start_logged(&variables).asking_by(self.client())
    }
}

/// Returns the certificate of a client's connection.
async fn shown(client: &Client, url: &str) -> Vec<u8> {
    let answer = client.get(format!("{url}/livez")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["strict-transport-security"], "max-age=31536000");
    answer.extensions().get::<TlsInfo>().unwrap().peer_certificate().unwrap().to_vec()
}

/// Returns the certificate of new connections, once it differs from `before`.
async fn after(authority: &Authority, url: &str, before: &[u8]) -> Vec<u8> {
    for _ in 0..200 {
        let found = shown(&authority.client(), url).await;
        if found != before {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the certificate was not replaced");
}

async fn metric(served: &Served, name: &str) -> f64 {
    let text = served.send(served.ask(Method::GET, "/metrics")).await.body.as_str().unwrap().to_owned();
    let line =
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.trim().parse().unwrap()
}

const REFUSED: &str = "tenure_tls_certificate_reads_total{outcome=\"refused\"}";
const TAKEN: &str = "tenure_tls_certificate_reads_total{outcome=\"taken\"}";

/// An open connection and a stream survive it; later connections get the new certificate.
#[tokio::test]
async fn a_new_tls_certificate_does_not_affect_open_connections() {
    program::install_tls();
    let authority = Authority::new();
    authority.signs("one", 3);
    authority.signs("two", 5);
    authority.lays("one", "one");
    let served = authority.serves();
    assert!(served.url.starts_with("https://127.0.0.1:"), "{}", served.url);
    let kept = authority.client();
    let first = shown(&kept, &served.url).await;
    let mut stream = Stream::open(&served, &served.admin, "/v1/watch", "").await;
    assert_eq!(stream.must().await.name, "present");
    let left = metric(&served, "tenure_tls_certificate_left_seconds").await;
    assert!((2.9 * 86_400.0..=3.0 * 86_400.0).contains(&left), "{left}");

    authority.lays("two", "two");
    let second = after(&authority, &served.url, &first).await;

    assert_eq!(shown(&kept, &served.url).await, first, "the open connection keeps its certificate");
    let answer =
        served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", crate::served::NODES).await;
    assert_eq!(answer.status, 200);
    let id = served.onboard(&small("acme")).await;
    stream.until(|told| told.data.to_string().contains(&id)).await;
    assert_eq!(metric(&served, TAKEN).await, 1.0);
    let left = metric(&served, "tenure_tls_certificate_left_seconds").await;
    assert!(left > 4.9 * 86_400.0, "{left}");

    // A reload without a change keeps the current certificate.
    served.signal(Signal::HUP);
    assert_eq!(shown(&authority.client(), &served.url).await, second);
    assert_eq!(stopped(served, stream).await, Some(0));
}

/// Stops the server; the stream ends in order.
async fn stopped(served: Served, mut stream: Stream) -> Option<i32> {
    let ending = tokio::task::spawn_blocking(move || served.stopped(Signal::TERM));
    stream.until(|told| told.name == "end").await;
    ending.await.unwrap()
}

/// Foreign keys, expired certificates, missing files: each is logged and counted, and changes nothing.
#[tokio::test]
async fn an_invalid_certificate_and_key_are_refused_and_the_previous_ones_stay() {
    program::install_tls();
    let authority = Authority::new();
    authority.signs("one", 3);
    authority.signs("two", 5);
    authority.signs("over", -1);
    authority.lays("one", "one");
    let served = authority.serves();
    let first = shown(&authority.client(), &served.url).await;

    let log = || fs::read_to_string(served.dir.path().join("log.txt")).unwrap();
    let garbage = || fs::write(authority.at("server.pem"), "no certificate").unwrap();
    let gone = || fs::remove_file(authority.at("server.key")).unwrap();
    let wrongs: [(&dyn Fn(), &str); 4] = [
        (&|| authority.lays("one", "two"), "does not match the first certificate"),
        (&|| authority.lays("over", "over"), "was valid until"),
        (&garbage, "has no certificate"),
        (&gone, "cannot read"),
    ];
    for (wrong, why) in wrongs {
        let before = metric(&served, REFUSED).await;
        wrong();
        let began = Instant::now();
        while !log().contains(why) {
            assert!(began.elapsed() < Duration::from_secs(20), "{why}: {}", log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(metric(&served, REFUSED).await > before, "{why}");
        assert_eq!(shown(&authority.client(), &served.url).await, first, "{why}");
    }
    let refused = metric(&served, REFUSED).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(metric(&served, REFUSED).await, refused, "unchanged files are reported once");
    assert_eq!(metric(&served, TAKEN).await, 0.0);

    authority.lays("two", "two");
    after(&authority, &served.url, &first).await;
}

/// The command line trusts an authority that is set by flag or by context, and no other.
#[tokio::test]
async fn the_command_line_verifies_a_server_certificate_of_a_private_authority() {
    let authority = Authority::new();
    authority.signs("one", 3);
    authority.lays("one", "one");
    let served = authority.serves();
    let ca = authority.at("ca.pem");
    let ca = ca.to_str().unwrap();

    let strange = served.run(&["tenants", "list"]);
    assert!(strange.exit == 9 && strange.err.contains("certificate"), "{strange:?}");
    let known = served.run(&["--ca-file", ca, "tenants", "list"]);
    assert_eq!(known.exit, 0, "{known:?}");
    let empty = authority.at("ext");
    let empty = served.run(&["--ca-file", empty.to_str().unwrap(), "tenants", "list"]);
    assert!(empty.exit == 2 && empty.err.contains("--ca-file"), "{empty:?}");

    let by_context = |arguments: &[&str]| Ran::of(tenure(served.dir.path()).args(arguments));
    let set = ["context", "set", "house", "--server", &served.url, "--ca-file", ca, "--token", &served.admin];
    assert_eq!(by_context(&set).exit, 0);
    let listed = by_context(&["--context", "house", "tenants", "list"]);
    assert_eq!(listed.exit, 0, "{listed:?}");
    let told = by_context(&["--context", "house", "context", "show", "-o", "json"]).json();
    assert_eq!(told["ca_file"]["is"], ca, "{told}");
    let other = Authority::new();
    let other = other.at("ca.pem");
    let wrong = by_context(&["--context", "house", "--ca-file", other.to_str().unwrap(), "tenants", "list"]);
    assert_eq!(wrong.exit, 9, "{wrong:?}");

    let doctor = served.run(&["--ca-file", ca, "doctor", "-o", "json"]);
    assert!(doctor.out.contains("TLS; the certificate is valid until"), "{doctor:?}");
}

/// A silent connection does not delay others; plain HTTP gets no answer.
#[tokio::test]
async fn a_slow_or_missing_handshake_delays_no_other_connection() {
    program::install_tls();
    let authority = Authority::new();
    authority.signs("one", 3);
    authority.lays("one", "one");
    let served = authority.serves();
    let address = served.url.trim_start_matches("https://");
    let silent: Vec<_> = (0..50).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();

    let began = Instant::now();
    shown(&authority.client(), &served.url).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(Client::new().get(format!("http://{address}/livez")).send().await.is_err());
    drop(silent);
}

/// Returns the exit code and the error of a start with `variables`.
fn refused(dir: &Path, variables: &[(&str, String)]) -> (i32, String) {
    let ran = Ran::of(tenure(dir).args(["serve", "--listen", "127.0.0.1:0"]).envs(variables.iter().cloned()));
    (ran.exit, ran.err)
}

#[test]
fn a_server_with_an_unusable_certificate_does_not_start_and_doctor_explains_why() {
    let authority = Authority::new();
    authority.signs("one", 3);
    authority.signs("two", 3);
    authority.signs("over", -1);
    let dir = tempfile::tempdir().unwrap();
    let variables = authority.variables();
    let doctor = || {
        let told = Ran::of(
            tenure(dir.path()).args(["doctor", "--offline", "-o", "json"]).envs(variables.iter().cloned()),
        );
        let checks = told.json()["checks"].as_array().unwrap().clone();
        let tls = checks.into_iter().find(|check| check["check"] == "tls");
        let tls = tls.unwrap_or_else(|| panic!("{told:?}"));
        (tls["state"].clone(), tls["says"].as_str().unwrap().to_owned())
    };

    let (exit, why) = refused(dir.path(), &variables[..1]);
    assert!(exit == 2 && why.contains("tls.key_file"), "{exit}: {why}");
    let (exit, why) = refused(dir.path(), &variables);
    assert!(
        exit == 2 && why.contains("tls.certificate_file") && why.contains("cannot read"),
        "{exit}: {why}"
    );
    authority.lays("one", "two");
    let (exit, why) = refused(dir.path(), &variables);
    assert!(exit == 2 && why.contains("replace both files"), "{exit}: {why}");
    let (state, says) = doctor();
    assert!(state == "failed" && says.contains("does not match"), "{says}");

    authority.lays("over", "over");
    assert_eq!(doctor().0, "failed");
    authority.lays("one", "one");
    let (state, says) = doctor();
    assert!(state == "warning" && says.contains("2 days"), "{says}");
    authority.signs("long", 90);
    authority.lays("long", "long");
    assert_eq!(doctor().0, Value::from("ok"));
}

/// The start warns on a terminal, and only if others can reach the address.
#[test]
fn a_server_reachable_without_tls_prints_a_remedy() {
    let said = |listen: &str| {
        let dir = tempfile::tempdir().unwrap();
        let mut server =
            tenure(dir.path()).args(["serve", "--listen", listen]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said: String = lines.take_while(|line| !line.starts_with("try next")).collect();
        server.kill().unwrap();
        server.wait().unwrap();
        said
    };
    assert!(said("0.0.0.0:0").contains("tls.certificate_file"));
    assert!(!said("127.0.0.1:0").contains("unencrypted"));
}
