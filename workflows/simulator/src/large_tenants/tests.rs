use super::{PartOfLife, RowCounts, life_of_tenant};

/// How much the cost per node may rise for a tenant that is three times as large.
const RATIO: f64 = 1.3;

fn sizes() -> (u32, u32) {
    let large = std::env::var("TENURE_TEST_NODES").ok().and_then(|nodes| nodes.parse().ok()).unwrap_or(300);
    (100, large)
}

type Count = fn(&RowCounts) -> u64;

/// `TENURE_TEST_NODES` sets the number of nodes; the default is 300. With `--nocapture` the test prints the cost of
/// each part.
#[tokio::test]
async fn a_large_tenant_costs_no_more_per_node_than_a_small_one() {
    let (few, many) = sizes();

    // Both grow by the same number of nodes, so that only the size of the tenant differs.
    let more = many / 4;
    let small = life_of_tenant(few, more).await.unwrap();
    let large = life_of_tenant(many, more).await.unwrap();

    small.iter().chain(&large).for_each(|part| println!("{part}"));
    let kinds: [(&str, Count); 5] = [
        ("commits", |counts| counts.commits),
        ("rows read", |counts| counts.rows_read),
        ("bytes read", |counts| counts.bytes_read),
        ("rows written", |counts| counts.rows_written),
        ("bytes written", |counts| counts.bytes_written),
    ];
    let ratio = |small: &PartOfLife, large: &PartOfLife, count: Count| {
        large.per_node(count(&large.counts)) / small.per_node(count(&small.counts))
    };
    let mut over = Vec::new();
    for (small, large) in small.iter().zip(&large) {
        for (name, count) in kinds {
            let ratio = ratio(small, large, count);
            if ratio > RATIO {
                over.push(format!("{}: {ratio:.2} times the {name} for each node", large.name));
            }
        }
    }
    assert!(over.is_empty(), "{few} and {many} nodes: {over:#?}");
}
