//! Data of a tenant in a bucket cannot be found again.

use super::{Stage, bucket, stage, staged, stamp};
use e2e::gateway::{Gateway, Raw, between};
use engine::ActionError;
use reqwest::Method;
use workflows::platform::{
    CallMetadata, EmptyProgress, Objects, ObservedResource, Observer, TenantResource, TenantResources, codes,
};

const SECRET: &str = "the launch code is 0000, as planted by a test";

/// Plants the secret: in old versions, under delete markers, under unusual keys, and in a part of an open upload.
pub async fn plant(raw: &Raw, name: &str, secret: &str) {
    for n in 0..12 {
        raw.ok(Method::PUT, &format!("/{name}/plan"), format!("{secret} {n}").as_bytes()).await;
    }
    raw.ok(Method::DELETE, &format!("/{name}/plan"), b"").await;
    for odd in ["%20spaces%20", "lt%3C%26%3E", "ctl%01x", "deep/er/%C3%A9", "plus+%2B", "quote%22%27"] {
        raw.ok(Method::PUT, &format!("/{name}/{odd}"), secret.as_bytes()).await;
        raw.ok(Method::DELETE, &format!("/{name}/{odd}"), b"").await;
    }
    let begun = raw.ok(Method::POST, &format!("/{name}/open?uploads"), b"").await;
    let id = between(&begun, "<UploadId>", "</UploadId>").concat();
    let part = secret.repeat(1 + 5 * (1 << 20) / secret.len());
    raw.ok(Method::PUT, &format!("/{name}/open?partNumber=1&uploadId={id}"), part.as_bytes()).await;
}

/// Empties the bucket until nothing removable is left; returns the number of calls.
async fn emptied(
    on: &Stage,
    thing: &TenantResource,
    uid: &str,
    stamp: &CallMetadata,
) -> Result<(EmptyProgress, u64), ActionError> {
    let (mut all, mut calls) = (EmptyProgress { left: 1, ..EmptyProgress::default() }, 0);
    while all.left > 0 {
        let page = on.s3.empty(thing, uid, stamp).await?;
        all = EmptyProgress { removed: all.removed + page.removed, ..page };
        calls += 1;
        assert!(calls < 50, "too many calls: {all:?}");
    }
    Ok((all, calls))
}

async fn looked(on: &Stage, thing: &TenantResource, eyes: Observer) -> Option<ObservedResource> {
    on.s3.read_resource(thing, eyes, &stamp("look", 1)).await.unwrap()
}

/// S81. Everything is destroyed: versions, delete markers, unfinished uploads, and keys that XML cannot express. An
/// independent client with other credentials finds nothing, and the store's own tool finds nothing on its disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_in_a_bucket_cannot_be_found_after_its_removal() {
    // A separate gateway: every byte of its store is searched.
    let Some(gateway) = Gateway::start() else { return };
    let (on, step) = (stage(&gateway), stamp("offboard", 1));
    let (platform, verifier) = (gateway.raw("PLATFORM"), gateway.raw("VERIFIER"));
    let bucket = bucket("leaver");
    Objects::create(&on.s3, &bucket, "leaver", &stamp("onboard", 1)).await.unwrap();
    plant(&platform, &bucket.name, SECRET).await;
    assert!(verifier.serves(SECRET).await && gateway.stores(SECRET), "the scans find the secret");
    let thing = TenantResource::new("objects", super::REGION, "Bucket", &bucket.name);

    let surveyed = on.s3.survey("objects", "leaver", Observer::Platform, &step).await.unwrap();
    let seen = looked(&on, &thing, Observer::Platform).await.unwrap();
    assert_eq!((surveyed.len(), &surveyed[0].thing, &surveyed[0].uid), (1, &thing, &seen.uid));
    assert_eq!((seen.number("versions"), seen.number("markers"), seen.number("uploads")), (18, 7, 1));
    let early = on.s3.remove(&thing, &seen.uid, &step).await.unwrap_err();
    assert_eq!(early.code, codes::EMPTYING);
    let (all, _) = emptied(&on, &thing, &seen.uid, &step).await.unwrap();
    assert_eq!((all.removed, all.locked), (26, 0));
    on.s3.remove(&thing, &seen.uid, &step).await.unwrap();

    assert_eq!(looked(&on, &thing, Observer::Verifier).await, None);
    assert_eq!(on.s3.survey("objects", "leaver", Observer::Verifier, &step).await.unwrap(), vec![]);
    assert_eq!(verifier.listings(&bucket.name).await, None);
    assert!(!verifier.serves(SECRET).await, "served");
    assert!(!gateway.stores(SECRET), "stored");
    on.s3.remove(&thing, &seen.uid, &step).await.unwrap();
}

/// More objects than one listing or one batch holds; each page starts at the end of the one before.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_with_more_than_a_page_is_emptied_page_by_page() {
    let Some(gateway) = Gateway::shared() else { return };
    let (on, step, raw) = (stage(&gateway), stamp("offboard", 1), gateway.raw("PLATFORM"));
    let bucket = bucket("many");
    Objects::create(&on.s3, &bucket, "many", &step).await.unwrap();
    let mut puts = tokio::task::JoinSet::new();
    for lane in 0..8 {
        let (raw, name) = (raw.clone(), bucket.name.clone());
        puts.spawn(async move {
            for n in 0..130 {
                raw.ok(Method::PUT, &format!("/{name}/{lane}-{n}"), b"x").await;
            }
        });
    }
    puts.join_all().await;
    let thing = TenantResource::new("objects", super::REGION, "Bucket", &bucket.name);
    let seen = looked(&on, &thing, Observer::Platform).await.unwrap();
    assert_eq!((seen.number("versions"), seen.spec["more"].as_bool()), (1_000, Some(true)));

    let (all, calls) = emptied(&on, &thing, &seen.uid, &step).await.unwrap();

    assert_eq!((all.removed, calls), (1_040, 2));
    on.s3.remove(&thing, &seen.uid, &step).await.unwrap();
    assert_eq!(raw.listings(&bucket.name).await, None);
}

/// A bucket that was created again under the approved name is neither emptied nor removed.
#[tokio::test(flavor = "multi_thread")]
async fn another_bucket_with_the_same_name_is_neither_emptied_nor_removed() {
    let Some(gateway) = Gateway::shared() else { return };
    let (on, step) = (stage(&gateway), stamp("offboard", 1));
    let bucket = bucket("again");
    Objects::create(&on.s3, &bucket, "again", &step).await.unwrap();
    let thing = TenantResource::new("objects", super::REGION, "Bucket", &bucket.name);
    let first = looked(&on, &thing, Observer::Platform).await.unwrap();
    on.s3.remove(&thing, &first.uid, &step).await.unwrap();
    Objects::create(&on.s3, &bucket, "again", &step).await.unwrap();

    assert_eq!(on.s3.empty(&thing, &first.uid, &step).await.unwrap_err().code, codes::OBJECT_CHANGED);
    assert_eq!(on.s3.remove(&thing, &first.uid, &step).await.unwrap_err().code, codes::OBJECT_CHANGED);

    let second = looked(&on, &thing, Observer::Platform).await.unwrap();
    assert_ne!(second.uid, first.uid);
    on.s3.remove(&thing, &second.uid, &step).await.unwrap();
}

/// A verifier without read access would certify everything as gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_verifier_without_access_to_our_buckets_verifies_nothing() {
    let Some(gateway) = Gateway::shared() else { return };
    let secret = super::secret(gateway.env("STRANGER_SECRET"));
    let stranger = staged(&gateway, |target| {
        let verifier = target.verifier.as_mut().unwrap();
        verifier.access_key_id = gateway.env("STRANGER_KEY").into();
        verifier.secret_key_file = secret.1.clone();
    });
    let nobody = staged(&gateway, |target| target.verifier = None);
    let thing = TenantResource::new("objects", super::REGION, "Bucket", "t-nobody--eu-west");

    let refused = |on: &Stage| {
        let (s3, thing) = (backends::s3::S3::connect(&on.target).unwrap(), thing.clone());
        async move { s3.read_resource(&thing, Observer::Verifier, &stamp("look", 1)).await.unwrap_err() }
    };

    assert_eq!(refused(&stranger).await.code, codes::DENIED);
    assert!(refused(&nobody).await.message.contains("set verifier"));
    let mut same = stranger.target.clone();
    same.verifier = Some(same.account.clone());
    assert!(backends::s3::S3::connect(&same).unwrap_err().to_string().contains("proves nothing"));
}
