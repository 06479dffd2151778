//! Probes the network isolation of a tenant from both sides, with a control on each.
//!
//! One pod answers in the tenant's namespace and one in the platform's. A client on each side must reach the pod on its
//! own side and must not reach the other. The control shows that the client works and that the pods answer.

use crate::kubernetes::labels::{at, text};
use crate::kubernetes::{
    isolation_probes::{
        attempt::{Attempt, standing},
        probe_pod::{GOT_THROUGH, NO_CONTROL, Planned, TRIES, Task, address, name},
    },
    pods::{ended, is_so},
};
use engine::ActionError;
use serde_json::Value;
use workflows::platform::ProbeFinding;

/// The result of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It reached its control, and reached the forbidden target this many times.
    Through(i64),
    /// It did not reach its control.
    NoControl,
    /// Its exit code has no meaning.
    Else,
}

impl Outcome {
    pub(crate) fn of(code: Option<i64>) -> Self {
        match code {
            Some(NO_CONTROL) => Self::NoControl,
            Some(code) if (GOT_THROUGH..=GOT_THROUGH + TRIES).contains(&code) => {
                Self::Through(code - GOT_THROUGH)
            }
            Some(_) | None => Self::Else,
        }
    }
}

/// Combines the results of both clients: isolated, not isolated, or undecided with a reason.
pub(crate) fn verdict(from_inside: Outcome, from_outside: Outcome) -> Result<bool, &'static str> {
    let through = Outcome::Through(TRIES);
    if from_inside == through || from_outside == through {
        return Ok(false);
    }
    match (from_inside, from_outside) {
        (Outcome::Through(0), Outcome::Through(0)) => Ok(true),
        (Outcome::NoControl, _) => {
            Err("the client in the tenant's namespace cannot reach the pod in the same namespace")
        }
        (_, Outcome::NoControl) => Err("the client outside cannot reach the pod in its own namespace"),
        (Outcome::Else, _) | (_, Outcome::Else) => Err(
            "a client ended with an unknown exit code: check that the image has sh, timeout, wget and seq",
        ),
        (Outcome::Through(_), Outcome::Through(_)) => Err("only some attempts of a client succeeded"),
    }
}

impl Attempt<'_> {
    pub(crate) async fn traffic(&self) -> Result<ProbeFinding, ActionError> {
        let (inside, outside) = (self.inside.clone(), self.outside().to_owned());
        let names = self.names(&[
            (&inside, "answer-in"),
            (&outside, "answer-out"),
            (&inside, "reach-in"),
            (&outside, "reach-out"),
        ]);
        self.whole(&names, self.tried()).await
    }

    async fn tried(&self) -> Result<ProbeFinding, ActionError> {
        let home = self.home().await?;
        let plan = |within: bool, role: &str, task: Task| Planned {
            namespace: if within { self.inside.clone() } else { self.outside().to_owned() },
            name: name(self.stamp, role),
            tenant: self.tenant.to_owned(),
            task,
            tolerates: within.then(|| self.tenant.to_owned()),
            goes_with: (!within).then(|| home.clone()),
        };
        let answers_in = self.made(&plan(true, "answer-in", Task::Answer)).await?;
        let answers_out = self.made(&plan(false, "answer-out", Task::Answer)).await?;
        let (ip_in, ip_out) = (self.answering(&answers_in).await?, self.answering(&answers_out).await?);
        let reach =
            |control: &str, target: &str| Task::Reach { control: address(control), target: address(target) };
        let reach_in = self.made(&plan(true, "reach-in", reach(&ip_in, &ip_out))).await?;
        let reach_out = self.made(&plan(false, "reach-out", reach(&ip_out, &ip_in))).await?;
        let (from_in, from_out) = (self.outcome(&reach_in).await?, self.outcome(&reach_out).await?);
        // If a pod stopped answering, a failed request does not prove isolation.
        for answers in [&answers_in, &answers_out] {
            let ready = self.seen(answers, |pod| Some(is_so(pod, "Ready"))).await?;
            if !ready {
                return Err(self.undecided("a server pod stopped answering before the end"));
            }
        }
        let held = verdict(from_in, from_out).map_err(|why| self.undecided(why))?;
        let transcript = format!(
            "{ip_in} in namespace {} and {ip_out} in namespace {} answered on their own side; from inside to outside {}, from outside to inside {}",
            self.inside,
            self.outside(),
            said(from_in),
            said(from_out)
        );
        Ok(ProbeFinding { held, transcript })
    }

    /// Returns the address of a pod when it is ready.
    async fn answering(&self, pod: &Value) -> Result<String, ActionError> {
        let ready = |pod: &Value| match text(pod, &["status", "podIP"]) {
            _ if ended(pod) => Some(Err(standing(pod))),
            "" => None,
            ip => is_so(pod, "Ready").then(|| Ok(ip.to_owned())),
        };
        let ready = self.seen(pod, ready).await?;
        ready.map_err(|why| self.undecided(&format!("a server pod has ended: {why}")))
    }

    /// Returns the result of a client.
    async fn outcome(&self, pod: &Value) -> Result<Outcome, ActionError> {
        let code = |pod: &Value| {
            let first = at(pod, &["status", "containerStatuses"]).and_then(|all| all.get(0));
            at(first?, &["state", "terminated", "exitCode"])?.as_i64()
        };
        self.seen(pod, |pod| ended(pod).then(|| Outcome::of(code(pod)))).await
    }
}

fn said(outcome: Outcome) -> String {
    match outcome {
        Outcome::Through(times) => format!("{times} of {TRIES} attempts succeeded"),
        Outcome::NoControl => "the control pod was not reached".to_owned(),
        Outcome::Else => "the result is unknown".to_owned(),
    }
}
