//! Plots as SVG. Two plots do not justify a library.

use std::fmt::Write as _;

const WIDTH: f64 = 920.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;

/// A line of a plot, or the upper edge of a layer.
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    /// A CSS class of the page: `own`, `borrowed`.
    pub(super) class: &'a str,
    pub(super) points: Vec<(f64, f64)>,
}

/// The axes of a plot.
pub(super) struct Frame<'a> {
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// A level for comparison, with its name.
    pub(super) mark: Option<(f64, &'a str)>,
    /// Formats a value on the horizontal axis.
    pub(super) label: fn(f64) -> String,
}

struct Scale {
    most_x: f64,
    most_y: f64,
}

impl Scale {
    fn x(&self, x: f64) -> f64 {
        LEFT + x / self.most_x * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, y: f64) -> f64 {
        HEIGHT - BOTTOM - y / self.most_y * (HEIGHT - TOP - BOTTOM)
    }
}

/// Draws stacked layers, the first at the bottom.
pub(super) fn stacked(frame: &Frame<'_>, layers: &[Series<'_>]) -> String {
    let mut edges: Vec<Series<'_>> = Vec::new();
    for layer in layers {
        let below = edges.last();
        let points = layer.points.iter().enumerate().map(|(place, (x, y))| {
            (*x, y + below.and_then(|below| below.points.get(place)).map_or(0.0, |(_, y)| *y))
        });
        edges.push(Series { name: layer.name, class: layer.class, points: points.collect() });
    }
    let scale = scale(frame, &edges);
    let mut svg = open(frame, &scale);
    for (place, edge) in edges.iter().enumerate() {
        let floor = place.checked_sub(1).and_then(|below| edges.get(below));
        let mut path = String::new();
        trace(&mut path, &scale, edge.points.iter());
        match floor {
            Some(floor) => trace(&mut path, &scale, floor.points.iter().rev()),
            None => {
                let ends = (edge.points.last(), edge.points.first());
                let ends = [ends.0, ends.1].into_iter().flatten().map(|(x, _)| (*x, 0.0)).collect::<Vec<_>>();
                trace(&mut path, &scale, ends.iter());
            }
        }
        let _ = writeln!(svg, r#"<polygon class="{}" points="{}"/>"#, edge.class, path.trim_end());
    }
    close(svg, frame, &scale)
}

/// Draws lines.
pub(super) fn lines(frame: &Frame<'_>, series: &[Series<'_>]) -> String {
    let scale = scale(frame, series);
    let mut svg = open(frame, &scale);
    for line in series {
        let mut path = String::new();
        trace(&mut path, &scale, line.points.iter());
        let _ = writeln!(svg, r#"<polyline class="line {}" points="{}"/>"#, line.class, path.trim_end());
    }
    close(svg, frame, &scale)
}

fn trace<'a>(path: &mut String, scale: &Scale, points: impl Iterator<Item = &'a (f64, f64)>) {
    for (x, y) in points {
        // Writing to a string cannot fail; nor below.
        let _ = write!(path, "{:.1},{:.1} ", scale.x(*x), scale.y(*y));
    }
}

fn scale(frame: &Frame<'_>, series: &[Series<'_>]) -> Scale {
    let points = || series.iter().flat_map(|series| &series.points);
    let most_x = points().map(|(x, _)| *x).fold(0.0, f64::max).max(1e-9);
    let mark = frame.mark.map_or(0.0, |(level, _)| level);
    let most_y = points().map(|(_, y)| *y).fold(mark, f64::max);
    Scale { most_x, most_y: nice(most_y * 1.05) }
}

/// Returns a round number not below `value`.
fn nice(value: f64) -> f64 {
    let value = value.max(1e-9);
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= value)
        .unwrap_or(value)
}

fn open(frame: &Frame<'_>, scale: &Scale) -> String {
    let mut svg = format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{} over {}">"#,
        frame.y, frame.x
    );
    svg.push('\n');
    for part in 0..=4 {
        let level = scale.most_y * f64::from(part) / 4.0;
        let y = scale.y(level);
        let _ = writeln!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
            tick(level)
        );
    }
    for part in 0..=6 {
        let at = scale.most_x * f64::from(part) / 6.0;
        let _ = writeln!(
            svg,
            r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            scale.x(at),
            HEIGHT - BOTTOM + 18.0,
            (frame.label)(at)
        );
    }
    svg
}

fn close(mut svg: String, frame: &Frame<'_>, scale: &Scale) -> String {
    if let Some((level, name)) = frame.mark {
        let y = scale.y(level);
        let _ = writeln!(
            svg,
            r#"<line class="mark" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text class="tick" x="{:.1}" y="{:.1}" text-anchor="end">{name}</text>"#,
            WIDTH - RIGHT,
            WIDTH - RIGHT - 4.0,
            y - 5.0
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ = writeln!(
        svg,
        r#"<text class="axis" x="{middle:.1}" y="{:.1}" text-anchor="middle">{}</text></svg>"#,
        HEIGHT - 4.0,
        frame.x
    );
    svg
}

fn tick(level: f64) -> String {
    if level >= 10.0 || level == 0.0 {
        super::table::count(level.round() as u64)
    } else {
        format!("{level:.1}")
    }
}
