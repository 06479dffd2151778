//! Examples in a policy: facts with the expected decision. `tenure policy test` runs them.

pub(super) mod question;

use crate::{
    placement::Candidate,
    policy::{
        OnboardingFacts, OnboardingRequest, PlatformPolicy,
        decisions::Ruling,
        examples::question::{PolicyQuestion, rule},
        parsing::{
            document::{self, Item, Value},
            finding::Invalid,
            reader::{Fields, Reader},
        },
        sections::seats::seats,
    },
    tenancy::{ClusterKind, Gpus, Tenancy},
};
use engine::Seat;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;

/// One example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The title; unique in its document.
    pub name: String,
    /// The first line.
    pub line: Option<u64>,
    /// The question.
    pub question: PolicyQuestion,
    /// The expected result.
    pub expect: Expected,
}

/// The expected result of an example. A missing field accepts any value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// The verdict in one word.
    pub verdict: String,
    /// The exact seats that must approve, in any order.
    pub seats: Option<Vec<Seat>>,
    /// The exact rules that fail or require an approval, in any order.
    pub reasons: Option<BTreeSet<String>>,
}

/// The result of an example.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The example.
    pub name: String,
    /// The first line.
    pub line: Option<u64>,
    /// True if the result was as expected.
    pub passed: bool,
    /// The expected fields.
    pub expected: String,
    /// The actual result.
    pub got: String,
}

/// Runs the examples in the policy `text` against that policy.
///
/// # Errors
/// Every problem of the document.
pub fn test(text: &str) -> Result<Vec<Outcome>, Invalid> {
    let policy = PlatformPolicy::from_yaml(text)?;
    let root = document::from_yaml(text)?;
    let reader = Reader::default();
    let read = read(&reader, &root);
    Ok(reader.finish(read)?.iter().map(|example| example.run(&policy)).collect())
}

impl Example {
    fn run(&self, policy: &PlatformPolicy) -> Outcome {
        let ruling = rule(&self.question, policy);
        let counted = ruling.reasons.iter().filter(|reason| reason.counts());
        let got = Expected {
            verdict: ruling.answer.verdict().into(),
            seats: self.expect.seats.as_ref().map(|_| sorted(ruling.answer.seats())),
            reasons: self.expect.reasons.as_ref().map(|_| counted.map(|r| r.rule.clone()).collect()),
        };
        let expected = Expected { seats: self.expect.seats.as_deref().map(sorted), ..self.expect.clone() };
        let passed = got == expected;
        let got = if passed { got.describe() } else { format!("{}{}", got.describe(), because(&ruling)) };
        Outcome { name: self.name.clone(), line: self.line, passed, expected: expected.describe(), got }
    }
}

/// Returns the rules that affected the verdict, with details, for the author of a policy.
fn because<T>(ruling: &Ruling<T>) -> String {
    let counted = ruling.reasons.iter().filter(|reason| reason.counts());
    let each = counted.map(|reason| {
        let by = reason.by.as_ref().map(|by| format!(" ({by})")).unwrap_or_default();
        format!("{}: {}{by}", reason.rule, reason.detail)
    });
    let all: Vec<String> = each.collect();
    if all.is_empty() { String::new() } else { format!(" because {}", all.join("; ")) }
}

fn sorted(seats: &[Seat]) -> Vec<Seat> {
    let mut sorted = seats.to_vec();
    sorted.sort_by(|a, b| (&a.any_of, a.count).cmp(&(&b.any_of, b.count)));
    sorted
}

impl Expected {
    fn describe(&self) -> String {
        let mut said = self.verdict.clone();
        if let Some(seats) = &self.seats {
            let each = seats.iter().map(|seat| format!("{} of {}", seat.count, seat.any_of.join("/")));
            let each: Vec<String> = each.collect();
            said.push_str(&format!(" seats [{}]", each.join(", ")));
        }
        if let Some(reasons) = &self.reasons {
            let each: Vec<&str> = reasons.iter().map(String::as_str).collect();
            said.push_str(&format!(" reasons [{}]", each.join(", ")));
        }
        said
    }
}

/// Reads the examples of the document itself. The built-in policy's examples do not apply to others.
pub(super) fn read(reader: &Reader, root: &Item) -> Option<Vec<Example>> {
    let Value::Map(fields) = &root.value else { return None };
    let Some((_, _, item)) = fields.iter().find(|(name, _, _)| name == "examples") else {
        return Some(Vec::new());
    };
    let read: Vec<_> = reader.list(item).iter().map(|item| example(reader, item)).collect();
    let read: Vec<Example> = read.into_iter().collect::<Option<_>>()?;
    let mut seen = BTreeSet::new();
    for example in &read {
        if !seen.insert(&example.name) {
            let problem = format!("two examples are called {:?}", example.name);
            reader.note(item, problem, "give each its own name");
        }
    }
    Some(read)
}

const POINTS: [&str; 11] = [
    "request",
    "who",
    "where",
    "how_much",
    "approval",
    "isolation",
    "failure",
    "retention",
    "guard",
    "schedulers",
    "capacity",
];

fn example(reader: &Reader, item: &Item) -> Option<Example> {
    let known: Vec<&str> =
        ["name", "fleet", "name_in_use", "expect"].iter().chain(&POINTS).copied().collect();
    let fields = reader.fields(item, &known)?;
    let name = fields.required("name").and_then(|item| reader.text(item)).map(str::to_owned);
    let expect = fields.required("expect").and_then(|item| expected(reader, item));
    let asked: Vec<_> = POINTS.iter().filter_map(|point| Some((*point, fields.optional(point)?))).collect();
    let [(point, facts)] = asked.as_slice() else {
        let problem = format!("it asks {} questions", asked.len());
        reader.note(item, problem, format!("give it exactly one of {}", POINTS.join(", ")));
        return None;
    };
    let question = question(reader, &fields, point, facts)?;
    Some(Example { name: name?, line: item.at.map(|at| at.line), question, expect: expect? })
}

fn question(reader: &Reader, fields: &Fields<'_>, point: &str, facts: &Item) -> Option<PolicyQuestion> {
    match point {
        "who" => plain(reader, facts).map(PolicyQuestion::Who),
        "where" => plain(reader, facts).map(PolicyQuestion::Where),
        "how_much" => plain(reader, facts).map(PolicyQuestion::HowMuch),
        "approval" => plain(reader, facts).map(PolicyQuestion::Approval),
        "isolation" => plain(reader, facts).map(PolicyQuestion::Isolation),
        "failure" => plain(reader, facts).map(PolicyQuestion::Failure),
        "retention" => plain(reader, facts).map(PolicyQuestion::Retention),
        "guard" => plain(reader, facts).map(PolicyQuestion::Guard),
        "capacity" => plain(reader, facts).map(PolicyQuestion::Capacity),
        "schedulers" => plain(reader, facts).map(PolicyQuestion::Schedulers),
        _ => {
            let request = OnboardingRequest::read_within(reader, facts);
            let candidates = fields.optional("fleet").map_or_else(fleet, |item| clusters(reader, item));
            let in_use = fields.optional("name_in_use").map_or(Some(false), |item| reader.bool(item));
            let facts = OnboardingFacts {
                request: request?,
                name_in_use: in_use?,
                candidates: candidates?,
                preflight: None,
            };
            Some(PolicyQuestion::Onboarding(facts))
        }
    }
}

/// Reads facts in their stored form from the document.
fn plain<T: DeserializeOwned>(reader: &Reader, item: &Item) -> Option<T> {
    match serde_json::from_value(item.to_json()) {
        Ok(facts) => Some(facts),
        Err(error) => {
            reader.note(item, error.to_string(), "the manual, page policy lists the facts of each decision");
            None
        }
    }
}

fn expected(reader: &Reader, item: &Item) -> Option<Expected> {
    let fields = reader.fields(item, &["verdict", "seats", "reasons"])?;
    let verdict = fields.required("verdict").and_then(|item| reader.text(item)).map(str::to_owned);
    let nobody = |item: &Item| matches!(&item.value, Value::List(items) if items.is_empty());
    let asked = fields.optional("seats").map_or(Some(None), |item| {
        if nobody(item) { Some(Some(Vec::new())) } else { seats(reader, item).map(Some) }
    });
    let reasons = fields.optionally("reasons", |item| reader.texts(item));
    Some(Expected {
        verdict: verdict?,
        seats: asked?,
        reasons: reasons?.map(|reasons| reasons.into_iter().collect()),
    })
}

/// Returns the default clusters of examples: two shared ones in the EU and the US, and a dedicated one.
fn fleet() -> Option<Vec<Candidate>> {
    let own = Tenancy::Dedicated { tenant: None };
    let clusters = [
        ("eu-1", "eu-west", "eu", Tenancy::Shared, 64),
        ("us-1", "us-west", "us", Tenancy::Shared, 256),
        ("eu-own", "eu-west", "eu", own, 64),
    ];
    let each = clusters.into_iter().map(|(cluster, region, law, tenancy, gpus)| {
        candidate(cluster.parse().ok()?, region.parse().ok()?, law.parse().ok()?, tenancy, Gpus(gpus))
    });
    each.collect()
}

fn clusters(reader: &Reader, item: &Item) -> Option<Vec<Candidate>> {
    let one = |item: &Item| {
        let fields =
            reader.fields(item, &["cluster", "region", "jurisdiction", "gpus", "dedicated", "classes"])?;
        let cluster = fields.required("cluster").and_then(|item| reader.name(item));
        let region = fields.required("region").and_then(|item| reader.name(item));
        let law = fields.required("jurisdiction").and_then(|item| reader.name(item));
        let gpus = fields.required("gpus").and_then(|item| reader.gpus(item));
        let own = fields.optional("dedicated").map_or(Some(false), |item| reader.bool(item));
        let tenancy = if own? { Tenancy::Dedicated { tenant: None } } else { Tenancy::Shared };
        let classes = fields.optional("classes").map_or(Some(BTreeSet::new()), |item| reader.set(item));
        candidate(cluster?, region?, law?, tenancy, gpus?)
            .zip(classes)
            .map(|(found, classes)| Candidate { classes, ..found })
    };
    let read: Vec<_> = reader.list(item).iter().map(one).collect();
    read.into_iter().collect()
}

fn candidate(
    cluster: crate::tenancy::ClusterId,
    region: crate::tenancy::RegionId,
    jurisdiction: crate::tenancy::Jurisdiction,
    tenancy: Tenancy,
    gpus: Gpus,
) -> Option<Candidate> {
    let kind = ClusterKind::Kubernetes;
    let (total, free, buffer) = (gpus, gpus, Gpus::ZERO);
    let unready = Vec::new();
    Some(Candidate {
        cluster,
        region,
        jurisdiction,
        kind,
        simulated: true,
        tenancy,
        total,
        free,
        buffer,
        unready,
        classes: BTreeSet::new(),
    })
}
