//! Parents and children under combined faults: every action of both fails, with a crash at every commit, a cancel between
//! any two, and both orders of their work.

use super::{
    household::{Closing, House, Way, house, job},
    job::{Spec, Stage, does},
};
use engine::{
    Workflow,
    testing::{Scenario, World, verify},
};
use serde_json::Value;
use std::collections::BTreeMap;
use store::Key;

struct Home<W> {
    name: &'static str,
    data: W,
}

impl<W: Workflow<Platform = Stage>> Scenario<W> for Home<W> {
    fn name(&self) -> String {
        self.name.into()
    }

    fn data(&self) -> W {
        self.data.clone()
    }

    fn world(&self) -> World<Stage> {
        World { platform: Stage::default(), documents: vec![], collections: vec![] }
    }

    /// Returns the actions that were done and not undone.
    fn snapshot(&self, stage: &Stage, _: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        let mut stands = BTreeMap::new();
        for line in stage.log() {
            let words: Vec<_> = line.split(' ').collect();
            match words.as_slice() {
                ["do", name @ ..] => _ = stands.insert(name.join(" "), Value::Bool(true)),
                ["undo", name, _] => _ = stands.remove(*name),
                _ => {}
            }
        }
        stands
    }
}

/// S23, S24, S25, S28, S30.
#[tokio::test]
async fn a_parent_survives_every_fault_crash_and_interruption_of_itself_and_of_its_children() {
    let commits = job("a", [does(&["a"]), Spec::Commit("b".into()), does(&[]), Spec::Listen]);
    let scenes = [
        Home {
            name: "strict",
            data: house(Way::Strict, [job("a", [does(&["a"]), Spec::Listen]), job("b", [Spec::Ask])]),
        },
        Home { name: "past a pivot", data: house(Way::Strict, [commits]) },
        Home {
            name: "lenient",
            data: house(Way::Lenient, [job("a", [does(&["a"])]), job("b", [does(&["b"])])]),
        },
        Home {
            name: "forward",
            data: house(Way::Forward, [job("a", [does(&["a"])]), job("b", [Spec::Listen])]),
        },
        Home { name: "shut", data: House { shut: true, ..house(Way::Strict, []) } },
    ];
    let scenes: Vec<_> = scenes.iter().map(|scene| scene as &dyn Scenario<House>).collect();

    let report = verify::<House>(&scenes).await.unwrap();

    println!("{report}");
    assert!(report.passed(), "{report}");
}

#[tokio::test]
async fn a_parent_that_authorises_its_children_survives_every_fault() {
    let data = Closing { shelves: vec!["s".into(), "t".into()], method: "fire".into(), lies: false };

    let report = verify::<Closing>(&[&Home { name: "closing", data }]).await.unwrap();

    println!("{report}");
    assert!(report.passed(), "{report}");
}
