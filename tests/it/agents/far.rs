//! Orders that a server sends to a node on another machine.

use super::rig::{CLUSTER, NODE, Rig, asked, set, tenure};
use backends::agents::{Command, Output};
use engine::Class;
use rustix::process::Signal;
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    process::{Command as Program, Stdio},
    time::{Duration, Instant},
};
use tests::under_test::door::Asked;
use workflows::platform::{LayoutState, ScrubLevel};

const SECRET: &[u8] = b"weights of a model that was ours";

fn scrub() -> Command {
    Command::Scrub { gpus: BTreeSet::from([0]), level: ScrubLevel::Verified }
}

fn clients() -> Command {
    Command::Clients { gpus: BTreeSet::new() }
}

fn used(rig: &Rig) -> Vec<u8> {
    let full = SECRET.repeat(2 << 20);
    fs::write(rig.memory(), &full).unwrap();
    full
}

#[tokio::test]
async fn a_layout_is_set_on_a_remote_node_and_read_back() {
    let rig = Rig::new(json!([{ "memory_mib": 64 }, { "memory_mib": 64 }])).await;
    let mut agent = rig.linked().await;
    assert_eq!(rig.layout().await.hardware, "all-disabled");

    let dry = Asked { dry_run: true, ..asked("carve", 1, set("mixed")) };
    assert_eq!(rig.call(dry).await.unwrap(), Output::Done);
    assert_eq!((rig.instances(), rig.log().len()), (0, 0), "a dry run changes nothing");
    assert_eq!(rig.call(asked("carve", 1, set("mixed"))).await.unwrap(), Output::Done);
    assert_eq!(rig.instances(), 6);
    let now = rig.layout().await;
    assert_eq!(
        (now.profile.as_str(), now.allocatable.as_str(), now.state),
        ("mixed", "mixed", LayoutState::Success)
    );
    let unknown = rig.call(asked("other", 1, set("all-9g.90gb"))).await.unwrap_err();
    assert_eq!((unknown.code.as_str(), unknown.class), ("platform.unsupported", Class::Permanent));

    rig.call(asked("mend", 1, set("all-disabled"))).await.unwrap();
    rig.edit(|state| state["gpus"][1]["processes"] = json!([{ "pid": 42, "kind": "compute" }]));
    let Output::Clients(open) = rig.call(asked("look", 1, clients())).await.unwrap() else { panic!() };
    assert!(open.len() == 1 && open[0].contains("process 42"), "{open:?}");
    let Output::Health(health) = rig.call(asked("look", 1, Command::Health)).await.unwrap() else { panic!() };
    assert!(health.fit, "{}", health.report);
    used(&rig);
    let Output::Scrubbed(scrubbed) = rig.call(asked("scrub", 1, scrub())).await.unwrap() else { panic!() };
    assert!(scrubbed.leftovers && scrubbed.level == ScrubLevel::Verified, "{scrubbed:?}");
    assert_eq!((scrubbed.total_bytes, scrubbed.covered_bytes), (64 << 20, 62 << 20));
    let memory = fs::read(rig.memory()).unwrap();
    assert!(memory[1 << 20..63 << 20].iter().all(|byte| *byte == 0));

    rig.until_seen("/items/0/seen/health/fit").await;
    let listed = rig.admin().get("/v1/agents").await;
    assert_eq!(listed["items"][0]["id"], json!(format!("{CLUSTER}/{NODE}")));
    assert_eq!(listed["items"][0]["seen"]["gpus"]["gpus"].as_array().unwrap().len(), 2, "{listed}");
    agent.signal(Signal::TERM);
    assert_eq!(agent.ended(), Some(0));
    rig.until_present(false).await;
    let (began, gone) = (Instant::now(), rig.call(asked("look", 1, Command::Layout)).await.unwrap_err());
    assert_eq!((gone.code.as_str(), gone.class), ("platform.unavailable", Class::Transient));
    assert!(began.elapsed() < Duration::from_secs(2), "a disconnected caller is not awaited");
}

/// The agent dies during a change, and after a scrub. An unfinished change is finished under the same key. A finished one is answered
/// from the node's file and not repeated.
#[tokio::test]
async fn a_command_is_never_run_twice_even_if_the_agent_is_killed() {
    let rig = Rig::new(json!([{ "memory_mib": 64 }])).await;
    let mut agent = rig.linked().await;
    rig.trouble(json!({ "nvmlGpuInstanceCreateComputeInstance": { "slow_ms": 1_000 } }));
    let first = rig.calling(asked("carve", 1, set("all-1g.10gb")));
    rig.until_instances(3).await;
    agent.kill();
    rig.trouble(json!({}));
    assert!(rig.instances() < 7, "it was killed during the change");
    let mut agent = rig.linked().await;
    let lost = first.await.unwrap().unwrap_err();
    assert_eq!((lost.code.as_str(), lost.class), ("platform.no_answer", Class::Unknown));

    rig.call(asked("carve", 2, set("all-1g.10gb"))).await.unwrap();
    assert_eq!((rig.instances(), rig.layout().await.profile.as_str()), (7, "all-1g.10gb"));
    rig.log();
    rig.call(asked("carve", 3, set("all-1g.10gb"))).await.unwrap();
    rig.call(asked("mend", 1, set("all-disabled"))).await.unwrap();
    rig.log();
    rig.call(asked("carve", 4, set("all-1g.10gb"))).await.unwrap();
    assert_eq!((rig.log().len(), rig.instances()), (0, 0), "a completed key does nothing more");

    used(&rig);
    let before = rig.call(asked("scrub", 1, scrub())).await.unwrap();
    agent.kill();
    let full = used(&rig);
    let _agent = rig.linked().await;
    assert_eq!(rig.call(asked("scrub", 2, scrub())).await.unwrap(), before);
    assert!(fs::read(rig.memory()).unwrap() == full, "memory of a later owner is not overwritten");
}

#[tokio::test]
async fn a_node_refuses_a_late_epoch_itself() {
    let rig = Rig::new(json!([{ "memory_mib": 64 }])).await;
    let mut agent = rig.linked().await;
    rig.call(asked("carve", 5, set("mixed"))).await.unwrap();
    rig.call(asked("mend", 5, set("all-disabled"))).await.unwrap();
    rig.call(asked("scrub", 5, scrub())).await.unwrap();
    agent.kill();
    let _agent = rig.linked().await;
    rig.log();
    let full = used(&rig);

    for (step, command) in [("carve", set("all-1g.10gb")), ("scrub", scrub())] {
        let late = Asked { key: format!("{step}#late"), ..asked(step, 4, command) };
        let refused = rig.call(late).await.unwrap_err();
        assert_eq!((refused.code.as_str(), refused.class), ("call.fenced", Class::Permanent), "{step}");
    }

    assert_eq!((rig.log().len(), rig.instances()), (0, 0));
    assert!(fs::read(rig.memory()).unwrap() == full);
}

#[tokio::test]
async fn a_missing_agent_is_unavailable_and_silence_after_an_order_was_taken_is_unknown() {
    let rig = Rig::new(json!([{}])).await;
    let none = rig.call(asked("carve", 1, set("mixed"))).await.unwrap_err();
    assert_eq!((none.code.as_str(), none.class), ("platform.unavailable", Class::Transient));

    let agent = rig.linked().await;
    rig.trouble(json!({ "nvmlGpuInstanceCreateComputeInstance": { "slow_ms": 400 } }));
    let taken = rig.calling(Asked { deadline_ms: 4_000, ..asked("carve", 2, set("all-1g.10gb")) });
    rig.until_instances(2).await;
    agent.signal(Signal::STOP);
    let silence = taken.await.unwrap().unwrap_err();
    assert_eq!((silence.code.as_str(), silence.class), ("platform.no_answer", Class::Unknown));

    agent.signal(Signal::CONT);
    rig.trouble(json!({}));
    rig.call(asked("carve", 3, set("all-1g.10gb"))).await.unwrap();
    assert_eq!(rig.instances(), 7, "the same call probes and finishes it");
}

/// A change whose caller has gone ends, and the same call finishes it later.
#[tokio::test]
async fn a_cancelled_call_also_ends_on_the_node() {
    let rig = Rig::new(json!([{}])).await;
    let _agent = rig.linked().await;
    rig.trouble(json!({ "nvmlGpuInstanceCreateComputeInstance": { "slow_ms": 700 } }));
    let given_up = rig.calling(asked("carve", 1, set("all-1g.10gb")));
    rig.until_instances(2).await;
    given_up.abort();

    tokio::time::sleep(Duration::from_secs(3)).await;

    assert!(rig.instances() < 6, "it continued to {} instances", rig.instances());
    rig.trouble(json!({}));
    rig.call(asked("carve", 2, set("all-1g.10gb"))).await.unwrap();
    assert_eq!(rig.instances(), 7);
}

/// A scrub takes longer than a call: it continues, and the same key returns its state.
#[tokio::test]
async fn a_scrub_continues_between_the_calls_that_poll_it() {
    let rig = Rig::new(json!([{ "memory_mib": 64 }])).await;
    let _agent = rig.linked().await;
    used(&rig);
    // 31 blocks, filled twice.
    rig.trouble(json!({ "cuMemsetD32_v2": { "slow_ms": 200 } }));
    let brief = |epoch| Asked { deadline_ms: 4_000, ..asked("scrub", epoch, scrub()) };
    let pending = rig.call(brief(1)).await.unwrap_err();
    assert_eq!(pending.code, "gpu.scrubbing");
    assert!(matches!(pending.class, Class::Pending { .. }), "{pending:?}");

    let (again, until) = (["gpu.scrubbing", "platform.no_answer"], Instant::now() + Duration::from_secs(60));
    let done = loop {
        match rig.call(brief(2)).await {
            // On a busy machine an answer may be late, and is requested again.
            Err(error) if again.contains(&error.code.as_str()) && Instant::now() < until => {}
            other => break other.unwrap(),
        }
    };

    let Output::Scrubbed(scrubbed) = done else { panic!("{done:?}") };
    assert!(scrubbed.leftovers, "it was one scrub: a second would find nothing");
}

#[tokio::test]
async fn an_agent_that_lost_its_server_finds_it_again() {
    let mut rig = Rig::new(json!([{}])).await;
    let _agent = rig.linked().await;
    rig.server.kill();
    tokio::time::sleep(Duration::from_millis(500)).await;
    rig.server.restart();

    rig.until_present(true).await;

    rig.call(asked("carve", 1, set("mixed"))).await.unwrap();
    assert_eq!(rig.instances(), 3);
}

/// The server that runs a step owns its order. An order that one server had performed is not performed for another server, or for
/// a late one.
#[tokio::test]
async fn an_agent_polls_every_server_and_its_node_rejects_stale_orders() {
    let rig = Rig::new(json!([{}])).await;
    let other = rig.beside("other").await;
    let _agent = rig.agent_of(&format!("{},{}", rig.server.url(), other.url()));
    rig.until_present(true).await;
    let until = Instant::now() + Duration::from_secs(20);
    while rig.call_at("other", asked("look", 1, Command::Layout)).await.is_err() {
        assert!(Instant::now() < until, "it does not poll the other server");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    rig.call(asked("carve", 1, set("mixed"))).await.unwrap();
    assert_eq!(rig.instances(), 3);
    rig.log();
    rig.call_at("other", asked("carve", 2, set("mixed"))).await.unwrap();
    assert_eq!(rig.log().len(), 0, "the key is complete");
    let next = Asked { key: "carve#next".into(), ..asked("carve", 2, set("all-disabled")) };
    rig.call_at("other", next).await.unwrap();
    let late = Asked { key: "carve#late".into(), ..asked("carve", 1, set("mixed")) };
    assert_eq!(rig.call(late).await.unwrap_err().code, "call.fenced");
    assert_eq!(rig.instances(), 0);
}

#[tokio::test]
async fn a_node_has_one_agent_and_an_agent_without_its_settings_does_not_start() {
    let rig = Rig::new(json!([{}])).await;
    let _agent = rig.linked().await;
    let at = |name: &str| rig.folder.path().join(name);
    let start = |server: &str, key: &str| {
        let mut command = Program::new(tenure());
        command.args(["agent", "--cluster", CLUSTER, "--node", NODE, "--server", server]);
        command.arg("--key-file").arg(at(key)).arg("--ledger").arg(at("ledger"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while child.try_wait().unwrap().is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        // A running agent would not end by itself.
        let _ = child.kill();
        let ran = child.wait_with_output().unwrap();
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };

    let (code, said) = start(&rig.server.url(), "key");
    assert!(code == Some(5) && said.contains("another agent is running with this ledger"), "{said}");
    let (code, said) = start("http://tenure.example", "key");
    assert!(code == Some(2) && said.contains("without TLS"), "{said}");
}

#[tokio::test]
async fn tenure_agent_behaves_like_the_agent_inside_tenure() {
    let rig = Rig::new(json!([{ "memory_mib": 64 }])).await;
    let mut agent = rig.small_agent();
    rig.until_present(true).await;

    assert_eq!(rig.call(asked("carve", 1, set("mixed"))).await.unwrap(), Output::Done);
    assert_eq!(rig.layout().await.profile, "mixed");

    let second = Program::new(tenure())
        .env("UNDER_TEST", "agent")
        .args(["--cluster", CLUSTER, "--node", NODE, "--server", "https://tenure.example"])
        .arg("--ledger")
        .arg(rig.folder.path().join("ledger"))
        .arg("--key-file")
        .arg(rig.folder.path().join("key"))
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(5), "another agent is running with this ledger: {second:?}");
    agent.signal(Signal::TERM);
    assert_eq!(agent.ended(), Some(0));
}
