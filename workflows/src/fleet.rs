//! The fleet's inventory as people hand it in: nodes as CSV, regions and clusters as YAML.
//!
//! A file is read whole before anything is applied, so that one bad row leaves the ledger as it was. Importing the same
//! file again changes nothing and says so.

mod delimiter;
mod folded_names;
mod import;
mod lifecycle;
mod nodes;
mod site_import;
mod sites;

pub use delimiter::delimiter_of;
pub use folded_names::FoldedName;
pub use import::{Import, ModelReport, import_nodes};
pub use lifecycle::{NODE_NOT_FREE, move_node, retire_node};
pub use nodes::{Inventory, NodeRow, parse_inventory, parse_nodes};
pub use site_import::import_sites;
pub use sites::{ClusterRow, RegionRow, SiteReport, Sites, parse_sites};
