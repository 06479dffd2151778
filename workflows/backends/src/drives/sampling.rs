//! Samples unpredictable blocks of a drive, without caches and with other programs than the erasure.
//!
//! Samples show that the drive returns no data for these blocks. They do not show that the flash cells are empty: a
//! deallocated block reads as zero in any case.

use crate::drives::{
    discovery,
    tools::{Effect, Tools},
};
use engine::ActionError;
use sha2::{Digest as _, Sha256};
use std::{collections::BTreeSet, fmt::Write as _};
use workflows::platform::{DriveTool, Observer, Samples, codes};

/// The size of a sample in bytes, a multiple of every sector size.
const PLACE: u64 = 4_096;
const PLACE_LEN: usize = 4_096;

/// Returns the blocks to sample: the first, the last, and one in each half of `sections` equal sections.
fn places(seed: &str, bytes: u64, sections: u64) -> BTreeSet<u64> {
    let all = bytes / PLACE;
    let halves = sections.saturating_mul(2).clamp(1, all.max(1));
    let of_half = |half: u64| {
        let (from, to) = (scaled(all, half, halves), scaled(all, half + 1, halves));
        from + chance(seed, half) % (to - from).max(1)
    };
    let mut places: BTreeSet<u64> = (0..halves).map(of_half).filter(|place| *place < all).collect();
    places.extend([Some(0), all.checked_sub(1)].into_iter().flatten().filter(|place| *place < all));
    places
}

/// Returns `all * part / parts` without overflow.
fn scaled(all: u64, part: u64, parts: u64) -> u64 {
    let scaled = u128::from(all) * u128::from(part) / u128::from(parts);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Returns a number derived from the seed and the position, so that the same blocks can be sampled again.
fn chance(seed: &str, number: u64) -> u64 {
    let hash = Sha256::new().chain_update(seed).chain_update(number.to_le_bytes()).finalize();
    hash.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

/// Returns true if a sample has only zeros, or only ones as erased flash does.
fn is_blank(place: &[u8]) -> bool {
    place.iter().all(|byte| *byte == 0) || place.iter().all(|byte| *byte == 0xff)
}

/// Samples all namespaces of a drive. The seed of the first is `seed/0`, of the second `seed/1`.
pub(super) async fn sample(tools: &Tools<'_>, serial: &str, seed: &str) -> Result<Samples, ActionError> {
    let target = &tools.target.verifier;
    // Devices are found by the kernel, not by the tool that erased the drive.
    let blocks = discovery::blocks(tools).await?.into_iter();
    let mut blocks: Vec<_> =
        blocks.filter(|block| block.kind == "disk" && block.serial() == Some(serial)).collect();
    if blocks.is_empty() {
        let why = format!("the verifier finds no drive with the serial number {serial}");
        return Err(ActionError::permanent(codes::OBJECT_MISSING, why));
    }
    let mut samples = Samples {
        serial: serial.to_owned(),
        seed: seed.to_owned(),
        read: 0,
        mismatches: 0,
        unreadable: 0,
        tool: Some(version(tools).await?),
        verified_as: Some(tools.target.verified_as(Observer::Verifier)),
    };
    blocks.sort_by(|one, other| one.name.cmp(&other.name));
    for (number, block) in blocks.iter().enumerate() {
        let places = places(&format!("{seed}/{number}"), block.size, target.sections);
        let mut input = String::new();
        for place in &places {
            // Writing to memory cannot fail.
            let _written = writeln!(input, "{place}");
        }
        let (dd, from) = (target.dd.to_string_lossy(), format!("if={}", block.path));
        let words = ["-I{}", &dd, &from, "bs=4096", "count=1", "skip={}", "iflag=direct", "status=none"];
        let ran = tools.run(&target.xargs, &words, input.as_bytes(), Effect::Look).await?;
        // `xargs` exits with 123 if some commands failed.
        if ran.code != 0 && ran.code != 123 {
            return Err(ran.failed());
        }
        let (got, rest) = ran.stdout.as_chunks::<PLACE_LEN>();
        let got_all = u64::try_from(got.len()).unwrap_or(u64::MAX);
        let asked = u64::try_from(places.len()).unwrap_or(u64::MAX);
        if got_all > asked || !rest.is_empty() {
            return Err(ran.unreadable("what was read are not whole places"));
        }
        samples.read += got_all;
        samples.unreadable += asked - got_all;
        samples.mismatches += got.iter().filter(|place| !is_blank(*place)).count() as u64;
    }
    Ok(samples)
}

/// Returns `dd` with its version from `dd (coreutils) 9.1`.
async fn version(tools: &Tools<'_>) -> Result<DriveTool, ActionError> {
    let ran = tools.good(&tools.target.verifier.dd, &["--version"]).await?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let line = said.lines().next().unwrap_or_default();
    let version = line.split_whitespace().last().ok_or_else(|| ran.unreadable("it names no version"))?;
    Ok(DriveTool { name: "dd".into(), version: version.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_positions_of_every_section_and_the_first_and_last_are_read() {
        let bytes = 1_000 * 64 * PLACE;
        let plan = places("seed", bytes, 1_000);

        for section in 0..1_000 {
            let within = plan.range(section * 64..(section + 1) * 64).count();
            assert!(within >= 2, "section {section}");
        }
        assert!(plan.contains(&0) && plan.contains(&63_999) && plan.len() <= 2_002);
        assert_eq!(plan, places("seed", bytes, 1_000), "who has the seed can read the same places");
        assert_ne!(plan, places("another", bytes, 1_000));
    }

    #[test]
    fn a_drive_with_fewer_positions_than_requested_is_read_completely() {
        assert_eq!(places("seed", 5 * PLACE, 1_000).len(), 5);
        assert_eq!(places("seed", 0, 1_000).len(), 0);
    }

    #[test]
    fn one_remaining_bit_counts_as_data() {
        let mut place = [0; 4_096];
        assert!(is_blank(&place) && is_blank(&[0xff; 4_096]));
        place[4_095] = 1;
        assert!(!is_blank(&place));
    }
}
