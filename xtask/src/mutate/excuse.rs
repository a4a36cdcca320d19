//! Orderings that are needed although no model says so, each with the reason. An excuse that is
//! not needed any more is an error: it would hide the next gap.

use super::site::{Mutation, Ordering};

/// Why something that the models do not find is not their fault.
pub struct Excuse {
    file: &'static str,
    function: &'static str,
    /// What a mutation may weaken the ordering to; nothing where no model comes at all.
    to: &'static [Ordering],
    pub reason: &'static str,
}

/// All of them. `docs/testing.md` has the long reasons.
const EXCUSES: [Excuse; 5] = [
    Excuse {
        file: "heap/src/growth.rs",
        function: "admitted",
        to: &[Ordering::Relaxed],
        reason: "who searches itself has a fence, and loom has no mates",
    },
    Excuse {
        file: "heap/src/hardened/quarantine.rs",
        function: "plain_or_drained",
        to: &[Ordering::Relaxed],
        reason: "who searches itself has a fence, and loom has no mates",
    },
    Excuse {
        file: "heap/src/growth.rs",
        function: "request",
        to: &[Ordering::Relaxed],
        reason: "a number alone, and what the host shares has no weaker form",
    },
    Excuse {
        file: "heap/src/growth.rs",
        function: "raise_request",
        to: &[Ordering::Relaxed],
        reason: "a number alone, and what the host shares has no weaker form",
    },
    Excuse {
        file: "heap/src/growth.rs",
        function: "clear_request",
        to: &[],
        reason: "for the host, while no kernel uses the heap",
    },
];

/// The excuse of a mutation that made no model fail.
pub fn of_survivor(mutation: &Mutation, function: &str) -> Option<&'static Excuse> {
    EXCUSES.iter().find(|excuse| {
        excuse.is_in(&mutation.site.file, function) && excuse.to.contains(&mutation.to)
    })
}

/// The excuse of an ordering that no model comes to.
pub fn of_unreached(file: &str, function: &str) -> Option<&'static Excuse> {
    EXCUSES
        .iter()
        .find(|excuse| excuse.is_in(file, function) && excuse.to.is_empty())
}

/// The functions that are excused for nothing, given which excuses were used.
pub fn unused(used: &[&'static Excuse]) -> Vec<&'static str> {
    EXCUSES
        .iter()
        .filter(|excuse| !used.iter().any(|other| std::ptr::eq(*other, *excuse)))
        .map(|excuse| excuse.function)
        .collect()
}

impl Excuse {
    fn is_in(&self, file: &str, function: &str) -> bool {
        self.file == file && self.function == function
    }
}

#[cfg(test)]
mod tests {
    use super::super::site::Site;
    use super::*;

    #[test]
    fn only_what_is_named_is_excused() {
        let site = Site::parse("heap/src/growth.rs\t165\tload\tAcquire").expect("a site");
        let excused = |function: &str| -> Vec<_> {
            site.mutations()
                .filter(|mutation| of_survivor(mutation, function).is_some())
                .map(|mutation| mutation.to)
                .collect()
        };
        assert_eq!(excused("admitted"), [Ordering::Relaxed]);
        assert!(excused("admit").is_empty());
        assert!(of_unreached("heap/src/growth.rs", "admitted").is_none());
        assert!(of_unreached("heap/src/growth.rs", "clear_request").is_some());
    }

    #[test]
    fn an_excuse_for_nothing_is_found() {
        let used = of_unreached("heap/src/growth.rs", "clear_request").expect("one");
        let unused = unused(&[used]);
        assert_eq!(unused.len(), EXCUSES.len() - 1);
        assert!(!unused.contains(&"clear_request"));
    }
}
