//! A workflow with a hook: probed after a lost answer, undone when a later step fails.

use super::table;
use backends::{
    exec::{ExecTarget, Program},
    simulated::{LocalWorld, simulated_platform},
};
use engine::{
    Action, ActionError, Call, Engine, ManualClock, Outcome, Plan, Request, Step, Subject, Workflow,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{Memory, Timestamp};
use tests::kit::{Trouble, house::House};
use workflows::platform::{Hook, Platform, RunHook, UndoHook};

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plug {
    fails: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    Plugging,
    Checking,
    Plugged,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Check {
    fails: bool,
}

impl Action for Check {
    const NAME: &'static str = "Check";
    type Platform = Platform;
    type Output = ();

    async fn run(&self, _: &Platform, _: &Call) -> Result<(), ActionError> {
        if self.fails { Err(ActionError::permanent("object.missing", "said so")) } else { Ok(()) }
    }
}

fn house(op: &str) -> Hook {
    let arguments = json!({ "op": op, "thing": "plug", "amount": 5, "uid": null });
    Hook { name: "house".into(), tenant: "acme".into(), arguments }
}

impl Workflow for Plug {
    const NAME: &'static str = "plug";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::Plugging;
    type State = State;
    type Platform = Platform;

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::Plugging => engine::act(RunHook { hook: house("make") })
                .undo(UndoHook { hook: house("make") })
                .within(engine::MINUTE)
                .then(State::Checking),
            State::Checking => engine::act(Check { fails: self.fails })
                .nothing_to_undo()
                .within(engine::MINUTE)
                .then(State::Plugged),
            State::Plugged => engine::end(Outcome::Completed),
        }
    }

    fn subject(&self) -> Subject {
        Subject::default()
    }

    fn plan(&self) -> Plan {
        Plan::default()
    }

    fn examples() -> Vec<Self> {
        vec![Self { fails: false }]
    }
}

/// Runs the workflow with this fault, and returns the object and the calls at its end.
async fn plugged(fails: bool, trouble: Trouble) -> (Option<Value>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let house = House::at(folder.path()).unwrap();
    house.trouble(trouble).unwrap();
    let log = folder.path().join("log");
    // The hook is a script that logs its requests, and treats an undo as a removal.
    let text = format!(
        "request=$(cat); jq -r .verb <<<\"$request\" >> {log}\n\
         if [[ $(jq -r .verb <<<\"$request\") == undo ]]; then rm -f {things}/plug.json; echo '{{\"status\":\"done\"}}'; exit 0; fi\n\
         exec {house} {folder} <<<\"$request\"",
        log = log.display(),
        things = folder.path().join("things").display(),
        house = env!("CARGO_BIN_EXE_house"),
        folder = folder.path().display(),
    );
    let target = ExecTarget::new(super::script(folder.path(), &text));
    let mut platform = simulated_platform(Arc::new(LocalWorld::new()));
    platform.hooks = Arc::new(table("house", Program::connect(&target).unwrap()));
    let clock = Arc::new(ManualClock::starting_at(Timestamp(1)));
    let engine =
        Engine::new(Arc::new(Memory::default()), clock.clone(), platform).with_workflow::<Plug>().unwrap();
    engine.start(Plug { fails }, Request::default()).await.unwrap();
    for _ in 0..20 {
        engine.run_until_idle().await.unwrap();
        clock.advance(engine::MINUTE);
    }
    let asked = std::fs::read_to_string(log).unwrap();
    (house.read("plug"), asked.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn a_workflow_runs_a_hook_and_probes_it_if_no_answer_arrives() {
    let (thing, asked) = plugged(false, Trouble::Calm).await;
    assert_eq!((thing.unwrap()["amount"].as_u64(), asked), (Some(5), vec!["run".to_owned()]));

    let (thing, asked) = plugged(false, Trouble::LoseAnswer).await;
    assert_eq!(thing.unwrap()["amount"], 5);
    assert_eq!(asked, ["run", "probe"], "it took effect: it is not sent again");

    let (thing, asked) = plugged(false, Trouble::LoseRequest).await;
    assert_eq!(thing.unwrap()["amount"], 5);
    assert_eq!(asked, ["run", "probe", "run"], "it did not take effect: it is sent again");
}

#[tokio::test]
async fn a_hook_is_undone_if_a_later_step_fails() {
    let (thing, asked) = plugged(true, Trouble::Calm).await;

    assert_eq!(thing, None);
    assert_eq!(asked, ["run", "undo"]);
}
