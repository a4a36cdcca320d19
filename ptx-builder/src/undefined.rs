//! Functions that a module calls and nobody defines: the driver would refuse the module, on the machine that is to run it.

use crate::Error;
use crate::code::{code_of, function_name, is_of_names, names, places_of};
use std::collections::BTreeMap;

/// What the driver defines: the system calls of the
/// [interoperability guide](https://docs.nvidia.com/cuda/ptx-writers-guide-to-interoperability/#system-calls).
const OF_THE_DRIVER: [&str; 4] = ["__assertfail", "free", "malloc", "vprintf"];

/// Refuses a module that uses a function that neither it nor the driver nor one of `others` defines.
///
/// # Errors
///
/// [`Error::Undefined`] with the functions' names.
pub(crate) fn refuse(module: &str, crate_name: &str, others: &[String]) -> Result<(), Error> {
    let code = code_of(module);
    let mut uses = BTreeMap::<&str, usize>::new();
    for name in names(&code) {
        *uses.entry(name).or_default() += 1;
    }
    let is_defined =
        |name: &str| OF_THE_DRIVER.contains(&name) || others.iter().any(|other| other == name);
    // The declaration itself is no use.
    let is_used = |name: &&str| uses.get(name).is_some_and(|uses| *uses > 1);
    let mut undefined: Vec<_> = declared(&code)
        .filter(is_used)
        .filter(|name| !is_defined(name))
        .collect();
    undefined.sort_unstable();
    undefined.dedup();
    if undefined.is_empty() {
        return Ok(());
    }
    Err(Error::Undefined {
        crate_name: crate_name.to_owned(),
        functions: undefined.join(", "),
    })
}

/// The functions that are said to be defined in other modules.
fn declared(code: &str) -> impl Iterator<Item = &str> {
    places_of(code, ".extern").filter_map(|place| {
        let declaration = code[place + ".extern".len()..].trim_start();
        let head = declaration.strip_prefix(".func")?;
        (!head.starts_with(is_of_names)).then(|| function_name(head))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = ".version 7.8\n.extern .func  (.param .b32 func_retval0) memcmp\n(\n\t.param .b64 memcmp_param_0\n)\n;\n\
        .extern .func (.param .b64 func_retval0) malloc\n(\n\t.param .b64 malloc_param_0\n)\n;\n\
        .extern .func unused;\n.extern .global .align 4 .u32 elsewhere;\n.func own()\n;\n\
        .func own()\n{\n\tcall.uni (retval0), malloc, (param0);\n\tret;\n}\n\
        .visible .entry kernel()\n{\n\tcall.uni own;\n\tcall.uni (retval0), memcmp, (param0);\n\t// unused\n\tret;\n}\n";

    #[test]
    fn what_nobody_defines_is_named_in_one_line() {
        let error = refuse(MODULE, "kernels", &[]).expect_err("there is no memcmp");
        let message = error.to_string();
        assert!(matches!(error, Error::Undefined { functions, .. } if functions == "memcmp"));
        assert_eq!(message.lines().count(), 1, "{message}");
        assert!(message.contains("kernels"), "{message}");
    }

    #[test]
    fn what_others_define_may_be_called() {
        let others = ["memcmp".to_owned()];
        assert!(refuse(MODULE, "kernels", &others).is_ok());
        let defined = MODULE.replace(".extern .func  (", ".weak .func  (");
        assert!(refuse(&defined, "kernels", &[]).is_ok());
        assert!(refuse("", "kernels", &[]).is_ok());
    }
}
