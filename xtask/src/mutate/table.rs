//! The table of mutations, as Markdown.

use std::fmt::Write;

use super::outcome::Outcome;
use super::site::function_at;

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

/// The page. `source` gives the text of a file of the workspace.
pub fn page(run: &Run, outcomes: &[Outcome], source: impl Fn(&str) -> Option<String>) -> String {
    let sites = outcomes
        .chunk_by(|left, right| left.mutation.site == right.mutation.site)
        .count();
    let killed = outcomes
        .iter()
        .filter(|outcome| outcome.killer.is_some())
        .count();
    let mut page = format!(
        "# Mutations of memory orderings\n\n\
        Written by `cargo xtask model --mutate`; what it does is in [testing.md](testing.md).\n\n\
        Commit {}, loom {}; {} models, up to {} seconds each.\n\n\
        {sites} operations ask for more than relaxed. {} mutations: {killed} made a model fail, {} did not.\n\n\
        | file | function | operation | ordering → weakened to | model that failed | seconds |\n\
        |---|---|---|---|---|---:|\n",
        run.commit,
        run.loom,
        run.models,
        run.seconds,
        outcomes.len(),
        outcomes.len() - killed,
    );
    for outcome in outcomes {
        let site = &outcome.mutation.site;
        let text = source(&site.file);
        let function = text
            .as_deref()
            .and_then(|text| function_at(text, site.line));
        let model = outcome
            .killer
            .as_ref()
            .map_or("**none**".to_owned(), |killer| {
                format!("`{}`", killer.model)
            });
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| `{}:{}` | `{}` | `{}` | {} → {} | {model} | {:.1} |",
            site.file.trim_start_matches("heap/src/"),
            site.line,
            function.unwrap_or("?"),
            site.operation,
            site.ordering,
            outcome.mutation.to,
            outcome.seconds,
        );
    }
    page
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
    use super::super::site::Site;
    use super::*;

    #[test]
    fn each_mutation_has_its_row() {
        let outcomes: Vec<_> = Site::parse("heap/src/stripe.rs\t2\tcompare_exchange\tAcqRel")
            .expect("a site")
            .mutations()
            .map(|mutation| Outcome {
                killer: mutation.variable().ends_with("relaxed").then(|| Killer {
                    model: "two_adopt".to_owned(),
                    complaint: "it broke".to_owned(),
                }),
                mutation,
                seconds: 1.25,
            })
            .collect();
        let run = Run {
            commit: "abc of 2026-01-01".to_owned(),
            loom: "0.7.2".to_owned(),
            seconds: 20,
            models: 3,
        };
        let page = page(&run, &outcomes, |_| Some("fn detach() {\n}\n".to_owned()));
        assert!(page.contains("1 operations ask for more than relaxed. 3 mutations: 1 made a model fail, 2 did not."), "{page}");
        let rows: Vec<_> = page.lines().rev().take(3).collect();
        assert_eq!(
            rows,
            [
                "| `stripe.rs:2` | `detach` | `compare_exchange` | acq_rel → relaxed | `two_adopt` | 1.2 |",
                "| `stripe.rs:2` | `detach` | `compare_exchange` | acq_rel → release | **none** | 1.2 |",
                "| `stripe.rs:2` | `detach` | `compare_exchange` | acq_rel → acquire | **none** | 1.2 |",
            ]
        );
    }

    #[test]
    fn a_version_is_found_in_a_lock_file() {
        let lock = "[[package]]\nname = \"loom-like\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"loom\"\nversion = \"0.7.2\"\n";
        assert_eq!(locked_version(lock, "loom"), Some("0.7.2"));
        assert_eq!(locked_version(lock, "shuttle"), None);
    }
}
