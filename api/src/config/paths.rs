//! Where things lie within a data folder.

use std::path::{Path, PathBuf};

/// The folder of the embedded store within a data folder.
pub fn store_dir(data: &Path) -> PathBuf {
    data.join("store")
}

/// The file with the first admin's token within a data folder.
pub fn admin_file(data: &Path) -> PathBuf {
    data.join("admin.token")
}
