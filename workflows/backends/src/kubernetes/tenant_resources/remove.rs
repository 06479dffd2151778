//! Removes objects by uid.

use crate::kubernetes::{
    client::TRIES,
    cluster::KubernetesCluster,
    labels::{terminating, uid, version},
    objects::call_history::CallHistory,
    tenant_resources::{
        kinds::{NODE, made},
        parts,
        read::Reader,
        volumes::Storage,
    },
};
use engine::ActionError;
use workflows::platform::{CallMetadata, ObjectRef, Observer, TenantResource, codes};

impl KubernetesCluster {
    /// Deletes the object with this uid.
    pub(in crate::kubernetes) async fn removed(
        &self,
        thing: &TenantResource,
        identity: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        if thing.kind == NODE {
            let why = format!(
                "{thing} has a tenant's mark, but is not in the ledger: sanitise the node, remove its label and taint, then retry"
            );
            return Err(ActionError::permanent(codes::REFUSED, why));
        }
        let reader = self.reader(Observer::Platform, stamp).await?;
        let Some(kind) = reader.kind(&thing.kind).await? else { return Ok(()) };
        let (namespace, name) = parts(thing, kind.namespaced)?;
        if let Some(of) = made(&thing.kind) {
            let place = ObjectRef::new(&self.name, of, name);
            let place = ObjectRef { namespace: namespace.map(str::to_owned), ..place };
            return self.remove(&place, identity, stamp).await;
        }
        for _ in 0..TRIES {
            let Some(live) = reader.named(&kind, namespace, name).await? else { return Ok(()) };
            if uid(&live) != identity {
                let why = format!("{thing} was replaced meanwhile");
                return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
            }
            CallHistory::of(&live, &self.marks.calls())?.check(stamp, &thing.to_string())?;
            if terminating(&live) {
                return Ok(());
            }
            if let Some(storage) = Storage::of(&kind.word) {
                return self.discarded(storage, &thing.to_string(), &live, &reader, stamp).await;
            }
            let path = kind.path(namespace, name);
            if self.deleted_at(&path, identity, version(&live), stamp, reader.until).await? {
                return Ok(());
            }
        }
        let why = format!("{thing} changed during each of {TRIES} attempts");
        Err(ActionError::transient(codes::OBJECT_CHANGED, why))
    }

    /// Waits for a short time until a deleted object is gone. Callers read the result afterwards.
    pub(in crate::kubernetes) async fn left(
        &self,
        thing: &TenantResource,
        identity: &str,
        reader: &Reader,
    ) -> Result<(), ActionError> {
        let Some(kind) = reader.kind(&thing.kind).await? else { return Ok(()) };
        let (namespace, name) = parts(thing, kind.namespaced)?;
        // A volume is deleted only after its claim is gone.
        let going = reader.named(&kind, namespace, name).await?.filter(|live| uid(live) == identity);
        let Some(going) = going else { return Ok(()) };
        let until = (self.patience(reader.until), reader.until);
        // The reader may be allowed to list but not to watch. Then this does not wait, and the survey continues.
        drop(self.awaited(&kind.path(namespace, name), going, |_| false, until).await);
        Ok(())
    }
}
