//! Whether the servers that share a store sign with one key: who verifies has one.

use crate::state::ServerState;
use engine::Entity;
use serde::{Deserialize, Serialize};
use workflows::signing::KeyFile;

/// The key that the first server signed with, by its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SharedKey {
    key: String,
}

impl Entity for SharedKey {
    const COLLECTION: &'static str = "shared_keys";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        "certificate".into()
    }
}

/// What is wrong with this server's key, in words; the first server's is the right one.
pub(crate) async fn find_mismatch(app: &ServerState) -> Option<String> {
    let path = app.config.data.join(KeyFile::NAME);
    let file = path.clone();
    let read = tokio::task::spawn_blocking(move || {
        KeyFile::new(file).load_or_create().map(|key| key.public_key().id())
    })
    .await;
    let mine = match read {
        Ok(Ok(mine)) => mine,
        Ok(Err(why)) => return Some(why),
        Err(error) => return Some(error.to_string()),
    };
    let kept = app.engine.transact(true, |view| match view.get::<SharedKey>("certificate")? {
        Some(kept) => Ok(kept.key),
        None => {
            view.put(&SharedKey { key: mine.clone() })?;
            Ok(mine.clone())
        }
    });
    match kept.await {
        Ok(kept) if kept == mine => None,
        Ok(kept) => Some(format!(
            "{} is not the key of the other servers ({kept}): copy theirs here, or what this one signs does not verify with theirs",
            path.display()
        )),
        Err(error) => Some(error.to_string()),
    }
}
