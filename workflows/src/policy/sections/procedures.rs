//! The procedure of an approval: reminders, escalation, expiry and emergency override. Every approval has the same fields.

use crate::policy::{
    duration::show,
    parsing::{
        document::Item,
        reader::{Fields, Reader},
    },
    sections::seats::{named, seats},
};
use engine::{BreakGlass, Escalation, Procedure, Reminders, Seat};
use std::time::Duration;

/// The shortest reason of an emergency override, in characters, unless a document sets it.
const REASON_AT_LEAST: u32 = 20;

/// Reads the procedure of an approval. A missing field disables its part.
pub(in crate::policy) fn procedure(fields: &Fields<'_>) -> Option<Procedure> {
    let reader = fields.reader();
    let escalate = fields.optional("escalate").map_or(Some(Vec::new()), |item| escalations(reader, item));
    let extend = optional(fields.optional("extend"), |item| reader.duration(item));
    let remind = fields.optional("remind").map_or(Some(Reminders::default()), |item| reminders(reader, item));
    let break_glass = optional(fields.optional("break_glass"), |item| glass(reader, item));
    Some(Procedure { escalate: escalate?, extend: extend?, remind: remind?, break_glass: break_glass? })
}

/// Applies `read` to the item, if present.
fn optional<T>(item: Option<&Item>, read: impl FnOnce(&Item) -> Option<T>) -> Option<Option<T>> {
    match item {
        Some(item) => read(item).map(Some),
        None => Some(None),
    }
}

fn escalations(reader: &Reader, item: &Item) -> Option<Vec<Escalation>> {
    let one = |item: &Item| {
        let fields = reader.fields(item, &["after", "seats"])?;
        let after = fields.required("after").and_then(|item| reader.duration(item));
        let seats = fields.required("seats").and_then(|item| seats(reader, item));
        Some(Escalation { after: after?, seats: seats? })
    };
    let read: Vec<_> = reader.list(item).iter().map(one).collect();
    read.into_iter().collect()
}

fn reminders(reader: &Reader, item: &Item) -> Option<Reminders> {
    let fields = reader.fields(item, &["before", "every"])?;
    let before = fields.optional("before").map_or(Some(Vec::new()), |item| {
        let read: Vec<_> = reader.list(item).iter().map(|item| reader.duration(item)).collect();
        read.into_iter().collect()
    });
    let every = optional(fields.optional("every"), |item| reader.duration(item));
    Some(Reminders { before: before?, every: every? })
}

fn glass(reader: &Reader, item: &Item) -> Option<BreakGlass> {
    let fields = reader.fields(item, &["any_of", "reason_at_least", "destroys"])?;
    let any_of = fields.required("any_of").and_then(|item| {
        let any_of = reader.texts(item)?;
        named(reader, item, &any_of)?;
        Some(any_of)
    });
    let reason = fields.optional("reason_at_least");
    let reason = reason.map_or(Some(REASON_AT_LEAST), |item| reader.whole(item, 1..=1_000_u32));
    let destroys = fields.optional("destroys").map_or(Some(false), |item| reader.bool(item));
    Some(BreakGlass { any_of: any_of?, reason_at_least: reason?, destroys: destroys? })
}

/// Finds contradictions: the field, its problem, and the remedy.
pub(in crate::policy) fn doubts(
    procedure: &Procedure,
    seats: &[Seat],
    within: Duration,
) -> Vec<(String, String, &'static str)> {
    let mut doubts = Vec::new();
    let mut doubt = |field: &str, problem: String, remedy| doubts.push((field.to_owned(), problem, remedy));
    let end = within.saturating_add(procedure.extend.unwrap_or_default());
    if procedure.extend.is_some_and(|by| by.is_zero()) {
        doubt(
            "extend",
            "the deadline is moved by nothing".into(),
            "write a span such as `1d`, or leave it out",
        );
    }
    let mut last = Duration::ZERO;
    for (n, next) in procedure.escalate.iter().enumerate() {
        let field = format!("escalate[{n}].after");
        if next.after >= end {
            let problem = format!("others are asked after {}, when it has lapsed", show(next.after));
            doubt(&field, problem, "let it be less than `within` and `extend` together");
        }
        if next.after <= last {
            let problem = "it is not later than the opening, or than the one before".into();
            doubt(&field, problem, "write the spans in order, each counted from the opening");
        }
        last = next.after;
    }
    for (n, span) in procedure.remind.before.iter().enumerate().filter(|(_, span)| **span >= within) {
        let problem = format!("{} before the deadline nobody has been asked yet", show(*span));
        doubt(&format!("remind.before[{n}]"), problem, "let it be less than `within`");
    }
    if let Some(every) = procedure.remind.every
        && (every.as_secs() < 60 || end.as_secs() / every.as_secs() > MOST_REMINDERS)
    {
        let problem =
            format!("people are reminded every {}, until they read no reminder any more", show(every));
        doubt("remind.every", problem, "remind at most a hundred times, and no oftener than each minute");
    }
    let auditors = |roles: &[String]| roles.iter().all(|role| role == "auditor");
    if procedure.break_glass.as_ref().is_some_and(|glass| auditors(&glass.any_of)) {
        let problem = "an auditor reads and decides nothing, so nobody may break the glass".into();
        doubt("break_glass.any_of", problem, "name a role that decides, such as `breakglass`");
    }
    for (n, next) in procedure.escalate.iter().enumerate() {
        let field = format!("escalate[{n}].seats");
        if next.seats.iter().any(|seat| auditors(&seat.any_of)) {
            let problem = "an auditor reads and decides nothing, so the seat stays empty".into();
            doubt(&field, problem, "name a role that decides");
        }
        if next.seats == seats {
            doubt(&field, "the same people are asked again".into(), "name others, or use `remind`");
        }
    }
    doubts
}

/// The most reminders of one approval.
const MOST_REMINDERS: u64 = 100;

/// Describes a procedure in text: its events in order of time, and the emergency override.
pub(in crate::policy) fn describe(procedure: &Procedure, seats: impl Fn(&[Seat]) -> String) -> String {
    let mut parts = Vec::new();
    for next in &procedure.escalate {
        parts.push(format!("after {} {}", show(next.after), seats(&next.seats)));
    }
    if let Some(by) = procedure.extend {
        parts.push(format!("extended once by {}", show(by)));
    }
    let before: Vec<_> = procedure.remind.before.iter().map(|span| show(*span)).collect();
    if !before.is_empty() {
        parts.push(format!("reminded {} before the end", before.join(" and ")));
    }
    if let Some(every) = procedure.remind.every {
        parts.push(format!("reminded every {}", show(every)));
    }
    if let Some(glass) = &procedure.break_glass {
        let what = if glass.destroys { ", also to destroy" } else { "" };
        parts.push(format!("{} may break the glass{what}", glass.any_of.join(" or ")));
    }
    parts.iter().map(|part| format!("; {part}")).collect()
}

#[cfg(test)]
mod tests {
    use crate::policy::{PlatformPolicy, diff};
    use engine::{DAY, HOUR};

    fn read(question: &str) -> Result<PlatformPolicy, Vec<String>> {
        let text = format!("policy: platform\nversion: 9\napprovals: {{{question}}}\n");
        PlatformPolicy::from_yaml(&text).map_err(|invalid| {
            invalid
                .findings
                .iter()
                .map(|one| format!("{}: {}; {}", one.field, one.problem, one.remedy))
                .collect()
        })
    }

    const WHOLE: &str = "offboard: {escalate: [{after: 1d, seats: [{any_of: [admin, 'group:leads'], count: 2}]}], \
                         extend: 2d, remind: {before: [4h], every: 1d}, break_glass: {any_of: [breakglass]}}";

    #[test]
    fn an_approval_explains_what_happens_without_an_answer() {
        let policy = read(WHOLE).unwrap();
        let asked = &policy.approvals.offboard;
        assert_eq!(asked.within, 5 * DAY, "what is left out is as before");
        let procedure = &asked.procedure;
        assert_eq!((procedure.escalate.len(), procedure.escalate[0].after), (1, DAY));
        assert_eq!(procedure.escalate[0].seats[0].any_of, ["admin", "group:leads"]);
        assert_eq!((procedure.extend, &procedure.remind.before[..]), (Some(2 * DAY), &[4 * HOUR][..]));
        let glass = procedure.break_glass.as_ref().unwrap();
        assert_eq!((glass.reason_at_least, glass.destroys), (20, false));
        assert!(policy.approvals.destroy.procedure.is_plain(), "and no other question");
    }

    /// Every approval takes the same fields, also those with fields of their own.
    #[test]
    fn every_kind_of_approval_can_have_a_procedure() {
        let names = [
            "onboarding",
            "quota_increase",
            "quota_decrease",
            "reclaim",
            "offboard",
            "sla_change",
            "incident",
        ];
        for name in names {
            // The approval of a reclaim must end before the deadline of its GPUs.
            let extend = if name == "reclaim" { "5m" } else { "2h" };
            read(&format!("{name}: {{extend: {extend}}}")).unwrap_or_else(|why| panic!("{name}: {why:?}"));
        }
        let rung = "capacity: {procure: {within: 5d, extend: 1h, seats: [{any_of: [finance], count: 1}]}}";
        let policy = read(rung).unwrap_or_else(|why| panic!("{why:?}"));
        assert!(policy.approvals.capacity.values().all(|gate| gate.procedure.extend == Some(HOUR)));
    }

    #[test]
    fn an_invalid_procedure_is_refused_with_its_field_and_a_remedy() {
        let cases = [
            ("offboard: {extend: 0s}", "approvals.offboard.extend"),
            ("offboard: {escalate: [{after: 9d, seats: [{any_of: [dpo], count: 1}]}]}", "escalate[0].after"),
            (
                "offboard: {escalate: [{after: 2d, seats: [{any_of: [dpo], count: 1}]}, \
                 {after: 1d, seats: [{any_of: [admin], count: 1}]}]}",
                "escalate[1].after",
            ),
            (
                "offboard: {escalate: [{after: 1d, seats: [{any_of: [auditor], count: 1}]}]}",
                "escalate[0].seats",
            ),
            ("offboard: {escalate: [{after: 1d, seats: [{any_of: [boss], count: 1}]}]}", "group:NAME"),
            ("offboard: {escalate: [{after: 1d, seats: [{any_of: ['group:'], count: 1}]}]}", "group:NAME"),
            ("offboard: {escalate: [{after: 1d, seats: []}]}", "nobody is asked"),
            ("offboard: {remind: {before: [5d]}}", "remind.before[0]"),
            ("offboard: {remind: {every: 1m}}", "remind.every"),
            ("offboard: {remind: {weekly: 1m}}", "weekly"),
            ("offboard: {break_glass: {any_of: [auditor]}}", "break_glass.any_of"),
            ("offboard: {break_glass: {any_of: [breakglass], reason_at_least: 0}}", "reason_at_least"),
            ("destroy: {break_glass: {any_of: [breakglass]}}", "destroys: true"),
            ("destroy: {escalate: [{after: 1d, seats: [{any_of: [dpo], count: 1}]}]}", "escalate[0].seats"),
        ];
        for (question, wanted) in cases {
            let found = read(question).expect_err(question);
            assert!(found.iter().any(|line| line.contains(wanted)), "{question}: {found:?}");
        }
        read("destroy: {break_glass: {any_of: [breakglass], destroys: true}}").unwrap();
    }

    #[test]
    fn two_policies_with_different_procedures_differ() {
        let text = |question: &str| format!("policy: platform\nversion: 9\napprovals: {{{question}}}\n");
        let changes = diff(&text("offboard: {extend: 1d}"), &text("offboard: {extend: 2d}")).unwrap();
        let told: Vec<_> = changes.iter().map(|change| change.key.as_str()).collect();
        assert!(told.contains(&"approvals.offboard.extend"), "{told:?}");
    }
}
