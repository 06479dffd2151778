//! The commands that a drive received, and the interpretation of its log.
//!
//! A sanitize log has no counter, and a format leaves no log. Therefore commands are recorded before they are sent, and
//! the drive's log is compared with its earlier state. Invariant: an erasure counts as completed only if it began here,
//! ended successfully, and nothing was written since.

use crate::drives::nvme_pages::{SanitizePage, action};
use crate::state_file::{LockedFile, Steps};
use engine::ActionError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};
use tokio::task::spawn_blocking;
use workflows::platform::{DriveTechnique, SanitiseLog, SanitiseStatus, codes};

/// The stored state of a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CommandLog {
    pub(super) steps: Steps,
    /// The number of erasures that are known to have begun.
    pub(super) begun: u64,
    /// The last command.
    pub(super) told: Option<LastCommand>,
}

/// The last command sent to a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LastCommand {
    /// `nvme sanitize`.
    Sanitise {
        technique: DriveTechnique,
        /// The drive's log before the command.
        before: Vec<u8>,
        /// True if the command is known to have begun; it is then counted.
        taken: bool,
    },
    /// `nvme format`, which completes synchronously. `None` until its end is observed. Counted when sent.
    Format { well: Option<bool> },
}

/// The observed state of a drive.
#[derive(Clone, Debug, Default)]
pub(super) struct DriveStatus {
    /// The sanitize log, if the drive has one.
    pub(super) page: Option<SanitizePage>,
    /// Set if a format is running, by this program or according to the drive; the progress is in 65,536ths.
    pub(super) formatting: Option<u32>,
}

impl DriveStatus {
    /// Returns the log as the drive reports it, whatever started the erasure.
    pub(super) fn raw(&self, begun: u64) -> SanitiseLog {
        let Some(page) = &self.page else { return SanitiseLog { begun, ..SanitiseLog::default() } };
        SanitiseLog { status: page.status, progress: page.progress, begun }
    }

    /// Returns true if an erasure is in progress, whatever started it.
    pub(super) fn at_work(&self) -> bool {
        let sanitising = self.page.as_ref().is_some_and(|page| page.status == SanitiseStatus::InProgress);
        sanitising || self.formatting.is_some()
    }
}

impl CommandLog {
    /// Returns the state of the erasure that began here.
    pub(super) fn log(&self, sight: &DriveStatus) -> SanitiseLog {
        let raw = sight.raw(self.begun);
        if raw.status == SanitiseStatus::InProgress {
            return SanitiseLog { begun: self.begun + u64::from(self.newly_taken(sight)), ..raw };
        }
        match &self.told {
            // An erasure by others was not for this owner.
            None if raw.status == SanitiseStatus::Completed => {
                SanitiseLog { status: SanitiseStatus::Failed, ..raw }
            }
            None => raw,
            Some(LastCommand::Format { well }) => {
                let (status, progress) = match (sight.formatting, well) {
                    (Some(done), _) => (SanitiseStatus::InProgress, done),
                    (None, Some(true)) => (SanitiseStatus::Completed, 0xffff),
                    // Also if the end was not observed.
                    (None, Some(false) | None) => (SanitiseStatus::Failed, 0),
                };
                SanitiseLog { status, progress, begun: self.begun }
            }
            Some(LastCommand::Sanitise { technique, taken, .. }) => {
                let newly = self.newly_taken(sight);
                let begun = self.begun + u64::from(newly);
                if !taken && !newly {
                    return SanitiseLog { status: SanitiseStatus::Never, begun, ..raw };
                }
                let page = sight.page.as_ref();
                let well = page.is_some_and(|page| {
                    page.status == SanitiseStatus::Completed
                        && page.untouched
                        && Some(page.action) == action(*technique)
                });
                let status = if well { SanitiseStatus::Completed } else { SanitiseStatus::Failed };
                SanitiseLog { status, begun, ..raw }
            }
        }
    }

    /// Returns true if a command without an answer has reached the drive: its log has changed.
    pub(super) fn newly_taken(&self, sight: &DriveStatus) -> bool {
        match (&self.told, &sight.page) {
            (Some(LastCommand::Sanitise { taken: false, before, .. }), Some(page)) => page.head != *before,
            (Some(LastCommand::Sanitise { .. } | LastCommand::Format { .. }) | None, _) => false,
        }
    }

    /// Counts a sanitisation that has begun.
    pub(super) fn taken(&mut self) {
        if let Some(LastCommand::Sanitise { taken, .. }) = &mut self.told
            && !*taken
        {
            *taken = true;
            self.begun += 1;
        }
    }
}

/// Locks the state file of a drive or volume. `at_work` describes the work of another process that may hold the lock,
/// for the error.
pub(super) async fn lock_state<T>(path: PathBuf, at_work: &'static str) -> Result<LockedFile<T>, ActionError>
where
    T: Default + Serialize + DeserializeOwned + Send + 'static,
{
    let taken = spawn_blocking(move || LockedFile::take(&path, at_work)).await;
    taken.map_err(|error| ActionError::transient(codes::UNAVAILABLE, error))?
}

/// Returns the path of a drive's or volume's state file. Serial numbers can contain any characters.
pub(super) fn state_path(folder: &Path, kind: &str, name: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_string() } else { format!("_{:x}_", c as u32) };
    folder.join(format!("{kind}-{}.json", name.chars().map(plain).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(sstat: u16, sanact: u8) -> DriveStatus {
        let mut bytes = vec![0; 512];
        bytes[2..4].copy_from_slice(&sstat.to_le_bytes());
        bytes[4] = sanact;
        DriveStatus { page: Some(SanitizePage::read(&bytes).unwrap()), formatting: None }
    }

    fn told(taken: bool, before: &DriveStatus) -> CommandLog {
        let before = before.page.as_ref().unwrap().head.clone();
        let told = Some(LastCommand::Sanitise { technique: DriveTechnique::BlockErase, before, taken });
        CommandLog { begun: u64::from(taken), told, ..CommandLog::default() }
    }

    fn status(book: &CommandLog, sight: &DriveStatus) -> (SanitiseStatus, u64) {
        let log = book.log(sight);
        (log.status, log.begun)
    }

    #[test]
    fn an_erasure_at_another_time_or_by_other_means_never_counts() {
        use workflows::platform::SanitiseStatus::*;
        let (fresh, done, done_crypto) = (page(0, 0), page(0x101, 2), page(0x101, 4));

        assert_eq!(status(&CommandLog::default(), &done), (Failed, 0), "nobody here began it");
        assert_eq!(status(&told(true, &fresh), &done), (Completed, 1));
        assert_eq!(status(&told(true, &fresh), &page(0x001, 2)), (Failed, 1), "written to since");
        assert_eq!(status(&told(true, &fresh), &done_crypto), (Failed, 1), "another technique");
        assert_eq!(status(&told(true, &fresh), &fresh), (Failed, 1), "it forgot that it was told");
    }

    #[test]
    fn a_command_with_a_lost_answer_counts_only_after_a_new_log_entry() {
        use workflows::platform::SanitiseStatus::*;
        let before = page(0x101, 2);
        let lost = told(false, &before);

        assert_eq!(status(&lost, &before), (Never, 0), "the log is that of the time before");
        assert_eq!(status(&lost, &page(0x002, 2)), (InProgress, 1));
        let mut known = lost;
        known.taken();
        known.taken();
        assert_eq!(known.begun, 1);
    }

    #[test]
    fn a_format_with_an_unobserved_end_has_failed() {
        use workflows::platform::SanitiseStatus::*;
        let format =
            |well| CommandLog { begun: 1, told: Some(LastCommand::Format { well }), ..CommandLog::default() };
        let (still, ended) = (DriveStatus { page: None, formatting: Some(9) }, DriveStatus::default());

        assert_eq!(status(&format(None), &still), (InProgress, 1));
        assert_eq!(status(&format(None), &ended), (Failed, 1));
        assert_eq!(status(&format(Some(false)), &ended), (Failed, 1));
        assert_eq!(status(&format(Some(true)), &ended), (Completed, 1));
    }

    #[test]
    fn two_serial_numbers_never_share_a_file() {
        let name = |serial| state_path(Path::new("/"), "drive", serial);
        assert_eq!(name("S5GX"), Path::new("/drive-S5GX.json"));
        assert_ne!(name("a/b"), name("a_b"));
        assert_ne!(name("a/b"), name("a_2f_b"));
    }
}
