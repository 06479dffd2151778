//! Checks that all servers of a store sign with the same key.

use crate::state::ServerState;
use engine::Entity;
use serde::{Deserialize, Serialize};
use workflows::signing::KeyFile;

/// The id of the key of the first server.
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

/// Returns an error if this server's key differs from that of the first server.
pub(crate) async fn find_mismatch(app: &ServerState) -> Option<String> {
    let path = app.config.data.join(KeyFile::NAME);
    let file = path.clone();
    let read = tokio::task::spawn_blocking(move || {
        let file = KeyFile::new(file);
        Ok::<_, String>((file.load_or_create()?.public_key().id(), file.successions()?))
    })
    .await;
    let (mine, successions) = match read {
        Ok(Ok(mine)) => mine,
        Ok(Err(why)) => return Some(why),
        Err(error) => return Some(error.to_string()),
    };
    let kept = app.engine.transact(true, |view| match view.get::<SharedKey>("certificate")? {
        // The first server with a successor of the stored key replaces it.
        Some(kept) if kept.key == mine || successions.chain(&kept.key, &mine).is_none() => Ok(kept.key),
        Some(_) | None => {
            view.put(&SharedKey { key: mine.clone() })?;
            Ok(mine.clone())
        }
    });
    match kept.await {
        Ok(kept) if kept == mine => None,
        Ok(kept) => Some(format!(
            "{} is not the key of the other servers ({kept}): copy their key here; otherwise signatures of this server do not verify with theirs",
            path.display()
        )),
        Err(error) => Some(error.to_string()),
    }
}
