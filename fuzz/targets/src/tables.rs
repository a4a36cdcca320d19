//! `tables`: bytes as a table of figures, and the plots of it. Plots are XML without what no viewer can show.

use arbitrary::{Result, Unstructured};
use bench::plot::{draw_all, merge, read_from};
use roxmltree::Document;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "test,allocator,size,n,metric,value\n";
const TESTS: [&str; 8] = [
    "uniform",
    "scale",
    "mixed",
    "warp",
    "churn",
    "large",
    "uniform_aged",
    "other",
];
const ALLOCATORS: [&str; 5] = ["floor", "scatterheap", "cuda", "ouro_p_s", "a<b&\"c'"];
const METRICS: [&str; 8] = [
    "alloc_us",
    "free_us",
    "alloc_us_p10",
    "alloc_us_p90",
    "null",
    "corrupt",
    "aged_null",
    "utilization",
];

/// Reads the table that the bytes are, or that is made of them, and draws it.
///
/// # Panics
/// The reader or the drawing does not as it must.
pub fn run(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    match kind % 4 {
        0 => draw(rest),
        1 => draw(&[HEAD.as_bytes(), rest].concat()),
        _ => draw(table(rest).as_bytes()),
    }
}

fn draw(table: &[u8]) {
    let rows = match read_from(table, Path::new("table.csv")) {
        Ok(rows) => rows,
        Err(error) => return assert!(error.to_string().contains("table.csv")),
    };
    for row in &rows {
        assert!(row.value.is_finite() && row.value >= 0.0, "{row:?}");
    }
    let merged = merge([rows.clone(), rows.clone()]);
    assert!(merged.rows.len() <= rows.len());
    for picture in draw_all(&merged, "a machine").expect("text can be drawn") {
        let svg = Document::parse(picture.svg()).unwrap_or_else(|error| {
            panic!("{} is no XML: {error}", picture.name);
        });
        for node in svg.descendants() {
            for attribute in node.attributes() {
                let value = attribute.value();
                assert!(
                    !value.contains("NaN") && !value.contains("inf"),
                    "{}: {value}",
                    picture.name
                );
            }
        }
    }
}

/// A table of rows that mean something.
fn table(bytes: &[u8]) -> String {
    let mut table = HEAD.to_owned();
    let mut bytes = Unstructured::new(bytes);
    while let Ok(row) = row(&mut bytes) {
        table.push_str(&row);
    }
    table
}

fn row(bytes: &mut Unstructured<'_>) -> Result<String> {
    if bytes.is_empty() {
        return Err(arbitrary::Error::NotEnoughData);
    }
    let (kind, allocator, metric): (u8, u8, u8) = bytes.arbitrary()?;
    let test = TESTS[usize::from(kind) % TESTS.len()];
    let allocator = ALLOCATORS[usize::from(allocator) % ALLOCATORS.len()];
    let metric = METRICS[usize::from(metric) % METRICS.len()];
    let (size, n) = (number(bytes)?, number(bytes)?);
    let value = match kind / 8 % 4 {
        0 => f64::from(bytes.arbitrary::<u16>()?),
        1 => f64::from(bytes.arbitrary::<f32>()?),
        2 => 10_f64.powi(bytes.arbitrary::<i8>()?.into()),
        _ => bytes.arbitrary::<f64>()?,
    };
    let mut line = String::new();
    let row = format_args!("{test},{},{size},{n},{metric},{value}", quoted(allocator));
    writeln!(line, "{row}").expect("memory is never full");
    Ok(line)
}

/// A field of CSV.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

fn number(bytes: &mut Unstructured<'_>) -> Result<u64> {
    let kind: u8 = bytes.arbitrary()?;
    Ok(match kind {
        0..128 => 1 << (kind % 64),
        128..200 => u64::from(kind),
        200..250 => bytes.arbitrary::<u16>()?.into(),
        _ => bytes.arbitrary()?,
    })
}
