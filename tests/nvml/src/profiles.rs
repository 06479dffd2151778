//! The partitions of an H100 of 80 GB, from NVIDIA's MIG user guide (`nvidia-smi mig -lgip`, `-lgipp`).

use crate::abi::Placement;

/// One profile of GPU instances.
pub(crate) struct Profile {
    /// Its number in the header's enumeration, by which callers request it.
    pub(crate) index: u32,
    /// The number of the profile on this GPU.
    pub(crate) id: u32,
    pub(crate) name: &'static str,
    pub(crate) slices: u32,
    /// The maximum number at the same time.
    pub(crate) instances: u32,
    pub(crate) multiprocessors: u32,
    pub(crate) memory_mb: u64,
    pub(crate) size: u32,
    pub(crate) starts: &'static [u32],
}

impl Profile {
    pub(crate) fn placements(&self) -> Vec<Placement> {
        self.starts.iter().map(|start| Placement { start: *start, size: self.size }).collect()
    }

    pub(crate) fn of(id: u32) -> Option<&'static Self> {
        ALL.iter().find(|profile| profile.id == id)
    }
}

/// Compute slices of the profiles of compute instances, in the order of the header's enumeration.
pub(crate) const COMPUTE_SLICES: [u32; 8] = [1, 2, 3, 4, 7, 8, 6, 1];

const fn profile(index: u32, id: u32, name: &'static str, slices: u32, starts: &'static [u32]) -> Profile {
    let (size, memory_mb, multiprocessors) = match id {
        19 | 20 => (1, 9_984, 16),
        15 => (2, 20_096, 26),
        14 => (2, 20_096, 32),
        9 => (4, 40_448, 60),
        5 => (4, 40_448, 64),
        _ => (8, 81_152, 132),
    };
    let instances = if id == 20 { 1 } else { starts.len() as u32 };
    Profile { index, id, name, slices, instances, multiprocessors, memory_mb, size, starts }
}

pub(crate) const ALL: &[Profile] = &[
    profile(0, 19, "MIG 1g.10gb", 1, &[0, 1, 2, 3, 4, 5, 6]),
    profile(7, 20, "MIG 1g.10gb+me", 1, &[0, 1, 2, 3, 4, 5, 6]),
    profile(9, 15, "MIG 1g.20gb", 1, &[0, 2, 4, 6]),
    profile(1, 14, "MIG 2g.20gb", 2, &[0, 2, 4]),
    profile(2, 9, "MIG 3g.40gb", 3, &[0, 4]),
    profile(3, 5, "MIG 4g.40gb", 4, &[0]),
    profile(4, 0, "MIG 7g.80gb", 7, &[0]),
];
