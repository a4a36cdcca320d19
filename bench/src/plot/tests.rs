//! Every picture is well formed, shows every allocator, and survives whatever figures it is given.

use super::ratio::groups;
use super::*;
use crate::row::Row;
use roxmltree::Document;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

const ALLOCATORS: [&str; 4] = ["floor", "scatterheap", "cuda", "my_plug_in"];
const LABELS: [&str; 4] = ["no allocation", "scatterheap", "CUDA", "my plug in"];

fn row(test: &str, allocator: &str, size: u64, n: u64, metric: &str, value: f64) -> Row {
    Row {
        test: test.into(),
        allocator: allocator.into(),
        size,
        n,
        metric: metric.into(),
        value,
    }
}

/// Rows of all tests that are drawn; each allocator's times differ.
fn table() -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, allocator) in (1..).zip(ALLOCATORS) {
        for (metric, factor) in [("alloc_us", 10.0), ("free_us", 8.0)] {
            let value = factor * f64::from(index);
            for size in [16, 256, 4096] {
                for (test, n) in [("uniform", 1 << 20), ("mixed", 1 << 20), ("warp", 1 << 17)] {
                    rows.push(row(test, allocator, size, n, metric, value));
                }
                rows.extend(
                    [0, 10, 20]
                        .map(|power| row("scale", allocator, size, 1 << power, metric, value)),
                );
            }
        }
    }
    rows
}

/// Writes the plots of rows to a new directory, and gives their names and texts.
fn write(rows: &[Row]) -> Vec<(String, String)> {
    static DIRECTORIES: AtomicU32 = AtomicU32::new(0);
    let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
    let name = format!("scatterheap-plots-{}-{number}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let pictures =
        draw_all(&merge([rows.to_vec()]), "a <machine> & its driver").expect("plots are drawn");
    let paths = write_all(&pictures, &directory).expect("plots are written");
    let pictures = paths.iter().map(|path| {
        let name = path.file_name().expect("a file").to_string_lossy();
        (name.into_owned(), fs::read_to_string(path).expect("a plot"))
    });
    let pictures = pictures.collect();
    fs::remove_dir_all(directory).expect("the directory is there");
    pictures
}

fn names(pictures: &[(String, String)]) -> Vec<&str> {
    pictures.iter().map(|(name, _)| name.as_str()).collect()
}

/// The texts of a picture, which must be well formed.
fn texts(picture: &str) -> Vec<String> {
    let document = Document::parse(picture).expect("well-formed SVG");
    let texts = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    texts
        .filter_map(|node| node.text())
        .map(|text| text.trim().to_owned())
        .collect()
}

/// Colours of thick lines.
fn line_colours(picture: &str) -> BTreeSet<String> {
    let document = Document::parse(picture).expect("well-formed SVG");
    let lines = document.descendants().filter(|node| {
        node.has_tag_name("polyline") && node.attribute("stroke-width") != Some("1")
    });
    lines
        .filter_map(|node| node.attribute("stroke"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn a_line_for_each_allocator() {
    let pictures = write(&table());
    let all = ["time-over-size.svg", "time-over-threads.svg", "ratios.svg"];
    assert_eq!(names(&pictures), all);
    for (name, picture) in &pictures[..2] {
        let texts = texts(picture);
        for label in LABELS {
            assert!(
                texts.iter().any(|text| text == label),
                "{name}: {label} in {texts:?}"
            );
        }
        assert_eq!(line_colours(picture).len(), ALLOCATORS.len(), "{name}");
        assert!(
            texts.iter().any(|text| text == "a <machine> & its driver"),
            "{name}"
        );
    }
}

#[test]
fn a_bar_for_each_ratio() {
    let (_, picture) = write(&table()).pop().expect("three plots");
    let document = Document::parse(&picture).expect("well-formed SVG");
    let bars = document
        .descendants()
        .filter(|node| node.has_tag_name("rect") && node.attribute("height") == Some("7"));
    // 3 allocators beside the floor, 3 sizes of 3 tests and 9 of the test `scale`, malloc and free.
    assert_eq!(bars.count(), 3 * (9 + 9) * 2);
}

#[test]
fn the_spread_is_a_band() {
    let mut rows = table();
    let bands = |rows: &[Row]| write(rows)[0].1.matches("<polygon").count();
    assert_eq!(bands(&rows), 0);
    for size in [16, 256, 4096] {
        rows.push(row("uniform", "cuda", size, 1 << 20, "alloc_us_p10", 25.0));
        rows.push(row("uniform", "cuda", size, 1 << 20, "alloc_us_p90", 90.0));
    }
    assert_eq!(bands(&rows), 1);
}

#[test]
fn what_was_not_measured_is_left_out() {
    assert!(write(&[]).is_empty());
    let of =
        |test: &str| -> Vec<Row> { table().into_iter().filter(|row| row.test == test).collect() };
    assert_eq!(
        names(&write(&of("uniform"))),
        ["time-over-size.svg", "ratios.svg"]
    );
    assert_eq!(
        names(&write(&of("scale"))),
        ["time-over-threads.svg", "ratios.svg"]
    );
    let unknown = [row("oom", "scatterheap", 16, 1, "utilization", 1.0)];
    assert!(write(&unknown).is_empty());
    let no_floor: Vec<Row> = of("uniform")
        .into_iter()
        .filter(|row| row.allocator != "floor")
        .collect();
    assert_eq!(names(&write(&no_floor)), ["time-over-size.svg"]);
}

#[test]
fn an_allocator_that_was_measured_with_fewer_threads_says_so() {
    let mut rows = table();
    for row in rows.iter_mut().filter(|row| row.allocator == "cuda") {
        row.n = 1 << 16;
    }
    assert!(texts(&write(&rows)[0].1).contains(&"CUDA, 2¹⁶".to_owned()));
}

#[test]
fn figures_without_a_place_are_passed_over() {
    let strange = [
        0.0,
        -5.0,
        f64::NAN,
        f64::INFINITY,
        f64::MIN_POSITIVE,
        f64::MAX,
    ];
    for value in strange {
        let mut rows = table();
        for row in rows.iter_mut().filter(|row| row.allocator == "cuda") {
            row.value = value;
        }
        rows.push(row("uniform", "scatterheap", 0, 0, "alloc_us", value));
        for (name, picture) in write(&rows) {
            assert!(!texts(&picture).is_empty(), "{name}");
            assert!(!picture.contains("NaN"), "{name}");
        }
        let single = [row("uniform", "scatterheap", 16, 1, "alloc_us", value)];
        write(&single);
    }
    let single = [row("uniform", "scatterheap", 16, 1 << 20, "alloc_us", 12.0)];
    assert_eq!(names(&write(&single)), ["time-over-size.svg"]);
}

#[test]
fn cases_with_a_flaw_are_not_drawn() {
    let mut rows = table();
    for size in [16, 256, 4096] {
        for n in [1, 1 << 10, 1 << 17, 1 << 20] {
            for test in ["uniform", "mixed", "warp", "scale"] {
                rows.push(row(test, "cuda", size, n, "null", 3.0));
            }
        }
    }
    let pictures = write(&rows);
    assert_eq!(pictures.len(), 3);
    for (name, picture) in pictures {
        let texts = texts(&picture);
        assert!(texts.contains(&"my plug in".to_owned()), "{name}");
        assert!(!texts.contains(&"CUDA".to_owned()), "{name}");
    }
}

#[test]
fn a_name_may_have_any_character() {
    let times = [(16, 10.0), (64, 20.0)];
    let rows = times.map(|(size, time)| row("uniform", "a\u{1}b", size, 1024, "alloc_us", time));
    let pictures = write(&rows);
    assert!(texts(&pictures[0].1).contains(&"a\u{fffd}b".to_owned()));
}

#[test]
fn plots_of_an_earlier_run_are_removed() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let write = |rows: &[Row]| {
        let pictures = draw_all(&merge([rows.to_vec()]), "").expect("plots are drawn");
        write_all(&pictures, directory.path()).expect("plots are written")
    };
    let other = directory.path().join("mine.svg");
    fs::write(&other, "").expect("the directory is writable");
    let earlier = write(&table());
    assert_eq!(earlier.len(), 3);
    let mut scale = table();
    scale.retain(|row| row.test == "scale");
    let later = write(&scale);
    for path in &earlier {
        assert_eq!(path.exists(), later.contains(path), "{}", path.display());
    }
    assert!(other.exists());
}

/// Reads a table with this text.
fn read_text(text: &str) -> Result<Vec<Row>> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let name = format!("scatterheap-table-{}-{number}.csv", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, text).expect("the directory is writable");
    let rows = read(&path);
    fs::remove_file(path).expect("the file is there");
    rows
}

const HEAD: &str = "test,allocator,size,n,metric,value\n";

#[test]
fn a_bad_table_is_refused_by_its_line() {
    let good = "uniform,floor,16,1,alloc_us,1.5\n";
    let rows = read_text(&format!("{HEAD}{good}")).expect("a table");
    assert_eq!(rows, [row("uniform", "floor", 16, 1, "alloc_us", 1.5)]);
    let bad = [
        ("", "it is empty: give what"),
        ("a,b\n1,2\n", "line 1: found the columns `a,b`"),
        (
            &format!("{HEAD}{good}uniform,floor,16\n"),
            "line 3: found 3 fields, expected 6",
        ),
        (
            &format!("{HEAD}{good}uniform,floor,16,x,alloc_us,1\n"),
            "line 3: column `n`: `x` is no whole number",
        ),
        (
            &format!("{HEAD}uniform,floor,16,1,alloc_us,fast\n"),
            "line 2: column `value`: `fast` is no number",
        ),
        (
            &format!("{HEAD}{good}{good}uniform,floor,16,1,alloc_us,inf\n"),
            "line 4: column `value`: `inf` is not finite",
        ),
        (
            &format!("{HEAD}uniform,floor,16,1,alloc_us,NaN\n"),
            "line 2: column `value`: `NaN` is not finite",
        ),
        (
            &format!("{HEAD}uniform,floor,16,1,alloc_us,-1.5\n"),
            "line 2: column `value`: `-1.5` is negative",
        ),
    ];
    for (text, expected) in bad {
        let message = read_text(text).expect_err(text).to_string();
        assert!(message.contains(expected), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    let directory = read(&std::env::temp_dir()).expect_err("a directory");
    let message = directory.to_string();
    assert!(message.contains("it is a directory"), "{message}");
    let endless = read_from(std::io::repeat(0), Path::new("table.csv")).expect_err("endless");
    assert!(
        endless.to_string().contains("it has more than"),
        "{endless}"
    );
    let missing = read(Path::new("/no/such/table.csv")).expect_err("no file");
    assert!(
        missing
            .to_string()
            .starts_with("cannot read /no/such/table.csv ("),
        "{missing}"
    );
}

#[test]
fn later_tables_replace_figures_of_earlier_ones() {
    let figure = |value| row("uniform", "floor", 16, 1, "alloc_us", value);
    let other = row("uniform", "floor", 16, 1, "free_us", 3.0);
    let merged = merge([vec![figure(1.0), other.clone()], vec![figure(2.0)]]);
    assert_eq!(merged.rows, [figure(2.0), other]);
}

#[test]
fn figures_of_joined_tables_have_the_floor_of_their_own_run() {
    let time = |allocator: &str, value| row("uniform", allocator, 16, 1, "alloc_us", value);
    let fast = || vec![time("floor", 5.0), time("scatterheap", 10.0)];
    let slow = || vec![time("floor", 10.0), time("scatterheap_before", 20.0)];
    // The others were measured without a floor, which they borrow of the last table that has one.
    let others = || vec![time("gallatin", 40.0)];
    let ratios = |tables: Vec<Vec<Row>>| groups(&merge(tables), "alloc_us")[0].bars.clone();
    let bar = |allocator: &str, ratio: f64| (allocator.to_owned(), ratio);
    assert_eq!(
        ratios(vec![others(), fast(), slow()]),
        [
            bar("scatterheap", 2.0),
            bar("gallatin", 4.0),
            bar("scatterheap_before", 2.0)
        ]
    );
    assert_eq!(
        ratios(vec![slow(), fast(), others()]),
        [
            bar("scatterheap", 2.0),
            bar("gallatin", 8.0),
            bar("scatterheap_before", 2.0)
        ]
    );
}
