//! Writes `blocks.rs`: a module for each Rust block of the guide's pages. `tests/blocks.rs` is compiled with it.
//!
//! A block is either items, such as kernels, or statements of a function that has a device, a heap and so on. Both see
//! what host programs import, or what kernels do, and the items of the blocks before them on their page. A block with a
//! `main` is a whole program: it sees what it imports itself, and the kernels before it by the name of their crate.

#[path = "src/pages.rs"]
mod pages;

use pages::{Block, pages};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, error, fs};

/// What a line begins with that is no statement.
const ITEMS: [&str; 7] = [
    "#![",
    "kernel!",
    "fn main",
    "pub struct",
    "extern crate",
    "const ",
    "struct ",
];

/// The crates that the pages' programs have their kernels in.
const KERNEL_CRATES: [&str; 2] = ["use my_kernels::", "use vec_kernels::"];

/// What only kernels have.
const OF_KERNELS: [&str; 3] = ["kernel!", "arguments.", "scatterheap_simt"];

fn main() -> Result<(), Box<dyn error::Error>> {
    let output = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo runs this")?);
    println!("cargo::rerun-if-changed=src/pages.rs");
    let mut text = String::new();
    for page in pages() {
        println!("cargo::rerun-if-changed={}", page.display());
        let mut earlier = Earlier::default();
        for block in pages::blocks(&page)? {
            if block.language == "rust" {
                write_block(&mut text, &page, &block, &mut earlier)?;
            }
        }
    }
    fs::write(output.join("blocks.rs"), text)?;
    // What the build script of a block leaves.
    fs::write(output.join("my-kernels.sm_75.ptx"), "")?;
    Ok(())
}

/// The blocks of items before one on its page.
#[derive(Default)]
struct Earlier {
    all: Vec<String>,
    /// The last with kernels.
    kernels: Option<String>,
}

fn write_block(
    text: &mut String,
    page: &Path,
    block: &Block,
    earlier: &mut Earlier,
) -> Result<(), Box<dyn error::Error>> {
    let page_name = page
        .file_stem()
        .ok_or("a page has a name")?
        .to_string_lossy();
    let name = format!(
        "{}_{}",
        page_name.replace('-', "_").to_lowercase(),
        block.line
    );
    let begins = |line: &str| ITEMS.iter().any(|item| line.starts_with(item));
    let is_items = block.text.lines().any(begins);
    let is_program = block.text.contains("fn main");
    let is_kernel = !is_program && OF_KERNELS.iter().any(|word| block.text.contains(word));
    writeln!(text, "/// {}:{}\nmod {name} {{", page.display(), block.line)?;
    let prelude = if is_kernel {
        "kernel_prelude"
    } else {
        "host_prelude"
    };
    if !is_program {
        writeln!(text, "use super::{prelude}::*;")?;
        for other in &earlier.all {
            writeln!(text, "use super::{other}::*;")?;
        }
    }
    // A program has one global heap, which `tests/blocks.rs` has; and attributes of a crate are not for modules.
    let lines = block.text.lines().filter(|line| {
        !line.starts_with("#![")
            && !line.starts_with("//!")
            && !line.starts_with("scatterheap_alloc::global_heap!")
    });
    let mut lines: String = lines.flat_map(|line| [line, "\n"]).collect();
    // The kernels of a project are a crate of their own there.
    if let Some(kernels) = &earlier.kernels {
        for name in KERNEL_CRATES {
            lines = lines.replace(name, &format!("use super::{kernels}::"));
        }
    }
    if is_items {
        writeln!(text, "{lines}}}")?;
        if block.text.contains("kernel! {") {
            earlier.kernels = Some(name.clone());
        }
        earlier.all.push(name);
    } else {
        let parameters = if is_kernel {
            "arguments: &super::Arguments, bytes: u64, site: u32"
        } else {
            "device: &Device, heap: &Heap, snapshot: &Snapshot, stream: &Stream, arguments: super::Arguments, grid: Grid"
        };
        writeln!(
            text,
            "fn block({parameters}) -> anyhow::Result<()> {{\n{lines}Ok(())\n}}\n}}"
        )?;
    }
    Ok(())
}
