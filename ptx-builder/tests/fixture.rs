//! Builds the fixture kernel with the compiler that is installed, and reads the PTX.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use scatterheap_ptx_builder::{Baseline, Builder, Error, find_compiler};

fn builder(output: &Path) -> Option<Builder> {
    match find_compiler() {
        Ok(compiler) => {
            println!("compiling with {compiler}");
            let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture-kernel");
            Some(Builder::new(fixture).output_directory(output))
        }
        Err(error) => {
            println!("skipped: building kernels ({error})");
            None
        }
    }
}

/// Where all builds of the fixture go, by turns: `core` takes long to compile. Kept from run to run.
fn shared_output() -> (PathBuf, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixture");
    // Whoever failed left nothing that the next one relies on.
    (output, TURN.lock().unwrap_or_else(PoisonError::into_inner))
}

fn has_line(text: &str, start: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().starts_with(start))
}

/// What is in a directory.
fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

#[test]
fn both_baselines_features_and_rebuilds() {
    let (output, _turn) = shared_output();
    let Some(builder) = builder(&output) else {
        return;
    };

    let begin = Instant::now();
    let modules = builder.build().expect("the fixture compiles");
    println!("both baselines: {:.1?}", begin.elapsed());
    assert_eq!(modules.len(), 2);
    let mut first_texts = Vec::new();
    for (module, baseline) in modules.iter().zip([Baseline::SM_75, Baseline::SM_80]) {
        assert_eq!(module.baseline, baseline);
        assert_eq!(
            module.path,
            output.join(format!("fixture-kernel.{baseline}.ptx"))
        );
        let text = module.read().expect("the module is there");
        assert!(text.contains(".visible .entry store_index("), "{text}");
        assert!(has_line(&text, ".version 7.8"), "{text}");
        assert!(has_line(&text, &format!(".target {baseline}")), "{text}");
        assert!(
            !text.contains("store_doubled"),
            "the feature is off: {text}"
        );
        assert!(!text.contains(".extern"), "everything is linked in: {text}");
        first_texts.push(text);
    }

    // Other features must give other PTX, and going back must give the first again, although cargo
    // calls it fresh.
    let one = builder.clone().baseline(Baseline::SM_80);
    let featured = one
        .clone()
        .features(["doubled"])
        .build()
        .expect("the feature compiles");
    assert!(
        featured[0]
            .read()
            .expect("the module is there")
            .contains(".visible .entry store_doubled(")
    );
    let begin = Instant::now();
    let again = builder.build().expect("it compiles again");
    println!("both baselines again: {:.1?}", begin.elapsed());
    let again: Vec<_> = again
        .iter()
        .map(|module| module.read().expect("the module is there"))
        .collect();
    assert_eq!(again, first_texts);

    // A lost file is made again.
    for workspace in entries(&output.join("ptx-target")) {
        for path in entries(&workspace.join("sm_80")) {
            if path.extension().is_some_and(|extension| extension == "ptx") {
                fs::remove_file(path).expect("remove the PTX");
            }
        }
    }
    let again = one.build().expect("it compiles once more");
    assert_eq!(
        again[0].read().expect("the module is there"),
        first_texts[1]
    );
}

#[test]
fn crates_that_are_called_alike_are_told_apart() {
    let (output, _turn) = shared_output();
    let Some(fixture) = builder(&output) else {
        return;
    };
    // Both are there before either is compiled: what is older than a build is fresh to cargo.
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("alike/kernels");
    copy_fixture_that_adds(&copy, 4711);
    let copy = Builder::new(copy).output_directory(&output);
    for (builder, added) in [(&copy, 4711), (&fixture, 1), (&copy, 4711)] {
        let modules = builder.clone().baseline(Baseline::SM_80).build();
        let modules = modules.expect("the fixture compiles");
        let text = modules[0].read().expect("the module is there");
        assert!(text.contains(&format!(", {added};")), "{added}: {text}");
    }
}

/// Copies the fixture, whose helper then adds another number to the index.
fn copy_fixture_that_adds(kernels: &Path, added: u32) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture-kernel");
    for file in [
        "Cargo.toml",
        "Cargo.lock",
        "src/lib.rs",
        "helper/Cargo.toml",
        "helper/src/lib.rs",
    ] {
        let copy = kernels.join(file);
        let text = fs::read_to_string(fixture.join(file)).expect("the fixture is there");
        let text = text.replace("index + 1", &format!("index + {added}"));
        fs::create_dir_all(copy.parent().expect("a directory")).expect("create it");
        fs::write(copy, text).expect("write the copy");
    }
}

#[test]
fn a_crate_that_does_not_compile_shows_what_the_compiler_said() {
    let output = tempfile::tempdir().expect("a temporary directory");
    let Some(builder) = builder(output.path()) else {
        return;
    };
    let error = builder
        .features(["no-such-feature"])
        .build()
        .expect_err("there is no such feature");
    assert!(matches!(error, Error::CompileFailed { .. }), "{error}");
    let message = error.to_string();
    assert!(
        message.starts_with("cannot compile the kernel crate fixture-kernel for sm_75 with rustc"),
        "{message}"
    );
    assert!(message.contains("no-such-feature"), "{message}");
}

#[test]
fn what_nobody_defines_is_found_when_it_is_built() {
    let (output, _turn) = shared_output();
    let Some(builder) = builder(&output) else {
        return;
    };
    let builder = builder.baseline(Baseline::SM_80).features(["undefined"]);
    let error = builder.build().expect_err("nobody defines it");
    assert!(
        matches!(&error, Error::Undefined { functions, .. } if functions == "defined_elsewhere"),
        "{error}"
    );
    let modules = builder.external_functions(["defined_elsewhere"]).build();
    let text = modules.expect("it is to be linked")[0].read();
    assert!(
        text.expect("the module is there")
            .contains("defined_elsewhere")
    );
}

/// The PTX of kernels that depend on nothing of ours but the vocabulary, where they can be built.
fn vocabulary() -> Option<&'static str> {
    static BUILT: OnceLock<Option<String>> = OnceLock::new();
    BUILT.get_or_init(|| build_member("vocabulary")).as_deref()
}

/// Kernel crates that depend on ours: names, dependencies whose paths begin at the repository's root, and sources.
const MEMBERS: [(&str, &str, &str); 2] = [
    (
        "vocabulary",
        "scatterheap-simt = { path = 'simt' }\n",
        include_str!("kernels/vocabulary.rs"),
    ),
    (
        "several-heaps",
        "scatterheap-simt = { path = 'simt' }\n\
         scatterheap-heap = { path = 'heap', features = ['allocator-api2'] }\n\
         scatterheap-alloc = { path = 'alloc' }\n\
         allocator-api2 = { version = '0.2', default-features = false, features = ['alloc'] }\n",
        include_str!("kernels/several_heaps.rs"),
    ),
];

/// Writes the kernel crates, of one workspace so that `core` is compiled once: its directory, where the crates that they need are beside this one.
fn members() -> Option<&'static Path> {
    static WRITTEN: OnceLock<Option<PathBuf>> = OnceLock::new();
    WRITTEN.get_or_init(write_members).as_deref()
}

fn write_members() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("members");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    builder(&directory)?;
    if !root.join("simt/Cargo.toml").is_file() {
        println!("skipped: building kernels that use ours (ours are not beside this crate)");
        return None;
    }
    let write = |file: &str, text: &str| {
        let file = directory.join(file);
        fs::create_dir_all(file.parent().expect("a directory")).expect("create the crate");
        fs::write(file, text).expect("write the crate");
    };
    let names = MEMBERS.map(|(name, _, _)| name);
    write(
        "Cargo.toml",
        &format!("[workspace]\nresolver = \"3\"\nmembers = {names:?}\n"),
    );
    let paths = format!("path = '{}/", root.display());
    for (name, dependencies, source) in MEMBERS {
        let dependencies = dependencies.replace("path = '", &paths);
        let manifest = format!(
            "[package]\nname = \"{name}\"\nedition = \"2024\"\n[dependencies]\n{dependencies}"
        );
        write(&format!("{name}/Cargo.toml"), &manifest);
        write(&format!("{name}/src/lib.rs"), source);
    }
    // What is not needed of it cargo leaves out.
    fs::copy(root.join("Cargo.lock"), directory.join("Cargo.lock")).expect("copy the lock file");
    Some(directory)
}

/// The PTX of one of the kernel crates, where it can be built.
fn build_member(name: &str) -> Option<String> {
    let directory = members()?;
    let (_, dependencies, _) = MEMBERS.into_iter().find(|member| member.0 == name)?;
    let mut builder = Builder::new(directory.join(name)).output_directory(directory.join("output"));
    if dependencies.contains("scatterheap-alloc") {
        builder = builder.with_alloc();
    }
    let modules = builder.baseline(Baseline::SM_80).build();
    let text = modules.expect("the kernels compile")[0].read();
    Some(text.expect("the module is there"))
}

/// The text of a kernel.
fn kernel<'a>(text: &'a str, name: &str) -> &'a str {
    let head = format!(".visible .entry {name}(");
    let (_, rest) = text.split_once(&head).expect("the kernel is there");
    rest.split(".visible .entry ").next().unwrap_or(rest)
}

/// rustc makes a call of `memcmp` of that.
#[test]
fn slices_can_be_compared_without_collections() {
    let Some(text) = vocabulary() else {
        return;
    };
    assert!(!text.contains(".extern"), "everything is there: {text}");
    let defined = |line: &&str| line.starts_with(".weak .func") && line.ends_with(" memcmp(");
    assert_eq!(text.lines().filter(defined).count(), 1, "{text}");
}

#[test]
fn a_compare_exchange_that_fails_has_the_ordering_that_was_asked_for() {
    let Some(text) = vocabulary() else {
        return;
    };
    for (name, instruction) in [
        ("exchange", "atom.acq_rel.gpu.global.cas.b32"),
        ("exchange_only", "atom.release.gpu.global.cas.b32"),
    ] {
        let kernel = kernel(text, name);
        assert!(kernel.contains(instruction), "{name}: {kernel}");
        assert_eq!(kernel.matches("atom.").count(), 1, "{name}: {kernel}");
    }
}

#[test]
fn collections_that_name_their_heap_need_no_global_one() {
    let Some(text) = build_member("several-heaps") else {
        return;
    };
    assert!(text.contains(".visible .entry count_up("), "{text}");
    assert!(!text.contains(".extern"), "everything is there");
    assert!(
        !text.contains("scatterheap_global_heap"),
        "the host would be asked for one"
    );
}
