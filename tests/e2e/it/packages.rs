//! The installation: the Debian package, the units, the bill of materials, the chart's values.

use serde_json::Value;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const TENURE: &str = env!("CARGO_BIN_EXE_tenure-on-real-servers");

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api/packaging")
}

fn said(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success())
}

#[test]
fn the_package_can_be_installed_upgraded_and_removed_and_only_a_purge_removes_the_data() {
    if !has("dpkg-deb") || !has("objdump") {
        return e2e::skipped("dpkg-deb, or objdump", "install dpkg and binutils");
    }
    let dir = tempfile::tempdir().unwrap();
    let built = Command::new(packaging().join("deb.sh"))
        .args([Path::new(TENURE), dir.path()])
        .env("DEB_COMPRESSION", "none")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", said(&built));
    let package = String::from_utf8(built.stdout).unwrap();

    let tried = Command::new(e2e::scripts().join("deb-in-a-copy.sh")).arg(package.trim()).output().unwrap();
    if tried.status.code() == Some(3) {
        // No preparation makes that possible, so it is a skip and not a failure.
        return println!("skipped: a copy of this system takes root and overlays: {}", said(&tried));
    }
    assert!(tried.status.success(), "{}", said(&tried));
    assert_eq!(said(&tried).matches("\nholds: ").count(), 16, "{}", said(&tried));
}

/// The numbers are systemd's own: ten times the exposure of a unit, from 0 to 100.
#[test]
fn the_systemd_units_have_few_privileges() {
    if !has("systemd-analyze") {
        return e2e::skipped("systemd-analyze", "install systemd");
    }
    for (unit, most) in [("tenure.service", 15), ("tenure-agent.service", 40)] {
        let ran = Command::new("systemd-analyze")
            .args(["security", "--no-pager", "--offline=true", &format!("--threshold={most}")])
            .arg(packaging().join("systemd").join(unit))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{unit}: {}", said(&ran));
    }
}

#[test]
fn the_bill_of_materials_lists_every_dependency_of_the_program_and_none_of_the_tests() {
    if !has("jq") {
        return e2e::skipped("jq", "tests/servers/prepare.sh installs it");
    }
    let ran = Command::new(packaging().join("sbom.sh")).output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    let bill: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let lock = std::fs::read_to_string(packaging().join("../../Cargo.lock")).unwrap();

    let parts = bill["components"].as_array().unwrap();
    let text = |part: &Value, field: &str| part[field].as_str().unwrap().to_owned();
    for part in parts {
        let (name, version) = (text(part, "name"), text(part, "version"));
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")), "{part}");
        assert!(!text(&part["licenses"][0], "expression").contains("NOASSERTION"), "{part}");
    }
    let names: BTreeSet<_> = parts.iter().map(|part| text(part, "name")).collect();
    for linked in ["engine", "store", "workflows", "tokio", "sled", "axum", "ring"] {
        assert!(names.contains(linked), "{linked}");
    }
    for apart in ["proptest", "tests", "e2e", "nvml-stand-in"] {
        assert!(!names.contains(apart), "{apart}");
    }
    let refs: BTreeSet<_> = parts.iter().map(|part| text(part, "bom-ref")).collect();
    let known = |name: &Value| refs.contains(name.as_str().unwrap());
    let needs = bill["dependencies"].as_array().unwrap();
    assert_eq!(
        needs.len(),
        parts.len() + 1,
        "every component lists its dependencies, and so does the program"
    );
    assert!(needs.iter().flat_map(|one| one["dependsOn"].as_array().unwrap()).all(known));
}

/// Checks that `values` and `schema` have the same fields.
fn same_fields(values: &Value, schema: &Value, at: &str) {
    let Some(known) = schema["properties"].as_object().filter(|_| schema["additionalProperties"] == false)
    else {
        return;
    };
    let fields = values.as_object().unwrap_or_else(|| panic!("{at} is no object"));
    let named =
        |name: &str| known.get(name).unwrap_or_else(|| panic!("values.schema.json lacks {at}.{name}"));
    for (name, value) in fields {
        same_fields(value, named(name), &format!("{at}.{name}"));
    }
    for name in known.keys().filter(|name| *name != "global") {
        assert!(fields.contains_key(name), "values.yaml lacks {at}.{name}");
    }
}

#[test]
fn every_value_of_the_chart_is_in_the_schema_and_the_values_file() {
    let chart = packaging().join("helm/tenure");
    let read = |name: &str| std::fs::read_to_string(chart.join(name)).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();

    same_fields(&values, &schema, "");

    let about: Value = serde_saphyr::from_str(&read("Chart.yaml")).unwrap();
    assert_eq!(about["appVersion"], env!("CARGO_PKG_VERSION"), "the chart is of this version");
    for file in ["rbac.yaml", "rules.yaml", "alerts.yaml", "dashboards/tenure-overview.json"] {
        assert!(chart.join("files").join(file).exists(), "{file} is missing");
    }
}
