//! Hooks: programs and services keep the contract of actuators, and a faulty one does no harm.

mod program;
mod service;
mod system;
mod workflow;

use async_trait::async_trait;
use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use backends::{
    exec::{ExecTarget, Program},
    hooks::{HookBackend, HookRegistry},
    http::{HttpTarget, Service},
};
use engine::{ActionError, Probe};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use store::Epoch;
use tests::kit::{
    self, Subject, Trouble,
    house::House,
    proxy::{Asked, Proxy},
};
use tokio::net::TcpListener;
use workflows::platform::{CallMetadata, FoundObject, Hook, Hooks, codes};

/// Returns a registry with one hook of this name.
pub(crate) fn table(name: &str, hook: impl HookBackend + 'static) -> HookRegistry {
    let hook: Arc<dyn HookBackend> = Arc::new(hook);
    HookRegistry::new(BTreeMap::from([(name.to_owned(), hook)]), None)
}

/// Returns the metadata of a hook call outside of any execution.
pub(crate) fn stamp(step: &str, undo: bool) -> CallMetadata {
    CallMetadata {
        action: "RunHook",
        step: step.to_owned(),
        key: format!("{step}{}", if undo { "/undo" } else { "" }),
        epoch: Epoch(1),
        undo,
        deadline: Duration::from_secs(30),
        dry_run: false,
    }
}

pub(crate) fn hook(name: &str, arguments: Value) -> Hook {
    Hook { name: name.to_owned(), tenant: "acme".to_owned(), arguments }
}

/// How a hook is reached.
enum Way {
    /// As a program, at this path, so that it can be removed.
    Program(PathBuf),
    /// A service, behind the kit's proxy.
    Service(Box<Proxy>),
}

/// An operator's tool behind a hook.
struct Plugged {
    name: &'static str,
    way: Way,
    hooks: HookRegistry,
    house: House,
    _folder: tempfile::TempDir,
}

/// The verb shows if a request can change anything: all requests use one method.
fn changes(asked: &Asked) -> bool {
    let request: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    request["verb"] == "run" || request["verb"] == "undo"
}

/// Serves the tool as a service: the status replaces the program's exit code.
async fn served(house: House) -> String {
    let answer = |State(house): State<House>, Json(request): Json<Value>| async move {
        let verdict = tokio::task::spawn_blocking(move || house.answer(&request)).await.unwrap().unwrap();
        let status = match verdict.code {
            0 => StatusCode::OK,
            75 => StatusCode::SERVICE_UNAVAILABLE,
            80 => StatusCode::PRECONDITION_FAILED,
            _ => StatusCode::CONFLICT,
        };
        (status, Json(verdict.said)).into_response()
    };
    let router: Router = Router::new().route("/house", post(answer)).with_state(house);
    serve(router).await
}

/// Serves a router on a port of this machine, and returns its address.
pub(crate) async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

impl Plugged {
    fn program() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("house");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_house"), &program).unwrap();
        let mut target = ExecTarget::new(&program);
        target.arguments = vec![folder.path().display().to_string()];
        target.dry_runs = true;
        let hooks = table("house", Program::connect(&target).unwrap());
        let house = House::at(folder.path()).unwrap();
        Self { name: "exec hook", way: Way::Program(program), hooks, house, _folder: folder }
    }

    async fn service() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let house = House::at(folder.path()).unwrap();
        // Another test may have installed one before; any works.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let proxy = Proxy::with(&served(house.clone()).await, client, changes).await.unwrap();
        let mut target = HttpTarget::new(&format!("{}/house", proxy.url()));
        target.dry_runs = true;
        let hooks = table("house", Service::connect(&target).unwrap());
        Self { name: "http hook", way: Way::Service(Box::new(proxy)), hooks, house, _folder: folder }
    }

    async fn call(&self, arguments: Value, stamp: &CallMetadata) -> Result<Value, ActionError> {
        let hook = hook("house", arguments);
        if stamp.undo { self.hooks.undo(&hook, stamp).await } else { self.hooks.run(&hook, stamp).await }
    }
}

fn found(thing: &Value) -> Result<FoundObject, ActionError> {
    let text = |field: &str| thing[field].as_str().unwrap_or_default().to_owned();
    if thing["uid"].is_null() {
        return Err(ActionError::unknown(codes::UNREADABLE, "the answer holds no thing"));
    }
    let (uid, tenant, step) = (text("uid"), text("tenant"), text("step"));
    Ok(FoundObject { uid, tenant, step, spec: thing["amount"].clone(), terminating: false })
}

#[async_trait]
impl Subject for Plugged {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        found(&self.call(json!({ "op": "make", "thing": thing, "amount": amount }), stamp).await?)
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        let hook = hook("house", json!({ "op": "look", "thing": thing }));
        match self.hooks.probe(&hook, stamp).await? {
            Probe::Done(thing) => found(&thing).map(Some),
            Probe::NotDone | Probe::Running | Probe::Gone | Probe::CannotTell => Ok(None),
        }
    }

    async fn change(
        &self,
        thing: &str,
        from: u64,
        to: u64,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        found(&self.call(json!({ "op": "change", "thing": thing, "from": from, "to": to }), stamp).await?)
    }

    async fn remove(
        &self,
        thing: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.call(json!({ "op": "remove", "thing": thing, "uid": found.uid }), stamp).await.map(drop)
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        self.house.read(thing)?["amount"].as_u64()
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        match &self.way {
            Way::Service(proxy) => proxy.trouble(next).await.map_err(|_| "the proxy's port is taken"),
            Way::Program(path) => {
                if next == Trouble::Down {
                    std::fs::remove_file(path).map_err(|_| "the program cannot be taken away")?;
                } else if !path.exists() {
                    let put_back = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_house"), path);
                    put_back.map_err(|_| "the program cannot be put back")?;
                }
                self.house.trouble(next).map_err(|_| "the folder cannot be written")
            }
        }
    }

    fn excused(&self, _: &str) -> Option<&'static str> {
        None
    }

    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        let planted = json!({ "uid": "planted", "tenant": "umbrella", "step": "", "amount": amount });
        self.house.put(thing, &planted).map_err(|_| "the folder cannot be written")
    }

    async fn tamper(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        let mut is = self.house.read(thing).ok_or("it is not there")?;
        is["amount"] = json!(amount);
        self.house.put(thing, &is).map_err(|_| "the folder cannot be written")
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        self.house.take(thing).map_err(|_| "the folder cannot be written")
    }
}

#[tokio::test]
async fn a_program_hook_fulfils_the_contract_of_backends() {
    let table = kit::run(&Plugged::program()).await;
    println!("{table}");

    assert_eq!(table.broken(), [""; 0], "{table}");
    assert_eq!(table.excused("exec hook"), BTreeMap::new());
    assert_eq!(table.on_record(), Ok(()));
}

#[tokio::test]
async fn a_service_hook_fulfils_the_contract_of_backends() {
    let table = kit::run(&Plugged::service().await).await;
    println!("{table}");

    assert_eq!(table.broken(), [""; 0], "{table}");
    assert_eq!(table.excused("http hook"), BTreeMap::new());
    assert_eq!(table.on_record(), Ok(()));
}

/// A hook without a registration is never called.
#[tokio::test]
async fn a_hook_without_a_definition_fails_permanently() {
    let hooks = HookRegistry::new(BTreeMap::new(), None);
    let error = hooks.run(&hook("dns", json!({})), &stamp("s", false)).await.unwrap_err();

    assert_eq!(error.code, codes::HOOK_MISSING);
    assert!(error.message.contains("\"dns\""), "{error}");
    assert_eq!(hooks.backend(), "none");
}

/// Returns a response of which only status and body matter.
pub(crate) fn said(status: u16, body: Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
}

/// Writes a script to use as a hook.
pub(crate) fn script(folder: &Path, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join("hook.sh");
    std::fs::write(&path, format!("#!/bin/bash\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}
