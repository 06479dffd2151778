//! The engine's own example under fault sweeps: the smallest workflow with an undo, an approval and a pivot.

use crate::example::{Desk, Hello};
use engine::testing::{Scenario, World, verify};
use serde_json::Value;
use std::collections::BTreeMap;
use store::Key;

struct Greeting;

impl Scenario<Hello> for Greeting {
    fn name(&self) -> String {
        "a greeting".into()
    }

    fn data(&self) -> Hello {
        Hello { name: "world".into(), receipt: None }
    }

    fn world(&self) -> World<Desk> {
        World { platform: Desk::default(), documents: vec![], collections: vec![] }
    }

    fn snapshot(&self, desk: &Desk, _: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        desk.cards.lock().unwrap().iter().map(|card| (format!("card {card}"), Value::Bool(true))).collect()
    }
}

#[tokio::test]
async fn hello_survives_every_fault_crash_and_interruption() {
    let report = verify::<Hello>(&[&Greeting]).await.unwrap();
    println!("{report}");
    assert!(report.passed(), "{report}");
}
