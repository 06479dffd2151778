//! Limits set by operators: which one applies, which are refused, and what a change does to waiting tasks.

use crate::tests::one_step::{Bench, OneStep, Reply};
use crate::{BreakerRule, DAY, HOUR, Limit, MINUTE, Rate, SECOND};
use std::time::Duration;

const KEY: &str = "cluster/eu-1";

/// A limit in force is changed while work waits for it.
#[tokio::test]
async fn a_limit_that_is_raised_or_removed_starts_waiting_tasks_at_once() {
    for taken_back in [false, true] {
        let bench = Bench::new();
        bench.at_most("action/Dig", 1).await;
        for n in 0..3 {
            bench.platform.on(&format!("dig {n}"), [Reply::Gate]);
            bench.start(OneStep::of("a", &format!("dig {n}"))).await;
        }
        let _first = bench.begin(1).await;
        bench.engine.run_until_idle().await.unwrap();

        if taken_back {
            assert!(bench.engine.remove_limit("action/Dig").await.unwrap());
            assert!(!bench.engine.remove_limit("action/Dig").await.unwrap());
        } else {
            bench.at_most("action/Dig", 3).await;
        }
        let _second = bench.begin(2).await;
        let _third = bench.begin(3).await;

        assert_eq!(bench.platform.begun().len(), 3);
    }
}

#[tokio::test]
async fn an_invalid_limit_is_refused_with_its_field() {
    let bench = Bench::new();
    let rate = |times, per, burst| Some(Rate { times, per, burst });
    let breaker = Some(BreakerRule { after: 3, span: HOUR, cap: MINUTE });
    let never = Some(BreakerRule { after: 3, span: Duration::ZERO, cap: MINUTE });
    let refused = [
        ("key", Limit { concurrency: Some(1), ..Limit::for_key("eu-1") }),
        ("key", Limit { concurrency: Some(1), ..Limit::for_key("cluster/*/nodes") }),
        ("key", Limit { concurrency: Some(1), ..Limit::for_key("cluster/eu 1") }),
        ("key", Limit { concurrency: Some(1), ..Limit::for_key(format!("cluster/{}", "x".repeat(193))) }),
        ("concurrency", Limit::for_key(KEY)),
        ("concurrency", Limit { concurrency: Some(0), ..Limit::for_key(KEY) }),
        ("rate", Limit { rate: rate(0, SECOND, 1), ..Limit::for_key(KEY) }),
        ("rate", Limit { rate: rate(1, SECOND, 0), ..Limit::for_key(KEY) }),
        ("rate", Limit { rate: rate(1, Duration::ZERO, 1), ..Limit::for_key(KEY) }),
        ("rate", Limit { rate: rate(1, 32 * DAY, 1), ..Limit::for_key(KEY) }),
        ("breaker", Limit { breaker, ..Limit::for_key(KEY) }),
        ("breaker", Limit { breaker: never, ..Limit::for_key(KEY) }),
    ];
    for (field, limit) in refused {
        let error = bench.engine.set_limit(limit.clone()).await.unwrap().unwrap_err();
        assert_eq!(error.field, field, "{limit:?}: {error}");
    }
    assert!(bench.engine.limit_statuses().await.unwrap().is_empty());
}

/// The longest pattern applies, and the key's own limit before any.
#[tokio::test]
async fn the_narrowest_limit_counts() {
    let bench = Bench::new();
    bench.at_most("cluster/*", 1).await;
    bench.at_most("cluster/eu-*", 2).await;
    bench.at_most("cluster/eu-2", 3).await;
    for (cluster, allowed) in [("us-1", 1), ("eu-1", 2), ("eu-2", 3)] {
        for n in 0..4 {
            let name = format!("{cluster} {n}");
            bench.platform.on(&name, [Reply::Gate]);
            bench
                .start(OneStep { keys: vec![format!("cluster/{cluster}")], ..OneStep::of("a", &name) })
                .await;
        }
        let before = bench.platform.begun().len();
        for n in 0..allowed {
            let _work = bench.begin(before + n + 1).await;
        }
        bench.engine.run_until_idle().await.unwrap();
        assert_eq!(bench.platform.begun().len(), before + allowed, "{cluster}");
    }
}
