//! The positions at which a body is split into pages.
//!
//! A split depends only on the bytes before it, so a change in the middle of a body moves only the splits near it:
//! the other pages stay as they are stored.

use std::sync::Arc;

/// The shortest page but the last of a body of up to [`LARGE`] bytes.
const SHORTEST: usize = 4 << 10;
/// Bodies above these lengths have longer pages, whatever their content: the head of 24 MiB then stays below 64 KiB.
const LARGE: usize = 4 << 20;
const VERY_LARGE: usize = 8 << 20;
/// The shortest pages of such bodies.
const SHORTEST_OF_LARGE: usize = 8 << 10;
const SHORTEST_OF_VERY_LARGE: usize = 20 << 10;
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

/// Returns the length of the shortest page but the last of a body of `length` bytes.
fn shortest(length: usize) -> usize {
    if length > VERY_LARGE {
        SHORTEST_OF_VERY_LARGE
    } else if length > LARGE {
        SHORTEST_OF_LARGE
    } else {
        SHORTEST
    }
}

/// The pages of `body`, in order.
#[cfg(test)]
pub(super) fn split(body: &[u8]) -> Vec<&[u8]> {
    let shortest = shortest(body.len());
    let mut pages = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let (page, after) = rest.split_at(first_cut(rest, shortest));
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
    let least = shortest(body.len());
    // Pages that were cut by another rule say nothing of where the body is cut.
    let length: usize = stored.iter().map(|page| page.len()).sum();
    let is_of_this_rule =
        shortest(length) == least && stored.iter().rev().skip(1).all(|page| page.len() >= least);
    let stored = if is_of_this_rule { stored } else { &[] };
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
                let length = first_cut(rest, least);
                (Part::New(rest.get(..length).unwrap_or(rest)), length)
            }
        };
        parts.push(part);
        rest = rest.get(length..).unwrap_or_default();
    }
    parts
}

/// Returns the position of the first cut. Content without a cut within four times the shortest page is cut at the
/// smallest sum after the middle: that position moves with the content, and a fixed length would not.
fn first_cut(body: &[u8], shortest: usize) -> usize {
    let longest = (4 * shortest).min(LONGEST);
    let (mut sum, mut smallest) = (0_u64, (u64::MAX, longest.min(body.len())));
    for (at, byte) in body.iter().enumerate().take(longest).skip(shortest - WINDOW) {
        let mixed = u64::from(*byte).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        sum = (sum << 1).wrapping_add(mixed);
        let bits = if at < MIDDLE { BITS } else { BITS_AFTER_MIDDLE };
        if at >= shortest && sum >> (u64::BITS - bits) == 0 {
            return at;
        }
        if at >= shortest.max(MIDDLE) && sum < smallest.0 {
            smallest = (sum, at);
        }
    }
    if body.len() > longest { smallest.1 } else { body.len() }
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
    fn a_body_that_is_split_again_has_the_same_pages_as_a_new_one() {
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
    fn a_large_body_has_few_pages_whatever_its_content() {
        for length in [LARGE, VERY_LARGE, 24 << 20] {
            assert!(length.div_ceil(shortest(length)) <= 1_250, "{length}");
        }
        // Whether or not it is cut where it repeats.
        for pattern in [&b"x"[..], b"{\"a\":1},", b"0123456789abcdef"] {
            let repeated = pattern.repeat(VERY_LARGE / pattern.len() + 1);
            assert!(split(&repeated).len() <= 1_250);
        }
    }

    #[test]
    fn a_body_that_becomes_large_is_split_as_if_it_were_new() {
        let entries = LARGE / body(1).len();
        let (before, after) = (body(entries / 2), body(entries * 2));
        for (before, after) in [(&before, &after), (&after, &before)] {
            let stored: Vec<Arc<[u8]>> = split(before).into_iter().map(Arc::from).collect();
            let parts = split_again(&stored, after);
            assert!(parts.iter().all(|part| matches!(part, Part::New(_))));
            assert_eq!(parts.len(), split(after).len());
        }
        let pages = split(&after);
        assert!(pages.iter().rev().skip(1).all(|page| page.len() >= SHORTEST_OF_LARGE));
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
