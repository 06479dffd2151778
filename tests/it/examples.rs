//! The commands of the pages, run unchanged against a server that has the resources they name.

use crate::{
    certificate,
    served::{Served, TENURE, page},
    typed::{Typed, blocks, commands},
};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output, Stdio},
};

/// The pages to run, in this order: later ones may use what earlier ones made.
const PAGES: [&str; 16] = [
    "cli.md",
    "notifications.md",
    "access.md",
    "audit.md",
    "certificate.md",
    "schedules.md",
    "admission.md",
    "search.md",
    "usage.md",
    "policy.md",
    "operations/first-look.md",
    "operations/repair.md",
    "operations/backup.md",
    "operations/sealed-records.md",
    "operations/retention.md",
    "simulate.md",
];

/// Commands with an exit code other than 0, as the page or its example expects.
const ENDS: [(&str, i32); 4] = [
    // It waits for approval.
    ("tenure tenant onboard -f acme.yaml --wait", 10),
    // The text below it shows the errors of the file.
    ("tenure access check house.cedar", 1),
    // Refused: the server of the stage has no policies of its own.
    ("tenure access explain change_quota --user fritz --plans", 1),
    // The request says `gold`, as the following line explains.
    ("tenure policy check request.yaml", 1),
];

/// Commands that cannot run here, and why.
const CANNOT: [(&str, &str); 18] = [
    ("tenure login --enrol CODE --token-file dora.token", "a code is drawn for the moment"),
    ("tenure leftovers show ID", "nothing is left behind here"),
    ("tenure leftovers release ID --reason TEXT", "nothing is left behind here"),
    ("tenure", "it serves until it is stopped, as the one of the stage does"),
    ("TENURE_SEAL_KEY_FILE=platform.key tenure serve", "it serves until it is stopped"),
    ("tenure --context eu tenants list", "the server of the example does not exist"),
    ("export TENURE_TOKEN=$(tenure login)", "somebody would have to sign in: `sessions` does"),
    ("tenure logout", "there is no session to end: `sessions` does"),
    ("tenure store release --since TIME --reason \"drift was looked at\"", "nothing is held: `held` does"),
    (
        "tenure simulate trace.csv --fleet nodes.csv --policy policy.yaml --report out/",
        "`simulate` does, with traces of its own",
    ),
    ("tenure simulate trace.csv --repeat 24", "`simulate` repeats an hour of its own"),
    (
        "tenure notify sink --listen 127.0.0.1:9999 --secret-file /etc/tenure/hook-secret",
        "it takes webhooks until it is stopped: `channels` does",
    ),
    ("tenure notify test hook", "the channel is one of the settings beside it"),
    ("tenure cluster key show own-1", "it takes a tenant with a cluster of its own: `cluster_keys` does"),
    ("tenure cluster key rotate own-1 --reason 'half a year old'", "as before"),
    ("tenure cluster key rotate own-1 --overlap 0", "as before"),
    ("tenure cluster key revoke own-1 --reason 'it stood in a log'", "as before"),
    ("tenure completions zsh > \"${fpath[1]}/_tenure\"", "`fpath` is one of zsh's; `cli_operators` does"),
];

/// Placeholder words, with their values on the stage.
const MEANT: [(&str, &str); 1] = [("CHANNEL", "pager")];

/// An id that the pages show; it is replaced by the execution that waits for approval.
const SHOWN: &str = "01a1fdc0-e9b1";

/// Starts a receiver of any post and returns its address.
fn receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(taken(stream))));
    url
}

fn taken(mut stream: TcpStream) -> std::io::Result<()> {
    let mut read = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while read.read_line(&mut line)? > 2 {
        if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = said.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    read.take(length).read_to_end(&mut Vec::new())?;
    stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// A server with a channel, and the files of the pages in its folder.
struct Stage {
    served: Served,
    ada: String,
}

impl Stage {
    async fn set() -> Self {
        let settings = tempfile::tempdir().unwrap();
        let key = settings.path().join("key");
        fs::write(&key, "the-key-of-the-integration\n").unwrap();
        let file = settings.path().join("tenure.toml");
        let channel = format!(
            "[notify.channels.pager]\nkind = \"pagerduty\"\nurl = \"{}\"\nkey_file = {key:?}\n",
            receiver()
        );
        fs::write(&file, channel).unwrap();
        let served = Served::start_with(&[("TENURE_CONFIG", file.to_str().unwrap())]);
        let ada = served.user("ada", &["platform_ops"], None).await;
        served.user("fritz", &["finance"], None).await;
        let stage = Self { served, ada };
        stage.files();
        stage
    }

    /// Writes the files that the pages assume.
    fn files(&self) {
        let here = self.served.dir.path();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let put = |name: &str, text: &str| fs::write(here.join(name), text).unwrap();
        symlink(root.join("docs"), here.join("docs")).unwrap();
        fs::create_dir(here.join("bin")).unwrap();
        symlink(TENURE, here.join("bin/tenure")).unwrap();
        for folder in [
            ".local/share/bash-completion/completions",
            ".local/share/man",
            ".config/fish/completions",
            ".config/elvish/lib",
        ] {
            fs::create_dir_all(here.join(folder)).unwrap();
        }
        for (name, like) in [
            ("nodes.csv", "docs/examples/nodes.csv"),
            ("acme.yaml", "docs/examples/acme.yaml"),
            ("my-policy.yaml", "docs/examples/quick-policy.yaml"),
            ("old.yaml", "workflows/src/policy/default.yaml"),
        ] {
            put(name, &fs::read_to_string(root.join(like)).unwrap());
        }
        put("eu.token", "tn_of_another_server\n");
        put("ca.pem", &authority());
        put("request.yaml", "name: acme\ntenant:\n  tier: gold\n");
        put("house.cedar", &block("access.md", "cedar").replace("change_quota", "change_qota"));
        put("overdue.yaml", &block("schedules.md", "yaml"));
        // In a thread with its own runtime, which the signer needs.
        put("acme.json", &std::thread::spawn(certificate::whole).join().unwrap());
        for key in ["issuer.pem", "old.pem", "new.pem"] {
            put(key, &certificate::issuer());
        }
    }

    /// Runs a line with its placeholders replaced.
    fn run(&self, line: &str) -> Output {
        let here = self.served.dir.path();
        let mut line = MEANT.iter().fold(line.to_owned(), |line, (word, is)| line.replace(word, is));
        if line.contains(SHOWN) {
            line = line.replace(SHOWN, &self.waiting());
        }
        let mut bash = Command::new("bash");
        for name in ["TENURE_TOKEN", "TENURE_DATA", "TENURE_CONFIG", "TENURE_CONTEXT", "RUST_LOG"] {
            bash.env_remove(name);
        }
        let path = format!("{}:{}", here.join("bin").display(), std::env::var("PATH").unwrap());
        bash.args(["-c", &line])
            .current_dir(here)
            .env("PATH", path)
            .env("TENURE_SERVER", &self.served.url)
            .env("ADA", &self.ada)
            .env("HOME", here)
            .env("PROFILE", here.join("profile.ps1"))
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null());
        bash.output().unwrap()
    }

    /// Returns the latest execution.
    fn waiting(&self) -> String {
        let all =
            self.served.run(&["executions", "list", "--where", "workflow=onboarding", "-o", "json"]).json();
        let last = all.as_array().unwrap().last().expect("an onboarding");
        last["id"].as_str().unwrap().to_owned()
    }
}

/// Returns the first block of this language in a page.
fn block(name: &str, kind: &str) -> String {
    let page = page(name);
    let (_, rest) =
        page.split_once(&format!("```{kind}\n")).unwrap_or_else(|| panic!("{name} has no {kind}"));
    rest.split("```").next().unwrap().to_owned()
}

/// A certificate of some authority.
fn authority() -> String {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "9", "-subj", "/CN=authority", "-keyout", "/dev/null"])
        .output()
        .unwrap();
    String::from_utf8(made.stdout).unwrap()
}

/// Returns the command without its comment.
fn command(typed: &Typed) -> &str {
    typed.text.split("  #").next().unwrap().trim_end()
}

fn cannot(line: &str) -> bool {
    CANNOT.iter().any(|(cannot, _)| *cannot == line)
}

#[tokio::test]
async fn the_commands_in_the_documentation_have_the_documented_effect() {
    let stage = Stage::set().await;
    let (mut ran, mut wrong, mut left) = (0, Vec::new(), CANNOT.map(|(line, _)| line).to_vec());
    for name in PAGES {
        for (kind, typed) in blocks(&page(name)) {
            let line = command(&typed);
            if kind == "sh" || commands(line).is_empty() {
                continue;
            }
            if cannot(line) {
                left.retain(|cannot| *cannot != line);
                continue;
            }
            let wanted = ENDS.iter().find(|(ends, _)| *ends == line).map_or(0, |(_, code)| *code);
            let out = stage.run(line);
            ran += 1;
            if out.status.code() != Some(wanted) {
                let said =
                    |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().take(600).collect::<String>();
                let (out, err, code) = (said(&out.stdout), said(&out.stderr), out.status.code());
                wrong.push(format!(
                    "docs/{name}:{}: {line}: ended with {code:?}, not {wanted}\n{out}{err}",
                    typed.line
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(ran > 50, "{ran}");
    assert!(left.is_empty(), "these are in none of the pages: {left:?}");
}
