//! The table of ratios.

use std::fmt::Write as _;

use crate::round::median;

/// One comparison.
pub(crate) struct Row {
    /// The section of the table.
    pub(crate) group: &'static str,
    /// The measured quantity and contender.
    pub(crate) what: String,
    /// The contender that it is compared with.
    pub(crate) against: String,
    /// One ratio per round.
    pub(crate) ratios: Vec<f64>,
    /// The absolute figure on this machine, for orientation.
    pub(crate) figure: String,
    pub(crate) goal: Option<Goal>,
    /// True if the chart shows the row.
    pub(crate) charted: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// A measurement without a comparison.
pub(crate) struct Fact {
    /// The section of the table.
    pub(crate) group: &'static str,
    pub(crate) what: String,
    pub(crate) measured: String,
    /// The goal in words, and whether it is met.
    pub(crate) goal: Option<(String, bool)>,
}

impl Row {
    pub(crate) fn ratio(&self) -> f64 {
        median(self.ratios.iter().copied())
    }

    /// Returns whether the row compares figures per second, of which more is better.
    pub(crate) fn is_rate(&self) -> bool {
        self.figure.ends_with("/s")
    }
}

impl Goal {
    pub(crate) fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => ratio <= most,
            Self::AtLeast(least) => ratio >= least,
        }
    }
}

/// Formats all rows as a Markdown table, with a heading for each group.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = row.group;
            write!(text, "\n### {group}\n\n| Measurement | Baseline | Ratio | Range | Value | Goal |\n")
                .and_then(|()| writeln!(text, "|---|---|---:|---:|---:|---|"))
                .expect("writing to a String succeeds");
        }
        writeln!(text, "{}", line(row)).expect("writing to a String succeeds");
    }
    text
}

/// Formats all facts as a Markdown table, with a heading for each group.
pub(crate) fn facts(facts: &[Fact]) -> String {
    let mut text = String::new();
    let mut before = "";
    for Fact { group, what, measured, goal } in facts {
        if *group != before {
            before = group;
            write!(text, "\n### {group}\n\n| Measurement | Result | Goal |\n|---|---:|---|\n")
                .expect("writing to a String succeeds");
        }
        let goal = goal
            .as_ref()
            .map_or(String::new(), |(goal, met)| format!("{goal}{}", if *met { "" } else { " (missed)" }));
        writeln!(text, "| {what} | {measured} | {goal} |").expect("writing to a String succeeds");
    }
    text
}

fn line(row: &Row) -> String {
    let Row { what, against, ratios, figure, .. } = row;
    let ratio = row.ratio();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    let goal = row.goal.map_or(String::new(), |goal| {
        let (bound, number) = match goal {
            Goal::AtMost(most) => ("at most", most),
            Goal::AtLeast(least) => ("at least", least),
        };
        format!("{bound} {number:.2}{}", if goal.is_met(ratio) { "" } else { " (missed)" })
    });
    format!("| {what} | {against} | **{ratio:.2}** | {least:.2} - {most:.2} | {figure} | {goal} |")
}
