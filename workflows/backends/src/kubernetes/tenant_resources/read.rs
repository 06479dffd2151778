//! Lists objects with the credentials of the platform or the verifier.
//!
//! All reads are lists, by label or by name. A verifier therefore needs only the right to list, and an absent object is
//! distinguished from an absent kind. Invariant: a list is complete or an error; objects that were not listed never
//! count as absent.

use crate::kubernetes::{
    client::{
        error::Fault,
        list,
        request::{self, ApiRequest, deadline},
    },
    cluster::KubernetesCluster,
    labels::{text, uid},
    tenant_resources::kinds::{ListedKind, NAMESPACE},
};
use engine::ActionError;
use serde_json::{Value, json};
use tokio::time::Instant;
use workflows::platform::{CallMetadata, Observer, codes};

/// The namespace whose uid identifies the cluster.
const OLDEST: &str = "kube-system";

/// A client with one set of credentials, until the deadline of a call.
#[derive(Clone)]
pub(in crate::kubernetes) struct Reader {
    client: kube::Client,
    pub(in crate::kubernetes) until: Instant,
}

/// Selects objects of a kind.
#[derive(Clone, Debug)]
pub(in crate::kubernetes) enum Selector {
    /// All objects.
    All,
    /// All objects, only their metadata.
    Named,
    /// Objects with this label, only their metadata.
    Marked(String),
    /// Objects with this label.
    Whole(String),
    /// Objects that match a field selector, such as `metadata.name=acme`.
    Fields(String),
}

impl Selector {
    pub(in crate::kubernetes) fn named(name: &str) -> Self {
        Self::Fields(format!("metadata.name={name}"))
    }
}

impl KubernetesCluster {
    /// Returns the reader for an observer. Rejects a verifier of another cluster, which would find nothing, and one
    /// that may delete objects, which is not independent.
    pub(in crate::kubernetes) async fn reader(
        &self,
        eyes: Observer,
        stamp: &CallMetadata,
    ) -> Result<Reader, ActionError> {
        let until = deadline(stamp);
        let ours = Reader { client: self.client.clone(), until };
        if eyes == Observer::Platform {
            return Ok(ours);
        }
        let Some(verifier) = &self.verifier else {
            let why = format!(
                "cluster {}: no verifier is set, and with the credentials that removed them it is not verified that things are gone: set verifier_kubeconfig",
                self.name
            );
            return Err(ActionError::permanent(codes::REFUSED, why));
        };
        let theirs = Reader { client: verifier.clone(), until };
        if ours.cluster().await? != theirs.cluster().await? {
            let why = format!(
                "cluster {}: verifier_kubeconfig is of another cluster, where nothing of ours is: give it credentials of this one",
                self.name
            );
            return Err(ActionError::permanent(codes::REFUSED, why));
        }
        if theirs.may_delete().await? {
            let why = format!(
                "cluster {}: verifier_kubeconfig may delete namespaces, and who removes things does not verify that they are gone: give it an account that may only list",
                self.name
            );
            return Err(ActionError::permanent(codes::REFUSED, why));
        }
        Ok(theirs)
    }
}

impl Reader {
    pub(in crate::kubernetes) async fn send(&self, ask: &ApiRequest) -> Result<Value, Fault> {
        request::send(&self.client, ask, self.until).await
    }

    pub(in crate::kubernetes) async fn is_ready(&self) -> Option<bool> {
        request::is_ready(&self.client, self.until).await
    }

    pub(in crate::kubernetes) async fn ask(&self, ask: &ApiRequest) -> Result<Value, ActionError> {
        Ok(self.send(ask).await?)
    }

    /// Returns the objects of a kind, in one namespace or in all.
    ///
    /// # Errors
    ///
    /// The error of the server, with the kind that could not be listed.
    pub(in crate::kubernetes) async fn list(
        &self,
        of: &ListedKind,
        namespace: Option<&str>,
        which: &Selector,
    ) -> Result<Vec<Value>, ActionError> {
        let ask = ApiRequest::get(&of.collection(namespace));
        let ask = match which {
            Selector::All => ask,
            Selector::Named => ask.described(),
            Selector::Marked(label) => ask.with("labelSelector", label).described(),
            Selector::Whole(label) => ask.with("labelSelector", label),
            Selector::Fields(fields) => ask.with("fieldSelector", fields),
        };
        list::whole(&self.client, ask, self.until).await.map_err(|error| {
            let why = format!(
                "{} cannot be listed, and what a tenant has of them is not known: {}",
                of.name(),
                error.message
            );
            ActionError { message: why, ..error }
        })
    }

    /// Returns the object with this name, if it exists.
    pub(in crate::kubernetes) async fn named(
        &self,
        of: &ListedKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, ActionError> {
        let all = self.list(of, namespace, &Selector::named(name)).await?;
        // A server without support for field selectors returns more objects.
        Ok(all.into_iter().find(|one| text(one, &["metadata", "name"]) == name))
    }

    /// Returns the object with this name and a core kind.
    pub(in crate::kubernetes) async fn core(
        &self,
        word: &str,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, ActionError> {
        let Some(of) = self.kind(word).await? else {
            let why = format!("the server has no {word}, and is none of Kubernetes: check its address");
            return Err(ActionError::permanent(codes::UNSUPPORTED, why));
        };
        self.named(&of, namespace, name).await
    }

    async fn cluster(&self) -> Result<String, ActionError> {
        let oldest = self.core(NAMESPACE, None, OLDEST).await?;
        let Some(oldest) = oldest.filter(|oldest| !uid(oldest).is_empty()) else {
            let why = format!("namespace {OLDEST} is not there, by which clusters are told apart");
            return Err(ActionError::permanent(codes::UNREADABLE, why));
        };
        Ok(uid(&oldest).to_owned())
    }

    async fn may_delete(&self) -> Result<bool, ActionError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": { "verb": "delete", "resource": "namespaces" } },
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = self.ask(&ApiRequest::review(path, review)).await?;
        let allowed = answer.get("status").and_then(|status| status.get("allowed"));
        allowed.and_then(Value::as_bool).ok_or_else(|| {
            ActionError::transient(codes::UNREADABLE, "the review of the verifier's rights says nothing")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
        task::JoinHandle,
    };

    const KINDS: &str = r#"{"kind":"APIResourceList","resources":[
        {"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["get","list"]}]}"#;

    /// A server that returns these answers in order, then the received requests.
    async fn serving(answers: Vec<(u16, &'static str)>) -> (Reader, JoinHandle<Vec<String>>) {
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = tokio::spawn(async move {
            let mut asked = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap();
                asked.push(head.lines().next().unwrap().to_owned());
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        let client = kube::Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        (Reader { client, until: Instant::now() + Duration::from_secs(10) }, asked)
    }

    async fn listed(answers: &[(u16, &'static str)]) -> (Result<Vec<Value>, ActionError>, Vec<String>) {
        let (reader, asked) = serving([&[(200, KINDS)], answers].concat()).await;
        let kind = reader.kind("ConfigMap").await.unwrap().unwrap();
        let all = reader.list(&kind, None, &Selector::Marked("tenure.dev/tenant=acme".into())).await;
        let asked = tokio::time::timeout(Duration::from_secs(5), asked).await;
        (all, asked.expect("not all was asked for").unwrap())
    }

    /// If a page expires, the list starts again, so that no object is missing or listed twice.
    #[tokio::test]
    async fn a_list_that_expires_between_two_pages_starts_again() {
        let (all, asked) = listed(&[
            (200, r#"{"kind":"List","metadata":{"continue":"old"},"items":[{"a":1}]}"#),
            (410, r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#),
            (200, r#"{"kind":"List","metadata":{"continue":"new"},"items":[{"a":1}]}"#),
            (200, r#"{"kind":"List","metadata":{},"items":[{"a":2}]}"#),
        ])
        .await;

        assert_eq!(all.unwrap(), [json!({ "a": 1 }), json!({ "a": 2 })]);
        let turns: Vec<bool> = asked.iter().skip(1).map(|line| line.contains("continue=")).collect();
        assert_eq!(turns, [false, true, false, true], "{asked:#?}");
        assert!(asked[4].contains("continue=new") && asked[4].contains("tenure.dev%2Ftenant%3Dacme"));
    }

    /// While a server starts, groups defined by others are missing; their kinds must not count as absent.
    #[tokio::test]
    async fn the_kinds_of_a_server_that_is_not_ready_are_unknown() {
        let (reader, _) = serving(vec![(500, "[-]autoregister-completion failed")]).await;

        let error = reader.kind("Widget.example.org").await.unwrap_err();

        assert_eq!((error.code.as_str(), error.class), (codes::UNAVAILABLE, engine::Class::Transient));
    }

    /// A ready server may not yet list kinds defined by others. They must not count as absent, unless they are not
    /// defined or their definition was rejected.
    #[tokio::test]
    async fn a_defined_kind_that_is_not_listed_is_not_absent() {
        const NAMES: &str = r#"{"kind":"List","metadata":{},"items":[{"metadata":{"name":"widgets.example.org"}},{"metadata":{"name":"gears.example.com"}}]}"#;
        const NONE: &str = r#"{"kind":"List","metadata":{},"items":[]}"#;
        const TAKEN: &str = r#"{"kind":"List","metadata":{},"items":[{"metadata":{"name":"widgets.example.org"},
            "spec":{"versions":[{"served":true}]},"status":{"conditions":[{"type":"Established","status":"True"}]}}]}"#;
        const REFUSED: &str = r#"{"kind":"List","metadata":{},"items":[{"metadata":{"name":"widgets.example.org"},
            "spec":{"versions":[{"served":true}]},"status":{"conditions":[{"type":"Established","status":"False"}]}}]}"#;
        let groups = (200, r#"{"kind":"APIGroupList","groups":[]}"#);
        let kind = async |definitions: &[&'static str]| {
            let answers: Vec<_> = definitions.iter().map(|body| (200, *body)).collect();
            let (reader, asked) = serving([vec![(200, "ok"), groups], answers].concat()).await;
            let kind = reader.kind("Widget.example.org").await;
            let asked = tokio::time::timeout(Duration::from_secs(5), asked).await;
            asked.expect("not all was asked for").unwrap();
            kind
        };

        let error = kind(&[NAMES, TAKEN]).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.class), (codes::UNAVAILABLE, engine::Class::Transient));
        assert!(error.message.starts_with("widgets.example.org are defined"), "{error}");
        assert_eq!(kind(&[NAMES, REFUSED]).await.unwrap(), None);
        assert_eq!(kind(&[NAMES, NONE]).await.unwrap(), None, "removed meanwhile");
        assert_eq!(kind(&[NONE]).await.unwrap(), None);
    }

    const DENIED: (u16, &str) = (403, r#"{"kind":"Status","code":403}"#);
    const UNSERVED: (u16, &str) = (404, "404 page not found");

    /// A server that has just started has not loaded its authorisation rules and denies requests that it allows later.
    #[tokio::test]
    async fn a_denial_by_a_server_that_is_not_ready_does_not_count() {
        let list = (200, r#"{"kind":"List","metadata":{},"items":[{"a":1}]}"#);
        let (all, asked) = listed(&[DENIED, (500, "not ready"), DENIED, (200, "ok"), list]).await;

        assert_eq!(all.unwrap(), [json!({ "a": 1 })]);
        assert_eq!(asked.iter().filter(|line| line.contains("/readyz")).count(), 3, "{asked:#?}");
    }

    #[tokio::test]
    async fn an_incomplete_list_is_an_error_with_the_kind_and_never_an_absence() {
        let half = (200, r#"{"kind":"List","metadata":{"continue":"c"},"items":[]}"#);
        for answers in [
            &[DENIED, (200, "ok"), DENIED][..],
            &[UNSERVED, (200, "ok"), UNSERVED],
            &[(503, "service unavailable")],
            &[(200, r#"{"kind":"Status","status":"Success"}"#)],
            &[half, UNSERVED, (200, "ok"), UNSERVED],
            &[half, (500, "")],
        ] {
            let (all, _) = listed(answers).await;
            let error = all.unwrap_err();
            assert!(error.message.contains("configmaps cannot be listed"), "{answers:?}: {error}");
        }
    }
}
