//! One change of a thing at a time, within this process: Slurm compares nothing, so two at once would both read, and both write.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// Whose turn it is, by thing.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<BTreeMap<String, Weak<Turn<()>>>>);

impl Turns {
    /// Waits until nobody else changes the thing; it is the caller's until the answer is dropped.
    pub(super) async fn of(&self, thing: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, turn| turn.strong_count() > 0);
            let there = all.get(thing).and_then(Weak::upgrade);
            let turn = there.unwrap_or_else(|| Arc::new(Turn::new(())));
            all.insert(thing.to_owned(), Arc::downgrade(&turn));
            turn
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thing_is_changed_by_one_at_a_time_and_others_need_not_wait() {
        let turns = Turns::default();
        let first = turns.of("a").await;
        let _other = turns.of("b").await;
        let second = tokio::time::timeout(std::time::Duration::from_millis(20), turns.of("a")).await;
        assert!(second.is_err());
        drop(first);
        let _second = turns.of("a").await;
        assert_eq!(turns.0.lock().unwrap().len(), 2, "what nobody changes is forgotten");
    }
}
