//! The positions at which a body is split into pages.
//!
//! A split depends only on the bytes before it, so a change in the middle of a body moves only the splits near it:
//! the other pages stay as they are stored.

use std::sync::Arc;

/// The shortest page but the last, in bytes.
pub(super) const SHORTEST: usize = 4 << 10;
/// The longest page, in bytes. With its key and its encryption it stays below 64 KiB.
pub(super) const LONGEST: usize = 48 << 10;
/// From here on a cut is sought with less patience, in bytes. In lists of like entries most of a page looks the same, and offers no cut; a
/// page that ended at its longest would move every page after it.
const MIDDLE: usize = 8 << 10;
/// After the shortest length, one byte in 2 to the power of this is a cut.
const BITS: u32 = 14;
/// The same after the middle. Pages have about 8.7 KiB on average.
const BITS_AFTER_MIDDLE: u32 = 10;
/// How many stored pages are compared with what follows a change, to find where the stored ones go on.
const LOOK_AHEAD: usize = 8;
/// The number of bytes that determine a split. Earlier bytes are shifted out of the sum, one bit for each byte.
const WINDOW: usize = 64;

/// The pages of `body`, in order.
#[cfg(test)]
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

/// A page of a body, as [`split_again`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// The stored page of this number.
    Stored(usize),
    /// Another one.
    New(&'a [u8]),
}

/// Returns the pages of `body`, in order. Pages in common with the `stored` ones are found by comparing bytes, so
/// only the pages near a change are split and hashed.
pub(super) fn split_again<'a>(stored: &[Arc<[u8]>], body: &'a [u8]) -> Vec<Part<'a>> {
    let (mut parts, mut rest, mut next) = (Vec::new(), body, 0);
    while !rest.is_empty() {
        let ahead = stored.iter().enumerate().skip(next).take(LOOK_AHEAD);
        let mut same = ahead.filter(|(number, page)| {
            // The first byte after a page decides that it ends there; the last page ends with its body.
            let after = stored.get(number + 1).and_then(|page| page.first());
            rest.starts_with(page) && rest.get(page.len()) == after
        });
        let (part, length) = match same.next() {
            Some((number, page)) => {
                next = number + 1;
                (Part::Stored(number), page.len())
            }
            None => {
                let length = first_cut(rest);
                (Part::New(rest.get(..length).unwrap_or(rest)), length)
            }
        };
        parts.push(part);
        rest = rest.get(length..).unwrap_or_default();
    }
    parts
}

fn first_cut(body: &[u8]) -> usize {
    let longest = body.len().min(LONGEST);
    let mut sum = 0_u64;
    for (at, byte) in body.iter().enumerate().take(longest).skip(SHORTEST - WINDOW) {
        let mixed = u64::from(*byte).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        sum = (sum << 1).wrapping_add(mixed);
        let bits = if at < MIDDLE { BITS } else { BITS_AFTER_MIDDLE };
        if at >= SHORTEST && sum >> (u64::BITS - bits) == 0 {
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

    /// The trail of an onboarding, of which one entry grows.
    #[test]
    fn a_change_in_a_list_of_like_entries_leaves_the_other_pages_as_they_are() {
        let entry = |n: usize, output: &str| {
            format!(
                "{{\"state\":\"TakingNodes\",\"entered\":12,\"slot\":{n},\"action\":\"TakeNode\",\"undo\":\"ReturnNode\",\"arguments\":{{\
                 \"cluster\":\"west-1\",\"node\":\"gpu-rack-{:02}-node-{n:05}\",\"tenant\":\"acme\",\"owner_epoch\":1}},\"fate\":\"begun\"\
                 {output}}},",
                n % 40
            )
        };
        let trail = |changed: usize| -> Vec<u8> {
            let output = |n| if n < changed { ",\"output\":{\"before\":null}" } else { "" };
            (0..4_000).map(|n| entry(n, output(n))).collect::<String>().into_bytes()
        };
        let mut moved = 0;
        for changed in (0..4_000).step_by(40) {
            let (before, after) = (trail(changed), trail(changed + 1));
            let (old, new) = (split(&before), split(&after));
            moved += new.iter().filter(|page| !old.contains(*page)).count();
        }

        assert!(moved <= 150, "{moved} pages for 100 changes");
    }

    #[test]
    fn a_body_that_is_split_again_has_the_same_pages_as_one_that_is_split_anew() {
        let before = body(5_000);
        let stored: Vec<Arc<[u8]>> = split(&before).into_iter().map(Arc::from).collect();
        let middle = before.len() / 2;
        let splice = |at: usize, gone: usize, text: &[u8]| {
            let mut after = before.clone();
            after.splice(at..at + gone, text.iter().copied());
            after
        };
        let cases = [
            before.clone(),
            splice(middle, 0, b"\"output\":{\"serial\":12345}"),
            splice(middle, 60_000, b""),
            splice(0, 1, b""),
            splice(before.len(), 0, b"and more"),
            splice(before.len() - 9, 9, b""),
            splice(0, before.len(), b""),
            splice(middle, 0, &before),
        ];
        for after in cases {
            let parts = split_again(&stored, &after);

            let pages: Vec<&[u8]> = parts
                .iter()
                .map(|part| match part {
                    Part::Stored(number) => &*stored[*number],
                    Part::New(content) => content,
                })
                .collect();
            assert_eq!(pages, split(&after));
        }
    }

    #[test]
    fn after_a_change_in_the_middle_few_pages_are_cut_and_hashed() {
        let before = body(40_000);
        let stored: Vec<Arc<[u8]>> = split(&before).into_iter().map(Arc::from).collect();
        let mut after = before.clone();
        let middle = after.len() / 2;
        after.splice(middle..middle, *b"\"output\":{\"serial\":12345}");

        let parts = split_again(&stored, &after);

        let new = parts.iter().filter(|part| matches!(part, Part::New(_))).count();
        assert!(new <= 3, "{new} of {}", parts.len());
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
