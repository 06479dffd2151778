//! Injects every fault into every action, crashes around every commit, and cancels between any two.

use booking::{Booking, town::Town};
use engine::testing::{Scenario, World, verify};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use store::Key;

pub struct Wish;

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

    /// The state to compare: an undone booking must leave it unchanged.
    fn snapshot(&self, town: &Town, _: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        let held = town
            .held
            .lock()
            .unwrap()
            .iter()
            .map(|hall| (format!("held {hall}"), json!(true)))
            .collect::<Vec<_>>();
        let paid: u32 = town.paid.lock().unwrap().values().sum();
        held.into_iter().chain([("paid".to_owned(), json!(paid))]).collect()
    }

    /// Errors that the external system detects.
    fn violations(&self, town: &Town) -> Vec<String> {
        let paid = town.paid.lock().unwrap();
        paid.iter()
            .filter(|(_, euros)| **euros != 500)
            .map(|(key, euros)| format!("{key}: paid {euros}"))
            .collect()
    }
}

#[tokio::test]
async fn a_booking_survives_every_fault_crash_and_interruption() {
    let report = verify::<Booking>(&[&Wish]).await.unwrap();
    println!("{report}");
    assert!(report.passed(), "{report}");
}
