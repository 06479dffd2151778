//! Prometheus metrics of the server, in addition to those of the engine. Labels are bounded: routes, never ids or tenants.

mod observation;
pub(crate) mod process;
mod stored;

pub(crate) use observation::ObservationMetrics;
pub(crate) use stored::AuditMetrics;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, exemplar::HistogramWithExemplars, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::time::Duration;
use store::Health;
use stored::StoreMetrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByRoute {
    method: &'static str,
    route: String,
    status: u16,
}

/// The labels of durations, without the status: one histogram per route.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTimedRoute {
    method: &'static str,
    route: String,
}

/// The trace of an exemplar.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByTrace {
    trace_id: String,
}

/// Seconds, with an exemplar for each bucket.
type Seconds = HistogramWithExemplars<ByTrace>;

/// Few buckets, because every route has its own histogram: 5 ms to 10 s.
const BUCKETS: [f64; 8] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The methods used as labels. Clients can invent others.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCode {
    code: String,
}

/// Counts refused requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct DenialMetrics(Family<ByCode, Counter>);

impl DenialMetrics {
    /// Registers the metric; each of `codes` starts at zero, so that its first refusal is visible.
    pub(crate) fn registered<'a>(registry: &mut Registry, codes: impl Iterator<Item = &'a str>) -> Self {
        let me = Self::default();
        for code in codes {
            _ = me.0.get_or_create(&ByCode { code: code.into() });
        }
        registry.register("access_denied", "Refused requests, by code", me.0.clone());
        me
    }

    /// Counts a refusal with this code.
    pub(crate) fn refused(&self, code: &str) {
        self.0.get_or_create(&ByCode { code: code.into() }).inc();
    }
}

/// Counts and times requests, and exports the status of the store.
#[derive(Clone, Debug)]
pub(crate) struct RequestMetrics {
    answered: Family<ByRoute, Counter>,
    seconds: Family<ByTimedRoute, Seconds, fn() -> Seconds>,
    stored: StoreMetrics,
    notifications: Gauge,
    notify_failed: Counter,
    notify_died: Counter,
}

impl RequestMetrics {
    /// Registers the metrics.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let me = Self {
            answered: Family::default(),
            seconds: Family::new_with_constructor(|| HistogramWithExemplars::new(BUCKETS.into_iter())),
            stored: StoreMetrics::registered(registry),
            notifications: Gauge::default(),
            notify_failed: Counter::default(),
            notify_died: Counter::default(),
        };
        let built = Family::<[(&str, &str); 1], Gauge>::default();
        built.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("build_info", "1, with the version of the program", built);
        registry.register("http_requests", "Requests answered", me.answered.clone());
        registry.register("http_request_seconds", "Duration of requests, by route", me.seconds.clone());
        registry.register(
            "notifications_waiting",
            "Notifications that are not delivered yet",
            me.notifications.clone(),
        );
        registry.register(
            "notification_failures",
            "Failed attempts to deliver a notification",
            me.notify_failed.clone(),
        );
        registry.register(
            "notification_dead_letters",
            "Notifications that failed permanently after all attempts",
            me.notify_died.clone(),
        );
        me
    }

    /// Counts an answered request of `route`. `took` is its duration, unless it must not be measured; `trace` is the caller's trace.
    pub(crate) fn answered(
        &self,
        (method, route): (&str, &str),
        status: u16,
        took: Option<Duration>,
        trace: Option<&str>,
    ) {
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("other");
        self.answered.get_or_create(&ByRoute { method, route: route.into(), status }).inc();
        if let Some(took) = took {
            let seconds = self.seconds.get_or_create(&ByTimedRoute { method, route: route.into() });
            seconds.observe(took.as_secs_f64(), trace.map(|trace| ByTrace { trace_id: trace.into() }), None);
        }
    }

    /// Sets the number of waiting notifications.
    pub(crate) fn notifications(&self, waiting: i64) {
        self.notifications.set(waiting);
    }

    /// Counts a failed delivery attempt.
    pub(crate) fn notify_failed(&self) {
        self.notify_failed.inc();
    }

    /// Counts dead notifications.
    pub(crate) fn notify_died(&self, letters: u64) {
        self.notify_died.inc_by(letters);
    }

    /// Records the status of the store.
    pub(crate) fn observe(&self, health: Health) {
        self.stored.observe(health);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode_registry;

    #[test]
    fn requests_are_timed_by_route_with_their_trace_and_unknown_methods_share_a_label() {
        let mut registry = Registry::with_prefix("tenure");
        let requests = RequestMetrics::registered(&mut registry);
        let took = Some(Duration::from_millis(700));
        requests.answered(("GET", "/v1/tenants"), 200, took, Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        requests.answered(("BREW", "/v1/tenants"), 405, took, None);
        requests.answered(("GET", "/v1/watched"), 200, None, None);

        let mut text = String::new();
        encode_registry(&mut text, &registry).unwrap();

        for line in [
            r#"tenure_http_request_seconds_bucket{le="0.5",method="GET",route="/v1/tenants"} 0"#,
            r#"tenure_http_request_seconds_bucket{le="1.0",method="GET",route="/v1/tenants"} 1 # {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 0.7"#,
            r#"tenure_http_requests_total{method="other",route="/v1/tenants",status="405"} 1"#,
        ] {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
        assert!(
            !text.contains("BREW") && !text.contains(r#"seconds_count{method="GET",route="/v1/watched"#),
            "{text}"
        );
        assert!(
            text.contains(&format!(r#"tenure_build_info{{version="{}"}} 1"#, env!("CARGO_PKG_VERSION"))),
            "{text}"
        );
    }
}
