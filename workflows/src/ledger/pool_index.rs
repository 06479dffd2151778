//! Adds and removes nodes in the lists of free nodes. Each document is read and written once.

use super::codes;
use crate::tenancy::{ChunkCount, ClusterId, FreePool, FreePoolChunk, GpuModel, Gpus, Node};
use engine::{ActionError, Undecided, View};
use std::collections::BTreeMap;

/// The pools and chunks that one decision changes.
#[derive(Debug, Default)]
pub(crate) struct PoolIndex {
    pools: BTreeMap<String, FreePool>,
    chunks: BTreeMap<String, FreePoolChunk>,
}

impl PoolIndex {
    /// Fetches the documents for `nodes`: one round for pools and one for chunks.
    ///
    /// # Errors
    /// The read errors of the view.
    pub(crate) fn prefetch(view: &View, nodes: &[Node]) -> Result<(), Undecided> {
        view.prefetch::<FreePool>(nodes.iter().map(|node| FreePool::key(&node.cluster, &node.gpu.model)))?;
        view.prefetch::<FreePoolChunk>(
            nodes.iter().map(|node| FreePoolChunk::key(&node.cluster, &node.gpu.model, node.chunk)),
        )
    }

    /// Removes a node from the list of free nodes.
    ///
    /// # Errors
    /// `ledger.books_differ` if it is not listed; or a read error of the view.
    pub(crate) fn remove_free(&mut self, view: &mut View, node: &Node) -> Result<(), Undecided> {
        let (count, chunk) = self.open(view, node)?;
        let listed = chunk.free.remove(&node.id);
        let left = count.free_nodes.checked_sub(1).zip(count.free_gpus.checked_sub(node.gpu.count));
        let (Some(_), Some((nodes, gpus))) = (listed, left) else {
            return Err(corrupt(format!("node {} is free, but its pool does not list it", node.id)));
        };
        (count.free_nodes, count.free_gpus) = (nodes, gpus);
        Ok(())
    }

    /// Adds a node to the list of free nodes.
    ///
    /// # Errors
    /// `ledger.books_differ` if it is already listed; or a read error of the view.
    pub(crate) fn add_free(&mut self, view: &mut View, node: &Node) -> Result<(), Undecided> {
        let (count, chunk) = self.open(view, node)?;
        if chunk.free.insert(node.id.clone(), node.gpu.count).is_some() {
            return Err(corrupt(format!("node {} is not free, but its pool lists it", node.id)));
        }
        count.free_nodes = count.free_nodes.saturating_add(1);
        count.free_gpus = count.free_gpus.saturating_add(node.gpu.count);
        Ok(())
    }

    /// Adds a free node to the first chunk with room, and returns the number of the chunk.
    ///
    /// # Errors
    /// The read errors of the view.
    pub(crate) fn enlist(&mut self, view: &mut View, node: &mut Node) -> Result<(), Undecided> {
        let chunk = self.pool(view, node)?.first_chunk_with_room();
        node.chunk = chunk;
        let (count, _) = self.open(view, node)?;
        count.nodes = count.nodes.saturating_add(1);
        count.gpus = count.gpus.saturating_add(node.gpu.count);
        self.add_free(view, node)
    }

    /// Removes a free node from its pool.
    ///
    /// # Errors
    /// As [`PoolIndex::remove_free`].
    pub(crate) fn delist(&mut self, view: &mut View, node: &Node) -> Result<(), Undecided> {
        self.remove_free(view, node)?;
        let (count, _) = self.open(view, node)?;
        count.nodes = count.nodes.saturating_sub(1);
        count.gpus = count.gpus.saturating_sub(node.gpu.count);
        Ok(())
    }

    /// Returns the pool `key` after this decision, if the decision changed it.
    pub(crate) fn changed(&self, key: &str) -> Option<&FreePool> {
        self.pools.get(key)
    }

    /// Writes the changed documents.
    ///
    /// # Errors
    /// The read errors of the view.
    pub(crate) fn save(self, view: &mut View) -> Result<(), Undecided> {
        for pool in self.pools.values() {
            view.put(pool)?;
        }
        for chunk in self.chunks.values() {
            view.put(chunk)?;
        }
        Ok(())
    }

    fn pool(&mut self, view: &mut View, node: &Node) -> Result<&mut FreePool, Undecided> {
        let key = FreePool::key(&node.cluster, &node.gpu.model);
        if !self.pools.contains_key(&key) {
            let empty = || FreePool::empty(node.cluster.clone(), node.region.clone(), node.gpu.model.clone());
            let pool = view.get::<FreePool>(&key)?.unwrap_or_else(empty);
            self.pools.insert(key.clone(), pool);
        }
        self.pools.get_mut(&key).ok_or_else(|| corrupt(format!("pool {key} is missing")))
    }

    fn open(
        &mut self,
        view: &mut View,
        node: &Node,
    ) -> Result<(&mut ChunkCount, &mut FreePoolChunk), Undecided> {
        let (cluster, model, number) = (&node.cluster, &node.gpu.model, node.chunk);
        let key = FreePoolChunk::key(cluster, model, number);
        if !self.chunks.contains_key(&key) {
            let chunk = view.get::<FreePoolChunk>(&key)?.unwrap_or_else(|| empty(cluster, model, number));
            self.chunks.insert(key.clone(), chunk);
        }
        let pool = self.pool(view, node)?;
        while pool.chunks.len() <= number as usize {
            pool.chunks.push(ChunkCount::default());
        }
        let pool_key = FreePool::key(cluster, model);
        let count = self.pools.get_mut(&pool_key).and_then(|pool| pool.chunks.get_mut(number as usize));
        count.zip(self.chunks.get_mut(&key)).ok_or_else(|| corrupt(format!("chunk {key} is missing")))
    }
}

fn empty(cluster: &ClusterId, model: &GpuModel, number: u32) -> FreePoolChunk {
    FreePoolChunk { cluster: cluster.clone(), model: model.clone(), number, free: BTreeMap::<_, Gpus>::new() }
}

fn corrupt(problem: String) -> Undecided {
    ActionError::permanent(codes::BOOKS_DIFFER, problem).into()
}
