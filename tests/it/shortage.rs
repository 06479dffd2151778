//! A shortage of a tenant: an execution that it blocked continues once it has ended.

use crate::quota::stage::Stage;
use engine::{Engine, Person, Verdict};
use workflows::{
    capacity::CapacityExhaustion,
    platform::Platform,
    tenancy::{AccountState, Cohort, Gpus},
};

async fn shut_out(stage: &Stage) -> usize {
    let cohort: Cohort = stage.find("acme").await.unwrap();
    cohort.accounts.values().filter(|account| account.admitting != AccountState::Open).count()
}

fn with_shortages(engine: Engine<Platform>) -> Engine<Platform> {
    engine.with_workflow::<CapacityExhaustion>().unwrap()
}

#[tokio::test]
async fn an_accepted_shortage_unblocks_its_workspaces_and_requests_only_useful_approvals() {
    let stage = Stage::with_tenant("H100").await;
    let stage = Stage { engine: with_shortages(stage.engine), ..stage };
    let (region, model) = ("eu-west".parse().unwrap(), "H100".parse().unwrap());
    let tenants = vec!["acme".parse().unwrap()];
    let shortage = CapacityExhaustion::new(region, model, Gpus(1_000), "a large order".into(), tenants);
    let id = stage.begin(shortage).await.unwrap();

    let (mut asked, mut most) = (Vec::new(), 0);
    for _ in 0..200 {
        most = most.max(shut_out(&stage).await);
        if !stage.engine.record(id).await.unwrap().open {
            break;
        }
        match stage.engine.approval(id).await.unwrap() {
            Some(case) => {
                asked.push(stage.state(id).await);
                for (number, seat) in case.seats.iter().enumerate() {
                    let person = Person::new(format!("voter-{number}"), seat.any_of.clone());
                    stage.engine.vote(id, &person, Verdict::Approve, &case.digest, "so be it").await.unwrap();
                }
                stage.engine.run_until_idle().await.unwrap();
            }
            None => stage.pass(engine::DAY).await,
        }
    }

    assert_eq!(stage.state(id).await, "Accepted");
    assert_eq!(most, 2, "both workspaces were blocked meanwhile");
    assert_eq!(shut_out(&stage).await, 0);
    let (_, shown) = stage.engine.execution(id).await.unwrap();
    let tried = shown.body["data"]["tried"].as_array().unwrap();
    let without_hands = tried.iter().filter(|tried| tried[1] == "no_hands").count();
    assert!(without_hands > 0 && asked.len() + without_hands <= tried.len() + 1, "{asked:?} {tried:?}");
}
