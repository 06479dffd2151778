//! Random streams with lost deletions, failed and repeated batches, old terms, re-created names and forced deletions, against a model of the cluster.
//!
//! The model copies whole lists, and knows which containers really run.

use super::*;
use std::collections::BTreeMap;

const GPUS: usize = 4;

/// Random numbers from a printed seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

/// The cluster as it is. Each pod has one GPU, and its container may outlive its object.
#[derive(Default)]
struct World {
    made: usize,
    objects: BTreeMap<Uid, PodObject>,
    containers: BTreeMap<usize, Uid>,
    /// Pods that a report has listed. Other containers have their GPU open.
    listed: BTreeSet<Uid>,
    version: u64,
}

impl World {
    fn create(&mut self, draw: &mut Draw) -> Option<PodObject> {
        let gpu = draw.below(GPUS);
        if self.containers.contains_key(&gpu) {
            return None;
        }
        self.made += 1;
        self.version += 1;
        let name = format!("train-{}", draw.below(3));
        let pod = PodObject {
            name: name.into(),
            version: self.version,
            ..pod(&format!("pod-{}", self.made), "n-0", 1)
        };
        self.containers.insert(gpu, pod.uid);
        self.objects.insert(pod.uid, pod.clone());
        Some(pod)
    }

    fn any(&self, draw: &mut Draw) -> Option<PodObject> {
        let at = draw.below(self.objects.len().max(1));
        self.objects.values().nth(at).cloned()
    }

    /// Ends a pod as the kubelet does: the container, then the word, then the object.
    fn end(&mut self, pod: &PodObject) -> PodObject {
        self.containers.retain(|_, holder| *holder != pod.uid);
        self.version += 1;
        let pod = PodObject { version: self.version, ..ended(pod) };
        self.objects.insert(pod.uid, pod.clone());
        pod
    }

    /// Returns the report of the node. The kubelet lists only pods that have objects, and of the others only those that were never listed show a process.
    fn report(&mut self, seq: u64, second: u64, has_runtime: bool) -> NodeReport {
        let mut devices = Vec::new();
        for gpu in 0..GPUS {
            let container = self.containers.get(&gpu).copied();
            let holder = container.filter(|pod| self.objects.contains_key(pod));
            let is_strange = container.is_some_and(|pod| holder.is_none() && !self.listed.contains(&pod));
            self.listed.extend(holder);
            devices.push(DeviceReport {
                uuid: format!("GPU-{gpu}").into(),
                index: None,
                profile: None,
                holders: Some(holder.into_iter().collect()),
                shared: false,
                open: Some(is_strange.then_some(4711).into_iter().collect()),
                health: Health::Healthy,
            });
        }
        NodeReport {
            node: uid("node-a"),
            boot: "boot-1".into(),
            instance: 1,
            seq,
            at: at(second),
            runtime: has_runtime.then(|| self.containers.values().copied().collect()),
            devices,
        }
    }
}

/// What the index must have: a full copy of each list.
#[derive(Default)]
struct Model {
    objects: BTreeMap<Uid, PodObject>,
    list: BTreeMap<Uid, PodObject>,
}

impl Model {
    fn apply(&mut self, batch: &Batch<PodObject>) {
        for event in &batch.events {
            match event {
                WatchEvent::Init => self.list.clear(),
                WatchEvent::InitApply(pod) => _ = self.list.insert(pod.uid, pod.clone()),
                WatchEvent::InitDone => self.objects = std::mem::take(&mut self.list),
                WatchEvent::Apply(pod) => _ = self.objects.insert(pod.uid, pod.clone()),
                WatchEvent::Delete(uid) => _ = self.objects.remove(uid),
            }
        }
    }
}

struct Run {
    seed: u64,
    draw: Draw,
    world: World,
    model: Model,
    index: ClusterIndex,
    mark: Mark,
    second: u64,
    sent: Vec<Batch<PodObject>>,
    /// Containers at the last report, by GPU.
    reported: BTreeMap<usize, Uid>,
    lost: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut index = ClusterIndex::default();
        index.apply_nodes(list(mark(1, 1, 0), at(0), vec![node("node-a", "n-0")])).unwrap();
        let (draw, world, model) = (Draw(seed), World::default(), Model::default());
        let (mark, reported) = (mark(1, 0, 0), BTreeMap::new());
        Self { seed, draw, world, model, index, mark, second: 0, sent: Vec::new(), reported, lost: true }
    }

    fn send(&mut self, events: Vec<WatchEvent<PodObject>>) {
        let batch = batch(self.mark, at(self.second), events);
        self.index.apply_pods(batch.clone()).unwrap_or_else(|why| panic!("seed {}: {why}", self.seed));
        self.model.apply(&batch);
        self.sent.push(batch);
        self.mark.seq += 1;
    }

    /// Lists in two pages. A list that fails ends after the first one.
    fn list(&mut self) {
        if self.draw.one_in(4) {
            (self.mark.term, self.mark.round) = (Term(self.mark.term.0 + 1), 0);
        }
        (self.mark.round, self.mark.seq) = (self.mark.round + 1, 0);
        let pods: Vec<PodObject> = self.world.objects.values().cloned().collect();
        let (first, rest) = pods.split_at(self.draw.below(pods.len() + 1));
        let page = |pods: &[PodObject]| pods.iter().cloned().map(WatchEvent::InitApply).collect::<Vec<_>>();
        self.send([WatchEvent::Init].into_iter().chain(page(first)).collect());
        match self.draw.below(6) {
            0 | 1 => return self.list(),
            // The source is cut off.
            2 => return self.lost = true,
            _ => {}
        }
        self.send(page(rest).into_iter().chain([WatchEvent::InitDone]).collect());
        self.lost = false;
        let truth: BTreeSet<Uid> = self.world.objects.keys().copied().collect();
        assert_eq!(uids(self.index.pods()), truth, "seed {}: a complete list is the truth", self.seed);
    }

    fn event(&mut self, event: WatchEvent<PodObject>) {
        // Events of a source that has not listed are lost, and so is one in four.
        if self.lost || self.draw.one_in(4) {
            self.lost = true;
        } else {
            self.send(vec![event]);
        }
    }

    fn change(&mut self) {
        match self.draw.below(4) {
            0 | 1 => {
                if let Some(pod) = self.world.create(&mut self.draw) {
                    self.event(WatchEvent::Apply(pod));
                }
            }
            2 => {
                if let Some(pod) = self.world.any(&mut self.draw) {
                    let ended = self.world.end(&pod);
                    self.event(WatchEvent::Apply(ended));
                    self.world.objects.remove(&pod.uid);
                    self.event(WatchEvent::Delete(pod.uid));
                }
            }
            _ => {
                // A forced deletion: the container runs on.
                if let Some(pod) = self.world.any(&mut self.draw) {
                    self.world.objects.remove(&pod.uid);
                    self.event(WatchEvent::Delete(pod.uid));
                }
            }
        }
        if self.draw.one_in(5) {
            let objects: Vec<Uid> = self.world.objects.keys().copied().collect();
            self.world.containers.retain(|_, pod| objects.contains(pod));
        }
    }

    /// Sends batches again that were sent before, and batches of an older term. None of them changes the index.
    fn disturb(&mut self) {
        let before: Vec<PodObject> = self.index.pods().iter().cloned().collect();
        let at = self.draw.below(self.sent.len().max(1));
        if let Some(old) = self.sent.get(at).cloned() {
            _ = self.index.apply_pods(old);
        }
        let ahead = Mark { seq: self.mark.seq + 1, ..self.mark };
        let gap = batch(ahead, super::at(self.second), vec![WatchEvent::Delete(uid("pod-1"))]);
        assert!(self.index.apply_pods(gap).is_err(), "seed {}", self.seed);
        assert_eq!(self.index.pods().iter().cloned().collect::<Vec<_>>(), before, "seed {}", self.seed);
    }

    fn report(&mut self) {
        let has_runtime = self.draw.one_in(2);
        let report = self.world.report(self.second, self.second, has_runtime);
        self.index.report(&report).unwrap();
        self.reported = self.world.containers.clone();
    }

    fn check(&self) {
        let known: Vec<PodObject> = self.index.pods().iter().cloned().collect();
        let expected: Vec<PodObject> = self.model.objects.values().cloned().collect();
        assert_eq!(known, expected, "seed {}", self.seed);
        for (uuid, state) in self.index.gpus(uid("node-a"), at(self.second), PROOF) {
            let gpu: usize = uuid["GPU-".len()..].parse().unwrap();
            let runs = self.reported.get(&gpu).filter(|pod| self.world.containers.get(&gpu) == Some(*pod));
            assert!(
                !(state.is_free() && runs.is_some()),
                "seed {}: {uuid} is free under {runs:?}",
                self.seed
            );
        }
    }
}

#[test]
fn no_stream_lets_the_index_differ_from_the_lists_or_a_gpu_be_free_while_a_container_has_it() {
    let (mut free, mut vanished) = (0, 0);
    for seed in 0..400 {
        let mut run = Run::new(seed);
        for _ in 0..60 {
            run.second += 3;
            match run.draw.below(6) {
                0 => run.list(),
                1 => run.report(),
                2 => run.disturb(),
                _ => run.change(),
            }
            run.check();
            let states = run.index.gpus(uid("node-a"), at(run.second), PROOF);
            free += states.values().filter(|state| state.is_free()).count();
        }
        vanished += run.index.pods().counts().vanished;
    }
    assert!(
        free > 200 && vanished > 200,
        "the streams reach free GPUs ({free}) and vanished pods ({vanished})"
    );
}
