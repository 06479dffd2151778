//! Scripted faults, and random faults from a seed.

use crate::simulated::{Request, Verb};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The call has no effect and fails with a transient error.
    FailBefore,
    /// The call takes effect and fails with a transient error.
    FailAfter,
    /// The call has no effect and fails with a permanent error.
    RefuseBefore,
    /// The call takes effect and fails with a permanent error.
    RefuseAfter,
    /// The call has no effect and is never answered.
    Hang,
    /// The call takes effect and its answer is lost.
    AnswerLost,
    /// The call takes effect after a delay.
    Slow {
        /// The delay, in milliseconds.
        ms: u64,
    },
    /// A diagnosis reports the node as unfit.
    NodeUnfit,
    /// The driver requests a reset of GPUs.
    AsksReset,
    /// The driver requests a reboot of the node.
    AsksReboot,
    /// An isolation probe finds no isolation.
    ProbeFails,
    /// A key is created as exportable.
    KeyExportable,
    /// A layout stays pending, and no MIG manager works on it.
    LayoutWedged,
    /// A layout cannot be applied.
    LayoutFails,
    /// An evicted workload does not end.
    WorkloadClings,
    /// The node under a workload that is removed by force still answers.
    NodeAlive,
    /// An unknown process has GPUs open.
    HandleLeaked,
    /// A scrub covers half of the memory.
    ScrubFallsShort,
    /// A drive's sanitisation fails.
    DriveFails,
    /// A drive's sanitisation makes no progress.
    DriveStalls,
    /// A drive reports a completed sanitisation, but its data is still readable.
    DriveLies,
    /// A check of a machine or a key has a bad result: half of the memory covered, different firmware, no attestation,
    /// or a ciphertext that can still be decrypted.
    Flawed,
    /// A finalizer prevents a deletion.
    FinalizerStays,
}

/// A scripted fault and the calls that it applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Only calls of this action.
    #[serde(default)]
    pub action: Option<String>,
    /// Only calls for this kind of object.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only names that match; `*` matches any text.
    #[serde(default)]
    pub name: Option<String>,
    /// Only this verb. Default: all except reads.
    #[serde(default)]
    pub verb: Option<Verb>,
    /// The first affected call among the matching ones, counted from 1.
    #[serde(default = "one")]
    pub nth: u32,
    /// The number of affected calls; 0 means all.
    #[serde(default = "one")]
    pub times: u32,
    /// The fault.
    pub what: FaultKind,
}

fn one() -> u32 {
    1
}

impl Fault {
    /// Creates a fault for the first call of an action.
    #[must_use]
    pub fn on(action: &str, what: FaultKind) -> Self {
        Self { action: Some(action.to_owned()), kind: None, name: None, verb: None, nth: 1, times: 1, what }
    }

    /// Limits the fault to names that match.
    #[must_use]
    pub fn named(self, pattern: &str) -> Self {
        Self { name: Some(pattern.to_owned()), ..self }
    }

    /// Starts the fault at the nth matching call.
    #[must_use]
    pub fn nth(self, nth: u32) -> Self {
        Self { nth, ..self }
    }

    /// Sets the number of affected calls; 0 means all.
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

/// Returns true if `text` matches `pattern`, in which `*` matches any text.
fn like(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    (0..=rest.len()).filter_map(|at| rest.get(at..)).any(|rest| like(tail, rest))
}

/// Random faults. Each rate is in thousandths of the changing calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Random {
    /// The seed. Equal seeds and calls give equal faults.
    pub seed: u64,
    /// Rate of [`FaultKind::FailBefore`].
    pub fail_before: u16,
    /// Rate of [`FaultKind::FailAfter`].
    pub fail_after: u16,
    /// Rate of [`FaultKind::AnswerLost`].
    pub answer_lost: u16,
    /// Rate of [`FaultKind::Slow`].
    pub slow: u16,
    /// The delay of a slow call, in milliseconds.
    pub slow_ms: u64,
}

/// All faults of a simulated platform.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Scripted faults. The first match applies.
    pub faults: Vec<Fault>,
    /// Random faults for all other calls.
    pub random: Option<Random>,
}

/// A script and its progress.
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

    /// Returns the fault of this call, if any.
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

/// Splitmix64, which spreads a counter sufficiently.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl FaultKind {
    /// Changes the request for faults that work by a different request.
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
    fn a_star_matches_every_name() {
        assert!(like("t-acme*", "t-acme--prod"));
        assert!(like("*-prod", "t-acme--prod"));
        assert!(like("a*b*c", "a--b-b-c"));
        assert!(!like("t-acme", "t-acme--prod"));
        assert!(!like("a*b", "a-c"));
    }

    #[test]
    fn the_documented_script_is_valid() {
        let text = include_str!("../../../../../docs/backends/contract.md");
        let json = text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();

        let script: Script = serde_json::from_str(json).unwrap();

        let whats: Vec<FaultKind> = script.faults.iter().map(|fault| fault.what).collect();
        assert_eq!(whats, [FaultKind::FailAfter, FaultKind::NodeUnfit, FaultKind::Slow { ms: 200 }]);
        assert!(serde_json::from_str::<Script>(r#"{ "fault": [] }"#).is_err(), "a misspelt field is refused");
    }
}
