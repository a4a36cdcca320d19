//! A reading as text, for `--once`.

use super::draw::{age, copying};
use super::view::{all_pages, bytes_in_use};
use crate::command::output::{count, one_line, percent, percent_of, table};
use scatterheap::monitor::Reading;
use scatterheap::size::Bytes;

pub fn of(reading: &Reading) -> String {
    let sizes = reading.state.sizes.iter().map(|size| {
        [
            count(size.slot_bytes),
            count(size.used),
            count(size.slots),
            percent_of(size.used, size.slots),
            Bytes(bytes_in_use(size)).to_string(),
        ]
    });
    let head = ["bytes each", "in use", "of slots", "full", "bytes"];
    let lines = lines(reading)
        .into_iter()
        .map(|(label, line)| format!("{label:<17}{line}\n"));
    let lines: String = lines.collect();
    let sizes = if reading.state.sizes.is_empty() {
        String::new()
    } else {
        format!("\n{}\n", table(head, sizes))
    };
    format!("{}\n\n{lines}{sizes}", title(reading))
}

fn title(reading: &Reading) -> String {
    let doing = match &*reading.doing {
        "" => String::new(),
        doing => format!(" ({doing})"),
    };
    // Any program may have written it.
    one_line(&format!(
        "{}{doing}, process {}: heap of {} on {} ({}), {}",
        reading.name,
        reading.process,
        Bytes(reading.state.capacity),
        reading.device,
        reading.device_name,
        age(reading.age())
    ))
}

fn lines(reading: &Reading) -> Vec<(&'static str, String)> {
    let state = &reading.state;
    let pages = &state.pages;
    let mut lines = vec![
        (
            "in use",
            format!(
                "{} ({}) in {} blocks",
                Bytes(state.used_bytes),
                percent_of(state.used_bytes, state.capacity),
                count(state.used_blocks)
            ),
        ),
        (
            "pages",
            format!(
                "{} of {}: {} in slabs ({} reclaimable), {} in {} runs, {} free",
                count(all_pages(pages)),
                Bytes(state.page_bytes),
                count(pages.in_slabs),
                count(pages.reclaimable),
                count(pages.in_runs),
                count(state.runs),
                count(pages.free)
            ),
        ),
        (
            "largest request",
            format!(
                "{}; {} of free pages outside the longest run",
                Bytes(state.largest_request),
                percent(state.external_fragmentation)
            ),
        ),
        (
            "NULL",
            format!(
                "{} requests; {} calls refused as misuse",
                count(state.nulls),
                count(reading.misuses)
            ),
        ),
    ];
    if let Some(operations) = reading.operations {
        lines.push(("operations", count(operations)));
    }
    lines.push((
        "looked at",
        format!(
            "every {:.2} s; a copy takes {}",
            reading.period,
            copying(reading)
        ),
    ));
    lines
}
