//! Starts the erasure of a drive and reads its progress.

use crate::drives::{
    command_log::{self, CommandLog, DriveStatus, LastCommand},
    discovery::{self, Device},
    nvme_pages::{SanitizePage, action, format_left},
    tools::{Effect, ToolOutput, Tools},
};
use crate::state_file::{self, LockedFile};
use engine::ActionError;
use std::path::PathBuf;
use workflows::platform::{CallMetadata, Drive, DriveTechnique, DriveTool, SanitiseLog, codes};

fn file(tools: &Tools<'_>, serial: &str) -> PathBuf {
    command_log::state_path(&tools.target.state, "drive", serial)
}

/// Returns nvme-cli with its version from `nvme version 2.3 (git 2.3)`.
pub(super) async fn tool(tools: &Tools<'_>) -> Result<DriveTool, ActionError> {
    let ran = tools.nvme(&["version"]).await?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let version = said.split_whitespace().nth(2).ok_or_else(|| ran.unreadable("its version is missing"))?;
    Ok(DriveTool { name: "nvme-cli".into(), version: version.to_owned() })
}

/// Returns the drive's description.
pub(super) async fn describe(
    tools: &Tools<'_>,
    device: &Device,
    tool: &DriveTool,
) -> Result<Drive, ActionError> {
    let size = device.blocks.iter().map(|block| block.size).sum();
    let Some(identity) = &device.identity else {
        return Ok(Drive {
            serial: device.serial.clone(),
            model: "not NVMe".into(),
            firmware: String::new(),
            capacity_bytes: size,
            can: Vec::new(),
            estimate_s: None,
            log: SanitiseLog::default(),
            tool: Some(tool.clone()),
        });
    };
    let path = file(tools, &device.serial);
    let known: CommandLog = state_file::read(&path)?;
    let sight = look(tools, device, &known, &path).await?;
    let mut can = identity.can.clone();
    if !discovery::is_whole(tools, device).await? {
        can.retain(|technique| *technique != DriveTechnique::Format);
    }
    let estimate_s = sight.page.as_ref().and_then(|page| page.estimate(&can));
    Ok(Drive {
        serial: device.serial.clone(),
        model: identity.model.clone(),
        firmware: identity.firmware.clone(),
        capacity_bytes: if identity.capacity_bytes == 0 { size } else { identity.capacity_bytes },
        can,
        estimate_s,
        log: SanitiseLog { begun: known.log(&sight).begun, ..sight.raw(known.begun) },
        tool: Some(tool.clone()),
    })
}

/// Reads the state of a drive's erasure.
async fn look(
    tools: &Tools<'_>,
    device: &Device,
    known: &CommandLog,
    path: &std::path::Path,
) -> Result<DriveStatus, ActionError> {
    let mut sight = DriveStatus::default();
    if device.identity.as_ref().is_some_and(|identity| identity.sanitises) {
        let ran = tools.nvme(&["sanitize-log", device.controller()?, "--output-format=binary"]).await?;
        sight.page = Some(SanitizePage::read(&ran.stdout).map_err(|why| ran.unreadable(why))?);
    }
    if known.told == Some(LastCommand::Format { well: None }) {
        let left = format_left_of(tools, device).await?;
        // The file is locked while the command runs.
        let running = state_file::is_held(path);
        let done = left.map_or(0, |left| u32::try_from(100_u64.saturating_sub(left) * 655).unwrap_or(0));
        sight.formatting = (running || left.is_some_and(|left| left > 0)).then_some(done);
    }
    Ok(sight)
}

/// Returns the remaining hundredths of a format, of the slowest namespace.
async fn format_left_of(tools: &Tools<'_>, device: &Device) -> Result<Option<u64>, ActionError> {
    let mut most = None;
    for block in &device.blocks {
        let ran = tools.nvme(&["id-ns", &block.path, "--output-format=binary"]).await?;
        most = most.max(format_left(&ran.stdout));
    }
    Ok(most)
}

/// Returns the state of the erasure that began here.
pub(super) async fn log(tools: &Tools<'_>, serial: &str) -> Result<SanitiseLog, ActionError> {
    let device = discovery::drive(tools, serial).await?;
    let path = file(tools, serial);
    let known: CommandLog = state_file::read(&path)?;
    let sight = look(tools, &device, &known, &path).await?;
    Ok(known.log(&sight))
}

/// Starts an erasure. Does nothing if this call already did or one is in progress. Fails if the drive is in use or
/// lacks the technique.
pub(super) async fn begin(
    tools: &Tools<'_>,
    serial: &str,
    technique: DriveTechnique,
    stamp: &CallMetadata,
) -> Result<(), ActionError> {
    let device = discovery::drive(tools, serial).await?;
    let path = file(tools, serial);
    let mut held: LockedFile<CommandLog> =
        command_log::lock_state(path.clone(), "another call uses the drive").await?;
    let asked = format!("{serial} by {}", <&str>::from(technique));
    if held.content.steps.admit(&asked, stamp)? {
        return Ok(());
    }
    let mut sight = look(tools, &device, &held.content, &path).await?;
    if held.content.told == Some(LastCommand::Format { well: None }) {
        // This call itself holds the lock, so only the drive can report a format in progress.
        sight.formatting = format_left_of(tools, &device).await?.filter(|left| *left > 0).map(|_| 0);
    }
    if held.content.newly_taken(&sight) {
        held.content.taken();
        if held.content.steps.knows(stamp) {
            held.content.steps.seen(stamp, Some(&asked));
            return held.keep();
        }
    }
    if sight.at_work() {
        let why = format!("drive {serial} is already being erased, so no second command is sent");
        return Err(ActionError::permanent(codes::DRIVE_BUSY, why));
    }
    able(tools, &device, technique).await?;
    if stamp.dry_run {
        return Ok(());
    }
    match action(technique) {
        Some(action) => sanitise(tools, &device, technique, action, &sight, &mut held, stamp).await?,
        None => format(tools, &device, &mut held, stamp).await?,
    }
    held.content.steps.seen(stamp, Some(&asked));
    held.keep()
}

/// Checks that the drive supports the technique and is not in use.
async fn able(tools: &Tools<'_>, device: &Device, technique: DriveTechnique) -> Result<(), ActionError> {
    let serial = &device.serial;
    let name: &str = technique.into();
    let unsuitable = |why: String| Err(ActionError::permanent(codes::DRIVE_UNSUITABLE, why));
    if !device.identity.as_ref().is_some_and(|identity| identity.can.contains(&technique)) {
        return unsuitable(format!("the controller of drive {serial} does not report support for {name}"));
    }
    if let Some(why) = device.in_use() {
        let why = format!("drive {serial} is in use, so it is not erased: {why}");
        return Err(ActionError::permanent(codes::REFUSED, why));
    }
    if technique == DriveTechnique::Format && !discovery::is_whole(tools, device).await? {
        return unsuitable(format!(
            "drive {serial} has namespaces that are not attached here, which a format would not erase"
        ));
    }
    Ok(())
}

async fn sanitise(
    tools: &Tools<'_>,
    device: &Device,
    technique: DriveTechnique,
    action: u64,
    sight: &DriveStatus,
    held: &mut LockedFile<CommandLog>,
    stamp: &CallMetadata,
) -> Result<(), ActionError> {
    let before = sight.page.as_ref().map(|page| page.head.clone()).unwrap_or_default();
    let was = held.content.told.replace(LastCommand::Sanitise { technique, before, taken: false });
    held.content.steps.seen(stamp, None);
    held.keep()?;
    let action = format!("--sanact={action}");
    let mut words = vec!["sanitize", device.controller()?, &action];
    if technique == DriveTechnique::Overwrite {
        words.extend(["--owpass=1", "--ovrpat=0"]);
    }
    let ran = tools.run(&tools.target.nvme, &words, &[], Effect::Change).await?;
    if ran.code == 0 {
        held.content.taken();
        return Ok(());
    }
    let now = look(tools, device, &held.content, &file(tools, &device.serial)).await.map_err(unsure)?;
    if now.at_work() {
        // A concurrent command was faster, or the answer is wrong; the drive's log will show it.
        return Err(ActionError::unknown(codes::NO_ANSWER, refused(device, &ran)));
    }
    held.content.told = was;
    held.keep()?;
    Err(ActionError::permanent(codes::REFUSED, refused(device, &ran)))
}

/// Formats each namespace; the command returns when the format has ended.
async fn format(
    tools: &Tools<'_>,
    device: &Device,
    held: &mut LockedFile<CommandLog>,
    stamp: &CallMetadata,
) -> Result<(), ActionError> {
    held.content.told = Some(LastCommand::Format { well: None });
    held.content.begun += 1;
    held.content.steps.seen(stamp, None);
    held.keep()?;
    for block in &device.blocks {
        let words = ["format", &block.path, "--ses=1", "--force"];
        let ran = tools.run(&tools.target.nvme, &words, &[], Effect::Change).await?;
        if ran.code != 0 {
            held.content.told = Some(LastCommand::Format { well: Some(false) });
            held.keep()?;
            return Err(ActionError::permanent(codes::REFUSED, refused(device, &ran)));
        }
    }
    held.content.told = Some(LastCommand::Format { well: Some(true) });
    Ok(())
}

fn refused(device: &Device, ran: &ToolOutput) -> String {
    format!("drive {} rejected the command: exit code {}{}", device.serial, ran.code, ran.words)
}

/// After a command was sent, a failed read leaves the outcome unknown.
fn unsure(error: ActionError) -> ActionError {
    ActionError::unknown(codes::NO_ANSWER, error)
}
