//! People, as far as a replay needs them: they are asked about plans beyond the guard, and agree after a while.

use crate::replay::{Replay, ReplayError, ReplayEvent, baseline::Baseline};
use engine::{Event, Person, Verdict, Vote};
use std::time::Duration;

/// How long people take to decide. Half of the hour that policy gives them at most.
const ANSWERS_AFTER: Duration = Duration::from_secs(300);

impl Replay<'_> {
    /// Without a guard nobody has to be waited for.
    fn answers_after(&self) -> Duration {
        if self.baseline == Baseline::NoGuard { Duration::ZERO } else { ANSWERS_AFTER }
    }

    /// Notices what people are asked about.
    pub(crate) async fn poll(&mut self) -> Result<(), ReplayError> {
        let page = self.stage.engine.approvals(None, 100).await?;
        for case in page.items {
            if self.polled.insert(case.id.clone()) {
                let now = self.stage.now();
                self.gauge.asked_people += 1;
                self.story.tell(now, || format!("people are asked: {}", case.plan.title));
                self.plan(now.after(self.answers_after()), ReplayEvent::Decide);
            }
        }
        Ok(())
    }

    /// Lets people agree to everything they have been asked about for long enough.
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
                    // One that comes too late, or on a plan that has changed, is refused; the next look asks again.
                    let _ = self.stage.engine.deliver(case.execution, Event::Voted { vote, digest }).await;
                }
            }
            self.story.tell(now, || format!("people agree: {}", case.plan.title));
        }
        self.catch_up().await
    }
}
