//! duroxide on SQLite, with its own settings. It requests an SQLite mode that does not exist, so commits are not synced: the result
//! is that of an engine that can lose commits in a power cut.

use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry,
    providers::sqlite::SqliteProvider,
    runtime::{Runtime, RuntimeOptions, registry::ActivityRegistry},
};
use std::{
    collections::HashMap,
    fs::File,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::oneshot;

/// The waiter for the fifth step of each orchestration. duroxide's own client polls instead.
type Waiting = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

pub async fn run(db: &str, in_flight: usize, seconds: usize) {
    drop(File::create(db).expect("a file"));
    let store = Arc::new(SqliteProvider::new(&format!("sqlite:{db}"), None).await.expect("SQLite"));
    let waiting = Waiting::default();
    let told = Arc::clone(&waiting);
    let step = move |_: ActivityContext, of: String| {
        let told = Arc::clone(&told);
        async move {
            let waits = told.lock().expect("the map").remove(&of);
            if let Some(waits) = waits {
                drop(waits.send(()));
            }
            Ok(crate::result(0).to_string())
        }
    };
    let five = |context: OrchestrationContext, id: String| async move {
        for step in 1..5 {
            context.schedule_activity("step", step.to_string()).await?;
        }
        context.schedule_activity("step", id).await
    };
    let steps = ActivityRegistry::builder().register("step", step).build();
    let orchestrations = OrchestrationRegistry::builder().register("five", five).build();
    let mut options = RuntimeOptions::default();
    options.observability.log_level = "error".into();
    let runtime = Runtime::start_with_options(Arc::clone(&store) as _, steps, orchestrations, options).await;
    let client = Arc::new(Client::new(store));
    let one = move |id: String| {
        let (client, waiting) = (Arc::clone(&client), Arc::clone(&waiting));
        async move {
            let id = format!("w{id}");
            let (tell, told) = oneshot::channel();
            waiting.lock().expect("the map").insert(id.clone(), tell);
            // SQLite is sometimes locked.
            while client.start_orchestration(&id, "five", id.clone()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            drop(told.await);
        }
    };
    crate::closed::closed("duroxide 0.1.32 on SQLite, not synced", in_flight, seconds, one).await;
    drop(runtime);
}
