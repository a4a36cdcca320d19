//! Tables for people.

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// A table with numbers to the right.
pub fn table<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    const STYLE: TableStyle =
        TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));
    let mut table = Table::new();
    table.load_style(STYLE).set_header(head);
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((u16::from(index > 0) * 2, 0));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Seconds in milliseconds.
#[must_use]
pub fn milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}
