//! Modules of kernels: the driver compiles PTX and links it.
//!
//! Where the driver compiles a module as a whole, each kernel gets a copy of every function that
//! it may call: the slow paths of the heap, once for each kernel, which takes minutes. Compiled to be
//! linked, each function is compiled once.
//!
//! A linked kernel has as many registers as the function with the most, though. So a module is
//! compiled under a limit of registers, [`DEFAULT_REGISTERS`] where a kernel does not say
//! (`.maxnreg`); kernels with different limits become modules of their own. Each of them has all variables of the whole, so a
//! module with one that kernels write is not taken apart: they would not see what the others write.

use super::braces::Braces;
use super::{Error, LOG_BYTES, Result, text};
use alloc_core::{Binding, SYMBOL};
use cudarc::driver::sys::{self, CUfunction, CUjit_option as Jit, CUlinkState, CUmodule, CUresult};
use cudarc::driver::{DriverError, result};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

/// Registers of a thread at most, for kernels that do not say: 1024 threads run on a multiprocessor at
/// once.
const DEFAULT_REGISTERS: u32 = 64;

/// What the driver says.
type Driven<T> = std::result::Result<T, DriverError>;

/// A module that is loaded in a context.
pub(super) struct Module {
    handle: CUmodule,
    /// Names of its kernels. The driver is asked for no others: tools that check programs would call it an error.
    kernels: Vec<String>,
    /// Whether it has a place for a global heap.
    pub wants_global: bool,
}

impl Module {
    fn new(handle: CUmodule, ptx: &str) -> Self {
        let declares_global = |line: &str| line.contains(".global") && line.contains(SYMBOL);
        Self {
            handle,
            kernels: ptx.lines().filter_map(kernel_name).collect(),
            wants_global: ptx.lines().any(declares_global),
        }
    }

    /// A kernel, if the module has one of this name. The driver may load it only now, and tell of faults of launches before.
    pub fn function(&self, name: &str) -> Driven<Option<CUfunction>> {
        if !self.kernels.iter().any(|own| own == name) {
            return Ok(None);
        }
        let Ok(symbol) = CString::new(name) else {
            return Ok(None);
        };
        // SAFETY: the module is loaded in the current context.
        unless_missing(unsafe { result::module::get_function(self.handle, symbol) })
    }

    /// Address of its global heap, if it has a place for one.
    pub fn global_heap(&self) -> Driven<Option<u64>> {
        if !self.wants_global {
            return Ok(None);
        }
        let Ok(symbol) = CString::new(SYMBOL) else {
            return Ok(None);
        };
        // SAFETY: the module is loaded in the current context.
        let found = unless_missing(unsafe { result::module::get_global(self.handle, symbol) })?;
        let is_place = |(_, bytes): &(u64, usize)| *bytes >= size_of::<Binding>();
        Ok(found.filter(is_place).map(|(address, _)| address))
    }
}

/// What was asked for; nothing if the module does not have it.
fn unless_missing<T>(found: Driven<T>) -> Driven<Option<T>> {
    match found {
        Err(DriverError(CUresult::CUDA_ERROR_NOT_FOUND)) => Ok(None),
        found => found.map(Some),
    }
}

/// The name of the kernel that begins with this line.
fn kernel_name(line: &str) -> Option<String> {
    let (linkage, head) = line.split_once(".entry ")?;
    let name = head.split('(').next()?.trim();
    ["", ".visible ", ".weak "]
        .contains(&linkage)
        .then(|| name.to_owned())
}

/// Compiles and links a module in the current context; more than one, where its kernels have
/// different limits of registers.
///
/// # Errors
///
/// If it is no text, or the driver's compiler refuses it: then with its log. If kernels of different limits share a variable.
pub(super) fn load(ptx: &str) -> Result<Vec<Module>> {
    let parts = by_registers(ptx);
    refuse_shared_variables(ptx, &parts)?;
    let mut modules = Vec::new();
    for (registers, part) in parts {
        match link(&[&part], registers).and_then(|image| load_image(&image)) {
            Ok(handle) => modules.push(Module::new(handle, &part)),
            Err(error) => {
                unload(&modules);
                return Err(error);
            }
        }
    }
    Ok(modules)
}

/// Unloads modules of the current context.
pub(super) fn unload(modules: &[Module]) {
    for module in modules {
        // SAFETY: the caller's modules were loaded, and are not used again. An error has nobody
        // to go to.
        let _unloaded = unsafe { result::module::unload(module.handle) };
    }
}

/// The module for each limit of registers: with the kernels that have this limit, and all else.
fn by_registers(ptx: &str) -> BTreeMap<u32, String> {
    let pieces = pieces(ptx);
    let mut limits: Vec<u32> = pieces.iter().filter_map(|piece| piece.registers).collect();
    limits.sort_unstable();
    limits.dedup();
    if limits.is_empty() {
        limits.push(DEFAULT_REGISTERS);
    }
    let part = |limit| {
        let belongs = |piece: &&Piece<'_>| piece.registers.is_none_or(|own| own == limit);
        let lines = pieces.iter().filter(belongs).flat_map(|piece| &piece.lines);
        lines.flat_map(|line| [*line, "\n"]).collect()
    };
    limits.iter().map(|limit| (*limit, part(*limit))).collect()
}

/// Refuses a module that comes apart if it has a variable that kernels write. The place of the global heap may be in each: the host
/// writes all of them.
fn refuse_shared_variables(ptx: &str, parts: &BTreeMap<u32, String>) -> Result<()> {
    let variable = ptx
        .lines()
        .filter_map(written_variable)
        .find(|name| *name != SYMBOL);
    match variable {
        Some(variable) if parts.len() > 1 => Err(Error::SharedVariable {
            variable: variable.to_owned(),
            limits: parts
                .keys()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        }),
        _ => Ok(()),
    }
}

/// The name of the variable that this line defines, if it begins with zeroes: PTX has constants in the same place, but hardly any of zeroes, which the
/// compiler computes with instead. (What begins with something else cannot be told from a constant.)
fn written_variable(line: &str) -> Option<&str> {
    let linkage = [".visible ", ".weak ", ""];
    let rest = linkage
        .iter()
        .find_map(|linkage| line.strip_prefix(linkage))?;
    let definition = rest.strip_prefix(".global ")?.strip_suffix(';')?;
    let name = definition
        .split_whitespace()
        .next_back()?
        .split('[')
        .next()?;
    (!definition.contains('=')).then_some(name)
}

/// A kernel, or what stands between two.
#[derive(Default)]
struct Piece<'a> {
    lines: Vec<&'a str>,
    /// A kernel's limit.
    registers: Option<u32>,
}

fn pieces(ptx: &str) -> Vec<Piece<'_>> {
    let mut pieces = vec![Piece::default()];
    let mut braces = Braces::default();
    for line in ptx.lines() {
        if kernel_name(line).is_some() {
            pieces.push(Piece {
                lines: Vec::new(),
                registers: Some(DEFAULT_REGISTERS),
            });
        }
        let Some(piece) = pieces.last_mut() else {
            break;
        };
        let limit = line.strip_prefix(".maxnreg ").map(str::trim);
        match limit.and_then(|limit| limit.parse().ok()) {
            // The whole module is compiled under it: ptxas would refuse to link what says it too.
            Some(limit) if piece.registers.is_some() => piece.registers = Some(limit),
            _ => piece.lines.push(line),
        }
        if braces.close_with(line) && piece.registers.is_some() {
            pieces.push(Piece::default());
        }
    }
    pieces
}

/// A link under way, ended when it is dropped.
struct Link(CUlinkState);

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: made by `cuLinkCreate`, and used by nobody else. An error has nobody to go to.
        let _destroyed = unsafe { sys::cuLinkDestroy(self.0) };
    }
}

/// Compiles modules of PTX under a limit of registers, and links them: machine code for the GPU of the current context.
///
/// # Errors
///
/// If one is no text, or the driver's compiler or linker refuses them: then with its log.
pub(super) fn link(modules: &[&str], registers: u32) -> Result<Vec<u8>> {
    let source = |ptx: &&str| {
        CString::new(*ptx).map_err(|_| Error::PtxRejected {
            message: "not text".into(),
            log: "the module contains a zero byte".into(),
        })
    };
    let sources = modules.iter().map(source).collect::<Result<Vec<_>>>()?;
    let mut log = vec![0_u8; LOG_BYTES];
    let linked = link_logged(&sources, registers, &mut log);
    linked.map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(LOG_BYTES);
        Error::PtxRejected {
            message: text(error),
            log: String::from_utf8_lossy(&log[..end]).trim().to_owned(),
        }
    })
}

fn link_logged(
    sources: &[CString],
    registers: u32,
    log: &mut [u8],
) -> std::result::Result<Vec<u8>, DriverError> {
    let mut options = [
        Jit::CU_JIT_MAX_REGISTERS,
        Jit::CU_JIT_ERROR_LOG_BUFFER,
        Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ];
    let mut values = [
        registers as usize as *mut c_void,
        log.as_mut_ptr().cast::<c_void>(),
        log.len() as *mut c_void,
    ];
    let mut state = std::ptr::null_mut();
    // SAFETY: there are three options and their values, which outlive the link, as the log does.
    unsafe { sys::cuLinkCreate_v2(3, options.as_mut_ptr(), values.as_mut_ptr(), &raw mut state) }
        .result()?;
    let link = Link(state);
    for source in sources {
        // SAFETY: the text ends with its zero byte, which counts; there are no more options.
        unsafe {
            sys::cuLinkAddData_v2(
                link.0,
                sys::CUjitInputType::CU_JIT_INPUT_PTX,
                source.as_ptr().cast_mut().cast(),
                source.as_bytes_with_nul().len(),
                c"scatterheap.ptx".as_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        }
        .result()?;
    }
    let (mut image, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: writes where the image is and how long.
    unsafe { sys::cuLinkComplete(link.0, &raw mut image, &raw mut bytes) }.result()?;
    // SAFETY: the image has so many bytes, and is there until the link is dropped.
    Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), bytes) }.to_vec())
}

/// Loads machine code into the current context.
fn load_image(image: &[u8]) -> Result<CUmodule> {
    let mut module = std::ptr::null_mut();
    // SAFETY: the image is whole, as the linker made it, and the driver copies it.
    let loaded = unsafe { sys::cuModuleLoadData(&raw mut module, image.as_ptr().cast()) }.result();
    loaded.map_err(|error| Error::Driver {
        action: "load linked kernels",
        message: text(error),
    })?;
    Ok(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
.version 7.8
.global .align 8 .u64 call;
.func helper()
{
\tret;
}
.visible .entry small(
\t.param .b64 a
)
.maxnreg 32
{
\tret;
}
.visible .entry usual(
)
{
\tret;
}
.func other()
{
}
";

    #[test]
    fn kernels_are_grouped_by_their_limits() {
        let parts = by_registers(MODULE);
        assert_eq!(
            parts.keys().copied().collect::<Vec<_>>(),
            [32, DEFAULT_REGISTERS]
        );
        for (limit, has, lacks) in [
            (32, "small(", "usual("),
            (DEFAULT_REGISTERS, "usual(", "small("),
        ] {
            let part = &parts[&limit];
            assert!(part.contains(has) && !part.contains(lacks), "{part}");
            for everywhere in [".version", "call;", "helper()", "other()"] {
                assert_eq!(part.matches(everywhere).count(), 1, "{part}");
            }
            assert!(!part.contains(".maxnreg"), "{part}");
        }
    }

    #[test]
    fn kernels_are_not_cut_at_braces_of_inline_assembly() {
        let assembly =
            "\t// begin inline asm\n{\n.reg .b32 x;\n}\n\t// } end inline asm\n\tmov.u32 %r1, 5;\n";
        let module = MODULE.replacen("32\n{\n", &format!("32\n{{\n{assembly}"), 1);
        let parts = by_registers(&module);
        for (limit, times) in [(32, 1), (DEFAULT_REGISTERS, 0)] {
            let part = &parts[&limit];
            assert_eq!(part.matches("mov.u32 %r1, 5;").count(), times, "{part}");
            assert_eq!(part.matches('{').count(), part.matches('}').count() - times);
            assert_eq!(part.matches("other()").count(), 1, "{part}");
        }
    }

    #[test]
    fn modules_with_variables_that_kernels_write_are_not_taken_apart() {
        let refused = |variables: &str, module: &str| {
            let ptx = format!("{variables}\n{module}");
            refuse_shared_variables(&ptx, &by_registers(&ptx))
        };
        let without = MODULE.replace(".global .align 8 .u64 call;\n", "");
        let one_limit = without.replace(".maxnreg 32\n", "");
        for variable in [
            ".global .align 4 .b8 COUNTER[4];",
            ".visible .global .align 4 .u32 COUNTER;",
        ] {
            let error = refused(variable, &without).expect_err("there would be two");
            let message = error.to_string();
            assert_eq!(message.lines().count(), 1, "{message}");
            for part in ["`COUNTER`", "32, 64"] {
                assert!(message.contains(part), "{message}");
            }
            assert!(refused(variable, &one_limit).is_ok());
        }
        for variable in [
            &format!(".visible .global .align 8 .b8 {SYMBOL}[120];"),
            ".global .align 4 .b8 table[8] = {0, 0, 0, 0, 1};",
            ".extern .global .align 4 .u32 elsewhere;",
            "",
        ] {
            assert!(refused(variable, &without).is_ok(), "{variable}");
        }
    }

    #[test]
    fn modules_know_their_kernels_and_whether_they_want_a_heap() {
        let without = Module::new(std::ptr::null_mut(), MODULE);
        assert_eq!(without.kernels, ["small", "usual"]);
        assert!(!without.wants_global);
        assert_eq!(without.function("helper"), Ok(None));
        assert_eq!(without.global_heap(), Ok(None));
        let variable = format!(".visible .global .align 8 .b8 {SYMBOL}[120];\n");
        assert!(Module::new(std::ptr::null_mut(), &variable).wants_global);
    }

    #[test]
    fn only_what_is_missing_is_nothing() {
        let failed = |code| unless_missing::<u64>(Err(DriverError(code)));
        assert_eq!(failed(CUresult::CUDA_ERROR_NOT_FOUND), Ok(None));
        // As of a launch before.
        let fault = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
        assert_eq!(failed(fault), Err(DriverError(fault)));
        assert_eq!(unless_missing(Ok(5)), Ok(Some(5)));
    }

    #[test]
    fn what_has_no_kernel_is_one_module() {
        let parts = by_registers(".version 7.8\n.func helper()\n{\n}\n");
        assert_eq!(parts.len(), 1);
        assert!(parts[&DEFAULT_REGISTERS].contains("helper"));
    }
}
