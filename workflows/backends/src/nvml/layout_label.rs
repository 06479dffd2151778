//! Converts between the layout of a node's GPUs and its label. Pure.

use super::layout::{Partition, Profile, Wanted};
use std::collections::BTreeMap;

/// Returns the label of a node's layout: `all-disabled`, `all-1g.10gb`, the name of a configured layout, or a list by
/// GPU, such as `gpus:off|on|3g.40gb,1g.10gb`. [`wanted`] parses it.
#[must_use]
pub fn label(gpus: &[(Partition, Vec<Profile>)], layouts: &BTreeMap<String, Vec<String>>) -> String {
    if gpus.iter().all(|(partition, _)| !partition.enabled) {
        return "all-disabled".to_owned();
    }
    let names: Vec<Vec<String>> =
        gpus.iter().map(|(partition, profiles)| names(partition, profiles)).collect();
    let all = |wanted: &Wanted| {
        gpus.iter().zip(&names).all(|((partition, profiles), names)| {
            let mut asked = wanted.names(profiles);
            asked.sort();
            partition.enabled && asked == *names
        })
    };
    let first = names.first().and_then(|names| names.first());
    if let Some(first) = first.filter(|first| all(&Wanted::Full((*first).clone()))) {
        return format!("all-{first}");
    }
    if let Some((name, _)) = layouts.iter().find(|(_, layout)| all(&Wanted::These((*layout).clone()))) {
        return name.clone();
    }
    let each = gpus.iter().zip(names).map(|((partition, _), names)| match partition.enabled {
        false => "off".to_owned(),
        true if names.is_empty() => "on".to_owned(),
        true => names.join(","),
    });
    format!("gpus:{}", each.collect::<Vec<_>>().join("|"))
}

/// Returns the sorted profile names of a GPU's instances. If an instance has other compute instances than one of full
/// size, its name lists their slices.
fn names(partition: &Partition, profiles: &[Profile]) -> Vec<String> {
    let name = |one: &super::layout::GpuInstance| {
        let profile = profiles.iter().find(|profile| profile.id == one.profile);
        let name = profile.map_or_else(|| format!("profile {}", one.profile), |profile| profile.name.clone());
        let inside: Vec<String> = one.compute.iter().map(|compute| compute.slices.to_string()).collect();
        match (profile, one.compute.as_slice()) {
            (Some(profile), [only]) if only.slices == profile.slices => name,
            (_, []) => format!("{name}:0c"),
            _ => format!("{name}:{}c", inside.join("+")),
        }
    };
    let mut names: Vec<String> = partition.instances.iter().map(name).collect();
    names.sort();
    names
}

/// Returns the layout that a label requests for each of `count` GPUs.
///
/// # Errors
///
/// A message if the label names no layout.
pub fn wanted(
    label: &str,
    layouts: &BTreeMap<String, Vec<String>>,
    count: usize,
) -> Result<Vec<Wanted>, String> {
    if label == "all-disabled" {
        return Ok(vec![Wanted::Off; count]);
    }
    if let Some(layout) = layouts.get(label) {
        return Ok(vec![Wanted::These(layout.clone()); count]);
    }
    if let Some(profile) = label.strip_prefix("all-") {
        return Ok(vec![Wanted::Full(profile.to_owned()); count]);
    }
    let Some(each) = label.strip_prefix("gpus:") else {
        return Err(format!("layout {label} is unknown: add it to `layouts` of this node"));
    };
    let each: Vec<Wanted> = each
        .split('|')
        .map(|one| match one {
            "off" => Wanted::Off,
            "on" => Wanted::These(Vec::new()),
            names => Wanted::These(names.split(',').map(str::to_owned).collect()),
        })
        .collect();
    if each.len() == count {
        return Ok(each);
    }
    Err(format!("layout {label} is for {} GPUs, but the node has {count}", each.len()))
}
