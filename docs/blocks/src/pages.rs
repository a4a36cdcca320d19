//! The pages of the guide, and the blocks of code in them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// All pages: the guide's, and the READMEs of the repository, of the Python package, and of examples to copy.
pub fn pages() -> Vec<PathBuf> {
    let root = root();
    let mut found: Vec<PathBuf> = fs::read_dir(root.join("docs"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    found.sort();
    for page in ["README.md", "python/README.md"] {
        found.push(root.join(page));
    }
    found
}

/// A block of code.
pub struct Block {
    /// The first word behind the fence, such as `rust`; nothing if there is none.
    pub language: String,
    /// The line of the page with the fence, from 1 on.
    pub line: usize,
    /// What is between the fences.
    pub text: String,
}

/// The blocks of a page.
pub fn blocks(page: &Path) -> io::Result<Vec<Block>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (line, text) in (1..).zip(fs::read_to_string(page)?.lines()) {
        match (text.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                let language = language.split(',').next().unwrap_or_default();
                open = Some(Block {
                    language: language.trim().to_owned(),
                    line,
                    text: String::new(),
                });
            }
            (None, Some(block)) => {
                block.text.push_str(text);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    Ok(blocks)
}
