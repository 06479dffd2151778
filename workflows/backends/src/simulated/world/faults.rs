//! Faults by script, or at random by a seed.

use crate::simulated::{Request, Verb};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Nothing happens, and it may be tried again.
    FailBefore,
    /// It happens, and an error is said that may be tried again.
    FailAfter,
    /// Nothing happens, and trying again would not help.
    RefuseBefore,
    /// It happens, and an error is said for which trying again would not help.
    RefuseAfter,
    /// Nothing happens, and no answer ever comes.
    Hang,
    /// It happens, and the answer is lost.
    AnswerLost,
    /// It happens after a while.
    Slow {
        /// How long it takes, in milliseconds.
        ms: u64,
    },
    /// A diagnosis finds the node unfit.
    NodeUnfit,
    /// The driver asks for a reset of GPUs.
    AsksReset,
    /// The driver asks for a reboot of the node.
    AsksReboot,
    /// An isolation probe gets through.
    ProbeFails,
    /// A key is made that can be exported.
    KeyExportable,
    /// A layout stays pending and nobody works on it.
    LayoutWedged,
    /// A layout cannot be applied.
    LayoutFails,
    /// An evicted workload does not end.
    WorkloadClings,
    /// The node under a workload that is removed by force still answers.
    NodeAlive,
    /// Somebody has GPUs open that nobody knows of.
    HandleLeaked,
    /// A scrub covers half of the memory.
    ScrubFallsShort,
    /// A drive's sanitisation fails.
    DriveFails,
    /// A drive's sanitisation stands still.
    DriveStalls,
    /// A drive says that it is sanitised, and its data is still there.
    DriveLies,
    /// What is asked of a machine or of a key comes out wrong: half the memory covered, firmware that differs, no
    /// attestation, a ciphertext that can still be decrypted.
    Flawed,
    /// What is deleted is kept by a finalizer.
    FinalizerStays,
}

/// One scripted fault: what goes wrong, and with which calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Only calls of this action.
    #[serde(default)]
    pub action: Option<String>,
    /// Only calls about this kind of thing.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only names like this; `*` stands for anything.
    #[serde(default)]
    pub name: Option<String>,
    /// Only this verb. Without one: all but reads.
    #[serde(default)]
    pub verb: Option<Verb>,
    /// From which matching call on, counted from 1.
    #[serde(default = "one")]
    pub nth: u32,
    /// How many calls; 0 is for ever.
    #[serde(default = "one")]
    pub times: u32,
    /// What goes wrong.
    pub what: FaultKind,
}

fn one() -> u32 {
    1
}

impl Fault {
    /// The first call of the action goes wrong.
    #[must_use]
    pub fn on(action: &str, what: FaultKind) -> Self {
        Self { action: Some(action.to_owned()), kind: None, name: None, verb: None, nth: 1, times: 1, what }
    }

    /// Only for names like this.
    #[must_use]
    pub fn named(self, pattern: &str) -> Self {
        Self { name: Some(pattern.to_owned()), ..self }
    }

    /// From the nth matching call on.
    #[must_use]
    pub fn nth(self, nth: u32) -> Self {
        Self { nth, ..self }
    }

    /// For so many calls; 0 is for ever.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    fn matches(&self, request: &Request) -> bool {
        let wanted = |want: &Option<String>, is: &str| want.as_ref().is_none_or(|want| want == is);
        wanted(&self.action, &request.action)
            && wanted(&self.kind, &request.kind)
            && self.name.as_ref().is_none_or(|pattern| like(pattern, &request.name))
            && self.verb.map_or(request.verb != Verb::Read, |verb| verb == request.verb)
    }
}

/// Whether `text` is like `pattern`, in which `*` stands for anything.
fn like(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| like(tail, rest))
}

/// Faults at random, each rate in thousandths of the calls that can change something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Random {
    /// The same seed and calls give the same faults.
    pub seed: u64,
    /// Rate of [`FaultKind::FailBefore`].
    pub fail_before: u16,
    /// Rate of [`FaultKind::FailAfter`].
    pub fail_after: u16,
    /// Rate of [`FaultKind::AnswerLost`].
    pub answer_lost: u16,
    /// Rate of [`FaultKind::Slow`].
    pub slow: u16,
    /// How long a slow call takes, in milliseconds.
    pub slow_ms: u64,
}

/// All faults of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The first that matches a call is the one that happens.
    pub faults: Vec<Fault>,
    /// What happens to the calls that none matches.
    pub random: Option<Random>,
}

/// A script being played.
#[derive(Debug, Default)]
pub(in crate::simulated) struct Player {
    script: Script,
    seen: Vec<u32>,
    drawn: u64,
}

impl Player {
    pub(in crate::simulated) fn new(script: Script) -> Self {
        let seen = vec![0; script.faults.len()];
        Self { script, seen, drawn: 0 }
    }

    /// What goes wrong with this call, if anything.
    pub(in crate::simulated) fn next(&mut self, request: &Request) -> Option<FaultKind> {
        let mut hit = None;
        for (fault, seen) in self.script.faults.iter().zip(&mut self.seen) {
            if fault.matches(request) {
                *seen += 1;
                let over = fault.times != 0 && *seen >= fault.nth + fault.times;
                if *seen >= fault.nth && !over {
                    hit = hit.or(Some(fault.what));
                }
            }
        }
        hit.or_else(|| self.draw(request))
    }

    fn draw(&mut self, request: &Request) -> Option<FaultKind> {
        let random = self.script.random.as_ref().filter(|_| request.verb.changes())?;
        self.drawn += 1;
        let mut left = u16::try_from(mix(random.seed.wrapping_add(self.drawn)) % 1_000).ok()?;
        let rates = [
            (random.fail_before, FaultKind::FailBefore),
            (random.fail_after, FaultKind::FailAfter),
            (random.answer_lost, FaultKind::AnswerLost),
            (random.slow, FaultKind::Slow { ms: random.slow_ms }),
        ];
        for (rate, what) in rates {
            if left < rate {
                return Some(what);
            }
            left -= rate;
        }
        None
    }
}

/// Splitmix64: enough to spread a counter.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl FaultKind {
    /// The request as this fault bends it, for those that change what is asked.
    pub(in crate::simulated) fn bend(self, request: &mut Request) {
        let (field, value) = match self {
            Self::KeyExportable => ("exportable", json!(true)),
            Self::LayoutWedged => ("fault", json!("wedged")),
            Self::LayoutFails => ("fault", json!("failed")),
            Self::NodeUnfit
            | Self::ProbeFails
            | Self::WorkloadClings
            | Self::NodeAlive
            | Self::HandleLeaked
            | Self::ScrubFallsShort
            | Self::Flawed => ("fault", json!("scripted")),
            Self::AsksReset => ("fault", json!("drain_and_reset")),
            Self::AsksReboot => ("fault", json!("reboot")),
            Self::DriveFails => ("fault", json!("fails")),
            Self::DriveStalls => ("fault", json!("stalls")),
            Self::DriveLies => ("fault", json!("lies")),
            Self::FinalizerStays => ("fault", json!("example.com/still-needed")),
            Self::FailBefore
            | Self::FailAfter
            | Self::RefuseBefore
            | Self::RefuseAfter
            | Self::Hang
            | Self::AnswerLost
            | Self::Slow { .. } => return,
        };
        if !request.spec.is_object() {
            request.spec = json!({});
        }
        if let Value::Object(spec) = &mut request.spec {
            spec.insert(field.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FaultKind, Script, like};

    #[test]
    fn a_star_stands_for_anything() {
        assert!(like("t-acme*", "t-acme--prod"));
        assert!(like("*-prod", "t-acme--prod"));
        assert!(like("a*b*c", "a--b-b-c"));
        assert!(!like("t-acme", "t-acme--prod"));
        assert!(!like("a*b", "a-c"));
    }

    #[test]
    fn the_script_in_the_documentation_is_one() {
        let text = include_str!("../../../../../docs/backends/contract.md");
        let json = text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();

        let script: Script = serde_json::from_str(json).unwrap();

        let whats: Vec<FaultKind> = script.faults.iter().map(|fault| fault.what).collect();
        assert_eq!(whats, [FaultKind::FailAfter, FaultKind::NodeUnfit, FaultKind::Slow { ms: 200 }]);
        assert!(serde_json::from_str::<Script>(r#"{ "fault": [] }"#).is_err(), "a misspelt field is refused");
    }
}
