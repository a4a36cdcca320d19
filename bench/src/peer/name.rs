//! The name of a plug-in: fit for a column of a table, and no other allocator's.

/// Most characters of a name.
const LONGEST: usize = 32;
/// Names that mean an allocator that the benchmark brings itself.
const TAKEN: [&str; 4] = ["floor", "scatterheap", "cuda", "system"];

/// What a name must be, if this is none.
pub(super) fn fault(name: &str) -> Option<&'static str> {
    let fits = |character: char| {
        character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_'
    };
    if name.is_empty() || name.len() > LONGEST || !name.chars().all(fits) {
        return Some("1 to 32 of the characters a-z, 0-9 and _");
    }
    TAKEN
        .contains(&name)
        .then_some("another name than floor, scatterheap, cuda and system, which are taken")
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn names_are_short_and_plain() {
        for name in ["a", "ouro_p_s", "gallatin2", &"x".repeat(32)] {
            assert_eq!(fault(name), None, "{name}");
        }
        for name in ["", "Upper", "two words", "a-b", "ä", "a,b", &"x".repeat(33)] {
            assert!(
                fault(name).is_some_and(|advice| advice.starts_with("1 to 32")),
                "{name}"
            );
        }
        for name in ["floor", "scatterheap", "cuda", "system"] {
            assert!(
                fault(name).is_some_and(|advice| advice.starts_with("another")),
                "{name}"
            );
        }
    }
}
