//! Many simultaneous submits of one tenant: each gets its decision.

use crate::{
    domain_http::{items, submit, with_acme},
    served::{Served, seen},
};
use std::collections::BTreeSet;

/// Submits `count` workloads of one tenant at once, to the servers in turn, and expects a decision for each.
pub(crate) async fn all_are_decided(servers: &[&Served], count: usize) {
    let submits = (0..count).map(|n| {
        let served = servers[n % servers.len()];
        async move { submit(served, "research", &format!("storm-{n:03}"), 1).await }
    });
    let answers = together(submits).await;

    let mut decisions = BTreeSet::new();
    for answer in &answers {
        assert!([200, 202].contains(&answer.status.as_u16()), "{}: {}", answer.status, answer.body);
        let decision = answer.body["decision"]["id"].as_str().unwrap_or_default();
        assert!(decisions.insert(decision.to_owned()), "a separate decision: {}", answer.body);
    }
    assert_eq!(decisions.len(), count);
    let admitted = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(admitted <= 8, "no more than there are GPUs: {admitted}");
    let listed = servers[0].get("/v1/workloads?limit=500").await;
    assert_eq!(items(&listed).len(), count);
}

/// Returns all answers, in the order of the requests.
async fn together<T, F: Future<Output = T>>(all: impl Iterator<Item = F>) -> Vec<T> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut answers: Vec<Option<T>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut ready = true;
        for (one, answer) in all.iter_mut().zip(&mut answers) {
            if answer.is_none() {
                match one.as_mut().poll(context) {
                    std::task::Poll::Ready(done) => *answer = Some(done),
                    std::task::Poll::Pending => ready = false,
                }
            }
        }
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    answers.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_simultaneous_submissions_of_one_tenant_are_all_decided() {
    let served = with_acme().await;
    seen(&served, "acme").await;

    all_are_decided(&[&served], 100).await;
}
