//! Decides a ledger action, and commits its writes together with the transition.
//!
//! Invariant: the writes and the transition are one commit, conditional on all reads.

use crate::{
    AttemptRecord, Call, Decided, Engine, Error, Event, InjectedFault, Stopwatch, TaskRef,
    model::{definition::erased_action::ErasedActionKind, execution::directive::Directive},
    runtime::{
        clock::caused_at,
        commit::{ExtraWrites, MAX_TRIES},
        decisions::{batch::Batch, turn::Turn},
        ledger::decide_cached,
    },
};
use store::{Lease, Settle, Timestamp};

impl<P: Send + Sync + 'static> Engine<P> {
    /// Decides a ledger action and commits its writes with the transition, and again on conflict.
    pub(super) async fn settle_ledger(&self, lease: &Lease, call: &Call) -> Result<(), Error> {
        let id = lease.task.id.execution;
        let ticket = TaskRef { visit: lease.task.id.visit, slot: lease.task.id.slot };
        let settle = Some(Settle { task: lease.task.id, epoch: lease.epoch });
        let mut until = lease.until;
        let mut turn = None;
        for _ in 0..MAX_TRIES {
            self.keep_lease(lease, &mut until).await?;
            let record = self.record(id).await?;
            let machine = self.machine(&record.workflow, record.schema)?;
            // A cancel or a pause may have come since the lease: the task is returned and delivered again. If it were
            // removed, its slot would stay open forever.
            let Directive::Run(work) = machine.directive(&record, ticket)? else {
                return Err(Error::Contended(id));
            };
            let ErasedActionKind::Ledger(action) = &work.action.kind else {
                return Err(Error::Contended(id));
            };
            let watch = Stopwatch::start();
            let now = caused_at(self.inner.clock.now(), record.updated_at);
            let Decided { result, reads, puts, tasks } = match self.injected_fault(&work.action, call) {
                InjectedFault::Before(error) | InjectedFault::After(error) => {
                    Decided { result: Err(error), reads: vec![], puts: vec![], tasks: vec![] }
                }
                InjectedFault::NoFault | InjectedFault::Twice => {
                    decide_cached(&self.inner.document_cache, &*self.inner.store, now, |view| {
                        action.decide(view, call)
                    })
                    .await?
                }
            };
            let busy = self.inner.queues.busy(reads.iter().map(|read| &read.key));
            if let Some(what) = busy.filter(|_| turn.is_none()) {
                turn = self.take_turn(what).await;
                if turn.is_some() {
                    continue;
                }
            }
            let also = ExtraWrites { reads, documents: puts, tasks, ..ExtraWrites::default() };
            self.count(id, (work.action.name, work.action.cluster()), &result, watch.elapsed());
            let tried = Some(AttemptRecord::from_call(work.action.name, call, now));
            let settled = Event::Settled { ticket, result, tried };
            let next = machine.advance(&record, settled, self.inner.clock.now())?;
            match self.commit(Some(record.revision), next, settle, also).await {
                Err(Error::Store(store::Error::Conflict { what })) => {
                    self.inner.metrics.conflict();
                    if turn.is_none() {
                        turn = self.take_turn(what).await;
                    }
                }
                other => return other.map(|_| ()),
            }
        }
        Err(Error::Contended(id))
    }

    /// Returns a turn in the queue for `what`, so that decisions of this process do not conflict. `None` if that
    /// takes too long.
    pub(crate) async fn take_turn(&self, what: String) -> Option<Turn<Batch>> {
        let mut place = self.inner.queues.join(what);
        self.turn_alone(&mut place, self.inner.options.lease / 4).await
    }

    /// Renews the lease of a decision that is repeated. Otherwise other workers would take the task and add to the
    /// contention, until it had been delivered too often.
    pub(crate) async fn keep_lease(&self, lease: &Lease, until: &mut Timestamp) -> Result<(), store::Error> {
        let (now, length) = (self.inner.clock.now(), self.inner.options.lease);
        if until.since(now) < length / 2 {
            *until = now.after(length);
            self.inner.store.renew(lease.task.id, lease.epoch, *until).await?;
        }
        Ok(())
    }
}
