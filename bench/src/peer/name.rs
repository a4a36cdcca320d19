//! The name of a plug-in: fit for a column of a table, and no other allocator's.

/// Most characters of a name.
const LONGEST: usize = 16;
/// Names that mean an allocator, or a baseline, that the benchmark brings itself.
const TAKEN: [&str; 6] = [
    "floor",
    "scatterheap",
    "cuda",
    "system",
    "two_pass",
    "packed",
];

/// What a name must be, if this is none.
pub(super) fn fault(name: &str) -> Option<&'static str> {
    let fits = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_'
    };
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(fits) {
        return Some("1 to 16 of the characters a-z, 0-9 and _");
    }
    TAKEN.contains(&name).then_some(
        "another name than floor, scatterheap, cuda, system, two_pass and packed, which are taken",
    )
}

#[cfg(test)]
mod tests {
    use super::{TAKEN, fault};

    #[test]
    fn names_are_short_and_plain() {
        for name in ["a", "ouro_p_s", "gallatin2", &"x".repeat(16)] {
            assert_eq!(fault(name), None, "{name}");
        }
        for name in ["", "Upper", "two words", "a-b", "ä", "a,b", &"x".repeat(17)] {
            assert!(
                fault(name).is_some_and(|advice| advice.starts_with("1 to 16")),
                "{name}"
            );
        }
        for name in TAKEN {
            assert!(
                fault(name).is_some_and(|advice| advice.contains(name)),
                "{name}"
            );
        }
    }
}
