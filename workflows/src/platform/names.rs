//! Deterministic names, so that a retry and an undo find what an earlier attempt made.
//!
//! Two different tenants or workspaces never share a name: the parts are joined by `--`, which no part may contain.

use super::codes;
use engine::ActionError;

/// The longest name, in bytes, that every target accepts (a DNS label, RFC 1123).
const LONGEST: usize = 63;

/// Returns the name of a tenant's key, identity, cohort and account.
///
/// # Errors
/// `name.invalid`, permanent, for a tenant id that cannot be part of a DNS label.
pub fn tenant_name(tenant: &str) -> Result<String, ActionError> {
    fitting(format!("t-{}", part(tenant)?))
}

/// Returns the name of a workspace's namespace and queue.
///
/// # Errors
/// As [`tenant_name`].
pub fn workspace_name(tenant: &str, workspace: &str) -> Result<String, ActionError> {
    fitting(format!("t-{}--{}", part(tenant)?, part(workspace)?))
}

/// Returns the name of a tenant's flavor of one GPU model. Models that differ only in case or punctuation have the same name.
///
/// # Errors
/// As [`tenant_name`].
pub fn flavor_name(tenant: &str, model: &str) -> Result<String, ActionError> {
    let words: Vec<String> = model
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    fitting(format!("t-{}--{}", part(tenant)?, part(&shortened(&words.join("-")))?))
}

/// The longest model name in a flavor's name, next to the longest tenant id.
const LONGEST_MODEL: usize = 27;

/// Shortens a long model name to its beginning and a hash (FNV-1a), so that models with the same beginning differ.
fn shortened(model: &str) -> String {
    if model.len() <= LONGEST_MODEL {
        return model.to_owned();
    }
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = model.bytes().fold(0x811c_9dc5, mix);
    let start: String = model.chars().take(LONGEST_MODEL - 9).collect();
    format!("{}-{hash:08x}", start.trim_end_matches('-'))
}

/// Returns the name of a tenant's bucket in a region.
///
/// # Errors
/// As [`tenant_name`].
pub fn bucket_name(tenant: &str, region: &str) -> Result<String, ActionError> {
    workspace_name(tenant, region)
}

fn part(text: &str) -> Result<&str, ActionError> {
    let plain = text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if text.is_empty() || !plain || text.starts_with('-') || text.ends_with('-') || text.contains("--") {
        return Err(ActionError::permanent(
            codes::NAME_INVALID,
            format!("{text:?} cannot be part of a name: only a-z, 0-9 and single inner hyphens can"),
        ));
    }
    Ok(text)
}

fn fitting(name: String) -> Result<String, ActionError> {
    if name.len() > LONGEST {
        let why = format!("{name:?} is {} bytes long and targets take {LONGEST}", name.len());
        return Err(ActionError::permanent(codes::NAME_INVALID, why));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_workspaces_share_a_name() {
        let one = workspace_name("a-b", "c").unwrap();
        let other = workspace_name("a", "b-c").unwrap();

        assert_ne!(one, other);
        assert!(
            tenant_name("a--b").is_err(),
            "else tenant a--b would have the name of workspace b of tenant a"
        );
    }

    #[test]
    fn a_name_that_no_target_accepts_is_refused() {
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "ü", &"x".repeat(62)] {
            assert_eq!(tenant_name(bad).unwrap_err().code, "name.invalid", "{bad:?}");
        }
        assert_eq!(flavor_name("acme", "V100M32").unwrap(), "t-acme--v100m32");
        assert_eq!(flavor_name("acme", "A100 SXM/80GB").unwrap(), "t-acme--a100-sxm-80gb");
        let long = ["V", "W"].map(|end| format!("NVIDIA-RTX-6000-Ada-Generation-Workstation-Edition-{end}"));
        let tenant = "a".repeat(32);
        let names = long.map(|model| flavor_name(&tenant, &model).unwrap());
        assert!(names[0] != names[1] && names.iter().all(|name| name.len() <= 63), "{names:?}");
    }
}
