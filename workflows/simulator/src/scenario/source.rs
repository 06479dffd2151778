//! Detects the kind of a trace and parses it.

use crate::{
    scenario::{Scenario, file, known},
    trace::{Trace, dlrm, native, openb},
};
use workflows::{
    policy::{Finding, Invalid, Spot},
    tenancy::{GpuKind, GpuModel, TenantId},
};

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Only demands. Quotas are derived from them or set by a policy.
    Trace(Trace),
    /// Demands with nodes, quotas and terms.
    Scenario(Box<Scenario>),
}

/// Parses a trace or a scenario. The kind is detected from the columns.
///
/// # Errors
///
/// All errors, with line and column.
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
            "use a trace with the columns {} (openb), {} (dlrm) or {} (Tenure), a JSONL file, or a scenario in YAML",
            openb::COLUMNS.join(","),
            dlrm::COLUMNS.join(","),
            native::REQUIRED.join(","),
        );
        let problem = "the format of the file is unknown".to_owned();
        return Err(Finding::new(Some(Spot { line: 1, column: 1 }), "", problem, remedy).into());
    }
    file::read(text, seed).map(|scenario| Source::Scenario(Box::new(scenario)))
}

/// Returns the model for all GPUs of a trace without models.
pub fn any_model() -> Result<GpuModel, Invalid> {
    known("GPU")
}
