//! Room on the disk: builds that run out of it fail in many ways, few of which say so.

use std::path::Path;

use crate::toolchain::target_directory;

/// Bytes that `cargo xtask test` makes where nothing is built yet: 5.2 GB, and at most 4.3 for incremental builds.
const FIRST_TEST: u64 = 10_000_000_000;

/// How much room there is where cargo builds, in a line; none if the system does not say.
pub fn describe() -> Option<String> {
    let target = target_directory();
    let there = target.ancestors().find(|directory| directory.exists())?;
    Some(line(fs4::available_space(there).ok()?, there))
}

fn line(free: u64, there: &Path) -> String {
    let warning = if free < FIRST_TEST {
        format!(
            "; that is little: the tests need up to {} GB where nothing is built yet",
            FIRST_TEST / 1_000_000_000
        )
    } else {
        String::new()
    };
    let (whole, tenth) = (free / 1_000_000_000, free / 100_000_000 % 10);
    format!(
        "disk: {whole}.{tenth} GB free at {}{warning}",
        there.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_told() {
        let there = Path::new("target");
        assert_eq!(line(61_250_000_000, there), "disk: 61.2 GB free at target");
        assert_eq!(
            line(940_000_000, there),
            "disk: 0.9 GB free at target; that is little: the tests need up to 10 GB where nothing is built yet"
        );
    }

    #[test]
    fn room_is_known_before_anything_is_built() {
        let line = describe().expect("this system says how much is free");
        assert!(line.starts_with("disk: "), "{line}");
    }
}
