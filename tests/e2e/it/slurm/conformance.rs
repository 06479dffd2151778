//! The conformance kit for account limits: REST through the kit's proxy, `sacctmgr` through a wrapper that loses calls.

use super::cluster::{Cluster, GPU, gpus};
use async_trait::async_trait;
use backends::slurm::SlurmCluster;
use engine::ActionError;
use serde_json::json;
use std::{fs, path::PathBuf, sync::Arc, time::Instant};
use tests::kit::{self, Subject, Table, Trouble, proxy::Proxy};
use workflows::platform::{CallMetadata, FieldSwap, FoundObject, Slurm};

const TENANT: &str = "kit";
const CANNOT_COMPARE: &str =
    "Slurm has no conditional write and compares no epochs (docs/backends/contract.md, fencing)";
const KNOWS_NO_KEYS: &str = "Slurm has no idempotency keys, so a repeated key cannot be detected";

/// The real `sacctmgr`, with the fault that a file names.
const STAND_IN: &str = r#"
mode=$(cat "MODE" 2>/dev/null)
lost='sacctmgr: error: Socket timed out on send/recv operation'
case $mode in
    lose_request) echo calm >"MODE"; echo "$lost" >&2; exit 1 ;;
    lose_answer)
        # A tenant's account has no amount: the answer that counts is the one about its workspace's.
        case " $* " in *" parent=root "*) exec sacctmgr "$@" ;; esac
        echo calm >"MODE"; sacctmgr "$@"; echo "$lost" >&2; exit 1 ;;
    half_done) echo gone >"MODE"; exec sacctmgr "$@" ;;
    gone) echo "$lost" >&2; exit 1 ;;
    down) echo 'sacctmgr: error: Sending PersistInit msg: Connection refused' >&2; exit 1 ;;
    deny) echo ' Problem adding accounts: Access/permission denied' >&2; exit 1 ;;
    slow*) sleep "${mode#slow }" ;;
esac
exec sacctmgr "$@"
"#;

struct Limits {
    cluster: Arc<Cluster>,
    proxy: Proxy,
    mode: PathBuf,
    slurm: SlurmCluster,
}

impl Limits {
    async fn new(cluster: Arc<Cluster>) -> Self {
        let proxy = Proxy::before(cluster.url()).await.unwrap();
        let mode = cluster.path().join("sacctmgr.mode");
        let text = STAND_IN.replace("MODE", &mode.display().to_string());
        let tool = cluster.tool("sacctmgr-kit", &text);
        let slurm = cluster.with(&json!({ "url": proxy.url(), "sacctmgr": tool }));
        Self { cluster, proxy, mode, slurm }
    }

    fn set(&self, thing: &str, amount: u64) -> String {
        let (name, limit) = (format!("name={thing}--w"), format!("GrpTRES={GPU}={amount}"));
        self.cluster.says(&["sacctmgr", "-i", "modify", "account", "where", &name, "set", &limit])
    }
}

#[async_trait]
impl Subject for Limits {
    fn name(&self) -> &'static str {
        "slurm account"
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.slurm.create_account("gpu", thing, TENANT, &gpus(&[("w", amount)]), stamp).await
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        self.slurm.account("gpu", thing, stamp).await
    }

    async fn change(
        &self,
        thing: &str,
        from: u64,
        to: u64,
        stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        let (from, to) = (json!(gpus(&[("w", from)])), json!(gpus(&[("w", to)])));
        let swap = FieldSwap { field: "associations".into(), from, to };
        self.slurm.compare_and_set("gpu", thing, TENANT, &swap, stamp).await
    }

    async fn remove(
        &self,
        thing: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.slurm.delete_account("gpu", thing, found, stamp).await
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        let said = self.cluster.limits(&format!("{thing}--w"));
        said.split_once(&format!("{GPU}="))?.1.parse().ok()
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        let (tool, http) = match next {
            Trouble::LoseRequest => ("lose_request".into(), Trouble::Calm),
            Trouble::LoseAnswer => ("lose_answer".into(), Trouble::Calm),
            Trouble::HalfDone => ("half_done".into(), Trouble::Calm),
            Trouble::Slow(span) => (format!("slow {}", span.as_secs_f64()), next),
            Trouble::Down => ("down".into(), next),
            Trouble::Deny => ("deny".into(), next),
            Trouble::Throttle(_) | Trouble::Garbage | Trouble::NotSupported | Trouble::Calm => {
                ("calm".into(), next)
            }
        };
        fs::write(&self.mode, tool).map_err(|_| "the stand-in's file cannot be written")?;
        self.proxy.trouble(http).await.map_err(|_| "the proxy's port cannot be had again")
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        match case {
            "fence.make" | "fence.change" | "fence.remove" | "fence.undone" => Some(CANNOT_COMPARE),
            "repeat.key_reused" => Some(KNOWS_NO_KEYS),
            _ => None,
        }
    }

    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        self.cluster.says(&["sacctmgr", "-i", "add", "account", thing]);
        let (child, parent) = (format!("{thing}--w"), format!("parent={thing}"));
        self.cluster.says(&["sacctmgr", "-i", "add", "account", &child, &parent]);
        self.set(thing, amount);
        Ok(())
    }

    async fn tamper(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        self.set(thing, amount);
        Ok(())
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        for name in [format!("name={thing}--w"), format!("name={thing}")] {
            self.cluster.says(&["sacctmgr", "-i", "delete", "account", "where", &name]);
        }
        Ok(())
    }
}

/// The number of clusters that share the cases. Most time is spent at the daemons' pace: each of their messages takes 40 ms.
const LANES: usize = 3;

/// Runs every `LANES`th case on its own cluster: under concurrent writes to the accounting, a new row may be visible late.
async fn lane(nth: usize) -> Option<Table> {
    let subject = Limits::new(Arc::new(Cluster::start(1)?)).await;
    let mut table = Table::default();
    for case in kit::cases().iter().skip(nth).step_by(LANES) {
        let began = Instant::now();
        table = table.and(kit::run_some(&subject, |name| name == case.name).await);
        println!("{} took {:.1?}", case.name, began.elapsed());
    }
    Some(table)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn account_limits_fulfil_the_contract_of_backends() {
    let lanes: Vec<_> = (0..LANES).map(|nth| tokio::spawn(lane(nth))).collect();
    let mut table = Table::default();
    for lane in lanes {
        let Some(cells) = lane.await.unwrap() else { return };
        table = table.and(cells);
    }
    e2e::excuses::holds(&table);
}
