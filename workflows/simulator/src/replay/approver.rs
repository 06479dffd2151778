//! Simulated approvers: they approve all plans beyond the guard after some time.

use crate::replay::{Replay, ReplayError, ReplayEvent, baseline::Baseline};
use engine::{Event, Person, Verdict, Vote};
use std::time::Duration;

/// The time until the simulated approvers decide.
const ANSWERS_AFTER: Duration = Duration::from_secs(300);

impl Replay<'_> {
    /// Without the guard, approvals are immediate.
    fn answers_after(&self) -> Duration {
        if self.baseline == Baseline::NoGuard { Duration::ZERO } else { ANSWERS_AFTER }
    }

    /// Plans the approval of open requests.
    pub(crate) async fn poll(&mut self) -> Result<(), ReplayError> {
        let page = self.stage.engine.approvals(None, 100).await?;
        for case in page.items {
            if self.polled.insert(case.id.clone()) {
                let now = self.stage.now();
                self.gauge.asked_people += 1;
                self.story.tell(now, || format!("approval requested: {}", case.plan.title));
                self.plan(now.after(self.answers_after()), ReplayEvent::Decide);
            }
        }
        Ok(())
    }

    /// Approves all requests that are old enough.
    pub(crate) async fn decide(&mut self) -> Result<(), ReplayError> {
        let now = self.stage.now();
        let page = self.stage.engine.approvals(None, 100).await?;
        for case in page.items {
            if now.since(case.opened_at) < self.answers_after() {
                continue;
            }
            for (number, seat) in (1..).zip(&case.seats) {
                for place in 0..seat.count {
                    let name = format!("person-{number}-{place}");
                    let person = Person::new(&name, seat.any_of.iter().cloned());
                    let vote = Vote::new(person, Verdict::Approve, "simulated", now);
                    let digest = case.digest.clone();
                    // A late vote, or one on a changed plan, is rejected; the next call votes again.
                    let _ = self.stage.engine.deliver(case.execution, Event::Voted { vote, digest }).await;
                }
            }
            self.story.tell(now, || format!("approved: {}", case.plan.title));
        }
        self.catch_up().await
    }
}
