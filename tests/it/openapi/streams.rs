//! Streams against the description: every event is described for every reader, and an interrupted reader receives the rest.

use super::{lint::operations, said::Said, world::World};
use crate::{
    served::{large, small},
    streams::{Stream, Told, ask},
};
use api::openapi;
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

/// The time without events after which a stream counts as complete.
const SILENCE: Duration = Duration::from_millis(1_500);
/// The maximum number of events read from one stream.
const MOST: usize = 60;

/// Returns the events of a stream until it is silent.
async fn heard(stream: &mut Stream) -> Vec<Told> {
    let mut all = Vec::new();
    while all.len() < MOST && !stream.is_silent(SILENCE).await {
        match stream.next().await {
            Some(told) => all.push(told),
            None => break,
        }
    }
    all
}

/// Returns the addresses of a stream: with existing executions, and with the relevant parameters.
async fn addresses(world: &mut World, path: &str) -> Vec<String> {
    if path.contains('{') {
        let ids = world.ids(path).await;
        return ids.iter().map(|id| path.replace("{id}", &id[0])).collect();
    }
    let more = if path == "/v1/watch" { "?filter=phase%20%3D%20finished" } else { "?all=true" };
    vec![path.to_owned(), format!("{path}{more}")]
}

fn check(said: &mut Said, operation: &Value, told: &[Told], names: &mut BTreeSet<String>) {
    for one in told {
        let name = operation["operationId"].as_str().unwrap();
        said.tells(operation, &one.name, &one.data).unwrap_or_else(|why| panic!("{name}: {why}"));
        let has_place = !["end", "reset"].contains(&one.name.as_str());
        assert_eq!(!one.id.is_empty(), has_place, "{name}: {one:?}");
        names.insert(format!("{name} {}", one.name));
    }
}

/// Checks that a reader that resumes with an event's id receives the same later events.
async fn goes_on(world: &World, token: &str, address: &str, told: &[Told]) {
    let changed = |one: &&Told| one.data["sequence"].is_u64();
    let Some(place) = told.iter().position(|one| changed(&one)) else { return };
    if !told[place + 1..].iter().any(|one| changed(&one)) {
        return;
    }
    let mut again = Stream::open(&world.served, token, address, &told[place].id).await;
    let rest = heard(&mut again).await;
    let ids = |all: &[Told]| -> Vec<(String, String)> {
        let all = all.iter().filter(changed);
        all.map(|one| (one.name.clone(), one.id.clone())).collect()
    };
    let (wanted, got) = (ids(&told[place + 1..]), ids(&rest));
    assert!(got.starts_with(&wanted), "{address}: {wanted:?} was sent, and then {got:?}");
}

#[tokio::test]
async fn events_of_streams_match_the_description_and_continue_after_a_disconnect() {
    let api = openapi();
    let mut world = World::new().await;
    // Limits are wide, so that events happen at once.
    let served = &world.served;
    let wide = serde_json::json!({ "key": "cluster/eu-1", "concurrency": 64, "rate": "60000/1m" });
    let widened = served.json_as(&served.admin, "/v1/limits", wide).await;
    assert!(widened.status.is_success(), "{}", widened.body);
    let (mut said, mut names, mut made) = (Said::new(api.clone()), BTreeSet::new(), 0);
    let streams: Vec<(&str, &Value)> = operations(&api)
        .filter(|(.., one)| !one["responses"]["200"]["content"]["text/event-stream"].is_null())
        .map(|(path, _, operation)| (path, operation))
        .collect();
    assert_eq!(streams.len(), 3);
    let people: Vec<_> = world.people.iter().filter(|(_, token)| !token.is_empty()).cloned().collect();
    for (path, operation) in streams {
        for address in addresses(&mut world, path).await {
            for (who, token) in &people {
                let first = ask(&world.served, token, &address, "").await;
                if first.status() != 200 {
                    // Streams that this user may not read.
                    assert!(
                        [401, 403, 404].contains(&first.status().as_u16()),
                        "{who}: {address}: {first:?}"
                    );
                    continue;
                }
                drop(first);
                let mut stream = Stream::open(&world.served, token, &address, "").await;
                // Triggers an event once there is a reader.
                if *who == "admin" && !path.contains('{') {
                    let first = heard(&mut stream).await;
                    check(&mut said, operation, &first, &mut names);
                    made += 1;
                    let name = format!("heard-{made}");
                    let asked = world.served.onboard(&large(&name)).await;
                    world.served.asked(&asked).await;
                    let begun = world.served.onboard(&small(&format!("{name}-too"))).await;
                    world.served.ended(&begun).await;
                }
                let told = heard(&mut stream).await;
                check(&mut said, operation, &told, &mut names);
                goes_on(&world, token, &address, &told).await;
            }
        }
    }
    for name in [
        "watchExecutions present",
        "watchExecutions changed",
        "watchExecution changed",
        "watchExecution end",
        "watchApprovals present",
        "watchApprovals opened",
    ] {
        assert!(names.contains(name), "{name} was not sent: {names:?}");
    }
    let unknown =
        Stream::open(&world.served, &world.served.admin, "/v1/watch", "9999999.0.9999999999999").await;
    let told = heard(&mut { unknown }).await;
    assert_eq!(told.first().map(|one| one.name.as_str()), Some("reset"), "{told:?}");
}
