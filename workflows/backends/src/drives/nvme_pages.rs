//! Parses the identify page and the sanitize log of the NVMe base specification.

use workflows::platform::{DriveTechnique, SanitiseStatus};

/// The length of a controller's identify page, in bytes.
const IDENTIFY: usize = 4_096;
/// The used part of the sanitize log, which is 512 bytes long.
const SANITIZE: usize = 20;
/// The value for a missing estimate.
const NO_ESTIMATE: u64 = 0xffff_ffff;

/// Reads a little-endian number of `len` bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default();
    bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

fn text(bytes: &[u8], from: usize, to: usize) -> String {
    String::from_utf8_lossy(bytes.get(from..to).unwrap_or_default()).trim_matches([' ', '\0']).to_owned()
}

/// A controller's identify data (CNS 01h).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// SN.
    pub(super) serial: String,
    /// MN.
    pub(super) model: String,
    /// FR.
    pub(super) firmware: String,
    /// SUBNQN.
    pub(super) subsystem: String,
    /// TNVMCAP, in bytes; 0 if not reported.
    pub(super) capacity_bytes: u64,
    /// OACS bit 3: the controller can create namespaces and attach them to controllers.
    pub(super) manages_namespaces: bool,
    /// True if the drive has a sanitize log: SANICAP reports at least one technique.
    pub(super) sanitises: bool,
    /// The techniques that SANICAP and OACS report.
    pub(super) can: Vec<DriveTechnique>,
}

impl Identity {
    pub(super) fn read(page: &[u8]) -> Result<Self, String> {
        if page.len() != IDENTIFY {
            return Err(format!("an identify page has {IDENTIFY} bytes, and this has {}", page.len()));
        }
        let (oacs, sanicap) = (number(page, 256, 2), number(page, 328, 4));
        let all = [
            (sanicap & 0b010 != 0, DriveTechnique::BlockErase),
            (sanicap & 0b001 != 0, DriveTechnique::CryptoErase),
            (sanicap & 0b100 != 0, DriveTechnique::Overwrite),
            (oacs & 0b010 != 0, DriveTechnique::Format),
        ];
        let serial = text(page, 4, 24);
        if serial.is_empty() {
            return Err("the controller has no serial number".into());
        }
        Ok(Self {
            serial,
            model: text(page, 24, 64),
            firmware: text(page, 64, 72),
            subsystem: text(page, 768, 1_024),
            // The lower 8 of 16 bytes: 16 EiB are enough.
            capacity_bytes: number(page, 280, 8),
            manages_namespaces: oacs & 0b1000 != 0,
            sanitises: sanicap & 0b111 != 0,
            can: all.into_iter().filter_map(|(has, technique)| has.then_some(technique)).collect(),
        })
    }
}

/// The sanitize log (81h).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SanitizePage {
    /// The part that changes with each sanitisation and its progress: SPROG, SSTAT, SCDW10.
    pub(super) head: Vec<u8>,
    /// SSTAT bits 2:0.
    pub(super) status: SanitiseStatus,
    /// SPROG, in 65,536ths.
    pub(super) progress: u32,
    /// SSTAT bit 8: nothing was written since the sanitisation ended.
    pub(super) untouched: bool,
    /// SCDW10 bits 2:0: the last requested action.
    pub(super) action: u64,
    /// ETO, ETBE and ETCE in seconds, if reported.
    estimates: [Option<u64>; 3],
}

impl SanitizePage {
    pub(super) fn read(page: &[u8]) -> Result<Self, String> {
        let Some(head) = page.get(..8).filter(|_| page.len() >= SANITIZE) else {
            return Err(format!("a sanitize log has 512 bytes, and this has {}", page.len()));
        };
        let sstat = number(page, 2, 2);
        let status = match sstat & 0b111 {
            0 => SanitiseStatus::Never,
            1 | 4 => SanitiseStatus::Completed,
            2 => SanitiseStatus::InProgress,
            3 => SanitiseStatus::Failed,
            other => return Err(format!("status {other} of the sanitize log is none that is known here")),
        };
        let estimate = |at| Some(number(page, at, 4)).filter(|seconds| *seconds != NO_ESTIMATE);
        Ok(Self {
            head: head.to_vec(),
            status,
            progress: u32::try_from(number(page, 0, 2)).unwrap_or(0),
            untouched: sstat & (1 << 8) != 0,
            action: number(page, 4, 4) & 0b111,
            estimates: [8, 12, 16].map(estimate),
        })
    }

    /// Returns the estimate for the technique that workflows prefer.
    pub(super) fn estimate(&self, can: &[DriveTechnique]) -> Option<u64> {
        let [overwrite, block, crypto] = self.estimates;
        let of = [
            (DriveTechnique::BlockErase, block),
            (DriveTechnique::Overwrite, overwrite),
            (DriveTechnique::CryptoErase, crypto),
        ];
        of.into_iter().find(|(technique, _)| can.contains(technique)).and_then(|(_, estimate)| estimate)
    }
}

/// Returns the remaining hundredths of a format: byte 32 (FPI) of a namespace's identify page. `None` if not reported.
pub(super) fn format_left(page: &[u8]) -> Option<u64> {
    let fpi = number(page, 32, 1);
    (page.len() == IDENTIFY && fpi & 0x80 != 0).then_some(fpi & 0x7f)
}

/// Returns the SANACT value of a technique for `nvme sanitize`. `None` for a format.
pub(super) fn action(technique: DriveTechnique) -> Option<u64> {
    match technique {
        DriveTechnique::BlockErase => Some(2),
        DriveTechnique::Overwrite => Some(3),
        DriveTechnique::CryptoErase => Some(4),
        DriveTechnique::Format => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identify(oacs: u8, sanicap: u8) -> Vec<u8> {
        let mut page = vec![0; IDENTIFY];
        page[4..24].copy_from_slice(b"S5GXNX0R            ");
        page[24..34].copy_from_slice(b"ACME P5510");
        page[64..72].copy_from_slice(b"9CV10410");
        (page[256], page[328]) = (oacs, sanicap);
        page[280..288].copy_from_slice(&3_840_755_982_336_u64.to_le_bytes());
        page
    }

    #[test]
    fn a_controller_supports_exactly_what_its_bits_say() {
        use workflows::platform::DriveTechnique::*;
        let can = |oacs, sanicap| Identity::read(&identify(oacs, sanicap)).unwrap().can;

        assert_eq!(can(0, 0), []);
        assert_eq!(can(0b010, 0), [Format]);
        assert_eq!(can(0, 0b001), [CryptoErase]);
        assert_eq!(can(0, 0b010), [BlockErase]);
        assert_eq!(can(0, 0b100), [Overwrite]);
        // VERS in SANICAP is not a technique.
        assert_eq!(can(0b1000, 0b1000), []);
        let identity = Identity::read(&identify(0b1010, 0b011)).unwrap();
        assert_eq!((identity.serial.as_str(), identity.firmware.as_str()), ("S5GXNX0R", "9CV10410"));
        assert_eq!(identity.capacity_bytes, 3_840_755_982_336);
        assert!(identity.manages_namespaces && identity.sanitises);
        assert!(Identity::read(&identify(0, 0)[..4_000]).is_err());
    }

    #[test]
    fn a_sanitize_log_is_decoded_from_its_bits() {
        let page = |sprog: u16, sstat: u16| {
            let mut page = vec![0; 512];
            page[..2].copy_from_slice(&sprog.to_le_bytes());
            page[2..4].copy_from_slice(&sstat.to_le_bytes());
            page[4] = 2;
            page[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
            page[12..16].copy_from_slice(&90_u32.to_le_bytes());
            SanitizePage::read(&page)
        };
        let at = |sstat| page(7, sstat).map(|page| (page.status, page.untouched));

        assert_eq!(at(0), Ok((SanitiseStatus::Never, false)));
        assert_eq!(at(0x101), Ok((SanitiseStatus::Completed, true)));
        assert_eq!(at(0x004), Ok((SanitiseStatus::Completed, false)));
        assert_eq!(at(0x00a), Ok((SanitiseStatus::InProgress, false)));
        assert_eq!(at(0x003), Ok((SanitiseStatus::Failed, false)));
        assert!(at(0x005).is_err(), "what is not known never reads as done");
        let page = page(7, 2).unwrap();
        assert_eq!((page.progress, page.action), (7, 2));
        assert_eq!(page.estimate(&[DriveTechnique::BlockErase]), Some(90));
        assert_eq!(page.estimate(&[DriveTechnique::Overwrite]), None);
        assert!(SanitizePage::read(&[0; 8]).is_err());
    }
}
