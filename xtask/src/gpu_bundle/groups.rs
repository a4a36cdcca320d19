//! The groups of steps of `run-on-gpu.sh`, and which of them a bundle is for.

/// Those that there are, as the script names them.
pub const ALL: [&str; 18] = [
    "info",
    "tests",
    "examples",
    "stress",
    "hardened",
    "growth",
    "litmus",
    "exhaustion",
    "soak",
    "sanitizer",
    "replay",
    "bench",
    "report",
    "top",
    "python",
    "resources",
    "cpp",
    "long",
];

/// Those that a bundle has all for.
#[derive(Clone, Debug)]
pub struct Groups(Vec<String>);

impl Groups {
    /// These, or all if there are none.
    pub fn new(names: Vec<String>) -> Self {
        if names.is_empty() {
            return Self(ALL.map(str::to_owned).to_vec());
        }
        Self(names)
    }

    /// Whether one of some groups is among them.
    pub fn have(&self, names: &[&str]) -> bool {
        self.0.iter().any(|group| names.contains(&group.as_str()))
    }

    /// As the script reads them.
    pub fn words(&self) -> String {
        self.0.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_of_the_script() {
        let script = include_str!("run-on-gpu.sh");
        let (_, after) = script.split_once("all_groups=\"").expect("it names them");
        let (names, _) = after.split_once('"').expect("it ends");
        let names: Vec<_> = names
            .split_whitespace()
            .filter(|name| *name != "\\")
            .collect();
        assert_eq!(names, ALL);
    }

    #[test]
    fn a_bundle_is_for_all_if_none_is_named() {
        assert!(Groups::new(Vec::new()).have(&["cpp"]));
        let some = Groups::new(vec!["tests".to_owned(), "python".to_owned()]);
        assert!(some.have(&["python", "resources"]) && !some.have(&["cpp"]));
        assert_eq!(some.words(), "tests python");
    }
}
