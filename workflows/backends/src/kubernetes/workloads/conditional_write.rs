//! A conditional write: read, compare, merge under uid and version, and record the call.

use crate::kubernetes::{
    client::{TRIES, error::Fault, request::ApiRequest},
    cluster::KubernetesCluster,
    labels::{annotation, uid, version},
    objects::call_history::{CallHistory, PastCall},
};
use engine::ActionError;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use workflows::platform::{CallMetadata, codes};

/// The changes of a write.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// Annotations to set; `None` removes one.
    pub(super) annotations: Vec<(String, Option<String>)>,
    /// Fields of the `spec` to set.
    pub(super) spec: Option<Value>,
}

/// A reference to an object.
#[derive(Clone, Debug)]
pub(super) struct ObjectRef {
    pub(super) path: String,
    /// The name for messages.
    pub(super) name: String,
    /// The uid, if only this very object may be changed.
    pub(super) uid: Option<String>,
}

impl KubernetesCluster {
    /// Merges the change that `decide` returns for the live object; `None` changes nothing. The call is recorded on the
    /// object, so that it takes effect once. Returns false if the object does not exist.
    ///
    /// # Errors
    ///
    /// `call.fenced` for a late call. `object.changed` (transient) if the uid differs or the object changes constantly.
    pub(super) async fn write(
        &self,
        seen: &ObjectRef,
        stamp: &CallMetadata,
        until: Instant,
        decide: impl Fn(&Value) -> Result<Option<Change>, ActionError>,
    ) -> Result<bool, ActionError> {
        for _ in 0..TRIES {
            let Some(live) = self.object(&seen.path, until).await? else { return Ok(false) };
            if seen.uid.as_deref().is_some_and(|seen| seen != uid(&live)) {
                let why = format!("{} was replaced meanwhile", seen.name);
                return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
            }
            let calls = CallHistory::of(&live, &self.marks.calls())?;
            let done = calls.check(stamp, &seen.name)? == PastCall::Done;
            if done && !calls.is_newer(stamp) {
                return Ok(true);
            }
            // A repeated call with a newer epoch is recorded and changes nothing.
            let Some(change) = (if done { Some(Change::default()) } else { decide(&live)? }) else {
                return Ok(true);
            };
            let patch = patch(&live, change, (self.marks.calls(), calls.with(stamp)));
            let ask = ApiRequest::merge(&seen.path, patch).by(&self.target.field_manager).under(stamp);
            match self.send(&ask, until).await {
                Ok(_) => return Ok(true),
                Err(Fault::Refused(refusal)) if refusal.is_outdated() || refusal.is_missing() => {}
                Err(fault) => return Err(self.unserved_now(fault)),
            }
        }
        let why = format!("{} changed during each of {TRIES} attempts", seen.name);
        Err(ActionError::transient(codes::OBJECT_CHANGED, why))
    }
}

fn patch(live: &Value, change: Change, calls: (String, String)) -> Value {
    let differs = |(key, value): &(String, Option<String>)| annotation(live, key) != value.as_deref();
    let (key, remembered) = calls;
    let all = change.annotations.into_iter().filter(differs).chain([(key, Some(remembered))]);
    let annotations: Map<String, Value> = all.map(|(key, value)| (key, json!(value))).collect();
    let mut patch = json!({
        "metadata": { "uid": uid(live), "resourceVersion": version(live), "annotations": annotations },
    });
    if let (Value::Object(fields), Some(spec)) = (&mut patch, change.spec) {
        fields.insert("spec".into(), spec);
    }
    patch
}
