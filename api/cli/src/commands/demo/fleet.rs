//! The fleet and the tenant of the demonstration.

use std::fmt::Write as _;

/// The state in which the server is killed.
pub(super) const KILL_IN: &str = "TakingNodes";

/// The requested tenant.
pub(super) const TENANT: &str = "\
name: acme
tenant:
  tier: enterprise
  isolation: dedicated
  data_residency: eu-only
  allow_preemption: false
  allow_gpu_sharing: false
workspaces:
  - name: research
    class: research
  - name: serving
    class: production
    quotas: { gpus: 4 }
entitlement:
  gpu_model: H100
  gpus: 16
";

/// 48 nodes as CSV: 24 with H100, 16 with A100, 8 with L40S.
pub(super) fn nodes() -> String {
    let mut text = String::from("sn,cpu_milli,memory_mib,gpu,model\n");
    for number in 0..48 {
        let (model, gpus) = match number {
            0..24 => ("H100", 4),
            24..40 => ("A100", 8),
            _ => ("L40S", 2),
        };
        let _ = writeln!(text, "demo-node-{number:02},96000,786432,{gpus},{model}");
    }
    text
}
