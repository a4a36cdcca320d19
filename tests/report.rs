//! Pages of runs, in Chromium: that they are drawn without a complaint and without the network, that the slider moves, and that they
//! fit a phone, in light and in dark. Without Chromium these tests print a line `skipped: …`; those of input run anyway.

mod browser;

use browser::Browser;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Options for a small heap on the CPU.
const SMALL: [&str; 4] = ["--device", "cpu", "--heap", "8MiB"];

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scatterheap"));
    command
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The one line with which a call is refused.
fn refused(arguments: &[&str], words: &str) {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments:?}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.starts_with("error: ") && errors.contains(words),
        "{errors}"
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn source(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// A directory of a test's own.
fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// A page that several tests look at, in the tests' own directory.
fn shared(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The page of a replay.
fn replay() -> &'static Path {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    PAGE.get_or_init(|| {
        let page = shared("replay.html");
        let trace = source("traces/sqlite3.sctrace");
        let options = ["replay", &trace, "--copies", "1", "--windows", "16"];
        let heap = [
            "--device",
            "cpu",
            "--heap",
            "32MiB",
            "--report",
            text(&page),
        ];
        succeeds(&[&options[..], &heap].concat());
        page
    })
}

/// The page of all workloads.
fn stress() -> &'static Path {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    PAGE.get_or_init(|| {
        let page = shared("stress.html");
        let options = ["stress", "--threads", "256", "--rounds", "4", "--report"];
        succeeds(&[&options[..], &[text(&page)], &SMALL].concat());
        page
    })
}

/// The page of the tables that are kept.
fn bench() -> &'static Path {
    static PAGE: OnceLock<PathBuf> = OnceLock::new();
    PAGE.get_or_init(|| {
        let page = shared("bench.html");
        let tables =
            ["latest", "peers"].map(|name| source(&format!("benches/results/h200/{name}.csv")));
        let options = [
            "report",
            &tables[0],
            &tables[1],
            "--title",
            "<b>H200</b>",
            "--output",
            text(&page),
        ];
        assert_eq!(succeeds(&options).trim(), text(&page));
        page
    })
}

/// Starts Chromium, or says that there is none.
fn browser(test: &str) -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        println!("skipped: {test}: there is no Chromium");
    }
    browser
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// What is in the canvas.
const CANVAS: &str = "document.querySelector('canvas').toDataURL()";

#[test]
fn the_slider_shows_other_moments() {
    let Some(mut browser) = browser("the_slider_shows_other_moments") else {
        return;
    };
    browser.resize(1280, 900);
    browser.open(replay());
    let moments = number(&browser.evaluate("Number(document.getElementById('moment').max)"));
    // The beginning, and each of 16 windows.
    assert!((moments - 16.0).abs() < 0.5, "{moments}");
    browser.evaluate("document.getElementById('moment').focus()");
    let (end, home) = (35, 36);
    let mut seen = Vec::new();
    for (key, code) in [("Home", home), ("ArrowRight", 39), ("End", end)] {
        browser.press(key, code);
        let words = browser.evaluate("document.querySelector('.moment output').textContent");
        let mark = browser.evaluate("document.querySelector('svg .mark').getAttribute('x1')");
        let legend = browser.evaluate("document.querySelector('.timeline .legend b').textContent");
        seen.push((words, mark, legend, browser.evaluate(CANVAS)));
    }
    let words: Vec<_> = seen
        .iter()
        .map(|(words, ..)| words.as_str().expect("words"))
        .collect();
    assert!(words[0].ends_with("the heap was made"), "{words:?}");
    assert!(words[1].ends_with("window 1 of 16"), "{words:?}");
    assert!(words[2].ends_with("window 16 of 16"), "{words:?}");
    assert!(
        seen[0].1 != seen[1].1 && seen[1].1 != seen[2].1,
        "the mark stays"
    );
    assert!(seen[0].2 != seen[1].2, "the legend stays");
    assert!(seen[0].3 != seen[1].3, "the map stays");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn what_matters_comes_first() {
    let Some(mut browser) = browser("what_matters_comes_first") else {
        return;
    };
    browser.resize(390, 844);
    browser.open(replay());
    let tiles =
        browser.evaluate("[...document.querySelectorAll('.tile')].map((tile) => tile.innerText)");
    let tiles: Vec<String> = serde_json::from_value(tiles).expect("tiles");
    for (tile, words) in tiles.iter().zip(["Full", "Fragmented", "Fast", "Errors"]) {
        assert!(tile.starts_with(words), "{tiles:?}");
    }
    assert!(
        tiles[3].contains("0 corrupt, 0 misplaced, 0 leaked"),
        "{tiles:?}"
    );
    assert_eq!(
        browser.evaluate("document.querySelector('.badge').textContent"),
        "ok"
    );
    let bottom =
        browser.evaluate("document.querySelector('.tiles').getBoundingClientRect().bottom");
    assert!(
        number(&bottom) < 844.0,
        "the tiles do not fit a phone's screen: {bottom}"
    );
    let calls = browser.evaluate("document.body.innerText");
    for words in [
        "How long malloc takes",
        "How long free takes",
        "99 % within",
    ] {
        assert!(calls.as_str().expect("text").contains(words), "{words}");
    }
}

#[test]
fn pages_fit_a_phone_in_light_and_in_dark() {
    let Some(mut browser) = browser("pages_fit_a_phone_in_light_and_in_dark") else {
        return;
    };
    for page in [replay(), stress(), bench()] {
        let mut grounds = Vec::new();
        for (width, scheme) in [(390, "light"), (390, "dark"), (1280, "dark")] {
            browser.resize(width, 844);
            browser.set_scheme(scheme);
            browser.open(page);
            let wide = browser.evaluate("document.documentElement.scrollWidth");
            assert!(
                number(&wide) <= f64::from(width),
                "{page:?} is {wide} wide on {width}"
            );
            assert!(
                number(&browser.evaluate("document.querySelectorAll('svg path, svg rect').length"))
                    > 4.0,
                "{page:?}"
            );
            grounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
            assert_eq!(browser.complaints(), [""; 0], "{page:?}");
        }
        assert_ne!(grounds[0], grounds[1], "{page:?}");
        assert_eq!(grounds[1], grounds[2], "{page:?}");
    }
}

#[test]
fn colours_follow_the_system_while_the_page_is_open() {
    let Some(mut browser) = browser("colours_follow_the_system_while_the_page_is_open") else {
        return;
    };
    browser.resize(800, 600);
    browser.set_scheme("light");
    browser.open(replay());
    let light = browser.evaluate(CANVAS);
    browser.set_scheme("dark");
    assert!(
        browser.evaluate(CANVAS) != light,
        "the map keeps its colours"
    );
}

#[test]
fn every_workload_can_be_chosen() {
    let Some(mut browser) = browser("every_workload_can_be_chosen") else {
        return;
    };
    browser.resize(1280, 900);
    browser.open(stress());
    let names = browser.evaluate(
        "[...document.querySelectorAll('.choices button')].map((button) => button.textContent)",
    );
    let names: Vec<String> = serde_json::from_value(names).expect("names");
    assert_eq!(names.len(), scatterheap::stress::Workload::ALL.len());
    for (index, name) in names.iter().enumerate() {
        browser.evaluate(&format!(
            "document.querySelectorAll('.choices button')[{index}].click()"
        ));
        browser.settle();
        let shown = browser.evaluate("document.querySelector('.part > p.faint').textContent");
        let name = name.trim_start_matches(['✓', '✗', ' ']);
        assert!(
            shown.as_str().expect("words").starts_with(name),
            "{name}: {shown}"
        );
        assert!(
            name == "misuse"
                || number(&browser.evaluate("document.querySelectorAll('canvas').length")) > 0.5,
            "{name}"
        );
    }
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn allocators_stand_side_by_side() {
    let Some(mut browser) = browser("allocators_stand_side_by_side") else {
        return;
    };
    browser.resize(1280, 900);
    browser.open(bench());
    let shown = browser.evaluate("document.body.innerText");
    let shown = shown.as_str().expect("text");
    for words in [
        "<b>H200</b>",
        "uniform: malloc",
        "scale: malloc",
        "Gallatin",
        "Ouroboros P-S",
        "no allocation",
        "Fastest",
    ] {
        assert!(shown.contains(words), "{words}");
    }
    browser
        .evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })");
    browser.settle();
    let rows = browser.evaluate("document.querySelectorAll('details tbody tr').length");
    assert!(number(&rows) > 100.0, "{rows}");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_run_becomes_the_same_page_later() {
    let pages = directory();
    let (page, later) = (
        pages.path().join("now.html"),
        pages.path().join("later.html"),
    );
    let options = [
        "stress",
        "mixed",
        "--threads",
        "128",
        "--rounds",
        "2",
        "--report",
        text(&page),
        "--json",
    ];
    let document = succeeds(&[&options[..], &SMALL].concat());
    let file = pages.path().join("run.json");
    std::fs::write(&file, document).expect("written");
    succeeds(&["report", text(&file), "-o", text(&later)]);
    let read = |path| std::fs::read_to_string(path).expect("a page");
    assert!(read(&page) == read(&later), "the pages differ");
}

#[test]
fn a_benchmark_becomes_a_page() {
    let results = directory();
    let (page, later) = (
        results.path().join("now.html"),
        results.path().join("later.html"),
    );
    let options = [
        "bench",
        "uniform",
        "--quick",
        "--samples",
        "1",
        "--size",
        "16",
    ];
    let output = [
        "--device",
        "cpu",
        "--output",
        text(results.path()),
        "--report",
        text(&page),
    ];
    succeeds(&[&options[..], &output].concat());
    let document = results.path().join("latest.json");
    succeeds(&["report", text(&document), "-o", text(&later)]);
    let read = |path| std::fs::read_to_string(path).expect("a page");
    assert!(read(&page) == read(&later), "the pages differ");
    assert!(
        read(&page).contains("\"metric\":\"alloc_us\""),
        "no figures"
    );
}

#[test]
fn moments_are_told_in_json() {
    let options = [
        "stress",
        "churn",
        "--threads",
        "128",
        "--rounds",
        "8",
        "--moments",
        "4",
        "--json",
    ];
    let document: Value =
        serde_json::from_str(&succeeds(&[&options[..], &SMALL].concat())).expect("JSON");
    let timeline = document["reports"][0]["timeline"]
        .as_array()
        .expect("moments");
    assert!((3..=7).contains(&timeline.len()), "{}", timeline.len());
    assert_eq!(timeline[0]["used_blocks"], 0);
    assert_eq!(timeline.last().expect("moments")["used_blocks"], 0);
    assert!(
        timeline
            .iter()
            .any(|moment| moment["used_blocks"].as_u64() > Some(0))
    );
    let operations: Vec<_> = timeline
        .iter()
        .map(|moment| moment["operations"].as_u64())
        .collect();
    assert!(operations.is_sorted(), "{operations:?}");
}

/// The columns of a table of the benchmark.
const TABLE_HEAD: &str = "test,allocator,size,n,metric,value\n";

/// Of a benchmark that was interrupted at once.
const UNMEASURED: &str = r#"{"command": "bench", "rows": [], "failures": [], "machine": {"selector": "cpu",
    "device": "CPU", "gpu": false, "driver": null, "version": "0", "commit": null, "date": ""}}"#;

#[test]
fn a_table_may_have_any_name() {
    let pages = directory();
    let (table, page) = (pages.path().join("table"), pages.path().join("page.html"));
    let row = "uniform,scatterheap,16,1,alloc_us,2\n";
    std::fs::write(&table, format!("{TABLE_HEAD}{row}")).expect("written");
    succeeds(&["report", text(&table), "-o", text(&page)]);
    assert!(page.is_file());
}

#[test]
fn what_is_no_run_is_refused() {
    let pages = directory();
    let page = pages.path().join("page.html");
    for (name, content, words) in [
        ("empty.json", "", "no JSON"),
        ("other.json", "{}", "no document of scatterheap"),
        (
            "info.json",
            r#"{"command": "info"}"#,
            "no page for `scatterheap info`",
        ),
        ("old.json", r#"{"command": "replay"}"#, "missing field"),
        ("unmeasured.json", UNMEASURED, "has no figures"),
        ("bad.csv", "a,b\n", "columns"),
        ("none.csv", TABLE_HEAD, "has no figures"),
        ("none", TABLE_HEAD, "has no figures"),
    ] {
        let file = pages.path().join(name);
        std::fs::write(&file, content).expect("written");
        refused(&["report", text(&file), "-o", text(&page)], words);
        refused(&["report", text(&file), "-o", text(&page)], name);
        assert!(!page.exists(), "{name}");
    }
    refused(
        &["report", "/nowhere/run.json", "-o", text(&page)],
        "cannot read",
    );
    refused(
        &["stress", "--report", "/nowhere/page.html"],
        "make its directory first",
    );
    refused(
        &[
            "report",
            text(&pages.path().join("empty.json")),
            "-o",
            text(pages.path()),
        ],
        "cannot write the page",
    );
    refused(&["replay", "/nowhere/trace", "--moments", "0"], "--moments");
}

#[test]
#[ignore = "writes the documentation's pictures: SCATTERHEAP_PAGE names a page, SCATTERHEAP_PICTURES a directory"]
fn pictures() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let page = PathBuf::from(variable("SCATTERHEAP_PAGE"));
    let directory = PathBuf::from(variable("SCATTERHEAP_PICTURES"));
    let mut browser = Browser::start().expect("there is a Chromium");
    browser.hide_scrollbars();
    for (name, width, height, scheme) in [
        ("report-replay.png", 1100, 1180, "light"),
        ("report-phone-light.png", 390, 844, "light"),
        ("report-phone-dark.png", 390, 844, "dark"),
    ] {
        browser.resize(width, height);
        browser.set_scheme(scheme);
        browser.open(&page);
        std::fs::write(directory.join(name), browser.picture()).expect("written");
    }
}
