//! The conformance kit for buckets in Ceph's gateway. A bucket's key represents its amount.

use super::{Stage, staged};
use async_trait::async_trait;
use e2e::{
    excuses::{holds, keyless, unchanging},
    gateway::{Gateway, Raw, between},
};
use engine::ActionError;
use reqwest::{Client, Method};
use std::sync::Arc;
use tests::kit::{
    self, Subject, Trouble,
    proxy::{Asked, Proxy},
};
use workflows::platform::{Bucket, CallMetadata, FoundObject, Objects};

struct Buckets {
    on: Stage,
    raw: Raw,
    proxy: Proxy,
    _gateway: Arc<Gateway>,
}

/// Creating a bucket takes several calls. The lost call is the last one, as it decides the outcome; separate tests
/// cover the others.
fn changes(asked: &Asked) -> bool {
    (asked.method == Method::PUT && asked.target.contains("tagging")) || asked.method == Method::DELETE
}

fn bucket(thing: &str, amount: u64) -> Bucket {
    Bucket { key: format!("k{amount}"), ..super::bucket(thing) }
}

fn path(thing: &str) -> String {
    format!("/{}", bucket(thing, 1).name)
}

#[async_trait]
impl Subject for Buckets {
    fn name(&self) -> &'static str {
        "s3 (Ceph)"
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.on.s3.create(&bucket(thing, amount), thing, stamp).await
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        let there = self.on.s3.read(super::REGION, &bucket(thing, 1).name, stamp).await?;
        Ok(there.map(|(found, _)| found))
    }

    async fn change(&self, _: &str, _: u64, _: u64, _: &CallMetadata) -> Result<FoundObject, ActionError> {
        unreachable!("excused")
    }

    async fn remove(
        &self,
        thing: &str,
        found: &FoundObject,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        self.on.s3.delete(super::REGION, &bucket(thing, 1).name, found, stamp).await
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        let (status, tags) = self.raw.send(Method::GET, &format!("{}?tagging", path(thing)), &[], b"").await;
        let tags = String::from_utf8_lossy(&tags).into_owned();
        let key = between(&tags, "tenure.dev/key</Key><Value>k", "</Value>").concat();
        if status.is_success() { key.parse().ok() } else { None }
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        self.proxy.trouble(next).await.map_err(|_| "the proxy's port is taken")
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        match case {
            "twins.make_rivals" => {
                Some("of two simultaneous creations the last tags win, and both calls read them back")
            }
            _ => unchanging(case).or_else(|| keyless(case)),
        }
    }

    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        self.raw.ok(Method::PUT, &path(thing), b"").await;
        let tag = |name: &str, value: &str| {
            format!("<Tag><Key>tenure.dev/{name}</Key><Value>{value}</Value></Tag>")
        };
        let tags = format!("{}{}", tag("tenant", "umbrella"), tag("key", &format!("k{amount}")));
        let body = format!("<Tagging><TagSet>{tags}</TagSet></Tagging>");
        self.raw.ok(Method::PUT, &format!("{}?tagging", path(thing)), body.as_bytes()).await;
        Ok(())
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        let _gone_before = self.raw.send(Method::DELETE, &path(thing), &[], b"").await;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn buckets_fulfil_the_contract_of_backends() {
    let Some(gateway) = Gateway::shared() else { return };
    let client = Client::builder().no_proxy().build().unwrap();
    let proxy = Proxy::with(gateway.url(), client, changes).await.unwrap();
    let host = gateway.url().trim_start_matches("http://").to_owned();
    let on = staged(&gateway, |target| {
        target.endpoint = proxy.url();
        target.signed_host = Some(host);
    });
    let subject = Buckets { on, raw: gateway.raw("PLATFORM"), proxy, _gateway: gateway };

    holds(&kit::run(&subject).await);
}
