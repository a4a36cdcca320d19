//! Text and JSON on stdout, notes on stderr, and numbers as people read them.

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use scatterheap::Occupancy;
use scatterheap::size::Bytes;
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Prints text, without its colours where they are not wanted: `NO_COLOR`, or no terminal.
pub fn print(text: &str) -> Result<()> {
    write(&mut anstream::stdout().lock(), text)
}

/// Whether colours are shown.
pub fn has_colours() -> bool {
    AutoStream::choice(&std::io::stdout()) != ColorChoice::Never
}

/// Prints a document.
pub fn print_json(document: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    write(&mut std::io::stdout().lock(), &text)
}

/// That the reader has gone away, `scatterheap … | head`, is no error: what a run found is still told by its exit code.
fn write(stdout: &mut impl Write, text: &str) -> Result<()> {
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to the standard output"),
    }
}

/// The end of a run, told and judged. What it found counts more than that it could not be told, which is noted then.
pub fn conclude(told: Result<()>, judged: Result<()>) -> Result<()> {
    if let (Err(error), Err(_)) = (&told, &judged) {
        note(&format!("error: {}", with_causes(error)));
    }
    judged.and(told)
}

/// Prints a line on stderr.
pub fn note(line: &str) {
    // An error here has nobody to go to.
    let _written = writeln!(std::io::stderr(), "{}", harmless(line));
}

/// Text whose control characters a terminal shows and does not obey: it may come from any file.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\n' {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// An error and what caused it in one line: `what: cause: cause of that`. A cause that was told already is left out, as most
/// errors tell theirs in their own words.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = one_line(&cause.to_string());
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Puts the lines of a message into one that is harmless to a terminal.
pub fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    harmless(&lines.collect::<Vec<_>>().join(" "))
}

/// A table with a line under its head; the first column is aligned left, the others right.
pub fn table<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    table_of(head, rows)
}

/// The same with as many columns as there turn out to be.
pub fn table_of<Head, Line>(head: Head, rows: impl IntoIterator<Item = Line>) -> String
where
    Head: Into<comfy_table::Row>,
    Line: Into<comfy_table::Row>,
{
    const STYLE: TableStyle =
        TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));
    let mut table = Table::new();
    table.load_style(STYLE).set_header(head);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0), 0));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// A count with its thousands apart: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many threads: `1 thread`, `4,096 threads`.
pub fn threads(number: u64) -> String {
    match number {
        1 => "1 thread".to_owned(),
        _ => format!("{} threads", count(number)),
    }
}

/// How often something happens in a second: `1.23 G/s`.
pub fn rate(per_second: f64) -> String {
    let (unit, scale) = match per_second {
        1e9.. => (" G/s", 1e9),
        1e6.. => (" M/s", 1e6),
        1e3.. => (" k/s", 1e3),
        _ => ("/s", 1.0),
    };
    format!("{:.2}{unit}", per_second / scale)
}

/// A share from 0 to 1 in per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A part of a whole in per cent.
#[allow(clippy::cast_precision_loss, reason = "for people, three digits do")]
pub fn percent_of(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}

/// The occupancy of heaps, side by side, each with a label.
pub fn occupancy_table<'a>(occupancies: impl Iterator<Item = (String, &'a Occupancy)>) -> String {
    let head = [
        "at peak",
        "used",
        "of heap",
        "blocks",
        "in slabs",
        "in runs",
        "free",
        "largest request",
        "fragmented",
    ];
    let rows = occupancies.map(|(label, occupancy)| {
        let pages = |pages: u64| Bytes(pages * occupancy.page_bytes).to_string();
        [
            label,
            Bytes(occupancy.used_bytes).to_string(),
            percent_of(occupancy.used_bytes, occupancy.capacity),
            count(occupancy.used_blocks),
            pages(occupancy.pages.in_slabs),
            pages(occupancy.pages.in_runs),
            pages(occupancy.pages.free),
            Bytes(occupancy.largest_request).to_string(),
            percent(occupancy.external_fragmentation),
        ]
    });
    table(head, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once_and_in_one_line() {
        let error = |cause: &str| anyhow::anyhow!("{cause}");
        for (error, text) in [
            (error("what"), "what"),
            (error("cause").context("what"), "what: cause"),
            (
                error("cause").context("why").context("what"),
                "what: why: cause",
            ),
            (
                error("cause").context("what (cause): do"),
                "what (cause): do",
            ),
            (
                error("first\n  second\n").context("what"),
                "what: first second",
            ),
        ] {
            assert_eq!(with_causes(&error), text);
        }
    }

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(one_line("a\u{1b}[31mb\tc\rd"), "a\\u{1b}[31mb\\tc\\rd");
        assert_eq!(one_line("a\u{9b}é\0"), "a\\u{9b}é\\u{0}");
        assert_eq!(harmless("one\ntwo\u{7}"), "one\ntwo\\u{7}");
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn one_thread_is_not_several() {
        assert_eq!(threads(1), "1 thread");
        assert_eq!(threads(4096), "4,096 threads");
    }

    #[test]
    fn rates_have_a_unit() {
        for (number, text) in [
            (12.0, "12.00/s"),
            (1500.0, "1.50 k/s"),
            (2.5e6, "2.50 M/s"),
            (9.876e9, "9.88 G/s"),
        ] {
            assert_eq!(rate(number), text);
        }
    }

    #[test]
    fn shares_of_nothing_are_nothing() {
        assert_eq!(percent_of(0, 0), "0.0 %");
        assert_eq!(percent_of(1, 3), "33.3 %");
    }
}
