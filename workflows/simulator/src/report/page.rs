//! The report as a single HTML file without external resources.

use super::{
    Report,
    plot::{Frame, Series, lines, stacked},
    table::{cells, count, time},
};
use crate::replay::Outcome;
use std::fmt::Write as _;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6673; --line: #e2e7ec; --paper: #fff; --card: #f7f9fb;
  --own: #3b73b9; --borrowed: #e8a33d; --wanted: #c8483c; --good: #2f855a; --bad: #c8483c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaef; --soft: #9aa6b2; --line: #2c353f; --paper: #14191f; --card: #1b222a;
  --own: #6ea3e0; --borrowed: #e8b566; --wanted: #e5766b; --good: #5fbf8a; --bad: #e5766b; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 960px; margin: 2.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .4rem; } p { margin: .3rem 0 .8rem; } .soft { color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: .8rem; margin: 1.2rem 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; }
.card b { display: block; font-size: 1.5rem; font-weight: 600; } .card.good b { color: var(--good); } .card.bad b { color: var(--bad); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; } th, td { padding: .32rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } thead th { color: var(--soft); font-weight: 600; } tbody tr:hover { background: var(--card); }
svg { width: 100%; height: auto; } .grid { stroke: var(--line); } .tick { fill: var(--soft); font-size: 12px; } .axis { fill: var(--soft); font-size: 12px; }
.mark { stroke: var(--soft); stroke-dasharray: 5 4; } .own { fill: var(--own); } .borrowed { fill: var(--borrowed); } .wanted { fill: var(--wanted); }
.line { fill: none; stroke-width: 2; } .line.own { stroke: var(--own); } .line.borrowed { stroke: var(--borrowed); } .line.wanted { stroke: var(--wanted); } .line.other { stroke: var(--good); }
.key { display: flex; gap: 1.2rem; color: var(--soft); font-size: 13px; } .key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; overflow-x: auto; font-size: 13px; } .scroll { overflow-x: auto; }
";

/// Returns the report as a page.
#[must_use]
pub fn page(report: &Report) -> String {
    let title = escape(&report.scene);
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Replay of {title}</title>\n<style>{STYLE}</style></head><body>\n<h1>Replay of {title}</h1>\n"
    );
    // Writing to a string cannot fail; nor below.
    let _ = writeln!(
        html,
        "<p class=\"soft\">{:.1} days · {} workspaces · {} GPUs on {} nodes, {:.1} promised · policy {} · seed {}</p>",
        report.days,
        report.workspaces,
        count(report.gpus as u64),
        count(report.nodes as u64),
        report.promised,
        escape(&report.policy),
        report.seed
    );
    cards(&mut html, report);
    if let Some(first) = report.outcomes.first() {
        use_over_time(&mut html, report, first);
    }
    waits(&mut html, report);
    compared(&mut html, report);
    rest(&mut html, report);
    html.push_str("</body></html>\n");
    html
}

fn cards(html: &mut String, report: &Report) {
    let Some(first) = report.outcomes.first().map(|outcome| &outcome.measures) else { return };
    let alone = report.outcomes.iter().map(|outcome| &outcome.measures).find(|m| !m.baseline.borrows());
    let gain = alone
        .map_or_else(String::new, |alone| format!("{:.1} % without borrowing", alone.utilisation * 100.0));
    let all = [
        ("good", format!("{:.1} %", first.utilisation * 100.0), "of all GPU-hours used".to_owned(), gain),
        (
            "",
            count(first.gpu_hours_lent.round() as u64),
            "GPU-hours lent".into(),
            format!("{} reclaims", count(first.reclaims)),
        ),
        (
            "",
            time(first.owner_wait.p99_s),
            "owners wait, 99 of 100".into(),
            format!("{} deadlines missed", count(first.missed)),
        ),
        (
            if report.violations() == 0 { "good" } else { "bad" },
            count(report.violations()),
            "invariant violations".into(),
            "over all replays".into(),
        ),
    ];
    html.push_str("<div class=\"cards\">\n");
    for (class, number, what, more) in all {
        let _ = writeln!(
            html,
            "<div class=\"card {class}\"><b>{number}</b>{what}<br><span class=\"soft\">{more}</span></div>"
        );
    }
    html.push_str("</div>\n");
}

fn days(hours: f64) -> String {
    if hours < 72.0 { format!("{hours:.0} h") } else { format!("day {:.0}", hours / 24.0) }
}

fn use_over_time(html: &mut String, report: &Report, outcome: &Outcome) {
    let series = |of: fn(&crate::Sample) -> f64| {
        outcome.samples.iter().map(|sample| (sample.hour, of(sample))).collect::<Vec<_>>()
    };
    let frame = Frame { x: "time", y: "GPUs", mark: Some((report.gpus as f64, "owned")), label: days };
    let layers = [
        Series { name: "within quota", class: "own", points: series(|s| s.own) },
        Series { name: "on loan", class: "borrowed", points: series(|s| s.borrowed) },
    ];
    html.push_str("<h2>GPUs in use</h2>\n");
    key(html, &[("own", "within quota"), ("borrowed", "on loan")]);
    html.push_str(&stacked(&frame, &layers));
    let frame = Frame { x: "time", y: "GPUs wanted", mark: None, label: days };
    html.push_str("<h2>GPUs requested by waiting demands</h2>\n");
    html.push_str(&lines(
        &frame,
        &[Series { name: "wanted", class: "wanted", points: series(|s| s.wanted) }],
    ));
}

/// Plots the longest wait of each percentage of owners.
fn waits(html: &mut String, report: &Report) {
    const CLASSES: [&str; 4] = ["own", "wanted", "borrowed", "other"];
    let mut all = Vec::new();
    for (outcome, class) in report.outcomes.iter().zip(CLASSES) {
        let waits = &outcome.owner_waits;
        let points: Vec<(f64, f64)> = (0..=100_usize)
            .filter_map(|percent| {
                let place = (waits.len().saturating_sub(1) * percent).div_ceil(100);
                waits.get(place).map(|wait| (percent as f64, wait / 60.0))
            })
            .collect();
        all.push(Series { name: outcome.measures.baseline.title(), class, points });
    }
    if all.iter().all(|series| series.points.is_empty()) {
        return;
    }
    html.push_str("<h2>How long owners wait</h2>\n<p class=\"soft\">The time from a demand inside a reservation until it runs, in minutes: the curve shows how many of 100 owners wait at most this long.</p>\n");
    let names: Vec<(&str, &str)> = all.iter().map(|series| (series.class, series.name)).collect();
    key(html, &names);
    let frame =
        Frame { x: "of 100 owners", y: "minutes", mark: None, label: |percent| format!("{percent:.0}") };
    html.push_str(&lines(&frame, &all));
}

fn key(html: &mut String, names: &[(&str, &str)]) {
    html.push_str("<div class=\"key\">");
    for (class, name) in names {
        let colour = if *class == "other" { "good" } else { class };
        let _ = write!(html, "<span><i style=\"background: var(--{colour})\"></i>{name}</span>");
    }
    html.push_str("</div>\n");
}

fn compared(html: &mut String, report: &Report) {
    html.push_str("<h2>Compared</h2>\n<div class=\"scroll\"><table><thead><tr><th></th>");
    for outcome in &report.outcomes {
        let _ = write!(html, "<th>{}</th>", outcome.measures.baseline.title());
    }
    html.push_str("</tr></thead><tbody>\n");
    for (title, cells) in cells(report) {
        let _ = write!(html, "<tr><td>{title}</td>");
        for cell in cells {
            let _ = write!(html, "<td>{cell}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

fn rest(html: &mut String, report: &Report) {
    if !report.counts.is_empty() || !report.notes.is_empty() {
        html.push_str("<h2>Counts and assumptions</h2>\n<ul>\n");
        for (by, counted) in &report.counts {
            let _ = writeln!(
                html,
                "<li>By {by}: {} groups with {} GPUs reserved; {} demands inside a reservation, {} above.</li>",
                counted.groups,
                count(counted.reserved),
                count(counted.inside),
                count(counted.above)
            );
        }
        for note in &report.notes {
            let _ = writeln!(html, "<li>{}.</li>", escape(note));
        }
        html.push_str("</ul>\n");
    }
    for outcome in &report.outcomes {
        let name = outcome.measures.baseline.title();
        if !outcome.violations.is_empty() {
            let _ = writeln!(html, "<h2>Violations: {name}</h2>\n<ul>");
            for violation in outcome.violations.iter().take(100) {
                let _ = writeln!(html, "<li>{}: {}</li>", violation.rule, escape(&violation.what));
            }
            html.push_str("</ul>\n");
        }
        if !outcome.story.is_empty() {
            let _ =
                writeln!(html, "<h2>Events: {name}</h2>\n<pre>{}</pre>", escape(&outcome.story.join("\n")));
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
