//! Probes that a foreign pod is not scheduled on the tenant's nodes, while a pod of the tenant is.

use crate::kubernetes::labels::{at, text};
use crate::kubernetes::{
    client::request::escaped,
    isolation_probes::{
        attempt::Attempt,
        probe_pod::{Planned, Task, name},
    },
    pods::{condition, node},
};
use engine::ActionError;
use serde_json::Value;
use workflows::platform::ProbeFinding;

/// The reason of current schedulers (1.34, 1.37) for a taint that a pod does not tolerate. Earlier ones also name the taint.
const TAINTED: &str = "untolerated taint(s)";

/// The scheduler's decision about the foreign pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForeignPodResult {
    /// It is on this node.
    On(String),
    /// It was not scheduled, with the scheduler's message.
    Off(String),
}

/// Returns the decision, if any. The pod counts as kept off only if the scheduler names this taint, or names none as the
/// reason: then [`taint_of`] must find it on the node.
pub(crate) fn foreign_pod_result(pod: &Value, taint: &str) -> Option<ForeignPodResult> {
    if !node(pod).is_empty() {
        return Some(ForeignPodResult::On(node(pod).to_owned()));
    }
    let scheduled = condition(pod, "PodScheduled")?;
    let kept = text(scheduled, &["status"]) == "False" && text(scheduled, &["reason"]) == "Unschedulable";
    let why = text(scheduled, &["message"]);
    let by_taint = why.contains(taint) || why.contains(TAINTED);
    (kept && by_taint).then(|| ForeignPodResult::Off(why.to_owned()))
}

/// Returns the node's taint with this key, as `KEY: VALUE`, if it keeps pods off.
pub(crate) fn taint_of(node: &Value, key: &str) -> Option<String> {
    let taints = at(node, &["spec", "taints"]).and_then(Value::as_array)?;
    let keeps = |taint: &&Value| {
        text(taint, &["key"]) == key && ["NoSchedule", "NoExecute"].contains(&text(taint, &["effect"]))
    };
    taints.iter().find(keeps).map(|taint| format!("{key}: {}", text(taint, &["value"])))
}

impl Attempt<'_> {
    pub(crate) async fn foreign(&self) -> Result<ProbeFinding, ActionError> {
        let (inside, outside) = (self.inside.clone(), self.outside().to_owned());
        let names = self.names(&[(&outside, "stand-out"), (&inside, "stand-in")]);
        self.whole(&names, self.placed()).await
    }

    async fn placed(&self) -> Result<ProbeFinding, ActionError> {
        let home = self.home().await?;
        let plan = |within: bool, role: &str| Planned {
            namespace: if within { self.inside.clone() } else { self.outside().to_owned() },
            name: name(self.stamp, role),
            tenant: self.tenant.to_owned(),
            task: Task::Stand { on_nodes_of: self.tenant.to_owned() },
            tolerates: within.then(|| self.tenant.to_owned()),
            goes_with: (!within).then(|| home.clone()),
        };
        let foreign = self.made(&plan(false, "stand-out")).await?;
        let own = self.made(&plan(true, "stand-in")).await?;
        // The tenant's own pod is the control: without it, the foreign pod can be unscheduled for any reason, such as
        // no node, no room or no scheduler. A scheduled foreign pod needs no control.
        let bound = |pod: &Value| Some(node(pod).to_owned()).filter(|node| !node.is_empty());
        let host = tokio::select! {
            node = self.seen(&foreign, bound) => return Ok(let_on(&node?)),
            host = self.seen(&own, bound) => host?,
        };
        let taint = self.on.marks.tenant();
        Ok(match self.seen(&foreign, |pod| foreign_pod_result(pod, &taint)).await? {
            ForeignPodResult::On(node) => let_on(&node),
            ForeignPodResult::Off(why) => {
                // The scheduler looks at taints before it looks at room: on this node the reason was a taint, and the
                // tenant's own pod tolerates no other.
                let path = format!("/api/v1/nodes/{}", escaped(&host));
                let node = self.on.object(&path, self.until()).await?.unwrap_or_default();
                let Some(taint) = taint_of(&node, &taint) else {
                    return Err(self.undecided(&format!("node {host} has no taint of the tenant's: {why}")));
                };
                let transcript = format!(
                    "a pod of the tenant's was placed on node {host} with the taint {taint}, one without its toleration was not: {why}"
                );
                ProbeFinding { held: true, transcript }
            }
        })
    }
}

fn let_on(node: &str) -> ProbeFinding {
    let transcript = format!("a pod without the tenant's toleration was placed on node {node}");
    ProbeFinding { held: false, transcript }
}
