//! The positions at which a body is split into pages.
//!
//! A split depends only on the bytes before it, so a change in the middle of a body moves only the splits near it:
//! the other pages stay as they are stored.

/// The shortest page but the last, in bytes.
pub(super) const SHORTEST: usize = 4 << 10;
/// The longest page, in bytes. With its key and its encryption it stays below 64 KiB.
pub(super) const LONGEST: usize = 48 << 10;
/// After the shortest length, one byte in 2 to the power of this is a cut: pages have about 20 KiB.
const BITS: u32 = 14;
/// The number of bytes that determine a split. Earlier bytes are shifted out of the sum, one bit for each byte.
const WINDOW: usize = 64;

/// The pages of `body`, in order.
pub(super) fn split(body: &[u8]) -> Vec<&[u8]> {
    let mut pages = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (page, after) = rest.split_at(first_cut(rest));
        pages.push(page);
        rest = after;
    }
    pages
}

fn first_cut(body: &[u8]) -> usize {
    let longest = body.len().min(LONGEST);
    let mut sum = 0_u64;
    for (at, byte) in body.iter().enumerate().take(longest).skip(SHORTEST - WINDOW) {
        let mixed = u64::from(*byte).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        sum = (sum << 1).wrapping_add(mixed);
        if at >= SHORTEST && sum >> (u64::BITS - BITS) == 0 {
            return at;
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(entries: usize) -> Vec<u8> {
        let entry = |n: usize| format!("{{\"node\":\"node-{n:05}\",\"fate\":\"begun\",\"x\":{}}},", n * 7919);
        (0..entries).map(entry).collect::<String>().into_bytes()
    }

    #[test]
    fn a_change_in_the_middle_leaves_the_other_pages_as_they_are() {
        let before = body(40_000);
        let mut after = before.clone();
        let middle = after.len() / 2;
        after.splice(middle..middle, *b"\"output\":{\"serial\":12345}");

        let (old, new) = (split(&before), split(&after));
        let changed = new.iter().filter(|page| !old.contains(*page)).count();

        assert!(old.len() > 40, "{}", old.len());
        assert!(changed <= 2, "{changed} of {}", new.len());
    }

    #[test]
    fn every_page_is_within_the_bounds_and_together_they_are_the_body() {
        for body in [Vec::new(), body(3), body(5_000), vec![b'x'; 1 << 20], vec![0; 1 << 20]] {
            let pages = split(&body);
            assert_eq!(pages.concat(), body);
            assert!(pages.iter().all(|page| page.len() <= LONGEST));
            assert!(pages.iter().rev().skip(1).all(|page| page.len() >= SHORTEST));
        }
    }
}
