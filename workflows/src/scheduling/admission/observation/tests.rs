//! Tests of the requests that an observation sends to clusters.

use super::AdmissionTx;
use crate::{
    tenancy::SeenWorkload,
    tests::books::{Books, seen, tenant},
};
use engine::SECOND;

/// Returns the workloads that an observation starts again.
fn started_by(books: &mut Books, running: &[SeenWorkload]) -> Vec<String> {
    books.now = books.now.after(SECOND);
    books.decide(|view| {
        let mut desk = AdmissionTx::open(view, &tenant(), [])?;
        let at = desk.now;
        let (sightings, _) = desk.sightings(view, at, running)?;
        desk.take_in(view, &sightings)?;
        let started = desk.effects.starts.iter().map(|start| start.workload.clone()).collect();
        desk.save(view)?;
        Ok(started)
    })
}

/// A Slurm job waits for the nodes that its start named. So only a moved plan is sent to the cluster.
#[test]
fn a_workload_that_moves_to_another_node_is_started_again_there() {
    let all = [0, 1, 2, 3, 4, 5, 6, 7];
    let mut books = Books::new(2, &[("one", 8), ("two", 8)]);
    books.submit("one", "a", 8);
    books.submit("two", "b", 8);
    let (of_a, of_b) = if books.booked("a", "n-0").is_empty() { ("n-1", "n-0") } else { ("n-0", "n-1") };

    let started = started_by(&mut books, &[seen("a", of_b, &all)]);

    assert_eq!(books.booked("b", of_a).len(), 8);
    assert_eq!(started, ["b"], "a runs, and b waits for nodes that are not its own any more");
    let both = [seen("a", of_b, &all), seen("b", of_a, &all)];
    assert_eq!(started_by(&mut books, &both), Vec::<String>::new(), "both run where they are planned");
    let swapped = [seen("a", of_a, &all), seen("b", of_b, &all)];
    assert_eq!(started_by(&mut books, &swapped), Vec::<String>::new(), "what runs is not started again");
}
