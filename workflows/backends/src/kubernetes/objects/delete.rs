//! Deletes objects by uid and the version that was read.

use super::{call_history::CallHistory, contended};
use crate::kubernetes::{
    client::{
        TRIES,
        discovery::At,
        error::Fault,
        request::{ApiRequest, deadline},
    },
    cluster::KubernetesCluster,
    labels::{label, terminating, uid, version},
};
use engine::ActionError;
use serde_json::{Value, json};
use tokio::time::Instant;
use workflows::platform::{CallMetadata, ObjectRef, codes};

impl KubernetesCluster {
    /// Deletes the object with this uid.
    pub(in crate::kubernetes) async fn remove(
        &self,
        place: &ObjectRef,
        identity: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let until = deadline(stamp);
        let at = self.at(place, until).await?;
        for _ in 0..TRIES {
            let Some(live) = self.get(&at, until).await? else { return Ok(()) };
            if uid(&live) != identity {
                let why = format!("{} was replaced meanwhile", at.name());
                return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
            }
            CallHistory::of(&live, &self.marks.calls())?.check(stamp, &at.name())?;
            if terminating(&live) {
                return Ok(());
            }
            self.unbound(&at, label(&live, &self.marks.tenant()).unwrap_or_default(), stamp, until).await?;
            if self.deleted(&at, &live, stamp, until).await? {
                return Ok(());
            }
        }
        Err(contended(&at))
    }

    /// Deletes the object as it was read. Returns false if it has changed since.
    pub(in crate::kubernetes) async fn deleted(
        &self,
        at: &At,
        live: &Value,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<bool, ActionError> {
        self.deleted_at(&at.path(), uid(live), version(live), stamp, until).await
    }

    /// Deletes the object at a path. Returns false if its uid or, unless empty, its version differs.
    pub(in crate::kubernetes) async fn deleted_at(
        &self,
        path: &str,
        uid: &str,
        version: &str,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<bool, ActionError> {
        let mut preconditions = json!({ "uid": uid });
        if let (Value::Object(all), false) = (&mut preconditions, version.is_empty()) {
            all.insert("resourceVersion".into(), version.into());
        }
        // If the request has a body, the server ignores `dryRun` in the query and would delete the object.
        let rehearsal = if stamp.dry_run { json!(["All"]) } else { json!([]) };
        let options = json!({
            "dryRun": rehearsal,
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": preconditions,
        });
        match self.send(&ApiRequest::delete(path, options).under(stamp), until).await {
            Ok(_) => Ok(true),
            Err(Fault::Refused(refusal)) if refusal.is_missing() => Ok(true),
            Err(Fault::Refused(refusal)) if refusal.is_outdated() => Ok(false),
            Err(fault) => Err(self.unserved_now(fault)),
        }
    }
}
