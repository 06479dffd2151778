//! Creates the record of each asset of a node, only from observations.

use super::NodeSanitisation;
use crate::{
    destruction::{
        Actor, Aspect, Asset, AssetType, Device, FirmwareCheck, GpuScrub, Method, ObservationRef,
        Observations, SanitisationOutcome, SanitisationRecord, ScrubLevel, Technique, Tool, Validation,
        ValidationVerdict, Verification, VerificationMethod,
    },
    offboarding::removal_records::verifier,
    platform::{
        Drive, DriveTechnique, DriveTool, QualifyNode, ReadDevices, ReadProgress, ReimageNode, ResetMachine,
        SampleDrive, SanitiseStatus, ScrubGpu, VerifiedAs,
    },
    signing::{Digest, Moment},
};
use engine::Call;
use std::collections::BTreeMap;

/// Returns the record of `asset` at the time `now`.
pub(super) fn of(me: &NodeSanitisation, asset: &Asset, call: &Call, now: Moment) -> SanitisationRecord {
    let actor = Actor::program(format!("node sanitisation {}", call.execution));
    let begun = me.begun_at.unwrap_or(now);
    // The end must not be earlier than the start, even if the clocks of two servers differ.
    let now = now.max(begun);
    let plain = SanitisationRecord {
        owner_epoch: Some(me.owner_epoch.0),
        ended_at: Some(now),
        ..SanitisationRecord::begun(asset, Technique::Nothing, actor, me.run, call.key(), begun)
    };
    let serial = asset.serial.as_deref().unwrap_or_default();
    let made = match asset.kind {
        AssetType::Gpu => gpu(me, serial, &plain),
        AssetType::Nvme => drive(me, serial, &plain),
        AssetType::Node => machine(me, serial, &plain),
        AssetType::Nic => card(me, serial, &plain),
        AssetType::Bucket
        | AssetType::Pv
        | AssetType::Filesystem
        | AssetType::Snapshot
        | AssetType::Backup
        | AssetType::RegistryRepo
        | AssetType::Model
        | AssetType::Secret
        | AssetType::Key
        | AssetType::Account
        | AssetType::Identity
        | AssetType::Dns
        | AssetType::Ip
        | AssetType::FabricKey
        | AssetType::LogStream
        | AssetType::Namespace
        | AssetType::Queue
        | AssetType::ClusterKey => Err("no part of a node is such a thing".into()),
    };
    match made {
        Ok((record, verification)) => passed(record, verification, now),
        Err(reason) => SanitisationRecord { result: SanitisationOutcome::Failed { reason }, ..plain },
    }
}

/// The input of a verification: the method, the amount that was checked, and the deviations.
struct Looked {
    how: VerificationMethod,
    checked: u64,
    mismatches: u64,
    unreadable: u64,
    seed: Option<String>,
    tool: Tool,
    /// The credentials. `None` if the backend did not report them.
    verified_as: Option<VerifiedAs>,
}

type Made = Result<(SanitisationRecord, Looked), String>;

fn passed(record: SanitisationRecord, looked: Looked, now: Moment) -> SanitisationRecord {
    let clean = looked.mismatches == 0 && looked.unreadable == 0;
    let verification = Verification {
        method: looked.how,
        seed: looked.seed,
        checked: looked.checked,
        mismatches: looked.mismatches,
        unreadable: looked.unreadable,
        tool: looked.tool,
        // Without a report from the backend, the verification counts as the platform's own.
        actor: verifier(looked.verified_as.unwrap_or(VerifiedAs::Platform)),
        verified_as: looked.verified_as,
        at: now,
    };
    let decision = if clean { ValidationVerdict::Accept } else { ValidationVerdict::Reject };
    let reason =
        if clean { "verified, and as policy asks" } else { "the verification found what should be gone" };
    let actor = Actor::program("tenure validation by policy");
    SanitisationRecord {
        result: SanitisationOutcome::SanitisedVerified,
        verification: Some(verification),
        validation: Some(Validation { decision, actor, at: now, reason: reason.into() }),
        destination: clean.then(|| "back into the provider's fleet".into()),
        ..record
    }
}

fn tool(command: &str) -> Tool {
    Tool { name: "tenure".into(), version: env!("CARGO_PKG_VERSION").into(), command: command.into() }
}

/// Returns the tool, as the node reported it.
fn used(told: Option<&DriveTool>, command: &str) -> Tool {
    let Some(DriveTool { name, version }) = told.cloned() else { return tool(command) };
    Tool { name, version, command: command.into() }
}

/// Returns the command that was sent to a drive.
fn command(technique: DriveTechnique) -> &'static str {
    match technique {
        DriveTechnique::BlockErase => "nvme sanitize --sanact=2",
        DriveTechnique::Overwrite => "nvme sanitize --sanact=3",
        DriveTechnique::CryptoErase => "nvme sanitize --sanact=4",
        DriveTechnique::Format => "nvme format --ses=1",
    }
}

fn gpu(me: &NodeSanitisation, uuid: &str, plain: &SanitisationRecord) -> Made {
    let devices = me.devices.as_ref().ok_or("its node did not enter the environment that scrubs")?;
    let device =
        devices.gpus.iter().find(|gpu| gpu.uuid == uuid).ok_or("the node has no such GPU any more")?;
    let scrub = me.scrubs.iter().find(|scrub| scrub.uuid == uuid).ok_or("its memory was not scrubbed")?;
    let level = if scrub.reset { ScrubLevel::FillVerifiedAndReset } else { ScrubLevel::FillVerified };
    let record = SanitisationRecord {
        device: Device {
            serial: Some(scrub.uuid.clone()),
            capacity_bytes: Some(scrub.bytes_total),
            ..Device::default()
        },
        method: Some(Method::Clear),
        technique: Technique::MemoryScrub,
        tool: tool("fill and verify"),
        scrub: Some(GpuScrub {
            level,
            driver_version: Some(device.driver_version.clone()),
            scrub_on_free: Some(device.scrub_on_free),
            bytes_total: scrub.bytes_total,
            bytes_covered: scrub.bytes_covered,
            leftovers: scrub.leftovers,
            mismatches: scrub.mismatches,
        }),
        evidence: BTreeMap::from([("scrub".into(), Digest::from_content("scrub", scrub))]),
        observed: Observations::from([
            (Aspect::Device, ObservationRef::new::<ReadDevices>(devices, &me.node)),
            (Aspect::Done, ObservationRef::new::<ScrubGpu>(scrub, uuid)),
            (Aspect::Looked, ObservationRef::new::<ScrubGpu>(scrub, uuid)),
        ]),
        ..plain.clone()
    };
    let (checked, mismatches) = (scrub.bytes_covered, scrub.mismatches);
    let how = VerificationMethod::ReadBack;
    Ok((
        record,
        // One program fills the memory and reads it back.
        Looked {
            how,
            checked,
            mismatches,
            unreadable: 0,
            seed: None,
            tool: tool("read back the pattern"),
            verified_as: Some(VerifiedAs::Platform),
        },
    ))
}

fn drive(me: &NodeSanitisation, serial: &str, plain: &SanitisationRecord) -> Made {
    let devices = me.devices.as_ref().ok_or("its node did not enter the environment that scrubs")?;
    let drive = devices
        .drives
        .iter()
        .find(|drive| drive.serial == serial)
        .ok_or("the node has no such drive any more")?;
    let technique = me.technique(drive).ok_or("its controller has no technique that policy accepts")?;
    match me.status(drive) {
        SanitiseStatus::Completed => {}
        SanitiseStatus::Never => {
            return Err(
                "it has not begun to erase itself: it was not told to, or did not take the command".into()
            );
        }
        SanitiseStatus::InProgress => return Err("it has not ended erasing itself, or stands still".into()),
        SanitiseStatus::Failed => return Err("it says that erasing failed".into()),
    }
    let samples = me.samples.iter().find(|samples| samples.serial == serial);
    let samples = samples.ok_or("it was not sampled after it had been erased")?;
    let progress = me.drives.get(serial).ok_or("its log was not read")?;
    let record = SanitisationRecord {
        device: device_of(me, drive, technique),
        method: Some(if technique == DriveTechnique::Format { Method::Clear } else { Method::Purge }),
        technique: match technique {
            DriveTechnique::BlockErase => Technique::BlockErase,
            DriveTechnique::CryptoErase => Technique::CryptoErase,
            DriveTechnique::Overwrite => Technique::Overwrite,
            DriveTechnique::Format => Technique::Format,
        },
        tool: used(drive.tool.as_ref(), command(technique)),
        evidence: BTreeMap::from([
            ("sanitize log".into(), Digest::from_content("sanitize log", &Some(&progress.log))),
            ("samples".into(), Digest::from_content("samples", samples)),
        ]),
        observed: Observations::from([
            (Aspect::Device, ObservationRef::new::<ReadDevices>(devices, &me.node)),
            (Aspect::Done, ObservationRef::new::<ReadProgress>(&progress.log, serial)),
            (Aspect::Looked, ObservationRef::new::<SampleDrive>(samples, serial)),
        ]),
        ..plain.clone()
    };
    let looked = Looked {
        how: VerificationMethod::Sampling,
        checked: samples.read,
        mismatches: samples.mismatches,
        unreadable: samples.unreadable,
        seed: Some(samples.seed.clone()),
        tool: used(samples.tool.as_ref(), "sample sectors"),
        verified_as: samples.verified_as,
    };
    Ok((record, looked))
}

fn device_of(me: &NodeSanitisation, drive: &Drive, technique: DriveTechnique) -> Device {
    let status = |status: SanitiseStatus| <&str>::from(status).to_owned();
    let (before, after) = (status(drive.log.status), status(me.status(drive)));
    let reported = match technique {
        // A format writes no log, so the result of the command is recorded.
        DriveTechnique::Format => BTreeMap::from([("format".into(), after)]),
        DriveTechnique::BlockErase | DriveTechnique::CryptoErase | DriveTechnique::Overwrite => {
            BTreeMap::from([
                ("sanitize status before".into(), before),
                ("sanitize status after".into(), after),
            ])
        }
    };
    Device {
        model: Some(drive.model.clone()),
        serial: Some(drive.serial.clone()),
        firmware: Some(drive.firmware.clone()),
        capacity_bytes: Some(drive.capacity_bytes),
        reported,
        ..Device::default()
    }
}

fn machine(me: &NodeSanitisation, serial: &str, plain: &SanitisationRecord) -> Made {
    let devices = me.devices.as_ref().ok_or("it did not enter the environment that scrubs")?;
    let reset = me.reset.as_ref().ok_or("its memory and firmware were not reset")?;
    if devices.serial != serial {
        return Err(format!("it says that its serial number is {}", devices.serial));
    }
    if !reset.memory_overwritten {
        return Err("the request to overwrite its memory was not honoured".into());
    }
    if !me.installed {
        return Err("it was not installed afresh".into());
    }
    let qualified = me.qualified.as_ref().ok_or("it was not diagnosed after it had been installed")?;
    if !qualified.fit {
        return Err(format!("the diagnosis found it unfit: {}", qualified.report));
    }
    let firmware = match &reset.differs {
        None => FirmwareCheck::Matches { baseline: reset.baseline.clone() },
        Some(what) => FirmwareCheck::Differs { what: what.clone() },
    };
    let record = SanitisationRecord {
        device: Device { serial: Some(devices.serial.clone()), ..Device::default() },
        method: Some(Method::Clear),
        technique: Technique::Reset,
        tool: tool(if reset.controllers_reset {
            "overwrite memory at boot, reset firmware and controllers, install"
        } else {
            "overwrite memory at boot, reset firmware, install"
        }),
        firmware: Some(firmware),
        evidence: BTreeMap::from([
            ("reset".into(), Digest::from_content("reset", reset)),
            ("diagnosis".into(), Digest::from_content("diagnosis", qualified)),
        ]),
        observed: Observations::from([
            (Aspect::Device, ObservationRef::new::<ReadDevices>(devices, &me.node)),
            (Aspect::Done, ObservationRef::new::<ResetMachine>(reset, &me.node)),
            (Aspect::Installed, ObservationRef::new::<ReimageNode>(&(), &me.node)),
            (Aspect::Diagnosed, ObservationRef::new::<QualifyNode>(qualified, &me.node)),
            (Aspect::Looked, ObservationRef::new::<ResetMachine>(reset, &me.node)),
        ]),
        ..plain.clone()
    };
    Ok((record, measured("compare firmware measurements")))
}

fn card(me: &NodeSanitisation, guid: &str, plain: &SanitisationRecord) -> Made {
    let devices = me.devices.as_ref().ok_or("its node did not enter the environment that scrubs")?;
    if !devices.nics.iter().any(|nic| nic == guid) {
        return Err("the node has no such network card any more".into());
    }
    let reset = me.reset.as_ref().filter(|reset| reset.controllers_reset);
    let reset = reset.ok_or("its partition membership and settings were not reset")?;
    let record = SanitisationRecord {
        device: Device { serial: Some(guid.to_owned()), ..Device::default() },
        method: Some(Method::Clear),
        technique: Technique::Reset,
        tool: tool("reset partition membership and settings"),
        evidence: BTreeMap::from([("reset".into(), Digest::from_content("reset", reset))]),
        observed: Observations::from([
            (Aspect::Device, ObservationRef::new::<ReadDevices>(devices, &me.node)),
            (Aspect::Done, ObservationRef::new::<ResetMachine>(reset, &me.node)),
            (Aspect::Looked, ObservationRef::new::<ResetMachine>(reset, &me.node)),
        ]),
        ..plain.clone()
    };
    Ok((record, measured("the machine's answer to the reset")))
}

/// Returns the verification from the result of the reset call: the platform's own observation.
fn measured(by: &str) -> Looked {
    let how = VerificationMethod::ReadBack;
    let verified_as = Some(VerifiedAs::Platform);
    Looked { how, checked: 1, mismatches: 0, unreadable: 0, seed: None, tool: tool(by), verified_as }
}
