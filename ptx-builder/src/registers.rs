//! Limits the registers of entry points, in the PTX text.
//!
//! The compiler has no attribute for PTX's `.maxnreg`, which says how many registers a thread of a
//! kernel may have. Fewer registers mean more warps on a multiprocessor.

/// A limit for the entry points whose names begin alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegisterLimit {
    pub prefix: String,
    pub registers: u32,
}

/// The module with `.maxnreg` on each entry point that a limit is for; the first limit counts.
pub(crate) fn limit(module: &str, limits: &[RegisterLimit]) -> String {
    let mut result = String::with_capacity(module.len());
    let mut pending = None;
    for line in module.lines() {
        if let Some(rest) = line.trim_start().strip_prefix(".visible .entry ") {
            pending = limits.iter().find(|limit| rest.starts_with(&limit.prefix));
        }
        if line.starts_with('{')
            && let Some(limit) = pending.take()
        {
            result.push_str(".maxnreg ");
            result.push_str(&limit.registers.to_string());
            result.push('\n');
        }
        result.push_str(line);
        result.push('\n');
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_with_the_prefix_are_limited() {
        let module = ".visible .entry bench_one(\n\t.param .b64 a\n)\n{\n\tret;\n}\n\
                      .func bench_helper()\n{\n\tret;\n}\n\
                      .visible .entry other()\n{\n\tret;\n}\n";
        let limits = [RegisterLimit {
            prefix: "bench_".into(),
            registers: 32,
        }];
        let limited = limit(module, &limits);
        assert_eq!(limited.matches(".maxnreg 32\n{").count(), 1);
        assert!(limited.find(".maxnreg") < limited.find("bench_helper"));
        assert_eq!(limited.replace(".maxnreg 32\n", ""), module);
    }
}
