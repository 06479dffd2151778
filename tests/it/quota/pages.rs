//! The pages of the quota workflows match the code.

use engine::{Workflow, diagram};
use std::{env, fs};
use workflows::{
    quota_change::{decrease::QuotaDecrease, increase::QuotaIncrease},
    sla_change::SlaChange,
};

/// Run with `BLESS=1` to write the diagrams into the pages.
#[test]
fn the_documented_diagrams_match_the_workflows() {
    drawn::<QuotaIncrease>();
    drawn::<QuotaDecrease>();
    drawn::<SlaChange>();
}

fn drawn<W: Workflow>() {
    let path = format!("{}/../docs/workflows/{}.md", env!("CARGO_MANIFEST_DIR"), W::NAME);
    let (begin, end) = ("<!-- diagram:begin -->\n", "<!-- diagram:end -->");
    let page = fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    let mermaid = diagram::<W>().mermaid(None);
    let drawn = format!("{head}{begin}```mermaid\n{}\n```\n{end}{tail}", mermaid.trim_end());
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap();
    assert_eq!(page, drawn, "run the tests with BLESS=1 and review the difference");
    let table = page.split("## States").nth(1).unwrap();
    for state in diagram::<W>().states {
        assert!(
            table.contains(&format!("`{}`", state.name)),
            "{}: {} is not in the table",
            W::NAME,
            state.name
        );
    }
}
