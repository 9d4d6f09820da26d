//! The one table of ratios.

use std::fmt::Write as _;

use crate::round::median;

/// One comparison.
pub(crate) struct Row {
    /// Which chapter of the table it stands in.
    pub(crate) group: &'static str,
    /// What was measured, of whom.
    pub(crate) what: String,
    /// Whom it is compared with.
    pub(crate) against: String,
    /// One ratio for each round.
    pub(crate) ratios: Vec<f64>,
    /// The figure itself, for orientation: it is this machine's.
    pub(crate) figure: String,
    pub(crate) goal: Option<Goal>,
    /// Whether the chart shows it.
    pub(crate) charted: bool,
}

#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// Something measured that stands for itself.
pub(crate) struct Fact {
    /// Which chapter of the table it stands in.
    pub(crate) group: &'static str,
    pub(crate) what: String,
    pub(crate) measured: String,
    /// In words, and whether it is met.
    pub(crate) goal: Option<(String, bool)>,
}

impl Row {
    pub(crate) fn ratio(&self) -> f64 {
        median(self.ratios.iter().copied())
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

/// All rows as a Markdown table, with a heading for each group.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = row.group;
            write!(text, "\n### {group}\n\n| | against | ratio | of the rounds | measured | goal |\n")
                .and_then(|()| writeln!(text, "|---|---|---:|---:|---:|---|"))
                .expect("strings can be written to");
        }
        writeln!(text, "{}", line(row)).expect("strings can be written to");
    }
    text
}

/// All facts as a Markdown table, with a heading for each group.
pub(crate) fn facts(facts: &[Fact]) -> String {
    let mut text = String::new();
    let mut before = "";
    for Fact { group, what, measured, goal } in facts {
        if *group != before {
            before = group;
            write!(text, "\n### {group}\n\n| | measured | goal |\n|---|---:|---|\n")
                .expect("strings can be written to");
        }
        let goal = goal
            .as_ref()
            .map_or(String::new(), |(goal, met)| format!("{goal}{}", if *met { "" } else { " (missed)" }));
        writeln!(text, "| {what} | {measured} | {goal} |").expect("strings can be written to");
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
