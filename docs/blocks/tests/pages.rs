//! The pages of the guide: each is in the table of contents, links lead somewhere, and what is code in other languages than
//! Rust is code.

#[path = "../src/pages.rs"]
mod pages;

use pages::{Block, blocks, pages, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, iter};

/// Whether the sources are here: test programs are also run elsewhere.
fn has_sources() -> bool {
    let there = root().join("docs/SUMMARY.md").is_file();
    if !there {
        println!("skipped: pages of the guide (the sources are not here)");
    }
    there
}

/// The targets of a page's links, with the line of each.
fn links(page: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(page).expect("a page");
    let mut found = Vec::new();
    let mut in_code = false;
    for (line, text) in (1..).zip(text.lines()) {
        in_code ^= text.starts_with("```");
        if in_code {
            continue;
        }
        for rest in text.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                found.push((line, target.to_owned()));
            }
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).expect("a page");
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter })
            .collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    if !has_sources() {
        return;
    }
    let docs = root().join("docs");
    let contents: BTreeSet<PathBuf> = links(&docs.join("SUMMARY.md"))
        .into_iter()
        .map(|(_, target)| docs.join(target))
        .collect();
    for page in pages() {
        let is_chapter = page.parent() == Some(&docs) && !page.ends_with("SUMMARY.md");
        assert!(
            !is_chapter || contents.contains(&page),
            "{} is missing in docs/SUMMARY.md",
            page.display()
        );
    }
}

#[test]
fn links_lead_somewhere() {
    if !has_sources() {
        return;
    }
    let mut dead = Vec::new();
    for page in pages() {
        for (line, link) in links(&page) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().expect("a page is in a directory").join(file),
            };
            let is_there = target.exists()
                && (anchor.is_empty() || target.is_dir() || anchors(&target).contains(anchor));
            if !is_there {
                dead.push(format!("{}:{line}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "links to nothing:\n{}", dead.join("\n"));
}

/// Every block of a language, with its page.
fn blocks_of(languages: &[&str]) -> Vec<(PathBuf, Block)> {
    let mut found = Vec::new();
    for page in pages() {
        for block in blocks(&page).expect("a page") {
            if languages.contains(&block.language.as_str()) {
                found.push((page.clone(), block));
            }
        }
    }
    assert!(!found.is_empty(), "no block of {languages:?} is found");
    found
}

/// Gives each block to a program, as a file; it must accept all.
fn accepted(languages: &[&str], program: &str, arguments: &[&str]) {
    accepted_as(languages, program, arguments, str::to_owned);
}

/// [`accepted`], with each block as `whole` makes a file of it.
fn accepted_as(
    languages: &[&str],
    program: &str,
    arguments: &[&str],
    whole: impl Fn(&str) -> String,
) {
    if !has_sources() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let file = scratch.path().join("block");
    for (page, block) in blocks_of(languages) {
        fs::write(&file, whole(&block.text)).expect("it can be written");
        let ran = Command::new(program).args(arguments).arg(&file).output();
        let Ok(output) = ran else {
            println!("skipped: {program} of the guide's blocks ({program} is not installed)");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{}:{}: {said}",
            page.display(),
            block.line
        );
    }
}

#[test]
fn commands_are_shell() {
    accepted(&["sh"], "bash", &["-n"]);
}

#[test]
fn python_compiles() {
    let compile = "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')";
    accepted(&["python"], "python3", &["-c", compile]);
}

/// What C and CUDA C++ include.
fn headers() -> [String; 2] {
    ["capi/include", "bench/include"].map(|headers| format!("-I{}", root().join(headers).display()))
}

#[test]
fn c_compiles() {
    let headers = headers();
    let [ours, benchmark] = &headers;
    let options = ["-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-variable"];
    let included = ["-include", "scatterheap.h", "-x", "c", ours, benchmark];
    // What is shown are statements.
    let whole = |text: &str| format!("void block(void *stream) {{\n{text}}}\n");
    accepted_as(&["c"], "cc", &[&options[..], &included].concat(), whole);
}

/// CUDA's compiler: the one that `cargo xtask setup` installs, or else the one on the search path.
fn nvcc() -> Option<PathBuf> {
    let search_path = env::var_os("PATH").unwrap_or_default();
    iter::once(root().join(".tools/cuda/bin"))
        .chain(env::split_paths(&search_path))
        .map(|directory| directory.join("nvcc"))
        .find(|program| program.is_file())
}

#[test]
fn cuda_cpp_compiles() {
    let Some(nvcc) = nvcc() else {
        println!("skipped: CUDA C++ of the guide (no nvcc; `cargo xtask setup` installs it)");
        return;
    };
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let ptx = scratch.path().join("block.ptx").display().to_string();
    // Made where device functions are compiled.
    let made = scratch.path().join("scatterheap/layout.h");
    let names = "#define SCATTERHEAP_LAYOUT scatterheap_layout\n";
    fs::create_dir(scratch.path().join("scatterheap")).expect("it can be created");
    fs::write(made, names).expect("it can be written");
    let made = format!("-I{}", scratch.path().display());
    let headers = headers();
    let [ours, benchmark] = &headers;
    let options = ["-ptx", "-o", &ptx, "-arch=sm_90", "-std=c++17", "-rdc=true"];
    let included = ["-include", "scatterheap.h", ours, benchmark, "-x", "cu"];
    let nvcc = nvcc.display().to_string();
    let options = [&options[..], &["-Werror=all-warnings", &made], &included].concat();
    accepted(&["cuda"], &nvcc, &options);
}
