//! Metrics of the observers of clusters, by cluster and source: `nodes`, `pods`, `workloads` or `reports`.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use std::{sync::atomic::AtomicU64, time::Duration};
use workflows::observed::Counts;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BySource {
    cluster: String,
    source: &'static str,
}

/// Counts what the observers of this server receive.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservationMetrics {
    objects: Family<BySource, Gauge>,
    lists: Family<BySource, Counter>,
    failed_lists: Family<BySource, Counter>,
    vanished: Family<BySource, Counter>,
    refused: Family<BySource, Counter>,
    undecoded: Family<BySource, Counter>,
    lag: Family<BySource, Gauge<f64, AtomicU64>>,
}

impl ObservationMetrics {
    /// Registers the metrics.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let me = Self::default();
        registry.register("observed_objects", "Objects in the index", me.objects.clone());
        registry.register("observation_lists", "Complete lists", me.lists.clone());
        let help = "Lists that another one replaced before they were complete";
        registry.register("observation_lists_failed", help, me.failed_lists.clone());
        let help = "Objects that a later list lacked: their deletion was not observed";
        registry.register("observation_vanished", help, me.vanished.clone());
        registry.register("observation_batches_refused", "Refused batches of events", me.refused.clone());
        let help = "Objects that could not be decoded";
        registry.register("observation_decode_failures", help, me.undecoded.clone());
        let help = "Time between the last event and its receipt, in seconds";
        registry.register("observation_lag_seconds", help, me.lag.clone());
        me
    }

    /// Adds what happened to a table between two counts. `undecoded` objects could not be decoded; `lag` is that of the last event.
    pub(crate) fn add(
        &self,
        (cluster, source): (&str, &'static str),
        (before, now): (Counts, Counts),
        undecoded: u64,
        lag: Duration,
    ) {
        let by = BySource { cluster: cluster.to_owned(), source };
        let counters = [
            (&self.lists, now.lists.saturating_sub(before.lists)),
            (&self.failed_lists, now.failed_lists.saturating_sub(before.failed_lists)),
            (&self.vanished, now.vanished.saturating_sub(before.vanished)),
            (&self.refused, now.refused.saturating_sub(before.refused)),
            (&self.undecoded, undecoded),
        ];
        for (family, more) in counters {
            family.get_or_create(&by).inc_by(more);
        }
        self.lag.get_or_create(&by).set(lag.as_secs_f64());
    }

    /// Sets the number of objects of a source.
    pub(crate) fn objects(&self, cluster: &str, source: &'static str, objects: usize) {
        let by = BySource { cluster: cluster.to_owned(), source };
        self.objects.get_or_create(&by).set(i64::try_from(objects).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode_registry;

    #[test]
    fn only_what_is_new_is_added_to_the_counters_of_a_source() {
        let mut registry = Registry::with_prefix("tenure");
        let metrics = ObservationMetrics::registered(&mut registry);
        let first = Counts { lists: 1, vanished: 2, ..Counts::default() };
        let second = Counts { lists: 2, vanished: 2, ..Counts::default() };
        metrics.add(("c-1", "pods"), (Counts::default(), first), 0, Duration::ZERO);
        metrics.add(("c-1", "pods"), (first, second), 1, Duration::from_millis(1_500));
        metrics.objects("c-1", "pods", 7);

        let mut text = String::new();
        encode_registry(&mut text, &registry).unwrap();

        for line in [
            r#"tenure_observation_lists_total{cluster="c-1",source="pods"} 2"#,
            r#"tenure_observation_vanished_total{cluster="c-1",source="pods"} 2"#,
            r#"tenure_observation_decode_failures_total{cluster="c-1",source="pods"} 1"#,
            r#"tenure_observation_lag_seconds{cluster="c-1",source="pods"} 1.5"#,
            r#"tenure_observed_objects{cluster="c-1",source="pods"} 7"#,
        ] {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
    }
}
