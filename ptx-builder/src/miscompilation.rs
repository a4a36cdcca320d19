//! What LLVM compiles wrongly for GPUs, and the flag that keeps it from that.
//!
//! Since LLVM 22 the pass "straight-line strength reduction", which few targets but GPUs use, computes an address from
//! another one even where the difference between the two depends on a condition, and gets it wrong: sorting 16 or more pairs
//! in a kernel, for one, compares elements that are not there and panics. LLVM's debug counter of the pass puts off its
//! rewriting until after more rewrites than there ever are. A compiler whose LLVM does not know the counter says so
//! and goes on.

/// The first version of LLVM whose strength reduction is wrong. None is known to have it right again.
const FIRST_WRONG: u32 = 22;

const NO_STRENGTH_REDUCTION: &str = "-Cllvm-args=-debug-counter=slsr-counter=9000000000000000000";

/// The flag that a compiler needs, given its answer to `--version --verbose`.
pub(crate) fn flag(verbose_version: &str) -> Option<&'static str> {
    let llvm = llvm_version(verbose_version)?;
    (llvm >= FIRST_WRONG).then_some(NO_STRENGTH_REDUCTION)
}

/// The major version in a line such as `LLVM version: 22.1.2`.
fn llvm_version(verbose_version: &str) -> Option<u32> {
    let mut lines = verbose_version.lines();
    let version = lines.find_map(|line| line.strip_prefix("LLVM version: "))?;
    version.split('.').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_wrong_versions_need_the_flag() {
        let answer = |llvm: &str| format!("rustc 1.95.0\nhost: any\nLLVM version: {llvm}\n");
        assert_eq!(flag(&answer("21.1.8")), None);
        assert_eq!(flag(&answer("22.1.2")), Some(NO_STRENGTH_REDUCTION));
        assert_eq!(flag(&answer("23.0")), Some(NO_STRENGTH_REDUCTION));
        assert_eq!(flag("rustc 1.95.0"), None);
    }
}
