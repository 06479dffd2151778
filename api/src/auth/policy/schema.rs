//! The names that policies may use, generated from the tables of this program: verbs, roles and context.

use crate::auth::{Role, Verb};
use std::fmt::Write as _;
use strum::VariantArray as _;

/// The namespace of all names.
pub(super) const NAMESPACE: &str = "Tenure";
/// The action group of reads.
pub(super) const READ: &str = "read";
/// The action group of changes.
pub(super) const CHANGE: &str = "change";

impl Verb {
    /// Returns the name in policies and in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the group of the action.
    pub(super) fn group(self) -> &'static str {
        if self.name().starts_with("read_") { READ } else { CHANGE }
    }
}

/// Returns the Cedar schema.
pub fn generated() -> String {
    let roles: Vec<String> = Role::VARIANTS.iter().map(|role| format!("\"{}\"", role.name())).collect();
    let mut text = format!(
        "// The names that access policies may use; any other name is an error. Generated from the tables of the program.\n\
         namespace {NAMESPACE} {{\n\
         \x20 // A role of a user.\n\
         \x20 entity Role enum [{}];\n\
         \x20 // The platform: its own resources, and actions for all tenants.\n\
         \x20 entity Platform enum [\"platform\"];\n\
         \x20 // A tenant, for which its own users and clusters act.\n\
         \x20 entity Tenant;\n\
         \x20 // A user with a token. `tenant` is set if the user is bound to one.\n\
         \x20 entity User in [Role] {{ name: String, tenant?: Tenant }};\n\
         \x20 // A cluster with its key, and the scopes of the key.\n\
         \x20 entity Cluster {{ tenant: Tenant, scopes: Set<String> }};\n\n\
         \x20 // The context of a request. `from` is the IP address of the caller; `plans` is true for dry runs.\n\
         \x20 type Asked = {{ from?: __cedar::ipaddr, at: __cedar::datetime, plans: Bool }};\n\n\
         \x20 action \"{READ}\";\n\
         \x20 action \"{CHANGE}\";\n",
        roles.join(", ")
    );
    for verb in Verb::VARIANTS {
        let askers = if *verb == Verb::PushFacts { "[User, Cluster]" } else { "User" };
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "  action \"{}\" in [\"{}\"] appliesTo {{ principal: {askers}, resource: [Platform, Tenant], context: Asked }};",
            verb.name(),
            verb.group(),
        );
    }
    text.push_str("}\n");
    text
}
