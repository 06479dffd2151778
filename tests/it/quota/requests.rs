//! The document of a quota request.

use super::stage::request;
use workflows::quota_change::{Change, QuotaRequest};

#[test]
fn a_request_is_parsed_from_yaml_and_from_json() {
    let text = "tenant: acme\nworkspace: research\nresource: gpu/H100\nby: 4\nuntil: 2026-03-01T00:00:00Z\nreason: a benchmark\n";
    let json = serde_json::json!({
        "tenant": "acme", "workspace": "research", "resource": "gpu/H100", "by": 4,
        "until": "2026-03-01T00:00:00Z", "reason": "a benchmark",
    });

    let (yaml, json) = (QuotaRequest::from_yaml(text).unwrap(), QuotaRequest::from_json(&json).unwrap());

    assert_eq!(yaml.lines["resource"], 3);
    assert_eq!(QuotaRequest { lines: json.lines.clone(), ..yaml }, json);
    assert_eq!(json.until.unwrap().0, 1_772_323_200_000);
}

#[test]
fn every_error_has_its_line_and_column() {
    let text =
        "tenant: Acme\nworkspace: research\nresource: gpus\nby: -1\nto: 4\nuntil: tomorrow\nwhy: not\n";

    let invalid = QuotaRequest::from_yaml(text).unwrap_err();

    let said: Vec<String> = invalid.findings.iter().map(ToString::to_string).collect();
    for wanted in [
        "line 1, column 9: `tenant`",
        "line 3, column 11: `resource`: \"gpus\" names no resource",
        "line 4, column 5: `by`",
        "both `by` and `to` are given",
        "line 6, column 8: `until`: \"tomorrow\" is no moment",
        "line 7, column 1: `why`",
        "`reason`: the field is missing",
    ] {
        assert!(said.iter().any(|line| line.contains(wanted)), "{wanted} is not in {said:#?}");
    }
    assert!(QuotaRequest::from_yaml("tenant: a\nworkspace: b\nresource: pods\nreason: c\n").is_err());
}

#[test]
fn a_document_cannot_pretend_to_be_the_end_of_a_temporary_quota() {
    let text = "tenant: a\nworkspace: b\nresource: pods\nto: 1\nreason: c\nended: true\n";

    assert!(QuotaRequest::from_yaml(text).is_err());
    assert!(!request("to: 1").ended);
    assert_eq!(request("to: 1").change, Change::To(1));
}
