//! A machine with GPUs, in a folder: the fake under both libraries' names, and the state file of the GPUs.

use backends::nvml::{LocalNode, NvmlTarget};
use engine::ActionError;
use serde_json::{Value, json};
use std::{
    env, fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;
use tests::actions::calls::Calls;
use workflows::platform::{CallMetadata, ReadGpuLayout};

pub const CLUSTER: &str = "c1";
pub const NODE: &str = "n1";

pub struct Bench {
    pub folder: PathBuf,
    _own: Option<TempDir>,
}

/// The library, built with this binary.
fn stand_in() -> PathBuf {
    let own = env::current_exe().unwrap();
    let built = own.parent().unwrap().join("libnvml_stand_in.so");
    assert!(
        built.is_file(),
        "{} is not there: build it with `cargo build -p nvml-stand-in`, or all with `cargo test -p e2e`",
        built.display()
    );
    built
}

impl Bench {
    /// A machine with these GPUs; `{}` has eight healthy ones.
    pub fn new(state: Value) -> Self {
        let own = tempfile::tempdir().unwrap();
        let bench = Self { folder: own.path().to_owned(), _own: Some(own) };
        for name in ["libnvidia-ml.so.1", "libcuda.so.1"] {
            fs::copy(stand_in(), bench.folder.join(name)).unwrap();
        }
        fs::write(bench.folder.join("gpus.json"), state.to_string()).unwrap();
        bench
    }

    /// The same machine in another process.
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), _own: None }
    }

    /// One GPU, with these settings.
    pub fn one(gpu: Value) -> Self {
        Self::new(json!({ "gpus": [gpu] }))
    }

    /// Changes the GPUs without using the driver.
    pub fn edit(&self, change: impl FnOnce(&mut Value)) {
        let changed = |text: &str| {
            let mut state: Value = serde_json::from_str(text).unwrap();
            change(&mut state);
            state.to_string()
        };
        nvml_stand_in::edit(&self.folder.join("gpus.json"), changed).unwrap();
    }

    /// Returns the actual state of the GPUs.
    pub fn state(&self) -> Value {
        let mut seen = Value::Null;
        self.edit(|state| seen = state.clone());
        seen
    }

    /// Returns the changes of the GPUs since the last call.
    pub fn log(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.edit(|state| {
            let log = state["log"].take();
            lines =
                log.as_array().into_iter().flatten().map(|line| line.as_str().unwrap().to_owned()).collect();
        });
        lines
    }

    /// Makes a function fail.
    pub fn fail(&self, function: &str, how: Value) {
        self.edit(|state| {
            if state["fail"].is_null() {
                state["fail"] = json!({});
            }
            state["fail"][function] = how;
        });
    }

    pub fn calm(&self) {
        self.edit(|state| state["fail"] = json!({}));
    }

    /// Returns the mode and the nested instances of every GPU, without their ids.
    pub fn stands(&self) -> Value {
        let state = self.state();
        let gpus = state["gpus"].as_array().cloned().unwrap_or_default();
        let each = gpus.iter().map(|gpu| {
            // An unread state is abbreviated.
            let mut instances: Vec<Value> = gpu["instances"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|one| {
                    let inside: Vec<&Value> =
                        one["compute"].as_array().unwrap().iter().map(|ci| &ci["size"]).collect();
                    json!([one["start"], one["profile"], inside])
                })
                .collect();
            instances.sort_by_key(|one| one[0].as_u64());
            json!({ "mode": [gpu["mig_current"], gpu["mig_pending"]], "instances": instances })
        });
        each.collect()
    }

    pub fn node(&self) -> LocalNode {
        self.node_with(json!({}))
    }

    pub fn node_with(&self, more: Value) -> LocalNode {
        LocalNode::connect(self.target(more)).unwrap()
    }

    pub fn target(&self, more: Value) -> NvmlTarget {
        let mut settings = json!({
            "cluster": CLUSTER, "node": NODE, "state": self.folder.join("node.json"),
            "library": self.folder.join("libnvidia-ml.so.1"), "cuda_library": self.folder.join("libcuda.so.1"),
            "looks_apart_ms": 1,
            "layouts": { "mixed": ["3g.40gb", "2g.20gb", "1g.10gb"] },
        });
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(settings).unwrap()
    }
}

/// Call metadata, each with a later epoch than the one before.
pub struct Stamps(Calls);

impl Stamps {
    pub async fn new() -> Self {
        Self(Calls::new().await)
    }

    pub fn next(&mut self, state: &str) -> CallMetadata {
        let call = self.0.next(state, false);
        CallMetadata::for_action(&ReadGpuLayout { cluster: CLUSTER.into(), node: NODE.into() }, &call)
    }

    pub fn at(&self, state: &str, epoch: u64) -> CallMetadata {
        let call = self.0.at(state, false, epoch);
        CallMetadata::for_action(&ReadGpuLayout { cluster: CLUSTER.into(), node: NODE.into() }, &call)
    }
}

pub fn code<T: std::fmt::Debug>(answer: Result<T, ActionError>) -> String {
    answer.unwrap_err().code
}
