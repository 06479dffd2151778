//! The conformance kit for the groups of a tenant, made in a real SCIM service by the recipe. Their name contains their amount.

use super::{
    servers::{Scim, client},
    system,
};
use async_trait::async_trait;
use backends::hooks::System;
use e2e::excuses::{holds, keyless, unchanging};
use engine::ActionError;
use reqwest::Method;
use tests::kit::{self, Subject, Trouble, proxy::Proxy};
use workflows::platform::{CallMetadata, FoundObject, Identity};

struct Groups {
    identity: System,
    server: Scim,
    proxy: Proxy,
}

fn group(thing: &str, amount: u64) -> String {
    format!("{thing}-of-{amount}")
}

impl Groups {
    async fn of(&self, thing: &str) -> Vec<(String, u64)> {
        let all = self.server.groups().await;
        let of = |(name, _, id): (String, usize, String)| {
            let amount = name.strip_prefix(&format!("{thing}-of-"))?.parse().ok()?;
            Some((id, amount))
        };
        all.into_iter().filter_map(of).collect()
    }
}

#[async_trait]
impl Subject for Groups {
    fn name(&self) -> &'static str {
        "hooked system (SCIM)"
    }

    async fn make(&self, thing: &str, amount: u64, stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        self.identity
            .create(&format!("t-{thing}"), thing, &[group(thing, amount), format!("{thing}-all")], stamp)
            .await
    }

    async fn look(&self, thing: &str, stamp: &CallMetadata) -> Result<Option<FoundObject>, ActionError> {
        self.identity.read(&format!("t-{thing}"), stamp).await
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
        self.identity.delete(&format!("t-{thing}"), found, stamp).await
    }

    async fn really(&self, thing: &str) -> Option<u64> {
        let all = self.of(thing).await;
        assert!(all.len() < 2, "there are two of {thing}: {all:?}");
        all.first().map(|(_, amount)| *amount)
    }

    async fn trouble(&self, next: Trouble) -> Result<(), &'static str> {
        self.proxy.trouble(next).await.map_err(|_| "the proxy's port is taken")
    }

    fn excused(&self, case: &str) -> Option<&'static str> {
        unchanging(case).or_else(|| keyless(case))
    }

    async fn plant(&self, thing: &str, amount: u64) -> Result<(), &'static str> {
        self.server.plant(&format!("{thing}-all")).await;
        self.server.plant(&group(thing, amount)).await;
        Ok(())
    }

    async fn vanish(&self, thing: &str) -> Result<(), &'static str> {
        let all = self.server.groups().await;
        for (_, _, id) in all.into_iter().filter(|(name, ..)| name.starts_with(&format!("{thing}-"))) {
            self.server.call(Method::DELETE, &format!("Groups/{id}"), None).await;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_in_a_scim_service_fulfil_the_contract_of_backends() {
    let Some(server) = Scim::start() else { return };
    let upstream = server.url.trim_end_matches("/v2").to_owned();
    let proxy = Proxy::with(&upstream, client(), kit::proxy::by_method);
    let proxy = proxy.await.unwrap();
    let (url, token) = (format!("{}/v2", proxy.url()), server.file("platform"));
    let identity = system("identity", "scim", &[&url, &token], &[&url, &token]);

    holds(&kit::run(&Groups { identity, server, proxy }).await);
}
