//! The object store: a tenant's bucket, encrypted with the tenant's key.

use crate::platform::{
    Bucket, CallMetadata, CreatedObject, FoundObject, Platform, Removal, bucket_name,
    call_metadata::{look_again, outcome_unknown},
    codes, tenant_name,
};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Creates a tenant's bucket in a region: versioned, and encrypted with the tenant's key.
///
/// Safe to run twice: an existing bucket is read instead of created, and after a lost response the store is probed first. Its undo, [`DeleteBucket`],
/// tolerates that it never ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateBucket {
    /// The tenant's id.
    pub tenant: String,
    /// The region of the bucket.
    pub region: String,
}

impl Action for CreateBucket {
    const NAME: &'static str = "CreateBucket";
    type Platform = Platform;
    type Output = CreatedObject;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<CreatedObject, ActionError> {
        let (bucket, stamp) = (self.bucket()?, CallMetadata::for_action(self, call));
        if let Some(there) = on.objects.read(&self.region, &bucket.name, &stamp).await? {
            return self.checked(&bucket, &there);
        }
        on.objects.create(&bucket, &self.tenant, &stamp).await?;
        match on.objects.read(&self.region, &bucket.name, &stamp).await.map_err(outcome_unknown)? {
            Some(there) => self.checked(&bucket, &there),
            None => {
                let why = format!("bucket {} was created, but does not exist", bucket.name);
                Err(ActionError::transient(codes::OBJECT_MISSING, why))
            }
        }
    }

    /// A bucket with wrong settings counts as not done, so that `run` finds it and reports what is wrong. `run` then sends nothing.
    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<CreatedObject>, ActionError> {
        let bucket = self.bucket()?;
        Ok(match on.objects.read(&self.region, &bucket.name, &CallMetadata::for_action(self, call)).await? {
            Some(there) => self.checked(&bucket, &there).map_or(Probe::NotDone, Probe::Done),
            None => Probe::NotDone,
        })
    }
}

impl CreateBucket {
    fn bucket(&self) -> Result<Bucket, ActionError> {
        Ok(Bucket {
            name: bucket_name(&self.tenant, &self.region)?,
            region: self.region.clone(),
            key: tenant_name(&self.tenant)?,
            versioned: true,
        })
    }

    fn checked(
        &self,
        wanted: &Bucket,
        (found, bucket): &(FoundObject, Bucket),
    ) -> Result<CreatedObject, ActionError> {
        let name = &wanted.name;
        if found.tenant != self.tenant {
            let why = format!("bucket {name} belongs to {:?}", found.tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        if bucket != wanted {
            let why = format!("bucket {name} is not versioned or not encrypted with key {}", wanted.key);
            return Err(ActionError::permanent(codes::BUCKET_UNSAFE, why));
        }
        Ok(CreatedObject { name: name.clone(), uid: found.uid.clone() })
    }
}

/// Deletes a tenant's bucket in a region, if it is empty.
///
/// Safe to run twice: a missing bucket is a success. The undo deletes only the bucket of its own step, and tolerates a missing bucket. A bucket with
/// objects is kept, with `bucket.not_empty`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeleteBucket {
    /// The tenant's id.
    pub tenant: String,
    /// The region of the bucket.
    pub region: String,
}

impl Action for DeleteBucket {
    const NAME: &'static str = "DeleteBucket";
    type Platform = Platform;
    type Output = Removal;
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    async fn run(&self, on: &Platform, call: &Call) -> Result<Removal, ActionError> {
        let (name, stamp) = (bucket_name(&self.tenant, &self.region)?, CallMetadata::for_action(self, call));
        let there = on.objects.read(&self.region, &name, &stamp).await?;
        let Some((found, _)) = there else { return Ok(Removal::Gone) };
        if !found.may_be_removed(&self.tenant, &stamp) {
            return Ok(Removal::left(&name, &found, &stamp));
        }
        on.objects.delete(&self.region, &name, &found, &stamp).await?;
        match on.objects.read(&self.region, &name, &stamp).await.map_err(outcome_unknown)? {
            None => Ok(Removal::Gone),
            Some(_) => Err(look_again(codes::TERMINATING)),
        }
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<Removal>, ActionError> {
        let name = bucket_name(&self.tenant, &self.region)?;
        Ok(match on.objects.read(&self.region, &name, &CallMetadata::for_action(self, call)).await? {
            None => Probe::Done(Removal::Gone),
            Some(_) => Probe::NotDone,
        })
    }
}
