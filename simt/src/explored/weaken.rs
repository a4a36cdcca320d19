//! Mutations of orderings, which a model must find: an operation that asks for more than relaxed is
//! a *site*, known by the line of its caller (wrappers in this crate are seen through).
//!
//! Two variables of the environment, each read once:
//!
//! - `SCATTERHEAP_WEAKEN=FILE:LINE:ORDERING` gives the site in that line a weaker ordering:
//!   `relaxed`, or one half of an `AcqRel`: `acquire` or `release`. A relaxed fence is none.
//! - `SCATTERHEAP_SITES=FILE` appends each site that the process comes to: its file, line,
//!   operation and ordering, with tabs between them.
//!
//! A compare-exchange is weakened where it succeeds. Its failure keeps its ordering.

use core::sync::atomic::Ordering;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::panic::Location;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A site, and the ordering that it has in this process.
struct Mutation {
    file: String,
    line: u32,
    ordering: Ordering,
}

impl Mutation {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.rsplitn(3, ':');
        let ordering = match parts.next()? {
            "relaxed" => Ordering::Relaxed,
            "acquire" => Ordering::Acquire,
            "release" => Ordering::Release,
            _ => return None,
        };
        let line = parts.next()?.parse().ok()?;
        let file = parts.next()?.to_owned();
        Some(Self {
            file,
            line,
            ordering,
        })
    }

    fn from_environment() -> Option<Self> {
        let text = std::env::var("SCATTERHEAP_WEAKEN").ok()?;
        let mutation = Self::parse(&text);
        assert!(
            mutation.is_some(),
            "SCATTERHEAP_WEAKEN is `{text}`; give FILE:LINE:relaxed, or acquire or release"
        );
        mutation
    }
}

/// The ordering of an operation of the caller, which asks for `ordering`.
#[track_caller]
pub(super) fn ordering_of(operation: &'static str, ordering: Ordering) -> Ordering {
    static MUTATION: OnceLock<Option<Mutation>> = OnceLock::new();
    if ordering == Ordering::Relaxed {
        return ordering;
    }
    let place = Location::caller();
    note(operation, ordering, place);
    match MUTATION.get_or_init(Mutation::from_environment) {
        Some(mutation) if mutation.line == place.line() && mutation.file == place.file() => {
            weakened(ordering, mutation.ordering)
        }
        _ => ordering,
    }
}

/// `to`, which must be weaker than `ordering`.
fn weakened(ordering: Ordering, to: Ordering) -> Ordering {
    assert!(
        to == Ordering::Relaxed || ordering == Ordering::AcqRel,
        "{to:?} is not weaker than {ordering:?}; give `relaxed`"
    );
    to
}

/// Writes a site down when the process comes to it first.
fn note(operation: &str, ordering: Ordering, place: &Location<'_>) {
    static SITES: OnceLock<Option<Mutex<Sites>>> = OnceLock::new();
    let Some(sites) = SITES.get_or_init(Sites::from_environment) else {
        return;
    };
    // A model that fails may have let go of it in a panic; it is whole all the same.
    let mut sites = sites.lock().unwrap_or_else(PoisonError::into_inner);
    if sites.seen.insert((place.file().to_owned(), place.line())) {
        let (file, line) = (place.file(), place.line());
        writeln!(sites.file, "{file}\t{line}\t{operation}\t{ordering:?}")
            .expect("the file of SCATTERHEAP_SITES can be written");
    }
}

struct Sites {
    file: File,
    seen: HashSet<(String, u32)>,
}

impl Sites {
    fn from_environment() -> Option<Mutex<Self>> {
        let path = std::env::var_os("SCATTERHEAP_SITES")?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        Some(Mutex::new(Self {
            file: file.expect("the file of SCATTERHEAP_SITES can be opened"),
            seen: HashSet::new(),
        }))
    }
}
