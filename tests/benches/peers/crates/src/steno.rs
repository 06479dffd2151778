//! steno: sagas with an in-memory log. The cost of a library without durability.

use std::sync::Arc;

#[derive(Debug)]
struct Sagas;

impl steno::SagaType for Sagas {
    type ExecContextType = Arc<()>;
}

async fn step(_: steno::ActionContext<Sagas>) -> Result<serde_json::Value, steno::ActionError> {
    Ok(crate::result(0))
}

pub async fn run(in_flight: usize, seconds: usize) {
    let log = slog::Logger::root(slog::Discard, slog::o!());
    let client = Arc::new(steno::sec(log, Arc::new(steno::InMemorySecStore::new())));
    let action: Arc<dyn steno::Action<Sagas>> = steno::new_action_noop_undo("step", step);
    let mut actions = steno::ActionRegistry::new();
    actions.register(Arc::clone(&action));
    let actions = Arc::new(actions);
    let mut steps = steno::DagBuilder::new(steno::SagaName::new("five"));
    for name in ["one", "two", "three", "four", "five"] {
        steps.append(steno::Node::action(name, name, action.as_ref()));
    }
    let steps = steps.build().expect("five steps in a row");
    let steps = Arc::new(steno::SagaDag::new(steps, serde_json::json!({})));
    let one = move |_| {
        let (client, actions, steps) = (Arc::clone(&client), Arc::clone(&actions), Arc::clone(&steps));
        async move {
            let id = steno::SagaId::new_v4();
            let ended = client.saga_create(id, Arc::new(Arc::new(())), steps, actions).await.expect("begun");
            client.saga_start(id).await.expect("started");
            assert!(ended.await.kind.is_ok(), "a saga succeeds");
        }
    };
    crate::closed::closed("steno 0.5.0, in memory", in_flight, seconds, one).await;
}
