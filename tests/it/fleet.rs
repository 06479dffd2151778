//! Importing an inventory: all or nothing, idempotent, and every mistake has line and column.

use std::collections::BTreeMap;
use std::fs;
use tests::books::{Books, Executions, rows};
use workflows::{
    fleet::*,
    ledger::*,
    placement::*,
    policy::{PlatformPolicy, publish},
    tenancy::*,
};

const HEADER: &str = "sn,cpu_milli,memory_mib,gpu,model\n";

fn import(books: &mut Books, text: &str) -> Result<Import, String> {
    let rows = parse_nodes(text).map_err(|invalid| invalid.to_string())?;
    let (cluster, region) = ("eu-1".parse().unwrap(), "eu".parse().unwrap());
    books.decide(|view| import_nodes(view, &rows, &cluster, &region)).map_err(|error| error.to_string())
}

#[test]
fn the_real_inventory_is_imported_and_importing_it_again_changes_nothing() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/openb/openb_node_list_gpu_node.csv");
    let Ok(text) = fs::read_to_string(path) else {
        eprintln!("skipped: {path} is not there");
        return;
    };
    let mut books = Books::default();

    let first = import(&mut books, &text).unwrap();
    let rows = parse_nodes(&text).unwrap();
    let (cluster, region) = ("eu-1".parse().unwrap(), "eu".parse().unwrap());
    let (again, _, puts) = books.weigh(|view| import_nodes(view, &rows, &cluster, &region)).unwrap();

    assert_eq!((first.nodes, first.gpus, first.added), (1_213, 6_212, 1_213));
    let g2 = &first.models[&"G2".parse().unwrap()];
    assert_eq!((g2.nodes, g2.gpus), (549, 4_392));
    assert_eq!((again.unchanged, again.added, again.changed, again.missing), (1_213, 0, 0, 0));
    assert_eq!(puts, []);
    let unknown = first.notes.iter().filter(|note| note.starts_with("unknown model")).count();
    assert!(first.simulated && first.notes.len() == 2 + unknown, "{:?}", first.notes);
    assert!(books.longest() < 16 << 10, "{}", books.longest());
}

/// Kubernetes has no capitals in node names, so both would be one node there.
#[test]
fn node_names_that_differ_only_in_case_are_refused() {
    let row = |name: &str| format!("{name},1,1,1,A\n");
    let both = import(&mut Books::default(), &format!("{HEADER}{}{}", row("Node-A"), row("node-a")));
    let why = both.unwrap_err();
    assert!(
        why.contains("line 3, column 1: `sn`: the name of node node-a differs from Node-A on line 2"),
        "{why}"
    );
    for (first, second) in [("Node-A", "node-a"), ("node-a", "Node-A"), ("NODE-a", "node-A")] {
        let mut books = Books::default();
        import(&mut books, &format!("{HEADER}{}", row(first))).unwrap();

        let why = import(&mut books, &format!("{HEADER}{}", row(second))).unwrap_err();

        assert!(
            why.contains(&format!("line 2: the name of node {second} differs from node {first}")),
            "{why}"
        );
        let again = import(&mut books, &format!("{HEADER}{}", row(first))).unwrap();
        assert_eq!((again.added, again.unchanged), (0, 1), "a repeat changes nothing");
    }
}

#[test]
fn an_invalid_row_is_named_by_line_and_column_and_nothing_is_applied() {
    let cases = [
        (
            "n-1,64000,262144,two,P100",
            "line 2, column 18: `gpu`: \"two\" is not a valid number here; write a whole number from 1 to 1024",
        ),
        ("n-1,64000,262144,0,P100", "the file has no node with GPUs"),
        ("n-1,-1,262144,2,P100", "line 2, column 5: `cpu_milli`: \"-1\""),
        (
            "n-1,64000,262144,2",
            "line 2, column 1: the row has 4 values instead of 5; give one value for each column",
        ),
        ("n 1,64000,262144,2,P100", "line 2, column 1: `sn`: \"n 1\" is not a valid name of a node"),
        ("n-1,64000,262144,2,", "line 2, column 20: `model`: \"\" is not a valid name of a GPU model"),
        (
            "n-1,1,1,1,A\nn-2,1,1,1,A\nn-1,1,1,1,A",
            "line 4, column 1: `sn`: node n-1 occurs on lines 2 and 4; remove one",
        ),
    ];
    for (row, expected) in cases {
        let mut books = Books::default();
        let said = import(&mut books, &format!("{HEADER}{row}\n")).unwrap_err();
        assert!(said.contains(expected), "{said}\ninstead of\n{expected}");
        assert!(books.puts().is_empty());
    }
    let header = parse_nodes("sn,cpu,memory_mib,gpu,model\n").unwrap_err().to_string();
    assert!(header.contains("line 1, column 1: the header has no column cpu_milli"), "{header}");
}

#[tokio::test]
async fn a_changed_row_updates_a_free_node_and_is_refused_for_a_node_in_use() {
    let (mut books, executions) = (Books::default(), Executions::new().await);
    import(&mut books, &format!("{HEADER}{}{}", rows("a", 2, 4, "T4"), rows("b", 1, 8, "A100"))).unwrap();

    let changed = import(&mut books, &format!("{HEADER}a-0000,64000,262144,8,T4\n")).unwrap();
    assert_eq!((changed.changed, changed.missing), (1, 2));
    let pool = books.find::<FreePool>("eu-1/T4").unwrap();
    assert_eq!((pool.free(), pool.gpus(), pool.nodes()), (Gpus(12), Gpus(12), 2));

    let constraints = Constraints {
        tenant: "acme".parse().unwrap(),
        residency: Residency::Any,
        regions: None,
        cluster: None,
        isolation: Isolation::DedicatedNodes,
        kind: None,
        simulated: None,
        buffer: Gpus::ZERO,
        buffers: [].into(),
        drivers: Vec::new(),
        pins: BTreeMap::new(),
        apart: Vec::new(),
    };
    let ask = NodeRequest { model: "A100".parse().unwrap(), gpus: Gpus(8) };
    let claim = ClaimNodes { tenant: "acme".parse().unwrap(), ask, constraints };
    books.act(&claim, &executions.call(1)).unwrap();
    let refused = import(&mut books, &format!("{HEADER}b-0000,64000,262144,4,A100\n")).unwrap_err();
    assert!(
        refused.contains("fleet.rows_refused: line 2: node b-0000 is claimed and belongs to acme"),
        "{refused}"
    );
}

#[test]
fn a_node_with_a_new_model_moves_to_another_pool() {
    let mut books = Books::default();
    import(&mut books, &format!("{HEADER}{}", rows("a", 300, 8, "H100"))).unwrap();
    assert_eq!(books.find::<FreePool>("eu-1/H100").unwrap().chunks.len(), 2, "256 nodes a chunk");

    import(&mut books, &format!("{HEADER}a-0000,64000,262144,8,H200\n")).unwrap();

    assert_eq!(books.find::<FreePool>("eu-1/H100").unwrap().nodes(), 299);
    assert_eq!(books.find::<FreePool>("eu-1/H200").unwrap().free(), Gpus(8));
}

#[test]
fn a_node_of_another_cluster_is_refused() {
    let mut books = Books::default();
    import(&mut books, &format!("{HEADER}{}", rows("a", 1, 8, "H100"))).unwrap();
    let rows = parse_nodes(&format!("{HEADER}{}", rows("a", 1, 8, "H100"))).unwrap();
    let (cluster, region) = ("eu-2".parse().unwrap(), "eu".parse().unwrap());

    let refused = books.decide(|view| import_nodes(view, &rows, &cluster, &region)).unwrap_err();

    assert!(refused.message.contains("line 2: node a-0000 belongs to cluster eu-1"), "{refused}");
}

const SITES: &str = "\
regions:
  - {id: eu-west, jurisdiction: eu, buffer_gpus: {H100: 16}}
clusters:
  - {id: west-1, region: eu-west, provider: on-prem, kind: slurm, tenancy: dedicated, backend: slurmrestd}
  - {id: west-2, region: eu-west}
";

#[test]
fn sites_are_imported_once_and_a_cluster_without_a_backend_is_simulated() {
    let mut books = Books::default();
    let sites = parse_sites(SITES).unwrap();

    let first = books.decide(|view| import_sites(view, &sites)).unwrap();
    let (again, _, puts) = books.weigh(|view| import_sites(view, &sites)).unwrap();

    assert_eq!(first.added, ["region eu-west", "cluster west-1", "cluster west-2"]);
    assert_eq!(first.simulated, ["west-2".parse().unwrap()]);
    assert_eq!((again.unchanged.len(), puts.len()), (3, 0));
    assert_eq!(books.find::<Cluster>("west-1").unwrap().tenancy, Tenancy::Dedicated { tenant: None });
}

#[test]
fn an_error_in_the_sites_is_named_by_line_and_column() {
    let cases = [
        (
            "kind: slurm",
            "kind: nomad",
            "line 4, column 60: `clusters[0].kind`: the text \"nomad\" is not a value of this field; use one of kubernetes, slurm, bare_metal",
        ),
        (
            "tenancy: dedicated",
            "tenancy: mine",
            "`clusters[0].tenancy`: \"mine\" is not a tenancy; write `shared` or `dedicated`",
        ),
        ("id: west-2", "id: west-1", "line 5, column 5: `clusters[1]`: west-1 occurs on lines 4 and 5"),
        ("jurisdiction: eu, ", "", "`regions[0].jurisdiction`: the field is missing"),
    ];
    for (good, bad, expected) in cases {
        let said = parse_sites(&SITES.replacen(good, bad, 1)).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}\ninstead of\n{expected}");
    }
    let homeless = parse_sites(&SITES.replace("region: eu-west", "region: mars")).unwrap();
    let refused = Books::default().decide(|view| import_sites(view, &homeless)).unwrap_err();
    assert_eq!(refused.code, "fleet.region_unknown");
}

#[test]
fn a_model_has_one_name_for_all_spellings_and_an_unknown_one_is_reported() {
    let mut books = Books::default();
    let text = format!(
        "{HEADER}n-1,1,1,8,NVIDIA H100 80GB HBM3\nn-2,1,1,8,NVIDIA-H100-80GB-HBM3\nn-3,1,1,8,h100\nn-4,1,1,8,h101\n\
         n-5,1,1,8,NVIDIA-A100-SXM4-80GB-MIG-1g.10gb\n"
    );

    let imported = import(&mut books, &text).unwrap();

    let counts: BTreeMap<_, _> =
        imported.models.iter().map(|(model, count)| (model.to_string(), count.nodes)).collect();
    assert_eq!(counts, [("A100".to_owned(), 1), ("H100".to_owned(), 3), ("h101".to_owned(), 1)].into());
    assert!(
        imported.notes.contains(&"unknown model h101; did you mean H100?".to_owned()),
        "{:?}",
        imported.notes
    );
}

/// A node in use keeps its model name, although that name became an alias since.
#[test]
fn a_node_in_use_whose_model_became_an_alias_is_unchanged() {
    let mut books = Books::default();
    let text = format!("{HEADER}n-1,1,1,8,gpu-big\n");
    import(&mut books, &text).unwrap();
    let serve =
        |node: Node| Node { state: NodeState::InService, owner: Some("acme".parse().unwrap()), ..node };
    books.decide(|view| view.require::<Node>("n-1").and_then(|node| view.put(&serve(node)))).unwrap();
    let policy = PlatformPolicy::amended(&[("pins: []", "pins: []\naliases: {gpu-big: H200}")]).unwrap();
    books.decide(|view| publish(view, &policy, "ada").map(drop)).unwrap();

    let again = import(&mut books, &text).unwrap();

    assert_eq!((again.unchanged, again.changed), (1, 0));
    assert_eq!(books.find::<Node>("n-1").unwrap().gpu.model.as_str(), "gpu-big");
}

#[test]
fn nodes_without_gpus_are_skipped_and_counted() {
    let text = format!("{HEADER}n-1,1,1,8,H100\nopenb-node-0004,64000,262144,0,\ncpu-2,1,1,0,none\n");

    let inventory = parse_inventory(&text).unwrap();

    assert_eq!((inventory.rows.len(), inventory.without_gpus), (1, 2));
}

#[test]
fn the_delimiter_of_the_header_applies_to_all_rows() {
    for delimiter in [",", ";", "\t"] {
        let text = format!("{HEADER}n-1,64000,262144,8,H100\n").replace(',', delimiter);
        assert_eq!(parse_nodes(&text).unwrap()[0].gpus, Gpus(8), "{delimiter:?}");
    }
    let unknown = parse_nodes("sn|cpu_milli|memory_mib|gpu|model\nn-1|1|1|1|H100\n").unwrap_err().to_string();
    assert!(unknown.contains("separated by commas, semicolons or tabs"), "{unknown}");
}

#[tokio::test]
async fn a_free_node_can_be_retired_or_moved_and_an_owned_one_cannot() {
    let mut books = Books::default();
    import(&mut books, &format!("{HEADER}{}", rows("n", 4, 8, "H100"))).unwrap();
    let (other, region) = ("eu-2".parse().unwrap(), "eu".parse().unwrap());
    let spare = parse_nodes(&format!("{HEADER}{}", rows("m", 1, 8, "A100"))).unwrap();
    books.decide(|view| import_nodes(view, &spare, &other, &region)).unwrap();
    let node = |number: u32| -> NodeId { format!("n-{number:04}").parse().unwrap() };
    let owned = Node {
        owner: Some("acme".parse().unwrap()),
        state: NodeState::InService,
        ..books.find("n-0002").unwrap()
    };
    books.decide(|view| view.put(&owned)).unwrap();

    let retired = books.decide(|view| retire_node(view, &node(0))).unwrap();
    let moved = books.decide(|view| move_node(view, &node(1), &other)).unwrap();

    assert_eq!((retired.state, moved.cluster.as_str()), (NodeState::Retired, "eu-2"));
    let free =
        |books: &Books, cluster: &str| books.find::<FreePool>(&format!("{cluster}/H100")).unwrap().free();
    assert_eq!((free(&books, "eu-1"), free(&books, "eu-2")), (Gpus(16), Gpus(8)));
    for refused in [
        books.decide(|view| retire_node(view, &node(2))).unwrap_err(),
        books.decide(|view| move_node(view, &node(2), &other)).unwrap_err(),
    ] {
        assert_eq!(refused.code, NODE_NOT_FREE);
        assert!(refused.message.contains("belongs to tenant acme"), "{refused:?}");
    }
    // A repeat changes nothing, and an old inventory does not bring the node back.
    let again = books.decide(|view| retire_node(view, &node(0))).unwrap();
    let imported = import(&mut books, &format!("{HEADER}{}", rows("n", 1, 8, "H100"))).unwrap();
    assert_eq!((again.state, imported.added, free(&books, "eu-1")), (NodeState::Retired, 0, Gpus(16)));
    assert!(imported.notes.iter().any(|note| note.contains("is retired")), "{:?}", imported.notes);
}
