//! Rules of offboarding.

use crate::policy::parsing::reader::Fields;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Rules of offboarding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffboardingRules {
    /// The time in which a tenant may export its data after the freeze. Default 30 days.
    pub export_window: Duration,
    /// The extension of that time when destruction is refused. Default 10 days.
    pub extension: Duration,
    /// The time in which running workloads must end. Default 1 h.
    pub drain: Duration,
    /// True if data outside a legal hold may be destroyed during the hold. Default false.
    pub partial_ok: bool,
    /// The retention of certificate and audit. Default 6 years of 365 days.
    pub certificate_kept: Duration,
}

const FIELDS: [&str; 5] = ["export_window", "extension", "drain", "partial_ok", "certificate_kept"];

impl OffboardingRules {
    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let fields = top.layer("offboarding", &FIELDS)?;
        let reader = fields.reader();
        let span = |name| fields.required(name).and_then(|item| reader.duration(item));
        let (export_window, extension, drain) = (span("export_window"), span("extension"), span("drain"));
        let partial_ok = fields.required("partial_ok").and_then(|item| reader.bool(item));
        let certificate_kept = span("certificate_kept");
        Some(Self {
            export_window: export_window?,
            extension: extension?,
            drain: drain?,
            partial_ok: partial_ok?,
            certificate_kept: certificate_kept?,
        })
    }
}
