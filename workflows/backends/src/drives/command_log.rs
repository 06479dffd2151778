//! What was told to a drive, and what its log means in the light of that.
//!
//! A sanitize log does not count, and a format leaves none. So it is written down before a drive is told anything, and what the
//! drive says afterwards is compared with what it said before. Invariant: only what was begun here and seen to end well, with
//! nothing written since, reads as completed.

use crate::drives::nvme_pages::{SanitizePage, action};
use crate::state_file::{LockedFile, Steps};
use engine::ActionError;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::path::{Path, PathBuf};
use tokio::task::spawn_blocking;
use workflows::platform::{DriveTechnique, SanitiseLog, SanitiseStatus, codes};

/// All that is kept of one drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct CommandLog {
    pub(super) steps: Steps,
    /// How often an erasure is known to have begun.
    pub(super) begun: u64,
    /// What it was told last.
    pub(super) told: Option<LastCommand>,
}

/// What a drive was told last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LastCommand {
    /// `nvme sanitize`.
    Sanitise {
        technique: DriveTechnique,
        /// Its log before it was told.
        before: Vec<u8>,
        /// Whether it is known to have begun; counted then.
        taken: bool,
    },
    /// `nvme format`, which ends with the command. None until its end was seen; counted when it is sent.
    Format { well: Option<bool> },
}

/// What can be seen of a drive.
#[derive(Clone, Debug, Default)]
pub(super) struct DriveStatus {
    /// Its sanitize log, where it has one.
    pub(super) page: Option<SanitizePage>,
    /// A format is running, by this program or by what the drive says; with the 65,536ths that are done.
    pub(super) formatting: Option<u32>,
}

impl DriveStatus {
    /// Its log as it stands, whoever began what.
    pub(super) fn raw(&self, begun: u64) -> SanitiseLog {
        let Some(page) = &self.page else { return SanitiseLog { begun, ..SanitiseLog::default() } };
        SanitiseLog { status: page.status, progress: page.progress, begun }
    }

    /// Whether something is being erased, by whomever.
    pub(super) fn at_work(&self) -> bool {
        let sanitising = self.page.as_ref().is_some_and(|page| page.status == SanitiseStatus::InProgress);
        sanitising || self.formatting.is_some()
    }
}

impl CommandLog {
    /// Where the erasure stands that was begun here.
    pub(super) fn log(&self, sight: &DriveStatus) -> SanitiseLog {
        let raw = sight.raw(self.begun);
        if raw.status == SanitiseStatus::InProgress {
            return SanitiseLog { begun: self.begun + u64::from(self.newly_taken(sight)), ..raw };
        }
        match &self.told {
            // Whoever erased it did not do so for this owner.
            None if raw.status == SanitiseStatus::Completed => {
                SanitiseLog { status: SanitiseStatus::Failed, ..raw }
            }
            None => raw,
            Some(LastCommand::Format { well }) => {
                let (status, progress) = match (sight.formatting, well) {
                    (Some(done), _) => (SanitiseStatus::InProgress, done),
                    (None, Some(true)) => (SanitiseStatus::Completed, 0xffff),
                    // Also when nobody saw how it ended.
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

    /// Whether a command whose answer was lost has arrived: the log is not what it was before.
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

/// Takes the file of a drive or volume, unless another has it, of whom `at_work` says what they do.
pub(super) async fn lock_state<T>(path: PathBuf, at_work: &'static str) -> Result<LockedFile<T>, ActionError>
where
    T: Default + Serialize + DeserializeOwned + Send + 'static,
{
    let taken = spawn_blocking(move || LockedFile::take(&path, at_work)).await;
    taken.map_err(|error| ActionError::transient(codes::UNAVAILABLE, error))?
}

/// The file of a drive or volume. Serial numbers may hold anything.
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
    fn an_erasure_of_another_time_or_by_other_means_never_counts_as_ours() {
        use workflows::platform::SanitiseStatus::*;
        let (fresh, done, done_crypto) = (page(0, 0), page(0x101, 2), page(0x101, 4));

        assert_eq!(status(&CommandLog::default(), &done), (Failed, 0), "nobody here began it");
        assert_eq!(status(&told(true, &fresh), &done), (Completed, 1));
        assert_eq!(status(&told(true, &fresh), &page(0x001, 2)), (Failed, 1), "written to since");
        assert_eq!(status(&told(true, &fresh), &done_crypto), (Failed, 1), "another technique");
        assert_eq!(status(&told(true, &fresh), &fresh), (Failed, 1), "it forgot that it was told");
    }

    #[test]
    fn a_command_whose_answer_was_lost_counts_once_the_log_has_moved_and_not_before() {
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
    fn a_format_whose_end_nobody_saw_has_failed() {
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
