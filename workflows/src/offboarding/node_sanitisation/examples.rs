//! Example sanitisations that together use every action: a new one, and one with known devices.

use super::{NodeSanitisation, SanitisationDemands};
use crate::{
    offboarding::LeavingTenant,
    platform::{Devices, Drive, DriveTechnique, GpuDevice, SanitiseLog},
    policy::Method,
    signing::Moment,
    tenancy::{ClusterKind, OwnerEpoch},
};
use engine::{DAY, HOUR};
use std::collections::{BTreeMap, BTreeSet};
use store::{ExecutionId, Timestamp};

pub(super) fn all() -> Vec<NodeSanitisation> {
    begun().into_iter().flat_map(|begun| [known(&begun), begun]).collect()
}

fn begun() -> Option<NodeSanitisation> {
    let demands = SanitisationDemands {
        drives: Method::Purge,
        gpu_memory: Method::Clear,
        attempts: 2,
        within: DAY,
        drain: HOUR,
    };
    let leaver = LeavingTenant {
        tenant: "example".parse().ok()?,
        cluster: "eu-1".parse().ok()?,
        region: "eu".parse().ok()?,
        kind: ClusterKind::Slurm,
        model: "A100".parse().ok()?,
        workspaces: Vec::new(),
        nodes: BTreeMap::new(),
        onboarded_by: ExecutionId::from_bytes([0; 16]),
        onboarded_at: Moment::from(Timestamp(0)),
        compliance: BTreeSet::new(),
        simulated: true,
    };
    let run = leaver.onboarded_by;
    Some(NodeSanitisation::new(&leaver, &demands, run, &"node-1".parse().ok()?, OwnerEpoch(1), 1))
}

fn known(begun: &NodeSanitisation) -> NodeSanitisation {
    let gpu = GpuDevice {
        uuid: "GPU-1".into(),
        driver_version: "550".into(),
        scrub_on_free: true,
        memory_bytes: 80 << 30,
    };
    let drive = Drive {
        serial: "NVME-1".into(),
        model: "example".into(),
        firmware: "1".into(),
        capacity_bytes: 1 << 40,
        can: vec![DriveTechnique::BlockErase],
        estimate_s: None,
        log: SanitiseLog::default(),
        tool: None,
    };
    let devices =
        Devices { serial: "SN-1".into(), gpus: vec![gpu], drives: vec![drive], ..Devices::default() };
    NodeSanitisation { devices: Some(devices), ..begun.clone() }
}
