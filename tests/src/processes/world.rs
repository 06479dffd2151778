//! The simulated world as a process.

use super::{Process, with_crypto};
use reqwest::Client;
use serde_json::Value;
use std::{path::Path, process::Command};

/// The simulated world as a process.
#[derive(Debug)]
pub struct World {
    _process: Process,
    /// Its address, such as `http://127.0.0.1:20001`.
    pub url: String,
}

impl World {
    /// Starts `program` with its log in `dir`.
    #[must_use]
    pub fn start(program: &Path, dir: &Path) -> Self {
        with_crypto();
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0", "--log"]).arg(dir.join("world.log"));
        let (process, line) = Process::start(&mut command, "listening on ");
        let address = line.rsplit(' ').next().unwrap_or_default().to_owned();
        Self { _process: process, url: format!("http://{address}") }
    }

    /// Calls the simulated platform with the fields of a request, retries until there is an answer, and returns it.
    ///
    /// # Panics
    /// If the platform is away or refuses.
    pub async fn call(&self, request: &Value) -> Value {
        let mut said = Value::Null;
        for _ in 0..20 {
            let answer = Client::new().post(format!("{}/call", self.url)).json(request).send().await;
            said = answer
                .expect("the simulated platform answers")
                .json()
                .await
                .expect("the simulated platform answers in JSON");
            if said["Ok"].is_object() {
                return said["Ok"].take();
            }
        }
        panic!("{request}: {said}");
    }

    /// Replaces the script of faults from now on.
    ///
    /// # Panics
    /// If the platform does not answer.
    pub async fn script(&self, script: &Value) {
        let answer = Client::new().post(format!("{}/script", self.url)).json(script).send().await;
        assert!(answer.expect("the simulated platform answers").status().is_success(), "{script}");
    }

    /// Returns a record of the simulated platform: `violations`, `effects`, `owners`, `snapshot`.
    ///
    /// # Panics
    /// If the platform does not answer.
    pub async fn look(&self, what: &str) -> Value {
        let answer =
            reqwest::get(format!("{}/{what}", self.url)).await.expect("the simulated platform answers");
        answer.json().await.expect("the simulated platform answers in JSON")
    }
}
