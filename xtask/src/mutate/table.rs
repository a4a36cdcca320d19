//! The table of mutations, as Markdown.

use std::fmt::Write;

use super::outcome::Outcome;

/// What was run.
pub struct Run {
    /// The commit, and when it was made.
    pub commit: String,
    /// Version of loom.
    pub loom: String,
    /// Seconds that each model had.
    pub seconds: u64,
    /// Number of models.
    pub models: usize,
}

/// A mutation and what came of it.
pub struct Row<'a> {
    pub outcome: &'a Outcome,
    /// Function that the site is in.
    pub function: String,
}

/// An ordering that no model comes to.
pub struct Unreached {
    pub file: String,
    pub line: u32,
    pub function: String,
}

/// The page.
pub fn page(run: &Run, rows: &[Row], unreached: &[Unreached]) -> String {
    let sites = rows
        .chunk_by(|left, right| left.outcome.mutation.site == right.outcome.mutation.site)
        .count();
    let killed = rows.iter().filter(|row| row.outcome.killer.is_some());
    let killed = killed.count();
    let mut page = format!(
        "# Mutations of memory orderings\n\n\
        Written by `cargo xtask model --mutate`; [testing.md](testing.md#mutations) says what it does.\n\n\
        Commit {}, loom {}, {} models, up to {} seconds each.\n\n\
        Operations that ask for more than relaxed: {sites}. Mutations: {}. Of these {killed} made a model \
        fail, and {} did not.\n\n\
        | where | function | operation | ordering → weakened to | model that failed | seconds |\n\
        |---|---|---|---|---|---:|\n",
        run.commit,
        run.loom,
        run.models,
        run.seconds,
        rows.len(),
        rows.len() - killed,
    );
    for row in rows {
        page += &line_of(row);
    }
    if !unreached.is_empty() {
        page += "\nOrderings that no model comes to:\n\n";
    }
    for place in unreached {
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "- `{}:{}`, `{}`",
            short(&place.file),
            place.line,
            place.function
        );
    }
    page
}

fn line_of(row: &Row) -> String {
    let Outcome {
        mutation,
        killer,
        seconds,
    } = row.outcome;
    let site = &mutation.site;
    let model = match killer {
        Some(killer) if killer.crashed => format!("`{}` ({})", killer.model, killer.complaint),
        Some(killer) => format!("`{}`", killer.model),
        None => "**none**".to_owned(),
    };
    format!(
        "| `{}:{}` | `{}` | `{}` | {} → {} | {model} | {seconds:.1} |\n",
        short(&site.file),
        site.line,
        row.function,
        site.operation,
        site.ordering,
        mutation.to,
    )
}

fn short(file: &str) -> &str {
    file.trim_start_matches("heap/src/")
}

/// The version of a package, as a lock file has it.
pub fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines();
    lines.find(|line| *line == name)?;
    lines
        .next()?
        .strip_prefix("version = \"")?
        .strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Killer;
    use super::super::site::{Ordering, Site};
    use super::*;

    fn outcomes(crashed: bool) -> Vec<Outcome> {
        let site = Site::parse("heap/src/stripe.rs\t2\tcompare_exchange\tAcqRel").expect("a site");
        site.mutations()
            .map(|mutation| Outcome {
                killer: (mutation.to == Ordering::Relaxed).then(|| Killer {
                    model: "two_adopt".to_owned(),
                    complaint: "it broke".to_owned(),
                    crashed,
                }),
                mutation,
                seconds: 1.25,
            })
            .collect()
    }

    #[test]
    fn each_mutation_has_its_row() {
        let outcomes = outcomes(false);
        let row = |outcome| Row {
            outcome,
            function: "detach".to_owned(),
        };
        let rows: Vec<_> = outcomes.iter().map(row).collect();
        let run = Run {
            commit: "abc of 2026-01-01".to_owned(),
            loom: "0.7.2".to_owned(),
            seconds: 20,
            models: 3,
        };
        let place = Unreached {
            file: "heap/src/malloc.rs".to_owned(),
            line: 7,
            function: "claim".to_owned(),
        };
        let page = page(&run, &rows, &[place]);
        assert!(page.contains(": 1. Mutations: 3. Of these 1 made a model fail, and 2 did"));
        let last: Vec<_> = page.lines().rev().take(7).collect();
        let expected = [
            "- `malloc.rs:7`, `claim`",
            "",
            "Orderings that no model comes to:",
            "",
            "| `stripe.rs:2` | `detach` | `compare_exchange` | acq_rel → relaxed | `two_adopt` | 1.2 |",
            "| `stripe.rs:2` | `detach` | `compare_exchange` | acq_rel → release | **none** | 1.2 |",
            "| `stripe.rs:2` | `detach` | `compare_exchange` | acq_rel → acquire | **none** | 1.2 |",
        ];
        assert_eq!(last, expected);
    }

    #[test]
    fn a_model_that_crashed_is_told_apart() {
        let line = |outcome| {
            let function = "detach".to_owned();
            line_of(&Row { outcome, function })
        };
        let outcomes = outcomes(true);
        let lines: String = outcomes.iter().map(line).collect();
        assert!(lines.contains("| `two_adopt` (it broke) |"), "{lines}");
    }

    #[test]
    fn a_version_is_found_in_a_lock_file() {
        let lock = "[[package]]\nname = \"loom-like\"\nversion = \"1.0.0\"\n\n\
            [[package]]\nname = \"loom\"\nversion = \"0.7.2\"\n";
        assert_eq!(locked_version(lock, "loom"), Some("0.7.2"));
        assert_eq!(locked_version(lock, "shuttle"), None);
    }
}
