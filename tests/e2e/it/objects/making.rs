//! A bucket is created once, by the named owner, or not changed.

use super::{bucket, stage, staged, stamp};
use backends::s3::Encryption;
use e2e::gateway::Gateway;
use engine::Class;
use reqwest::Method;
use workflows::platform::{CallMetadata, Objects, codes};

fn undo(step: &str) -> CallMetadata {
    CallMetadata { undo: true, ..stamp(step, 1) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_created_once_and_another_with_its_name_is_not_touched() {
    let Some(gateway) = Gateway::shared() else { return };
    let (on, raw, wanted) = (stage(&gateway), gateway.raw("PLATFORM"), bucket("maker"));

    let dry = CallMetadata { dry_run: true, ..stamp("one", 5) };
    on.s3.create(&wanted, "maker", &dry).await.unwrap();
    assert_eq!(on.s3.read(super::REGION, &wanted.name, &stamp("one", 5)).await.unwrap(), None);
    let made = on.s3.create(&wanted, "maker", &stamp("one", 5)).await.unwrap();
    let again = on.s3.create(&wanted, "maker", &stamp("two", 1)).await.unwrap();
    assert_eq!((&made.uid, &made.step), (&again.uid, &"one".to_owned()));
    let (found, there) = on.s3.read(super::REGION, &wanted.name, &stamp("one", 5)).await.unwrap().unwrap();
    assert_eq!((found, there), (made.clone(), wanted.clone()));

    let theirs = on.s3.create(&wanted, "other", &stamp("three", 1)).await.unwrap_err();
    assert_eq!((theirs.class, theirs.code.as_str()), (Class::Permanent, codes::OBJECT_FOREIGN));
    assert_eq!(on.s3.create(&wanted, "maker", &stamp("one", 4)).await.unwrap_err().code, codes::FENCED);
    raw.ok(Method::PUT, &format!("/{}/k", wanted.name), b"x").await;
    let full = on.s3.delete(super::REGION, &wanted.name, &made, &stamp("one", 5)).await.unwrap_err();
    assert_eq!(full.code, codes::BUCKET_NOT_EMPTY);
    let versions = raw.listings(&wanted.name).await.unwrap().0;
    let id = e2e::gateway::between(&versions, "<VersionId>", "</VersionId>").concat();
    raw.ok(Method::DELETE, &format!("/{}/k?versionId={id}", wanted.name), b"").await;
    let begun = raw.ok(Method::POST, &format!("/{}/open?uploads", wanted.name), b"").await;
    let open = on.s3.delete(super::REGION, &wanted.name, &made, &stamp("one", 5)).await.unwrap_err();
    assert_eq!(open.code, codes::BUCKET_NOT_EMPTY, "an unfinished upload counts as content");
    let id = e2e::gateway::between(&begun, "<UploadId>", "</UploadId>").concat();
    raw.ok(Method::DELETE, &format!("/{}/open?uploadId={id}", wanted.name), b"").await;
    on.s3.delete(super::REGION, &wanted.name, &made, &stamp("one", 5)).await.unwrap();
    on.s3.delete(super::REGION, &wanted.name, &made, &stamp("one", 5)).await.unwrap();
    assert_eq!(raw.listings(&wanted.name).await, None);
}

/// After a kill between creating and labelling, a repeat adopts the bucket and an undo removes it.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_creation_is_completed_or_undone() {
    let Some(gateway) = Gateway::shared() else { return };
    let (on, raw, wanted) = (stage(&gateway), gateway.raw("PLATFORM"), bucket("halfway"));
    let path = format!("/{}", wanted.name);

    raw.ok(Method::PUT, &path, b"").await;
    assert_eq!(on.s3.read(super::REGION, &wanted.name, &stamp("one", 1)).await.unwrap(), None);
    let (found, _) = on.s3.read(super::REGION, &wanted.name, &undo("one")).await.unwrap().unwrap();
    assert!(found.may_be_removed("halfway", &undo("one")));
    on.s3.delete(super::REGION, &wanted.name, &found, &undo("one")).await.unwrap();
    assert_eq!(raw.listings(&wanted.name).await, None);

    raw.ok(Method::PUT, &path, b"").await;
    on.s3.create(&wanted, "halfway", &stamp("one", 1)).await.unwrap();
    let (found, there) = on.s3.read(super::REGION, &wanted.name, &stamp("one", 1)).await.unwrap().unwrap();
    assert_eq!((found.step.as_str(), &there), ("one", &wanted));
    on.s3.delete(super::REGION, &wanted.name, &found, &stamp("one", 1)).await.unwrap();

    raw.ok(Method::PUT, &path, b"").await;
    raw.ok(Method::PUT, &format!("{path}/k"), b"somebody's").await;
    let foreign = on.s3.create(&wanted, "halfway", &stamp("one", 1)).await.unwrap_err();
    assert_eq!(foreign.code, codes::OBJECT_FOREIGN, "a bucket in use is foreign");
    raw.ok(Method::DELETE, &format!("{path}/k"), b"").await;
    raw.ok(Method::DELETE, &path, b"").await;
}

/// Ceph 16 treats the request to encrypt a bucket as its creation, and answers a query for it with a listing.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_bucket_encryption_is_detected_and_nothing_remains() {
    let Some(gateway) = Gateway::shared() else { return };
    let on = staged(&gateway, |target| target.encryption = Encryption::Kms);
    let wanted = bucket("sealed");

    let refused = on.s3.create(&wanted, "sealed", &stamp("one", 1)).await.unwrap_err();

    assert_eq!((refused.class, refused.code.as_str()), (Class::Permanent, codes::UNSUPPORTED));
    assert!(refused.message.contains("encryption: recorded"), "{}", refused.message);
    let (found, _) = on.s3.read(super::REGION, &wanted.name, &undo("one")).await.unwrap().unwrap();
    on.s3.delete(super::REGION, &wanted.name, &found, &undo("one")).await.unwrap();
    assert_eq!(gateway.raw("PLATFORM").listings(&wanted.name).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_denied_and_never_read_as_absence() {
    let Some(gateway) = Gateway::shared() else { return };
    let wrong = super::secret("not-the-secret");
    let bad_secret = staged(&gateway, |target| target.account.secret_key_file = wrong.1.clone());
    let bad_key = staged(&gateway, |target| target.account.access_key_id = "NOBODY".into());
    let gone = staged(&gateway, |target| target.endpoint = "http://127.0.0.1:1".into());

    for (on, class, code) in [
        (&bad_secret, Class::Permanent, codes::DENIED),
        (&bad_key, Class::Permanent, codes::DENIED),
        (&gone, Class::Transient, codes::UNAVAILABLE),
    ] {
        let error = on.s3.read(super::REGION, "t-nobody--eu-west", &stamp("one", 1)).await.unwrap_err();
        assert_eq!((error.class, error.code.as_str()), (class, code), "{}", error.message);
        let error = on.s3.create(&bucket("nobody"), "nobody", &stamp("one", 1)).await.unwrap_err();
        assert_eq!((error.class, error.code.as_str()), (class, code), "{}", error.message);
        assert!(!format!("{:?} {error:?}", on.s3).contains("not-the-secret"));
    }
}
