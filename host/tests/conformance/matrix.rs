//! The matrix: for each device which resource holds which case, as Markdown.

use crate::suite::cases::CASES;
use crate::suite::outcomes::Outcomes;
use crate::suite::table::Subject;
use crate::suite::{BUFFER, name_of};
use scatterheap_host::Device;
use std::fmt::Write as _;
use std::sync::Arc;

/// A table for each device, then the columns, then how many hold.
pub fn text(outcomes: &Outcomes, subjects: &[Arc<Subject>], devices: &[Device]) -> String {
    let mut text = String::new();
    for device in devices {
        let _ = writeln!(text, "## `{}`: {}\n", device.label(), device.name());
        let columns: Vec<_> = CASES.iter().map(|case| case.column).collect();
        let _ = writeln!(text, "| | {} |", columns.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(columns.len()));
        for subject in subjects {
            let cells: Vec<_> = CASES
                .iter()
                .map(|case| cell(outcomes, &name_of(case.name, &subject.name, device)))
                .collect();
            let _ = writeln!(text, "| {} | {} |", subject.name, cells.join(" | "));
        }
        let (case, subject) = BUFFER;
        let held = cell(outcomes, &name_of(case, subject, device));
        let _ = writeln!(text, "\n`{subject}`, `{case}`: {held}\n");
    }
    for case in CASES {
        let _ = writeln!(
            text,
            "- {}, `{}`: {}.",
            case.column, case.name, case.promise
        );
    }
    let all = devices.len() * (subjects.len() * CASES.len() + 1);
    let _ = writeln!(text, "\n{} of {all} hold", outcomes.held());
    text
}

fn cell(outcomes: &Outcomes, name: &str) -> &'static str {
    match outcomes.of(name) {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "–",
    }
}
