//! Names of layouts: of a whole node's GPUs at once, in both directions. Pure.

use super::layout::{Partition, Profile, Wanted};
use std::collections::BTreeMap;

/// What every GPU of a node has, for people and for [`wanted`]: `all-disabled`, `all-1g.10gb`, one of the named layouts, or GPU by
/// GPU, such as `gpus:off|on|3g.40gb,1g.10gb`.
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

/// The profiles of a GPU's instances, by name, sorted. One without its whole compute instance is no use, and says so.
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

/// What a label asks of each of `count` GPUs.
///
/// # Errors
/// In words, when there is no such layout.
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
        return Err(format!("there is no layout {label}: add it to `layouts` of this node"));
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
    Err(format!("layout {label} is of {} GPUs, and the node has {count}", each.len()))
}
