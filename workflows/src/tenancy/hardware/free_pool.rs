//! Free nodes: for each cluster and GPU model a head with counts, and chunks that list the free nodes.
//!
//! A decision cannot query ranges. It reads the head, which every change rewrites, and the required chunks; both become conditions of the commit. A chunk holds
//! at most 256 nodes, so documents stay far below the store's limit for any fleet.

use crate::tenancy::{ClusterId, GpuModel, Gpus, NodeId, RegionId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::CompositeKey;

/// Counts of one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkCount {
    /// The nodes, free or not.
    pub nodes: u32,
    /// Their GPUs.
    pub gpus: Gpus,
    /// The free nodes.
    pub free_nodes: u32,
    /// Their GPUs.
    pub free_gpus: Gpus,
}

/// Counts of all nodes with one GPU model in one cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreePool {
    /// The cluster.
    pub cluster: ClusterId,
    /// The region.
    pub region: RegionId,
    /// The model.
    pub model: GpuModel,
    /// By chunk number.
    pub chunks: Vec<ChunkCount>,
}

impl FreePool {
    /// The most nodes that belong to one chunk.
    pub const CHUNK_NODES: u32 = 256;

    /// Returns the id of the pool of `model` in `cluster`.
    #[must_use]
    pub fn key(cluster: &ClusterId, model: &GpuModel) -> String {
        CompositeKey::of(&[&cluster, &model]).into()
    }

    /// Creates a pool without nodes.
    #[must_use]
    pub fn empty(cluster: ClusterId, region: RegionId, model: GpuModel) -> Self {
        Self { cluster, region, model, chunks: Vec::new() }
    }

    /// Returns the number of free GPUs.
    #[must_use]
    pub fn free(&self) -> Gpus {
        self.chunks.iter().map(|chunk| chunk.free_gpus).sum()
    }

    /// Returns the number of GPUs, free or not.
    #[must_use]
    pub fn gpus(&self) -> Gpus {
        self.chunks.iter().map(|chunk| chunk.gpus).sum()
    }

    /// Returns the number of nodes, free or not.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.chunks.iter().map(|chunk| chunk.nodes).sum()
    }

    /// Returns the number of the first chunk with room for a node. The chunk may not exist yet.
    #[must_use]
    pub fn first_chunk_with_room(&self) -> u32 {
        let room = self.chunks.iter().position(|chunk| chunk.nodes < Self::CHUNK_NODES);
        u32::try_from(room.unwrap_or(self.chunks.len())).unwrap_or(u32::MAX)
    }

    /// Returns the ids of the chunks with free nodes.
    #[must_use]
    pub fn chunks_with_free_nodes(&self) -> Vec<String> {
        let stocked = (0u32..).zip(&self.chunks).filter(|(_, chunk)| chunk.free_nodes > 0);
        stocked.map(|(number, _)| FreePoolChunk::key(&self.cluster, &self.model, number)).collect()
    }
}

impl Entity for FreePool {
    const COLLECTION: &'static str = "pools";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::key(&self.cluster, &self.model)
    }
}

/// The free nodes of one chunk of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreePoolChunk {
    /// The pool's cluster.
    pub cluster: ClusterId,
    /// The pool's model.
    pub model: GpuModel,
    /// The index in the pool.
    pub number: u32,
    /// Free nodes with their number of GPUs.
    pub free: BTreeMap<NodeId, Gpus>,
}

impl FreePoolChunk {
    /// Returns the id of a pool's chunk.
    #[must_use]
    pub fn key(cluster: &ClusterId, model: &GpuModel, number: u32) -> String {
        CompositeKey::of(&[&cluster, &model, &format_args!("{number:06}")]).into()
    }
}

impl Entity for FreePoolChunk {
    const COLLECTION: &'static str = "pool-chunks";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::key(&self.cluster, &self.model, self.number)
    }
}
