//! Parses Slurm's compact lists: `gpu[0-3,7]` for nodes, `gpu:h200:2(IDX:0-1)` for GPUs of a node.

use std::collections::BTreeSet;

/// Returns all names of a node list, in order.
pub(super) fn expanded(list: &str) -> Vec<String> {
    split(list).into_iter().flat_map(each).collect()
}

/// Returns the GPU indexes from Slurm's details of a job on one node.
pub(super) fn gpu_indices(detail: &str) -> BTreeSet<u16> {
    let of_gpus = split(detail).into_iter().filter(|part| part.starts_with("gpu"));
    let listed = of_gpus.filter_map(|part| Some(part.split_once("(IDX:")?.1.trim_end_matches(')')));
    listed.flat_map(ranges).filter_map(|number| number.parse().ok()).collect()
}

/// Splits at commas outside of brackets.
fn split(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_i32, 0, Vec::new());
    for (at, sign) in list.char_indices() {
        match sign {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(list.get(from..at));
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(list.get(from..));
    parts.retain(|part| !part.is_empty());
    parts
}

fn each(part: &str) -> Vec<String> {
    let Some((head, rest)) = part.split_once('[') else { return vec![part.to_owned()] };
    let Some((inner, tail)) = rest.split_once(']') else { return vec![part.to_owned()] };
    let tails = each(tail);
    let tails = if tails.is_empty() { vec![String::new()] } else { tails };
    let numbers = ranges(inner).into_iter();
    numbers.flat_map(|number| tails.iter().map(move |tail| format!("{head}{number}{tail}"))).collect()
}

/// Expands `0-2,7` to its numbers and keeps leading zeros.
fn ranges(list: &str) -> Vec<String> {
    let mut all = Vec::new();
    for range in list.split(',') {
        let Some((first, last)) = range.split_once('-') else {
            all.push(range.to_owned());
            continue;
        };
        if let (Ok(from), Ok(to)) = (first.parse::<u32>(), last.parse::<u32>()) {
            all.extend((from..=to).map(|number| format!("{number:0width$}", width = first.len())));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_list_is_expanded_to_each_node() {
        assert_eq!(expanded("gpu[0-2,7],login"), ["gpu0", "gpu1", "gpu2", "gpu7", "login"]);
        assert_eq!(expanded("n[008-011]"), ["n008", "n009", "n010", "n011"]);
        assert_eq!(expanded("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert!(expanded("").is_empty());
    }

    #[test]
    fn the_gpus_of_a_job_are_identified_by_index() {
        assert_eq!(gpu_indices("gpu:h200:2(IDX:0-1)"), BTreeSet::from([0, 1]));
        assert_eq!(gpu_indices("nic:1(IDX:4),gpu:h200:3(IDX:0,5-6)"), BTreeSet::from([0, 5, 6]));
        assert!(gpu_indices("gpu:h200:0(IDX:N/A)").is_empty());
    }
}
