//! The conformance kit: the simulated platform keeps the contract of actuators, and the kit detects violations.

mod flaws;
mod in_process;
mod proxy;
mod simulated;

use simulated::{Capability, Through};
use std::collections::BTreeMap;
use tests::kit::{self, Cell, Table};

/// The text above the table of the documentation.
const HEAD: &str = "\
# Conformance of the backends

Results of the [conformance kit](contract.md#the-kit) for each backend. ✓: the backend passes the case. Number: the reason below why the case does not apply.
The tests of the kit generate this page with `BLESS=1`, and fail if a result differs.

";

/// The reason for each case that a capability of the simulator lacks.
fn excuses(of: Capability) -> BTreeMap<&'static str, &'static str> {
    let unchanging = |why| {
        let changes = kit::cases().into_iter().map(|case| case.name).filter(|name| changes_something(name));
        changes.map(|name| (name, why)).collect::<BTreeMap<_, _>>()
    };
    match of {
        Capability::Kubernetes | Capability::Namespace | Capability::Slurm => BTreeMap::new(),
        Capability::Objects => unchanging(simulated::NO_CHANGE),
        Capability::Keys => {
            let mut excuses = unchanging(simulated::NO_CHANGE);
            let same = ["make.foreign", "repeat.make_unequal", "twins.make_rivals", "dry_run.make_refused"];
            excuses.extend(same.map(|name| (name, simulated::ALL_ALIKE)));
            excuses
        }
    }
}

/// Returns true if a case changes an amount.
fn changes_something(name: &str) -> bool {
    name.split('.').any(|part| part.starts_with("change"))
        || [
            "undo.change",
            "repeat.make_old",
            "repeat.undo",
            "slow.change_too",
            "fence.equal",
            "fence.per_step",
        ]
        .contains(&name)
}

async fn table(of: Capability) -> Table {
    let table = kit::run(&Through::a_proxy(of).await).await;
    println!("{table}");
    table
}

async fn holds(of: Capability) {
    let table = table(of).await;

    assert_eq!(table.broken(), [""; 0], "{table}");
    let wanted = excuses(of).into_iter().map(|(case, why)| (case, why.to_owned())).collect();
    let excused: BTreeMap<_, _> = table.excused(of.name());
    assert_eq!(excused, wanted, "there are no unnecessary exceptions");
    assert_eq!(table.on_record(), Ok(()));
}

/// S50.
#[tokio::test]
async fn simulated_kubernetes_fulfils_the_contract_of_backends() {
    holds(Capability::Kubernetes).await;
}

#[tokio::test]
async fn slow_removals_fulfil_the_contract_of_backends() {
    holds(Capability::Namespace).await;
}

#[tokio::test]
async fn simulated_slurm_fulfils_the_contract_of_backends() {
    holds(Capability::Slurm).await;
}

#[tokio::test]
async fn simulated_object_stores_fulfil_the_contract_of_backends() {
    holds(Capability::Objects).await;
}

#[tokio::test]
async fn simulated_key_stores_fulfil_the_contract_of_backends() {
    holds(Capability::Keys).await;
}

/// A table has a cell for every run pair, and shows missing ones.
#[test]
fn every_case_has_a_unique_name_and_a_promise() {
    let cases = kit::cases();
    let names: std::collections::BTreeSet<_> = cases.iter().map(|case| case.name).collect();

    assert!(cases.len() >= 40, "{} cases", cases.len());
    assert_eq!(names.len(), cases.len());
    for case in cases {
        let plain = case.name.chars().all(|c| c.is_ascii_lowercase() || "._".contains(c));
        assert!(plain && case.promise.len() > 20 && !case.promise.ends_with('.'), "{}", case.name);
    }
}

/// One page for all backends: a table in which each cell is the last result of that backend's own test, and the promise of each
/// case. `BLESS=1` writes it.
#[test]
fn the_documentation_lists_every_case_with_its_promise_and_a_cell_for_every_backend() {
    let rows = kit::records().unwrap();
    let mut reasons: Vec<String> = Vec::new();
    let mut cell = |subject: &str, case: &str, said: Option<&String>| {
        let said =
            said.unwrap_or_else(|| panic!("{subject} has no cell for {case}: run its test with BLESS=1"));
        if said == "held" {
            return "✓".to_owned();
        }
        let why = said.strip_prefix("excused: ").unwrap_or_else(|| panic!("{subject} {case}: {said}"));
        let known = reasons.iter().position(|reason| *reason == why).unwrap_or_else(|| {
            reasons.push(why.to_owned());
            reasons.len() - 1
        });
        (known + 1).to_string()
    };
    let mut page = String::from(HEAD);
    if !rows.keys().any(|name| name.starts_with("slurm")) {
        page += "Slurm has no column: its test takes minutes, and is run by name.\n\n";
    }
    let heads: String = rows.keys().map(|subject| format!(" {subject} |")).collect();
    page += &format!("| Case |{heads}\n|---|{}\n", "---|".repeat(rows.len()));
    for case in kit::cases() {
        let cells: String = rows
            .iter()
            .map(|(name, row)| format!(" {} |", cell(name, case.name, row.get(case.name))))
            .collect();
        page += &format!("| `{}` |{cells}\n", case.name);
    }
    page += "\nReasons why a case does not apply:\n\n";
    for (number, why) in reasons.iter().enumerate() {
        page += &format!("{}. {why}\n", number + 1);
    }
    page += "\n## Cases\n\n| Case | Promise |\n|---|---|\n";
    for case in kit::cases() {
        page += &format!("| `{}` | {} |\n", case.name, case.promise);
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/backends/conformance.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, &page).unwrap();
    }

    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), page, "run the tests with BLESS=1");
}

/// A reader of the table sees at once which results are unknown.
#[tokio::test]
async fn a_table_has_no_empty_cell_and_names_each_violation() {
    let deaf = flaws::Flawed::with(flaws::Flaw::MakesNothing);
    let whole = Through::a_proxy(Capability::Kubernetes).await;
    let wanted = |name: &str| name == "make.makes" || name == "look.absent";
    let table = kit::run_some(&deaf, wanted).await.and(kit::run_some(&whole, wanted).await);

    assert_eq!(table.blank(), [""; 0]);
    assert_eq!(table.cell("simulated kubernetes", "make.makes"), Some(&Cell::Held));
    assert!(matches!(table.cell("flawed", "make.makes"), Some(Cell::Broken(_))));
    let shown = table.to_string();
    assert!(shown.contains("flawed: 1 held, 0 excused, 1 broken"), "{shown}");
    let missing = table.and(kit::run_some(&whole, |name| name == "make.marks").await);
    assert_eq!(missing.blank(), ["flawed make.marks"]);
}
