//! One name for each GPU model, for all spellings of drivers, device plugins and inventories.
//!
//! A name from a user or a file passes through [`canonical`] when it is parsed: `h100`, `NVIDIA H100 80GB HBM3` and `NVIDIA-H100-80GB-HBM3` all become `H100`.
//! Stored names are not changed. Invariant: a card with other memory is a model of its own, because it has other slices.

use crate::tenancy::GpuModel;

/// Known models, with the memory of a card in GB if product names contain it.
static KNOWN: [(&str, Option<u32>); 18] = [
    ("A30", Some(24)),
    ("A100", Some(80)),
    ("H100", Some(80)),
    ("H200", Some(141)),
    ("H20", Some(96)),
    ("B200", Some(180)),
    // The number in these product names is the memory of the CPU.
    ("GH200", None),
    ("GB200", None),
    ("L40S", Some(48)),
    ("T4", Some(16)),
    ("P100", Some(16)),
    ("V100", Some(32)),
    ("RTX4090", Some(24)),
    ("L4", Some(24)),
    ("L40", Some(48)),
    ("A10", Some(24)),
    ("A10G", Some(24)),
    ("A40", Some(48)),
];
/// Words of product names before the model.
const MAKERS: [&str; 4] = ["NVIDIA", "TESLA", "GEFORCE", "QUADRO"];
/// Words after it that describe the build of a card and change neither its memory nor its slices.
const BUILDS: [&str; 13] =
    ["PCIE", "SXM", "SXM2", "SXM3", "SXM4", "SXM5", "SXM6", "HBM2", "HBM2E", "HBM3", "HBM3E", "HGX", "DGX"];

/// Returns the canonical name of a model, and the profile if the name is that of a MIG device. Returns an unknown name unchanged, with `-` for spaces.
#[must_use]
pub fn canonical(name: &str) -> (String, Option<String>) {
    let words: Vec<&str> = name.split([' ', '-', '_']).filter(|word| !word.is_empty()).collect();
    let mig = words.iter().position(|word| word.eq_ignore_ascii_case("MIG"));
    let (card, profile) = match mig.and_then(|at| words.split_at_checked(at)) {
        Some((card, [_, profile])) => (card, Some((*profile).to_owned())),
        Some(_) | None => (words.as_slice(), None),
    };
    match known_card(card) {
        Some(model) => (model.to_owned(), profile),
        None => (name.split_whitespace().collect::<Vec<_>>().join("-"), None),
    }
}

/// Returns the model of a product name, if all its words are known.
fn known_card(words: &[&str]) -> Option<&'static str> {
    let made = words.iter().take_while(|word| is_one_of(&MAKERS, word)).count();
    let words = words.get(made..)?;
    let (model, memory, rest) = [1, 2].into_iter().find_map(|count| {
        let (name, rest) = words.split_at_checked(count)?;
        let name = name.concat();
        let (model, memory) = KNOWN.iter().find(|(model, _)| model.eq_ignore_ascii_case(&name))?;
        Some((*model, *memory, rest))
    })?;
    let understood = |word: &&str| {
        // An H100 NVL has 94 GB; an H200 NVL has the usual memory.
        is_one_of(&BUILDS, word)
            || (word.eq_ignore_ascii_case("NVL") && model == "H200")
            || gigabytes(word).is_some_and(|size| memory.is_none_or(|memory| alike(size, memory)))
    };
    rest.iter().all(understood).then_some(model)
}

fn is_one_of(list: &[&str], word: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(word))
}

fn gigabytes(word: &str) -> Option<u32> {
    let (number, unit) = word.split_at_checked(word.len().checked_sub(2)?)?;
    if unit.eq_ignore_ascii_case("GB") { number.parse().ok() } else { None }
}

/// Returns true if two memory sizes of product names are equal up to rounding: 46 and 48, 141 and 143.
fn alike(one: u32, other: u32) -> bool {
    one.abs_diff(other) <= other / 12
}

/// Returns true if `name` is that of an existing model, listed by an operator or not.
#[must_use]
pub fn is_product(name: &GpuModel) -> bool {
    KNOWN.iter().any(|(model, _)| *model == name.as_str())
}

/// Returns the name in `known` that is most similar to `name`, for a hint.
#[must_use]
pub fn nearest<'a>(name: &GpuModel, known: impl IntoIterator<Item = &'a GpuModel>) -> Option<&'a GpuModel> {
    let name = name.as_str().to_ascii_uppercase();
    let words: Vec<&str> = name.split(['-', '_']).collect();
    let known: Vec<(String, &GpuModel)> =
        known.into_iter().map(|model| (model.as_str().to_ascii_uppercase(), model)).collect();
    let within = known.iter().find(|(model, _)| words.contains(&model.as_str()));
    let near = || {
        let near = engine::nearest(&name, known.iter().map(|(model, _)| model.as_str()))?;
        known.iter().find(|(model, _)| *model == near)
    };
    within.or_else(near).map(|(_, model)| *model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_drivers_plugins_and_mig_products_map_to_one_model() {
        for (name, model, profile) in [
            ("h100", "H100", None),
            ("NVIDIA H100 80GB HBM3", "H100", None),
            ("NVIDIA-H100-80GB-HBM3", "H100", None),
            ("NVIDIA-H100-PCIe", "H100", None),
            ("NVIDIA-A100-SXM4-80GB", "A100", None),
            ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100", Some("1g.10gb")),
            ("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", "H100", Some("3g.40gb")),
            ("NVIDIA H200", "H200", None),
            ("NVIDIA-H200-NVL", "H200", None),
            ("NVIDIA GH200 480GB", "GH200", None),
            ("Tesla V100-SXM2-32GB", "V100", None),
            ("Tesla-T4", "T4", None),
            ("NVIDIA L40S", "L40S", None),
            ("NVIDIA GeForce RTX 4090", "RTX4090", None),
            ("rtx4090", "RTX4090", None),
        ] {
            assert_eq!(canonical(name), (model.to_owned(), profile.map(str::to_owned)), "{name}");
            assert!(name.parse::<GpuModel>().unwrap().as_str() == model, "{name}");
        }
    }

    #[test]
    fn a_card_with_another_or_unknown_memory_size_is_its_own_model() {
        for (name, stays) in [
            ("NVIDIA A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
            ("Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-16GB"),
            ("NVIDIA H100 NVL", "NVIDIA-H100-NVL"),
            ("h101", "h101"),
            ("V100M32", "V100M32"),
            ("MI300X", "MI300X"),
        ] {
            assert_eq!(canonical(name), (stays.to_owned(), None));
        }
    }

    #[test]
    fn a_stored_name_is_parsed_as_written() {
        let stored: GpuModel = serde_json::from_str("\"h100\"").unwrap();
        assert_eq!(stored.as_str(), "h100");
    }

    #[test]
    fn the_nearest_known_name_is_the_hint() {
        let known: Vec<GpuModel> =
            ["A100", "H100", "H200"].iter().map(|name| name.parse().unwrap()).collect();
        let hint = |name: &str| nearest(&name.parse().unwrap(), &known).map(GpuModel::as_str);
        assert_eq!(hint("h101"), Some("H100"));
        assert_eq!(hint("NVIDIA-H100-NVL"), Some("H100"));
        assert_eq!(hint("NVIDIA-A100-SXM4-40GB"), Some("A100"));
        assert_eq!(hint("MI300X"), None);
    }
}
