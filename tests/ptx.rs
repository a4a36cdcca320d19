//! The embedded PTX, of the library, of the benchmark and of the device functions: that no atomic lost its ordering or scope on
//! the way through the compiler, that nothing is missing, and what CUDA's assembler makes of it for every supported GPU.
//!
//! The assembler is looked for where `cargo xtask setup` puts it, in the CUDA toolkit and on the
//! search path. Without one, the tests that need it print a line `skipped: ptxas: …`.
#![cfg(feature = "cuda")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{env, thread};

use scatterheap::KernelSource;
use scatterheap::embedded::KERNELS;
use scatterheap::kernels::{
    blocks, churn, divergent, each, exchange, exhaust, grow, growth, hardening, initialise, litmus,
    misuse, overlap, replay, soak, starve,
};
use scatterheap::simt::kernel::Kernel;
use scatterheap_bench::module::KERNELS as BENCH_KERNELS;
use scatterheap_bench_kernels::{
    access, alloc_heavy, blocks as timed, churn as bench_churn, contents, faults, graph, latency,
    workgen,
};
use scatterheap_capi::heap::code::MODULES as DEVICE_FUNCTIONS;

/// What a kernel may use of a multiprocessor.
struct Limits {
    /// Bytes of stack of a thread.
    stack: u64,
    /// Registers of a thread.
    registers: u64,
}

/// What the slow paths need, which `malloc` calls out of line, is not part of it.
const LIMITS_OF_MALLOC: Limits = Limits {
    stack: 0,
    registers: 40,
};
const LIMITS_OF_FREE: Limits = Limits {
    stack: 0,
    registers: 32,
};

/// The GPU that the limits are for.
const MEASURED: &str = "sm_90";
/// The other GPUs that both modules are assembled for. The module for `sm_75` is also assembled
/// for its own GPU.
const ALSO_ASSEMBLED: [&str; 5] = ["sm_80", "sm_86", "sm_89", "sm_100", "sm_120"];

/// Kernels of the benchmark that time `malloc`.
const ALLOCATE: [&str; 3] = [
    timed::AllocateUniform::NAME,
    timed::AllocateMixed::NAME,
    timed::AllocateOfWarps::NAME,
];

/// Kernels of the benchmark that time `free`.
const FREE: [&str; 2] = [timed::Free::NAME, timed::FreeOfWarps::NAME];

/// All other kernels of the benchmark.
const OTHER_BENCH_ENTRIES: [&str; 33] = [
    timed::StoreFloor::NAME,
    timed::StoreFloorMixed::NAME,
    timed::StoreFloorOfWarps::NAME,
    timed::NativeAllocateUniform::NAME,
    timed::NativeAllocateMixed::NAME,
    timed::NativeAllocateOfWarps::NAME,
    timed::NativeFree::NAME,
    timed::NativeFreeOfWarps::NAME,
    bench_churn::Churn::NAME,
    bench_churn::NativeChurn::NAME,
    contents::Fill::NAME,
    contents::Check::NAME,
    faults::CountNulls::NAME,
    access::Write::NAME,
    access::Read::NAME,
    alloc_heavy::Grow::NAME,
    alloc_heavy::NativeGrow::NAME,
    alloc_heavy::CheckGrown::NAME,
    graph::Insert::NAME,
    graph::Delete::NAME,
    graph::Clear::NAME,
    graph::NativeInsert::NAME,
    graph::NativeDelete::NAME,
    graph::NativeClear::NAME,
    graph::Gather::NAME,
    latency::Latency::NAME,
    latency::NativeLatency::NAME,
    workgen::Produce::NAME,
    workgen::NativeProduce::NAME,
    workgen::CountWords::NAME,
    workgen::SumChunks::NAME,
    workgen::WriteOutputs::NAME,
    workgen::CheckOutputs::NAME,
];

/// Kernels that the host needs for a heap: they come with the library and with the device functions.
const ENTRIES_OF_HEAPS: [&str; 8] = [
    each::MallocEach::NAME,
    each::FreeEach::NAME,
    growth::Admit::NAME,
    growth::Retract::NAME,
    growth::TryMapping::NAME,
    hardening::PoisonPages::NAME,
    hardening::DrainQuarantine::NAME,
    initialise::Initialise::NAME,
];

/// All other kernels of the library.
const OTHER_LIBRARY_ENTRIES: [&str; 24] = [
    blocks::Allocate::NAME,
    blocks::AllocateMissing::NAME,
    blocks::Fill::NAME,
    blocks::Release::NAME,
    blocks::CheckAndFree::NAME,
    churn::Churn::NAME,
    divergent::Divergent::NAME,
    exchange::Exchange::NAME,
    exchange::EmptyMailboxes::NAME,
    exhaust::Exhaust::NAME,
    exhaust::Recover::NAME,
    grow::Grow::NAME,
    litmus::Prepare::NAME,
    litmus::Play::NAME,
    litmus::CountCrossings::NAME,
    misuse::MisuseAmongMallocs::NAME,
    misuse::MisuseAmongFrees::NAME,
    overlap::MarkGranules::NAME,
    replay::Replay::NAME,
    replay::ReplayTimed::NAME,
    soak::Soak::NAME,
    soak::Drain::NAME,
    starve::Starve::NAME,
    starve::Thin::NAME,
];

/// Functions that other languages call: those of `device/src/lib.rs` and `device/src/numba.rs`.
const EXPORTS: [&str; 14] = [
    "scatterheap_malloc",
    "scatterheap_malloc_tagged",
    "scatterheap_calloc",
    "scatterheap_realloc",
    "scatterheap_aligned_alloc",
    "scatterheap_free",
    "scatterheap_usable_size",
    "scatterheap_numba_malloc",
    "scatterheap_numba_malloc_tagged",
    "scatterheap_numba_calloc",
    "scatterheap_numba_realloc",
    "scatterheap_numba_aligned_alloc",
    "scatterheap_numba_free",
    "scatterheap_numba_usable_size",
];

/// Opcodes, as (beginning, end), without which the heap's happens-before edges are not there. That
/// each module has them also shows that the scanner sees the modules' atomics at all.
const RELIED_ON: [(&str, &str); 4] = [
    ("atom.acquire.gpu.", ".add.u64"),
    ("atom.acquire.gpu.", ".or.b32"),
    ("fence.acq_rel.gpu", ""),
    ("atom.relaxed.gpu.", ".and.b32"),
];

/// The modules by their names: the library's kernels, the benchmark's, and the device functions.
const MODULES: [(&str, &[KernelSource]); 3] = [
    ("library", KERNELS),
    ("benchmark", BENCH_KERNELS),
    ("device", DEVICE_FUNCTIONS),
];

/// Every module for every baseline.
fn sources() -> impl Iterator<Item = &'static KernelSource> {
    MODULES.into_iter().flat_map(|(_, sources)| sources)
}

/// The module of a baseline.
fn module(sources: &'static [KernelSource], capability: (u32, u32)) -> &'static str {
    sources
        .iter()
        .find(|source| source.capability == capability)
        .unwrap_or_else(|| panic!("no module for {capability:?}"))
        .ptx
}

/// The instructions of a piece of PTX, each by its words, in order.
fn instructions(ptx: &str) -> impl Iterator<Item = Vec<&str>> {
    ptx.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        // Inline assembly puts several instructions into one line.
        .flat_map(|line| line.split([';', '{', '}']))
        .map(|instruction| {
            let words = instruction.split([' ', '\t', ',']);
            let words = words.filter(|word| !word.is_empty());
            words
                .skip_while(|word| word.starts_with('@') || word.ends_with(':'))
                .collect::<Vec<_>>()
        })
        .filter(|words| {
            let opcode = words.first();
            opcode
                .is_some_and(|opcode| opcode.starts_with(|first: char| first.is_ascii_lowercase()))
        })
}

/// The opcodes of a piece of PTX, such as `atom.acquire.gpu.global.add.u64`, in order.
fn opcodes(ptx: &str) -> impl Iterator<Item = &str> {
    instructions(ptx).map(|words| words[0])
}

/// What a function does with what `activemask` gave, but to compare it and to make a mask of the lane's own of it: ptxas takes that
/// for the same in all lanes that come together (see `simt::warp::own_mask`).
fn uses_of_raw_masks(function: &str) -> Vec<String> {
    let mut raw = BTreeSet::new();
    let mut found = Vec::new();
    for words in instructions(function) {
        let opcode = words[0];
        if opcode.starts_with("activemask") {
            raw.insert(words[1]);
            continue;
        }
        let is_right = opcode.starts_with("setp.") || words.last() == Some(&"lane");
        if !is_right && words[1..].iter().any(|word| raw.contains(word)) {
            found.push(words.join(" "));
        }
    }
    found
}

/// What is wrong with an opcode that touches memory other threads touch, if anything is.
fn fault(opcode: &str) -> Option<&'static str> {
    let mut parts = opcode.split('.');
    let operation = parts.next()?;
    let parts: Vec<&str> = parts.collect();
    let has = |names: &[&str]| parts.iter().any(|part| names.contains(part));
    let ordered = has(&["relaxed", "acquire", "release", "acq_rel", "sc"]);
    // Only loads and stores are atomic for the host too.
    let shared_with_host = has(&["sys"]) && matches!(operation, "ld" | "st") && ordered;
    let scoped = has(&["gpu"]) || shared_with_host;
    let must_be_ordered = match operation {
        "atom" | "red" | "multimem" | "fence" | "membar" => true,
        // Without ordering and scope they are plain, for memory that one thread owns.
        "ld" | "st" => ordered || scoped || has(&["weak"]),
        _ => return None,
    };
    if has(&["volatile", "mmio"]) {
        Some("volatile says neither ordering nor scope")
    } else if !scoped && has(&["cta", "cluster", "sys"]) {
        Some("the scope is not the device")
    } else if has(&["weak"]) || !must_be_ordered {
        None
    } else if !ordered {
        Some("no ordering")
    } else if !scoped {
        Some("no scope")
    } else {
        None
    }
}

#[test]
fn the_scanner_finds_what_is_wrong() {
    for line in [
        "\tatom.global.or.b32 \t%r5, [%rd7], %r4;",
        "\tatom.gpu.global.or.b32 %r5, [%rd7], %r4;",
        "\tatom.acquire.global.or.b32 %r5, [%rd7], %r4;",
        "\tatom.acquire.cta.global.or.b32 %r5, [%rd7], %r4;",
        "\tatom.acquire.sys.global.or.b32 %r5, [%rd7], %r4;",
        "\t@%p1 atom.global.add.u64 %rd1, [%rd7], %rd4;",
        "\t@!%p1 red.global.add.u64 [%rd7], %rd4;",
        "$L__BB0_1: red.relaxed.global.add.u64 [%rd7], %rd4;",
        "\tld.volatile.global.u64 %rd1, [%rd7];",
        "\tst.volatile.u32 [%rd7], %r1;",
        "\tld.acquire.global.u64 %rd1, [%rd7];",
        "\tld.sys.global.u64 %rd1, [%rd7];",
        "\tld.mmio.relaxed.sys.global.u64 %rd1, [%rd7];",
        "\tst.release.cta.global.u64 [%rd7], %rd1;",
        "\tmembar.gl;",
        "\tfence.acq_rel.sys;",
        "\tfence.acq_rel;",
        "\tfence.proxy.alias;",
        "\t{ .reg .pred p; setp.ne.u32 p, %r1, 0; @p atom.global.exch.b32 %r1, [%rd1], 0; }",
    ] {
        let found: Vec<_> = opcodes(line)
            .filter(|opcode| fault(opcode).is_some())
            .collect();
        assert_eq!(found.len(), 1, "{line}: {found:?}");
    }
}

#[test]
fn the_scanner_lets_pass_what_is_right() {
    for line in [
        "\tatom.acq_rel.gpu.global.cas.b64 %rd1, [%rd2], %rd3, %rd4;",
        "\t@%p1 red.relaxed.gpu.global.add.u64 [%rd7], %rd4;",
        "\tld.acquire.gpu.global.u64 %rd1, [%rd7];",
        "\tst.release.gpu.global.u32 [%rd7], %r1;",
        "\tld.acquire.sys.global.u64 %rd1, [%rd7];",
        "\tst.release.sys.global.u64 [%rd7], %rd1;",
        "\tld.relaxed.sys.global.u64 %rd1, [%rd7];",
        "\tld.v2.b32 \t{%r1, %r2}, [%rd7];",
        "\tld.param.b64 %rd1, [scatterheap_malloc_param_0];",
        "\tst.weak.global.u32 [%rd7], %r1;",
        "\tfence.acq_rel.gpu;",
        "\tfence.sc.gpu;",
        "\tredux.sync.add.u32 %r1, %r2, %r3;",
        "\t// atom.global.or.b32 is what the compiler made of it",
    ] {
        let found: Vec<_> = opcodes(line)
            .filter(|opcode| fault(opcode).is_some())
            .collect();
        assert!(found.is_empty(), "{line}: {found:?}");
    }
}

#[test]
fn every_shared_access_has_ordering_and_scope() {
    for source in sources() {
        let faults: BTreeSet<String> = opcodes(source.ptx)
            .filter_map(|opcode| Some(format!("{opcode}: {}", fault(opcode)?)))
            .collect();
        assert!(faults.is_empty(), "{:?}: {faults:#?}", source.capability);
        for (beginning, end) in RELIED_ON {
            assert!(
                opcodes(source.ptx)
                    .any(|opcode| opcode.starts_with(beginning) && opcode.ends_with(end)),
                "{:?}: no {beginning}*{end}",
                source.capability
            );
        }
    }
}

/// Names of the symbols that a directive such as `.visible .entry` declares.
fn symbols<'a>(ptx: &'a str, directive: &str) -> BTreeSet<&'a str> {
    ptx.lines()
        .filter_map(|line| line.strip_prefix(directive)?.strip_suffix('('))
        // A function's name comes after what it returns.
        .filter_map(|line| line.rsplit([' ', ')']).next())
        .collect()
}

#[test]
fn every_symbol_is_there_and_no_other() {
    let timed = ALLOCATE.into_iter().chain(FREE);
    let of_bench = timed.chain(OTHER_BENCH_ENTRIES).collect();
    let of_heaps = ENTRIES_OF_HEAPS.into_iter();
    let of_library = of_heaps.clone().chain(OTHER_LIBRARY_ENTRIES).collect();
    let of_device = of_heaps.collect();
    let (none, exports) = (BTreeSet::new(), EXPORTS.into_iter().collect());
    for (name, sources) in MODULES {
        let (entries, functions) = match name {
            "library" => (&of_library, &none),
            "device" => (&of_device, &exports),
            _ => (&of_bench, &none),
        };
        for source in sources {
            let what = format!("{name}, {:?}", source.capability);
            assert_eq!(&symbols(source.ptx, ".visible .entry "), entries, "{what}");
            let mut visible = symbols(source.ptx, ".visible .func ");
            // What inline assembly in CUDA C++ calls.
            visible.retain(|name| !name.starts_with("scatterheap_slow_"));
            assert_eq!(&visible, functions, "{what}");
        }
    }
}

/// CUDA's own `malloc` is set up when a module that calls it is loaded: only for the benchmark.
#[test]
fn only_the_benchmark_calls_the_malloc_of_cuda() {
    for (name, sources) in MODULES {
        for source in sources {
            let foreign = source
                .ptx
                .lines()
                .filter(|line| line.starts_with(".extern .func "));
            let names: BTreeSet<_> = foreign
                .filter_map(|line| line.split(' ').next_back())
                .collect();
            let expected: &[&str] = if name == "benchmark" {
                &["free", "malloc"]
            } else {
                &[]
            };
            assert!(names.iter().eq(expected), "{name}: {names:?}");
        }
    }
}

/// The text of a kernel, from its name to its closing brace.
fn body<'a>(ptx: &'a str, entry: &str) -> &'a str {
    let start = ptx
        .find(&format!(".visible .entry {entry}("))
        .unwrap_or_else(|| panic!("no entry {entry}"));
    let end = ptx[start..].find("\n}").expect("a kernel ends");
    &ptx[start..start + end]
}

/// What calls of `malloc` and `free` come to in a function: collectives by their opcodes' beginnings,
/// for one `malloc` and one `free`, which have code of their own for whole warps that want the same or whose blocks are in one word, from `sm_80` on.
const COLLECTIVES: [(&str, usize, usize); 6] = [
    ("activemask.", 1, 1),
    ("match.any.sync.", 2, 2),
    ("shfl.sync.", 7, 6),
    ("vote.sync.", 2, 8),
    ("bar.warp.sync", 3, 4),
    ("redux.sync.or.", 0, 2),
];

/// The same for functions out of line: a refill and the one in which its lanes meet, the rest of `malloc` for lanes that came
/// together (whole warps, or parts of one too, whose leaders meet) and what repeats it (for any mask); `malloc` for functions that are called,
/// the part of it for warps that want several classes, and `free` for functions that are called; zeroes and copies that lanes write for each other.
const OUT_OF_LINE: [[usize; 6]; 10] = [
    [1, 0, 0, 0, 0, 0],
    [0, 0, 0, 0, 1, 0],
    [0, 0, 10, 2, 2, 0],
    [1, 0, 20, 4, 4, 0],
    [1, 1, 10, 2, 2, 0],
    [1, 2, 6, 3, 3, 0],
    [0, 0, 3, 1, 1, 0],
    [1, 2, 6, 10, 4, 2],
    [1, 0, 6, 3, 4, 0],
    [1, 0, 10, 3, 4, 0],
];

/// The functions and kernels of a module, from one's head to the next one's.
fn functions(ptx: &str) -> Vec<&str> {
    let starts = |line: &str| {
        [".func", ".weak .func", ".visible .func", ".visible .entry"]
            .iter()
            .any(|head| line.starts_with(head))
    };
    let mut cuts = vec![0];
    let mut position = 0;
    for line in ptx.split_inclusive('\n') {
        if starts(line) {
            cuts.push(position);
        }
        position += line.len();
    }
    cuts.push(ptx.len());
    cuts.windows(2).map(|cut| &ptx[cut[0]..cut[1]]).collect()
}

/// The compiler does not know that all lanes of a mask must come to the same collective. Where it
/// makes two ways of one, lanes on the one wait for those on the other: so there must be as many
/// as were written.
#[test]
fn collectives_are_not_multiplied() {
    let mut seen = 0;
    for (name, sources) in MODULES {
        for function in functions(module(sources, (8, 0))) {
            let counts = COLLECTIVES.map(|(opcode, ..)| {
                let opcodes = opcodes(function);
                opcodes.filter(|other| other.starts_with(opcode)).count()
            });
            if OUT_OF_LINE.contains(&counts) {
                continue;
            }
            let frees = counts[5] / COLLECTIVES[5].2;
            let mallocs = counts[0].saturating_sub(frees);
            let expected = COLLECTIVES.map(|(_, malloc, free)| mallocs * malloc + frees * free);
            let head = function.lines().next().unwrap_or_default();
            assert_eq!(counts, expected, "{COLLECTIVES:?} in {head} of the {name}");
            seen += usize::from(mallocs + frees > 0);
        }
    }
    assert!(seen > 20, "only {seen} functions call malloc or free");
}

#[test]
fn the_scanner_finds_masks_that_are_not_the_lanes_own() {
    let uses = |line: &str| {
        let before = "activemask.b32 %r1;\n{ .reg .b32 lane; mov.u32 lane, %lanemask_eq; or.b32 %r3, %r1, lane; }";
        uses_of_raw_masks(&format!("{before}\n{line}")).len()
    };
    for line in [
        "\tbar.warp.sync %r3;",
        "\tbar.warp.sync -1;",
        "\tsetp.ne.s32 %p1, %r1, -1;",
        "\tshfl.sync.idx.b32 %r5, %r4, 0, 31, %r3;",
    ] {
        assert_eq!(uses(line), 0, "{line}");
    }
    for line in [
        "\tbar.warp.sync %r1;",
        "\tmov.b32 %r2, %r1;",
        "\tand.b32 %r2, %r1, %r4;",
        "\tst.param.b32 [param3], %r1;",
        "\tshfl.sync.idx.b32 %r5, %r4, 0, 31, %r1;",
        "{ .reg .pred p; setp.ne.u32 p, %r5, 0; vote.sync.ballot.b32 %r6, p, %r1; }",
    ] {
        assert_eq!(uses(line), 1, "{line}");
    }
}

#[test]
fn lanes_of_a_part_of_a_warp_have_masks_of_their_own() {
    for source in sources() {
        let mut seen = 0;
        for function in functions(source.ptx) {
            let head = function.lines().next().unwrap_or_default();
            assert_eq!(
                uses_of_raw_masks(function),
                Vec::<String>::new(),
                "in {head}"
            );
            seen += function.matches("%lanemask_eq").count();
        }
        assert!(seen > 0, "no mask for {:?}", source.capability);
    }
}

/// By the number of its block a warp has a stripe, whatever the grid's shape.
#[test]
fn blocks_are_told_apart_in_grids_of_three_dimensions() {
    for source in BENCH_KERNELS {
        for entry in ALLOCATE {
            let body = body(source.ptx, entry);
            for register in ["%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y"] {
                assert!(body.contains(register), "{register} in {entry}");
            }
        }
    }
}

#[test]
fn timed_kernels_keep_nothing_in_local_memory() {
    for source in BENCH_KERNELS {
        for entry in ALLOCATE.into_iter().chain(FREE) {
            let body = body(source.ptx, entry);
            assert!(
                !body.contains("__local_depot"),
                "{entry}, {:?}",
                source.capability
            );
            assert!(
                opcodes(body).any(|opcode| opcode.starts_with("atom.")),
                "{entry}"
            );
        }
    }
}

#[test]
fn modules_are_for_their_baselines() {
    let has_redux = |ptx| opcodes(ptx).any(|opcode| opcode.starts_with("redux."));
    for (name, sources) in MODULES {
        let turing = module(sources, (7, 5));
        assert!(
            turing.contains("\n.target sm_75\n") && !has_redux(turing),
            "{name}"
        );
        let ampere = module(sources, (8, 0));
        assert!(ampere.contains("\n.target sm_80\n"), "{name}");
    }
}

/// What to do without it.
const NO_PTXAS: &str = "not found; `cargo xtask setup` installs it";

/// CUDA's assembler: the one that `cargo xtask setup` installs, else the CUDA toolkit's.
fn ptxas() -> Option<PathBuf> {
    // Asked at run time, so that the test runs without its sources too.
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(env::var_os)
        .map(|toolkit| Path::new(&toolkit).join("bin"));
    let search_path = env::var_os("PATH").unwrap_or_default();
    [Path::new(&root).join(".tools/cuda/bin")]
        .into_iter()
        .chain(toolkits)
        .chain([PathBuf::from("/usr/local/cuda/bin")])
        .chain(env::split_paths(&search_path))
        .map(|directory| directory.join(format!("ptxas{}", env::consts::EXE_SUFFIX)))
        .find(|program| program.is_file())
}

/// A directory of this process, removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("scatterheap-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind lies in the system's temporary directory and does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Assembles a module of a baseline for a GPU, and returns what the assembler reported.
fn assemble(
    ptxas: &Path,
    scratch: &Scratch,
    (name, sources): (&str, &'static [KernelSource]),
    baseline: (u32, u32),
    gpu: &str,
    options: &[&str],
) -> String {
    let name = format!("{name}-{}{}-{gpu}", baseline.0, baseline.1);
    let input = scratch.0.join(format!("{name}.ptx"));
    fs::write(&input, module(sources, baseline)).expect("the scratch directory is writable");
    let output = Command::new(ptxas)
        .args(["-arch", gpu])
        .args(options)
        .arg("-o")
        .arg(scratch.0.join(format!("{name}.cubin")))
        .arg(&input)
        .output()
        .expect("ptxas starts");
    let report = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{baseline:?} for {gpu}: {report}");
    report.into_owned()
}

/// What the assembler says of a kernel.
#[derive(Debug, Default)]
struct Usage {
    stack: u64,
    spilled: u64,
    registers: u64,
}

/// Reads what `ptxas -v` prints: lines that name a function, and lines about the last one named.
fn usage(report: &str) -> BTreeMap<String, Usage> {
    let mut usage: BTreeMap<String, Usage> = BTreeMap::new();
    let mut function = String::new();
    for line in report.lines() {
        if let Some((_, name)) = line.split_once("Compiling entry function '") {
            name.split('\'')
                .next()
                .unwrap_or_default()
                .clone_into(&mut function);
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            name.trim().clone_into(&mut function);
        } else {
            let words: Vec<&str> = line
                .split([' ', ','])
                .filter(|word| !word.is_empty())
                .collect();
            for (index, word) in words.iter().enumerate() {
                let Ok(number) = word.parse::<u64>() else {
                    continue;
                };
                let entry = usage.entry(function.clone()).or_default();
                match words[index + 1..] {
                    ["bytes", "stack", "frame", ..] => entry.stack = number,
                    ["bytes", "spill", ..] => entry.spilled += number,
                    ["registers", ..] => entry.registers = number,
                    _ => {}
                }
            }
        }
    }
    usage
}

#[test]
fn a_report_of_the_assembler_is_read() {
    let report = "\
ptxas info    : Compiling entry function 'kernel' for 'sm_90'
ptxas info    : Function properties for kernel
    32 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 136 registers, used 0 barriers, 40 bytes cumulative stack size
ptxas info    : Function properties for helper
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
    let usage = usage(report);
    let kernel = &usage["kernel"];
    assert_eq!(
        (kernel.stack, kernel.spilled, kernel.registers),
        (32, 12, 136)
    );
    assert_eq!(usage["helper"].stack, 16);
}

/// On a GPU a spill is a slow malloc, and registers decide how many warps run at once. The module is compiled as the host
/// has it compiled: to be linked.
#[test]
fn timed_kernels_stay_within_their_limits() {
    let Some(ptxas) = ptxas() else {
        println!("skipped: ptxas: what kernels use ({NO_PTXAS})");
        return;
    };
    let scratch = Scratch::new("usage");
    let module = ("benchmark", BENCH_KERNELS);
    let options = ["--compile-only", "-v"];
    let report = assemble(&ptxas, &scratch, module, (8, 0), MEASURED, &options);
    let usage = usage(&report);
    let allocate = ALLOCATE.map(|name| (name, LIMITS_OF_MALLOC));
    let free = FREE.map(|name| (name, LIMITS_OF_FREE));
    let mut excesses = Vec::new();
    for (name, limits) in allocate.into_iter().chain(free) {
        let used = usage
            .get(name)
            .unwrap_or_else(|| panic!("ptxas says nothing of {name}"));
        let Usage {
            stack,
            spilled,
            registers,
        } = *used;
        let line = format!(
            "{name} on {MEASURED}: {registers} registers (at most {}), \
             {stack} bytes of stack (at most {}), {spilled} spilled",
            limits.registers, limits.stack
        );
        println!("{line}");
        assert!(registers > 0, "{name}: ptxas reports no registers");
        if registers > limits.registers || stack > limits.stack || spilled > 0 {
            excesses.push(line);
        }
    }
    assert!(excesses.is_empty(), "{excesses:#?}");
}

#[test]
fn every_supported_gpu_can_be_assembled_for() {
    let Some(ptxas) = ptxas() else {
        println!("skipped: ptxas: assembling for every GPU ({NO_PTXAS})");
        return;
    };
    let scratch = Scratch::new("assembled");
    let mut tasks = Vec::new();
    let [library, bench, device] = MODULES;
    tasks.extend([(library, (7, 5), "sm_75"), (library, (7, 5), MEASURED)]);
    for gpu in ALSO_ASSEMBLED {
        tasks.extend([(library, (7, 5), gpu), (library, (8, 0), gpu)]);
    }
    // The allocator in it is the same.
    tasks.extend([(bench, (7, 5), "sm_75"), (bench, (8, 0), "sm_120")]);
    tasks.extend([(device, (7, 5), "sm_75"), (device, (8, 0), MEASURED)]);
    let tasks = Mutex::new(tasks);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let task = tasks.lock().expect("no other worker panicked").pop();
                    let Some((module, baseline, gpu)) = task else {
                        break;
                    };
                    // Whether it can be assembled does not depend on optimisation.
                    let options = ["--compile-only", "-O1"];
                    assemble(&ptxas, &scratch, module, baseline, gpu, &options);
                }
            });
        }
    });
}
