//! Metrics of the store, from its last status. Growing values are exported as counters, although the store counts them.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};
use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use store::{Health, Histogram};
use workflows::audit::Lag;

/// Exports the status of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreMetrics(Arc<Mutex<Health>>);

impl StoreMetrics {
    /// Registers the metrics.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let me = Self::default();
        registry.register_collector(Box::new(me.clone()));
        me
    }

    /// Records the status of the store.
    pub(super) fn observe(&self, health: Health) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = health;
    }
}

impl Collector for StoreMetrics {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        let health = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, help, value) in gauges(&health) {
            gauge(&mut to, name, help, value)?;
        }
        if let Some(free) = health.free_bytes {
            gauge(
                &mut to,
                "store_disk_free_bytes",
                "Free space on the volume of the store's folder, in bytes",
                free,
            )?;
        }
        for (name, help, value) in counters(&health) {
            counter(&mut to, name, help, value)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio for display")]
        let ratio = health.disk_bytes as f64 / health.live_bytes.max(1) as f64;
        let amplified = ConstGauge::new(ratio);
        let help = "Bytes on disk per byte of content";
        amplified.encode(to.encode_descriptor(
            "store_disk_amplification",
            help,
            None,
            MetricType::Gauge,
        )?)?;
        tally(&mut to, "store_group_commits", "Number of commits per sync", &health.groups)?;
        let help = "Duration of a journal write with its sync";
        tally(&mut to, "store_sync_seconds", help, &health.sync_seconds)
    }
}

/// Values that go up and down, and flags.
fn gauges(health: &Health) -> [(&'static str, &'static str, u64); 7] {
    [
        ("store_writable", "1 while the store accepts commits", u64::from(health.writable)),
        (
            "store_held",
            "1 while the store is on hold and performs no tasks",
            u64::from(health.hold.is_some()),
        ),
        ("store_live_bytes", "Size of the content of the store, as last written", health.live_bytes),
        ("store_disk_bytes", "Size of the store's folder", health.disk_bytes),
        ("store_sequence", "Commits since the store was created", health.sequence.0),
        ("store_index_lag", "Commits that are not in the index yet", health.index_lag),
        ("store_tasks", "Waiting and leased tasks", health.tasks),
    ]
}

/// Values that only grow, since the start of the process.
fn counters(health: &Health) -> [(&'static str, &'static str, u64); 4] {
    [
        ("store_written_bytes", "Bytes written to the device since start", health.written_bytes),
        ("store_syncs", "Device syncs since start", health.syncs),
        ("store_retries", "Retries since start, because the database was not available", health.retries),
        ("store_commits", "Commits since start", health.commits),
    ]
}

/// Exports the lag of the audit.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuditMetrics(Arc<Mutex<Option<Lag>>>);

impl AuditMetrics {
    /// Registers the metrics.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let me = Self::default();
        registry.register_collector(Box::new(me.clone()));
        me
    }

    /// Records the lag of the audit.
    pub(crate) fn observe(&self, lag: Lag) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(lag);
    }
}

impl Collector for AuditMetrics {
    fn encode(&self, mut to: DescriptorEncoder) -> fmt::Result {
        let told = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lag) = told else { return Ok(()) };
        counter(&mut to, "audit_entries_sealed", "Sealed audit entries, of all chains", lag.sealed)?;
        counter(&mut to, "audit_checkpoints", "Signed checkpoints", lag.checkpoints)?;
        let help = "Sealed audit entries after the last signed checkpoint";
        gauge(&mut to, "audit_entries_unsigned", help, lag.unsigned)?;
        let help = "Age of the oldest journal entry that is not sealed";
        let behind = ConstGauge::new(lag.oldest.as_secs_f64());
        behind.encode(to.encode_descriptor("audit_lag_seconds", help, None, MetricType::Gauge)?)
    }
}

fn gauge(to: &mut DescriptorEncoder, name: &str, help: &str, value: u64) -> fmt::Result {
    let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    value.encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn counter(to: &mut DescriptorEncoder, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstCounter::new(value).encode(to.encode_descriptor(name, help, None, MetricType::Counter)?)
}

/// Omits an empty histogram.
fn tally(to: &mut DescriptorEncoder, name: &str, help: &str, tally: &Histogram) -> fmt::Result {
    let buckets: Vec<_> = tally.buckets().collect();
    if buckets.is_empty() {
        return Ok(());
    }
    let mut to = to.encode_descriptor(name, help, None, MetricType::Histogram)?;
    to.encode_histogram::<NoLabelSet>(tally.sum(), tally.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode_registry;
    use std::time::Duration;

    fn told(registry: &Registry) -> String {
        let mut text = String::new();
        encode_registry(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn growing_values_are_counters_and_unknown_values_are_absent() {
        let mut registry = Registry::with_prefix("tenure");
        let (stored, audited) =
            (StoreMetrics::registered(&mut registry), AuditMetrics::registered(&mut registry));
        let text = told(&registry);
        for absent in ["free_bytes", "store_sync_seconds", "store_group_commits", "audit_"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }

        stored.observe(Health { commits: 7, syncs: 3, free_bytes: Some(9), ..Health::default() });
        let oldest = Duration::from_millis(1_500);
        audited.observe(Lag { sealed: 5, unsigned: 2, checkpoints: 1, oldest });
        let text = told(&registry);
        for line in [
            "# TYPE tenure_store_commits counter",
            "tenure_store_commits_total 7",
            "tenure_store_syncs_total 3",
            "tenure_store_retries_total 0",
            "tenure_store_written_bytes_total 0",
            "tenure_store_disk_free_bytes 9",
            "# TYPE tenure_store_tasks gauge",
            "tenure_audit_entries_sealed_total 5",
            "tenure_audit_checkpoints_total 1",
            "tenure_audit_entries_unsigned 2",
            "tenure_audit_lag_seconds 1.5",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}: {text}");
        }
    }
}
