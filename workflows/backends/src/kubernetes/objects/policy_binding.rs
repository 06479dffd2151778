//! The binding that enforces an admission policy. It is created after its policy and removed before it.

use crate::kubernetes::{
    client::{
        TRIES,
        discovery::{At, BINDING},
        error::Fault,
        request::{ApiRequest, deadline},
    },
    cluster::KubernetesCluster,
    labels::{label, terminating},
    objects::{
        admission_policy::binding_spec,
        call_history::CallHistory,
        parse::contains,
        render::{Content, object},
    },
};
use engine::ActionError;
use serde_json::json;
use tokio::time::Instant;
use workflows::platform::{CallMetadata, Manifest, ObjectKind, ObjectRef, codes};

impl KubernetesCluster {
    /// Creates the binding of the tenant's policy, unless it exists.
    pub(in crate::kubernetes) async fn bound(
        &self,
        place: &ObjectRef,
        tenant: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let until = deadline(stamp);
        let at = self.at_as(BINDING, place, until).await?;
        let spec = binding_spec(&place.name);
        for _ in 0..TRIES {
            if let Some(live) = self.get(&at, until).await? {
                if terminating(&live) {
                    return Err(self.held(&at, &live));
                }
                let same = live.get("spec").is_some_and(|is| contains(is, &spec));
                if same && label(&live, &self.marks.tenant()) == Some(tenant) {
                    return Ok(());
                }
                let why =
                    format!("{} exists with another owner or content, so it was not changed", at.name());
                return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
            }
            let mut content = Content::default();
            content.body.insert("spec".into(), spec.clone());
            let manifest = Manifest { place: place.clone(), tenant: tenant.to_owned(), spec: json!({}) };
            let body = object(
                &manifest,
                &at,
                content,
                &self.marks,
                &stamp.step,
                &CallHistory::default().with(stamp),
            );
            let ask = ApiRequest::post(&at.collection(), body).by(&self.target.field_manager).under(stamp);
            match self.send(&ask, until).await {
                Ok(_) => return Ok(()),
                Err(Fault::Refused(refusal)) if refusal.is_outdated() => {}
                Err(fault) => return Err(fault.into()),
            }
        }
        let why = format!("{} changed during each of {TRIES} attempts", at.name());
        Err(ActionError::transient(codes::OBJECT_CHANGED, why))
    }

    /// Removes the binding of a policy that will be deleted, if it also belongs to the tenant.
    pub(in crate::kubernetes) async fn unbound(
        &self,
        policy: &At,
        tenant: &str,
        stamp: &CallMetadata,
        until: Instant,
    ) -> Result<(), ActionError> {
        if policy.place.kind != ObjectKind::ValidatingAdmissionPolicy {
            return Ok(());
        }
        let at = self.at_as(BINDING, &policy.place, until).await?;
        for _ in 0..TRIES {
            let Some(live) = self.get(&at, until).await? else { return Ok(()) };
            let ours = label(&live, &self.marks.tenant()).unwrap_or_default() == tenant;
            if !ours || terminating(&live) || self.deleted(&at, &live, stamp, until).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}
