//! What the server counts beside the engine, in Prometheus' terms. Labels are bounded: routes, never ids or tenants.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use std::{sync::atomic::AtomicU64, time::Duration};
use store::Health;
use workflows::audit::Lag;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRoute {
    method: String,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    code: String,
}

/// Counts requests that were refused for who asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals(Family<ByCode, Counter>);

impl Refusals {
    /// Names the metric in `registry`; each of `codes` begins at zero, so that the first of a kind is seen.
    pub(crate) fn registered<'a>(registry: &mut Registry, codes: impl Iterator<Item = &'a str>) -> Self {
        let me = Self::default();
        for code in codes {
            _ = me.0.get_or_create(&ByCode { code: code.into() });
        }
        registry.register("access_denied", "Requests refused for who asked, by code", me.0.clone());
        me
    }

    /// A request was refused with this code.
    pub(crate) fn refused(&self, code: &str) {
        self.0.get_or_create(&ByCode { code: code.into() }).inc();
    }
}

/// Counts and times requests, and shows how the store is.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    answered: Family<ByRoute, Counter>,
    seconds: Histogram,
    writable: Gauge,
    held: Gauge,
    live_bytes: Gauge,
    disk_bytes: Gauge,
    written_bytes: Gauge,
    amplification: Gauge<f64, AtomicU64>,
    syncs: Gauge,
    retries: Gauge,
    commits: Gauge,
    sequence: Gauge,
    index_lag: Gauge,
    tasks: Gauge,
    notifications: Gauge,
    notify_failed: Counter,
    notify_died: Counter,
}

impl Requests {
    fn none_yet() -> Self {
        Self {
            answered: Family::default(),
            // 0.5 ms to about 16 s.
            seconds: Histogram::new(exponential_buckets(0.0005, 2.0, 16)),
            writable: Gauge::default(),
            held: Gauge::default(),
            live_bytes: Gauge::default(),
            disk_bytes: Gauge::default(),
            written_bytes: Gauge::default(),
            amplification: Gauge::default(),
            syncs: Gauge::default(),
            retries: Gauge::default(),
            commits: Gauge::default(),
            sequence: Gauge::default(),
            index_lag: Gauge::default(),
            tasks: Gauge::default(),
            notifications: Gauge::default(),
            notify_failed: Counter::default(),
            notify_died: Counter::default(),
        }
    }

    /// Names the metrics in `registry`.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let me = Self::none_yet();
        registry.register("http_requests", "Requests answered", me.answered.clone());
        registry.register("http_request_seconds", "How long requests took", me.seconds.clone());
        registry.register(
            "notifications_waiting",
            "Notifications that nobody has taken",
            me.notifications.clone(),
        );
        registry.register(
            "notification_failures",
            "Times that the receiver of notifications did not take one",
            me.notify_failed.clone(),
        );
        registry.register(
            "notification_dead_letters",
            "Notifications that nobody took in as many attempts as are made",
            me.notify_died.clone(),
        );
        let gauges = [
            ("store_writable", "1 while commits are accepted", &me.writable),
            ("store_held", "1 while the store hands out no work until somebody lets it go", &me.held),
            ("store_live_bytes", "Content of the store, as last written", &me.live_bytes),
            ("store_disk_bytes", "Everything in the store's folder", &me.disk_bytes),
            ("store_written_bytes", "Bytes sent to the device since start", &me.written_bytes),
            ("store_syncs", "Device syncs since start", &me.syncs),
            (
                "store_retries",
                "What was tried again since start, because the database did not take it",
                &me.retries,
            ),
            ("store_commits", "Commits since start", &me.commits),
            ("store_sequence", "Commits in the store's whole history", &me.sequence),
            ("store_index_lag", "Commits that the index has not taken over yet", &me.index_lag),
            ("store_tasks", "Tasks waiting or leased", &me.tasks),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        registry.register(
            "store_disk_amplification",
            "Bytes on disk for each byte of content",
            me.amplification.clone(),
        );
        me
    }

    /// A request to `route` has been answered, within `took` if that is to be counted.
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16, took: Option<Duration>) {
        let by = ByRoute { method: method.into(), route: route.into(), status };
        self.answered.get_or_create(&by).inc();
        if let Some(took) = took {
            self.seconds.observe(took.as_secs_f64());
        }
    }

    /// So many notifications wait.
    pub(crate) fn notifications(&self, waiting: i64) {
        self.notifications.set(waiting);
    }

    /// A notification was not taken.
    pub(crate) fn notify_failed(&self) {
        self.notify_failed.inc();
    }

    /// So many notifications are dead: nobody took them.
    pub(crate) fn notify_died(&self, letters: u64) {
        self.notify_died.inc_by(letters);
    }

    /// The store is like this.
    pub(crate) fn observe(&self, health: &Health) {
        self.writable.set(i64::from(health.writable));
        self.held.set(i64::from(health.held.is_some()));
        for (gauge, value) in [
            (&self.live_bytes, health.live_bytes),
            (&self.disk_bytes, health.disk_bytes),
            (&self.written_bytes, health.written_bytes),
            (&self.syncs, health.syncs),
            (&self.retries, health.retries),
            (&self.commits, health.commits),
            (&self.sequence, health.sequence.0),
            (&self.index_lag, health.index_lag),
            (&self.tasks, health.tasks),
        ] {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = health.disk_bytes as f64 / health.live_bytes.max(1) as f64;
        self.amplification.set(ratio);
    }
}

/// Shows how far the audit is behind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audited {
    sealed: Gauge,
    unsigned: Gauge,
    lag: Gauge<f64, AtomicU64>,
    checkpoints: Gauge,
}

impl Audited {
    /// Names the metrics in `registry`.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let me = Self::default();
        registry.register("audit_entries_sealed", "Audit entries sealed, of all chains", me.sealed.clone());
        registry.register(
            "audit_entries_unsigned",
            "Audit entries sealed and not yet under a signed checkpoint",
            me.unsigned.clone(),
        );
        registry.register(
            "audit_lag_seconds",
            "How long ago the oldest entry was journalled that is not sealed",
            me.lag.clone(),
        );
        registry.register("audit_checkpoints", "Signed checkpoints", me.checkpoints.clone());
        me
    }

    /// The audit is so far behind.
    pub(crate) fn observe(&self, lag: &Lag) {
        let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        self.sealed.set(whole(lag.sealed));
        self.unsigned.set(whole(lag.unsigned));
        self.checkpoints.set(whole(lag.checkpoints));
        self.lag.set(lag.oldest.as_secs_f64());
    }
}
