//! A token of SoftHSM, and its own tools to read it.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Child, Command},
};
use tempfile::TempDir;

/// Marks a test's process that has the token.
const INSIDE: &str = "TENURE_TEST_TOKEN";

/// A token in a folder of its own.
#[derive(Debug)]
pub struct Token {
    _dir: TempDir,
    env: BTreeMap<String, String>,
}

impl Token {
    /// Creates a token; `None` after a skip message if SoftHSM cannot be installed.
    #[must_use]
    pub fn new() -> Option<Self> {
        let dir = tempfile::tempdir().ok()?;
        match crate::gateway::script("softhsm.sh", &[dir.path().to_str()?]) {
            Ok(env) => Some(Self { _dir: dir, env }),
            Err(why) => {
                crate::skipped("SoftHSM", &why);
                None
            }
        }
    }

    /// Returns a variable that the script prints.
    #[must_use]
    pub fn env(&self, name: &str) -> &str {
        self.env.get(name).map_or("", String::as_str)
    }

    /// Runs one test of this binary, by its full name, in a process with this token: the library reads its environment
    /// once for each process.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(&self, test: &str) -> Child {
        let own = std::env::current_exe().expect("this program has a path");
        Command::new(own)
            .args(["--exact", test, "--ignored", "--nocapture"])
            .envs(&self.env)
            .env(INSIDE, "1")
            .spawn()
            .expect("this program starts again")
    }

    /// Runs a test as [`start`](Self::start) does, and expects it to pass.
    ///
    /// # Panics
    /// If it fails.
    pub fn run(&self, test: &str) {
        let ended = self.start(test).wait().expect("it ends");
        assert!(ended.success(), "{test} fails in the process with the token");
    }

    /// Returns the environment variable by which a process finds it.
    #[must_use]
    pub fn library(&self) -> (&'static str, &str) {
        ("SOFTHSM2_CONF", self.env("SOFTHSM2_CONF"))
    }

    /// Runs OpenSC's tool on it; returns its output.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn tool(&self, arguments: &[&str]) -> String {
        run_tool(&self.env, arguments)
    }

    /// Returns the labels of all secret keys, as OpenSC's tool lists them.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        labels(&self.env)
    }

    /// Returns the number of objects in the token's folder.
    #[must_use]
    pub fn files(&self) -> usize {
        files(Path::new(self.env("PKCS11_TOKENS")))
    }
}

/// Returns the setting of this name in a process with a token; `None` in any other.
#[must_use]
pub fn inside(name: &str) -> Option<String> {
    std::env::var_os(INSIDE)?;
    std::env::var(name).ok()
}

/// Returns the labels of all secret keys of this process's token, as OpenSC's tool lists them.
#[must_use]
pub fn labels_inside() -> Vec<String> {
    labels(&std::env::vars().collect())
}

/// Returns the number of objects in the token folder of this process.
#[must_use]
pub fn files_inside() -> usize {
    files(Path::new(&std::env::var("PKCS11_TOKENS").unwrap_or_default()))
}

/// Runs OpenSC's tool on the token of this process.
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn tool(arguments: &[&str]) -> String {
    run_tool(&std::env::vars().collect(), arguments)
}

fn run_tool(env: &BTreeMap<String, String>, arguments: &[&str]) -> String {
    let of = |name: &str| env.get(name).map_or("", String::as_str);
    let output = Command::new("pkcs11-tool")
        .args([
            "--module",
            of("PKCS11_MODULE"),
            "--token-label",
            of("PKCS11_TOKEN"),
            "--login",
            "--pin",
            "1234",
        ])
        .args(arguments)
        .env("SOFTHSM2_CONF", of("SOFTHSM2_CONF"))
        .output()
        .expect("pkcs11-tool runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn labels(env: &BTreeMap<String, String>) -> Vec<String> {
    let listed = run_tool(env, &["--list-objects", "--type", "secrkey"]);
    listed
        .lines()
        .filter_map(|line| line.trim().strip_prefix("label:"))
        .map(|name| name.trim().to_owned())
        .collect()
}

fn files(tokens: &Path) -> usize {
    let folders = std::fs::read_dir(tokens).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files
        .filter(|file| {
            file.path().extension().is_some_and(|e| e == "object") && !file.path().ends_with("token.object")
        })
        .count()
}
