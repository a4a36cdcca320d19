//! Chromium, in which the pages of `scatterheap report` are tried: finds it, or installs it.

use std::path::PathBuf;

use crate::process::find_program;
use crate::setup::{install_lean_packages, is_debian};

/// What it is called, here and there; `tests/browser` looks for the same.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];

/// Chromium, and letters for it to write with.
const PACKAGES: [&str; 2] = ["chromium", "fonts-dejavu-core"];

/// Says where Chromium is, after installing it if that is possible. Without one, its tests are skipped, and say so.
pub fn install_browser() {
    if find().is_none()
        && is_debian()
        && let Err(refusal) = install_lean_packages(&PACKAGES)
    {
        println!("{refusal:#}");
    }
    match find() {
        Some(browser) => println!("browser: {}", browser.display()),
        None => println!("browser: there is no Chromium, and pages are not tried"),
    }
}

fn find() -> Option<PathBuf> {
    NAMES.into_iter().find_map(find_program)
}
