//! The page on writing a workflow: its project equals the one in the repository, and survives the failures that the page
//! names.

use crate::booking::{Booking, town::Town};
use engine::testing::{Scenario, World, verify};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs, path::Path};
use store::Key;

struct Wish;

impl Scenario<Booking> for Wish {
    fn name(&self) -> String {
        "a wish".into()
    }

    fn data(&self) -> Booking {
        Booking { hall: "town hall".into(), euros: 500, receipt: None }
    }

    fn world(&self) -> World<Town> {
        World { platform: Town::default(), documents: vec![], collections: vec![] }
    }

    fn snapshot(&self, town: &Town, _: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        let held = town.held.lock().unwrap().clone();
        let paid: u32 = town.paid.lock().unwrap().values().sum();
        held.into_iter().map(|hall| (hall, json!(true))).chain([("paid".to_owned(), json!(paid))]).collect()
    }
}

#[tokio::test]
async fn the_workflow_in_the_page_survives_every_fault_crash_and_interruption() {
    let report = verify::<Booking>(&[&Wish]).await.unwrap();

    assert!(report.passed(), "{report}");
}

#[test]
fn the_project_in_the_page_is_the_one_in_the_repository() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join("authoring.md")).unwrap();
    for file in ["Cargo.toml", "src/lib.rs", "src/town.rs", "src/main.rs", "tests/survives.rs"] {
        let text = fs::read_to_string(docs.join("examples/booking").join(file)).unwrap();
        assert!(page.contains(text.trim_end()), "docs/authoring.md shows another {file}");
    }
}
