//! Objects that cannot be removed yet are reported with their date; the rest is removed.

use super::{bucket, stage, staged, stamp};
use chrono::{Duration, SecondsFormat, Utc};
use e2e::gateway::Gateway;
use reqwest::Method;
use workflows::platform::{Observer, TenantResource, TenantResources, codes};

/// A governance lock is lifted only if the settings allow it; a compliance lock and a legal hold never are.
#[tokio::test(flavor = "multi_thread")]
async fn locked_versions_are_reported_until_their_lock_ends_and_the_others_are_removed() {
    let Some(gateway) = Gateway::shared() else { return };
    let (raw, step) = (gateway.raw("PLATFORM"), stamp("offboard", 1));
    let (on, bypassing) = (stage(&gateway), staged(&gateway, |target| target.bypass_governance = true));
    let name = bucket("locker").name;
    let lockable = [("x-amz-bucket-object-lock-enabled", "true")];
    assert!(raw.send(Method::PUT, &format!("/{name}"), &lockable, b"").await.0.is_success());
    let day = |seconds| (Utc::now() + Duration::seconds(seconds)).to_rfc3339_opts(SecondsFormat::Secs, true);
    let (governed, complied) = (day(3_600), day(12));
    for (key, mode, day) in [("governed", "GOVERNANCE", &governed), ("complied", "COMPLIANCE", &complied)] {
        let lock = [("x-amz-object-lock-mode", mode), ("x-amz-object-lock-retain-until-date", day.as_str())];
        assert!(raw.send(Method::PUT, &format!("/{name}/{key}"), &lock, b"kept").await.0.is_success());
    }
    raw.ok(Method::PUT, &format!("/{name}/free"), b"free").await;
    let thing = TenantResource::new("objects", super::REGION, "Bucket", &name);
    let seen = on.s3.read_resource(&thing, Observer::Platform, &step).await.unwrap().unwrap();
    assert_eq!((seen.number("versions"), seen.number("locked")), (1, 2));
    assert_eq!(seen.text("locked_until"), Some(governed.as_str()));

    let emptied = on.s3.empty(&thing, &seen.uid, &step).await.unwrap();
    assert_eq!((emptied.removed, emptied.left, emptied.locked), (1, 0, 2));
    assert_eq!(emptied.locked_until.as_deref(), Some(governed.as_str()));
    assert_eq!(on.s3.remove(&thing, &seen.uid, &step).await.unwrap_err().code, codes::EMPTYING);

    let bypassed = bypassing.s3.empty(&thing, &seen.uid, &step).await.unwrap();
    assert_eq!((bypassed.removed, bypassed.locked), (1, 1));
    assert_eq!(bypassed.locked_until.as_deref(), Some(complied.as_str()));

    let over = std::time::Duration::from_millis(
        u64::try_from(
            (chrono::DateTime::parse_from_rfc3339(&complied).unwrap().to_utc() - Utc::now())
                .num_milliseconds()
                .max(0),
        )
        .unwrap()
            + 1_500,
    );
    tokio::time::sleep(over).await;
    let last = on.s3.empty(&thing, &seen.uid, &step).await.unwrap();
    assert_eq!((last.removed, last.left, last.locked), (1, 0, 0));
    on.s3.remove(&thing, &seen.uid, &step).await.unwrap();
    assert_eq!(raw.listings(&name).await, None);
}
