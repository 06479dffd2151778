//! The names that policies may use, made from the tables of this program: the verbs, the roles, and how something is asked.

use crate::auth::{Role, Verb};
use std::fmt::Write as _;
use strum::VariantArray as _;

/// Before every name.
pub(super) const NAMESPACE: &str = "Tenure";
/// The group of what changes nothing.
pub(super) const READ: &str = "read";
/// The group of what changes something.
pub(super) const CHANGE: &str = "change";

impl Verb {
    /// Its name in policies, and in the API.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it reads or changes.
    pub(super) fn group(self) -> &'static str {
        if self.name().starts_with("read_") { READ } else { CHANGE }
    }
}

/// The schema as Cedar writes one.
pub fn generated() -> String {
    let roles: Vec<String> = Role::VARIANTS.iter().map(|role| format!("\"{}\"", role.name())).collect();
    let mut text = format!(
        "// The names that policies of access may use; any other is refused. Made from the tables of the program.\n\
         namespace {NAMESPACE} {{\n\
         \x20 // What a user holds.\n\
         \x20 entity Role enum [{}];\n\
         \x20 // The platform: what is its own, and what is done for all tenants.\n\
         \x20 entity Platform enum [\"platform\"];\n\
         \x20 // A tenant, for whom its own people and its clusters act.\n\
         \x20 entity Tenant;\n\
         \x20 // Somebody with a token. `tenant` is there where they are bound to one.\n\
         \x20 entity User in [Role] {{ name: String, tenant?: Tenant }};\n\
         \x20 // A cluster with its key, and what that may be used for.\n\
         \x20 entity Cluster {{ tenant: Tenant, scopes: Set<String> }};\n\n\
         \x20 // How it is asked. `from` is the address of the network that asks; `plans` says that only what would be done is asked for.\n\
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
