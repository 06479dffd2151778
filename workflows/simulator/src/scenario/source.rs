//! Tells what kind of trace a text is, and reads it.

use crate::{
    scenario::{Scenario, file, known},
    trace::{Trace, dlrm, native, openb},
};
use workflows::{
    policy::{Finding, Invalid, Spot},
    tenancy::{GpuKind, GpuModel, TenantId},
};

/// What a file can hold.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Demands alone: quotas are made from them, or by a policy.
    Trace(Trace),
    /// Demands with everything around them.
    Scenario(Box<Scenario>),
}

/// Reads a trace or a scenario; its kind is told from its columns.
///
/// # Errors
/// Everything that is wrong with it, by line and column.
pub fn read(text: &str, seed: u64) -> Result<Source, Invalid> {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let columns: Vec<&str> = first.split(',').map(|column| column.trim().trim_matches('"')).collect();
    let has = |wanted: &[&str]| wanted.iter().all(|column| columns.contains(column));
    let kind = GpuKind::whole(known::<_>("GPU")?);
    let model = |tenant: &str| known(tenant).map(|tenant: TenantId| (tenant, kind.clone()));
    if has(&["role", "app_name", "gpu_request"]) {
        let (tenant, kind) = model("dlrm")?;
        return dlrm::read(text, tenant, &kind).map(Source::Trace);
    }
    if has(&["num_gpu", "gpu_milli", "qos"]) {
        let (tenant, kind) = model("openb")?;
        return openb::read(text, tenant, &kind).map(Source::Trace);
    }
    if has(&["workspace", "gpus"]) || has(&["at_s"]) {
        let (tenant, kind) = model("acme")?;
        return native::read_csv(text, tenant, &kind).map(Source::Trace);
    }
    if first.starts_with('{') {
        let (tenant, kind) = model("acme")?;
        return native::read_jsonl(text, tenant, &kind).map(Source::Trace);
    }
    if !first.starts_with('#') && !first.contains(':') {
        let remedy = format!(
            "give a trace with the columns {} (openb), {} (dlrm) or {} (our own), a JSONL file, or a scenario in YAML",
            openb::COLUMNS.join(","),
            dlrm::COLUMNS.join(","),
            native::REQUIRED.join(","),
        );
        let problem = "the file is no trace that is known".to_owned();
        return Err(Finding::new(Some(Spot { line: 1, column: 1 }), "", problem, remedy).into());
    }
    file::read(text, seed).map(|scenario| Source::Scenario(Box::new(scenario)))
}

/// The model that stands for all GPUs of a trace that tells none apart.
pub fn any_model() -> Result<GpuModel, Invalid> {
    known("GPU")
}
