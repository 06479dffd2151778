//! Error codes of this crate's actions, each with its remedy.
//!
//! A test compares [`ALL`] with `docs/operations.md`. Other code uses these constants, never the literals.

/// The account still has jobs.
pub const ACCOUNT_IN_USE: &str = "account.in_use";
/// The verifier still finds a removed resource.
pub const REMAINS: &str = "asset.remains";
/// Another resource has the name of the one to remove.
pub const REPLACED: &str = "asset.replaced";
/// The deletion of a resource does not complete.
pub const STUCK: &str = "asset.stuck";
/// The audit has not copied all entries that are about to become unreadable.
pub const AUDIT_BEHIND: &str = "audit.behind";
/// Versions, markers and uploads are being removed.
pub const EMPTYING: &str = "bucket.emptying";
/// The bucket still holds objects.
pub const BUCKET_NOT_EMPTY: &str = "bucket.not_empty";
/// The bucket does not encrypt with the tenant's key, or keeps no versions.
pub const BUCKET_UNSAFE: &str = "bucket.unsafe";
/// A later holder of the lease has already acted for this step.
pub const FENCED: &str = "call.fenced";
/// The drive is being sanitised already.
pub const DRIVE_BUSY: &str = "drive.busy";
/// The drive has no sufficient technique.
pub const DRIVE_UNSUITABLE: &str = "drive.unsuitable";
/// The same key was used for two different requests.
pub const KEY_REUSED: &str = "call.key_reused";
/// A process has the GPUs open.
pub const GPU_BUSY: &str = "gpu.busy";
/// The three sources of a layout do not agree.
pub const LAYOUT_DISAGREES: &str = "gpu.layout_disagrees";
/// The layout could not be applied.
pub const LAYOUT_FAILED: &str = "gpu.layout_failed";
/// The layout is being applied.
pub const LAYOUT_PENDING: &str = "gpu.layout_pending";
/// The layout is pending without a layout manager.
pub const LAYOUT_WEDGED: &str = "gpu.layout_wedged";
/// The node's layout has no GPUs or slices of the requested kind.
pub const NOT_OFFERED: &str = "gpu.not_offered";
/// GPU memory was not cleared to the level that policy requires.
pub const SCRUB_FAILED: &str = "gpu.scrub_failed";
/// GPU memory is being cleared.
pub const SCRUBBING: &str = "gpu.scrubbing";
/// The cluster does not report the GPUs of a workload.
pub const GPUS_UNOBSERVED: &str = "gpu.unobserved";
/// No hook has this name.
pub const HOOK_MISSING: &str = "hook.missing";
/// The hook is still working.
pub const HOOK_PENDING: &str = "hook.pending";
/// An isolation probe succeeded, so the isolation is broken.
pub const PROBE_FAILED: &str = "isolation.probe_failed";
/// An isolation probe had no result: its pods do not run, or its control test failed.
pub const PROBE_UNDECIDED: &str = "isolation.undecided";
/// The tenant's key does not exist.
pub const KEY_MISSING: &str = "key.missing";
/// A retained resource is encrypted with the key to destroy.
pub const KEY_IN_USE: &str = "key.in_use";
/// The key store keeps the deleted key recoverable.
pub const KEY_SOFT_DELETED: &str = "key.soft_deleted";
/// A ciphertext can still be decrypted.
pub const KEY_SURVIVES: &str = "key.survives";
/// The tenant's key can be copied out of the key store.
pub const KEY_UNSAFE: &str = "key.unsafe";
/// A valid name cannot be formed.
pub const NAME_INVALID: &str = "name.invalid";
/// The machine's attestation failed.
pub const ATTESTATION: &str = "node.attestation_failed";
/// Workloads run on the machine.
pub const NODE_BUSY: &str = "node.busy";
/// A later owner has taken the node.
pub const EPOCH_OLD: &str = "node.epoch_old";
/// Another tenant owns the node.
pub const NODE_OWNED: &str = "node.owned";
/// The node is being rebooted.
pub const NODE_REBOOTING: &str = "node.rebooting";
/// The node failed its diagnosis.
pub const NODE_UNFIT: &str = "node.unfit";
/// The object was replaced while it was being changed.
pub const OBJECT_CHANGED: &str = "object.changed";
/// Another tenant or client owns the object of that name.
pub const OBJECT_FOREIGN: &str = "object.foreign";
/// The object to change does not exist.
pub const OBJECT_MISSING: &str = "object.missing";
/// The object is being deleted.
pub const TERMINATING: &str = "object.terminating";
/// A limit on the platform differs from the value that was read or set.
pub const QUOTA_DRIFTED: &str = "quota.drifted";
/// The record key of a tenant cannot be destroyed.
pub const RECORD_KEYS: &str = "records.keys";
/// The target denies the operation.
pub const DENIED: &str = "platform.denied";
/// A call was sent and its response was lost.
pub const NO_ANSWER: &str = "platform.no_answer";
/// The target rejected the request.
pub const REFUSED: &str = "platform.refused";
/// Workloads are still running.
pub const DRAINING: &str = "workloads.draining";
/// The target's answer cannot be parsed.
pub const UNREADABLE: &str = "platform.unreadable";
/// The target could not be reached, or failed internally.
pub const UNAVAILABLE: &str = "platform.unavailable";
/// The target does not know the resource, or does not support the operation.
pub const UNSUPPORTED: &str = "platform.unsupported";
/// The workload is saving its work.
pub const CHECKPOINTING: &str = "workload.checkpointing";
/// A node of the workload still answers, so the workload must not be removed by force.
pub const NODE_ALIVE: &str = "workload.node_alive";
/// A disruption budget prevents the eviction of a pod.
pub const PROTECTED: &str = "workload.protected";
/// Pods of the workload still exist.
pub const WORKLOAD_TERMINATING: &str = "workload.terminating";

/// All codes with their remedies, in alphabetical order.
pub const ALL: &[(&str, &str)] = &[
    (ACCOUNT_IN_USE, "wait for the account's jobs to end or cancel them, then retry"),
    (
        REMAINS,
        "it is still found: remove it by hand, or find out who made it again, then retry; or accept it as an exception (`tenure repair skip`)",
    ),
    (
        REPLACED,
        "another thing has its name by now and was not approved for destruction: look whose it is, remove it or have it classified, then retry",
    ),
    (
        STUCK,
        "the message names what keeps it: see that the external resource is gone, take the finalizer off yourself, then retry",
    ),
    (
        AUDIT_BEHIND,
        "nothing: the audit takes over what is about to become unreadable; if it lasts, see why it does not go on",
    ),
    (EMPTYING, "nothing: it holds more than one call removes, and is being emptied"),
    (
        BUCKET_NOT_EMPTY,
        "the bucket holds objects: they leave by offboarding, not by undoing; empty it or keep it, then mark the step done",
    ),
    (
        BUCKET_UNSAFE,
        "the bucket is not versioned or not encrypted with the tenant's key: delete it by hand if it is empty, then retry",
    ),
    (FENCED, "nothing: another engine holds this step and goes on with it"),
    (KEY_REUSED, "a defect: keep the journal of the execution and report it"),
    (
        DRIVE_BUSY,
        "nothing: wait until its log says that it has ended; a second command is refused by the drive",
    ),
    (DRIVE_UNSUITABLE, "destroy the drive before two witnesses, or let policy accept a weaker method"),
    (GPU_BUSY, "find who has the GPUs open (a process, a pod, an agent) and end it, then retry"),
    (
        LAYOUT_DISAGREES,
        "label, scheduler and driver show different layouts: restart the device plugin on the node, then retry",
    ),
    (
        LAYOUT_FAILED,
        "read the layout manager's log on the node; free its GPUs or quarantine the node, then retry",
    ),
    (LAYOUT_PENDING, "nothing: the layout is being applied"),
    (
        LAYOUT_WEDGED,
        "delete the layout manager's pod on the node so that it starts again, or reboot the node, then retry",
    ),
    (NOT_OFFERED, "compare the node's layout with the books (`tenure sweep run drift`), then set the layout"),
    (SCRUB_FAILED, "the GPUs stay barred: read the report, reset them or swap the node, then retry"),
    (SCRUBBING, "nothing: the memory of the GPUs is being cleared, about a minute for every 100 GB"),
    (
        GPUS_UNOBSERVED,
        "let the workload's pods name their GPUs, run an agent on the node, or send facts that name them, then retry",
    ),
    (HOOK_MISSING, "name the hook in the file of targets and start the server again, then retry"),
    (
        HOOK_PENDING,
        "nothing: the hook is at work and is asked again; if it lasts, look at what stands behind it",
    ),
    (
        PROBE_FAILED,
        "the tenant is not isolated: read the probe's transcript, mend the named guard; do not hand over",
    ),
    (
        PROBE_UNDECIDED,
        "read the message: the pods of the probe did not run, or what must be let through was not; mend that, it is tried again",
    ),
    (
        KEY_IN_USE,
        "the key was not destroyed: put what the message names under a key of the provider, or copy it and delete it where it is, then retry",
    ),
    (KEY_MISSING, "create the tenant's key again by retrying its step, or find out who destroyed it"),
    (
        KEY_SOFT_DELETED,
        "the key store keeps the deleted key, so that it can be restored: purge the key that the message names there, then retry",
    ),
    (
        KEY_SURVIVES,
        "look for copies of the key: bins of the key store, replicas, backups; destroy them, then retry",
    ),
    (
        KEY_UNSAFE,
        "the key can come back after its destruction, as the message says: destroy it and let the step make another",
    ),
    (
        NAME_INVALID,
        "use a tenant, workspace or model name of a-z, 0-9 and single inner hyphens, short enough for a DNS label",
    ),
    (ATTESTATION, "do not trust the machine: quarantine it and look at its firmware"),
    (NODE_BUSY, "drain the node first: end what runs on it, then retry"),
    (EPOCH_OLD, "nothing: the node has changed hands since; this claim on it is over"),
    (NODE_OWNED, "the node still bears another tenant: finish that tenant's return of it, then retry"),
    (NODE_REBOOTING, "nothing at first; if it lasts, look at the console of the node"),
    (NODE_UNFIT, "quarantine the node and let the execution claim another"),
    (OBJECT_CHANGED, "nothing: it is read again and retried"),
    (OBJECT_FOREIGN, "somebody else made an object of this name: rename or remove theirs, then retry"),
    (OBJECT_MISSING, "something removed what an earlier step made: restore it or cancel the execution"),
    (TERMINATING, "nothing at first; if it lasts, look for finalizers that nobody clears"),
    (DENIED, "give Tenure's account at the target the permission that the message names, then retry"),
    (NO_ANSWER, "nothing: the target is asked what became of the call before it is sent again"),
    (REFUSED, "read the message: the target does not accept the request as it is"),
    (UNAVAILABLE, "check that the target runs and can be reached; it is retried by itself"),
    (UNREADABLE, "the backend's version does not fit: compare versions of Tenure and of the target"),
    (
        UNSUPPORTED,
        "the target's version or set-up lacks what is asked: see what it needs in the backend's page, then retry",
    ),
    (
        QUOTA_DRIFTED,
        "somebody else sets this limit too: find out who by the object's field managers, let one of you do it, then retry",
    ),
    (RECORD_KEYS, "see that the folder of record keys is there and can be written, then retry"),
    (CHECKPOINTING, "nothing: the workload saves its work, until its grace ends"),
    (
        NODE_ALIVE,
        "power the node off or fence it off; a process that lives must not be hidden by deleting its record",
    ),
    (
        PROTECTED,
        "let more replicas of it run, or loosen the disruption budget that the message names; it is tried again",
    ),
    (WORKLOAD_TERMINATING, "nothing at first; if it lasts, look at its node and at its finalizers"),
    (DRAINING, "nothing: what runs is being ended; past the limit look at the workloads that stay"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    /// Returns every Rust file below a folder of this crate, with its text.
    fn sources(folder: &Path) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(sources(&path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
        assert!(!found.is_empty(), "{} has sources", folder.display());
        found
    }

    /// `BLESS=1 cargo test -p tests --test it docs` writes the table.
    #[test]
    fn the_documentation_lists_every_code_with_its_remedy() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md");
        let text = fs::read_to_string(path).unwrap();
        let rows: String = ALL.iter().map(|(code, remedy)| format!("| `{code}` | {remedy} |\n")).collect();
        let (begin, end) = ("<!-- platform-codes:begin -->\n", "<!-- platform-codes:end -->");
        let (_, rest) = text.split_once(begin).expect("a table of the platform's codes");
        let (table, _) = rest.split_once(end).expect("an end of the table");
        let expected = format!("| code | what to do |\n|---|---|\n{rows}");

        assert!(table == expected || std::env::var_os("BLESS").is_some(), "run the tests with BLESS=1");
    }

    #[test]
    fn every_code_is_defined_once_as_a_constant_of_the_list() {
        let own = include_str!("codes.rs");
        let constants =
            own.lines().filter(|line| line.starts_with("pub const") && line.contains(": &str")).count();
        assert_eq!(constants, ALL.len());
        assert!(ALL.is_sorted(), "in alphabetical order, each once");

        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (path, source) in
            ["src/platform", "backends/src"].into_iter().flat_map(|folder| sources(&root.join(folder)))
        {
            let code = source.split("#[cfg(test)]").next().unwrap();
            let is_exempt =
                path.ends_with("codes.rs") || path.ends_with("tests.rs") || path.contains("/tests/");
            for (literal, _) in ALL.iter().filter(|_| !is_exempt) {
                assert!(!code.contains(&format!("\"{literal}\"")), "{path} has {literal} as a literal");
            }
        }
    }
}
