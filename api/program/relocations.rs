//! The build script of the program packages `cli` and `agent`.
//!
//! Tells the linker to pack relative relocations (RELR), which saves most of 3 MiB that each start would read. glibc unpacks them from
//! 2.36 on. With an older glibc, for a static program and for cross compilation, the script does nothing.

use std::{env, process::Command};

const UNPACKS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=../program/relocations.rs");
    let of = |name: &str| env::var(name).unwrap_or_default();
    let is_gnu = of("CARGO_CFG_TARGET_OS") == "linux" && of("CARGO_CFG_TARGET_ENV") == "gnu";
    let is_static = of("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    if is_gnu && !is_static && of("HOST") == of("TARGET") && glibc().is_some_and(|version| version >= UNPACKS)
    {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of this machine's glibc.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
