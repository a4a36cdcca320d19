//! `sizes`: what users type. Sizes, devices, workloads and tests of the benchmark are read or refused, and what is
//! printed is read again as the same.

use host::Selector;
use host::size::Bytes;
use host::stress::Workload;
use std::fmt::{Debug, Display};
use std::str::FromStr;

/// Reads the text that the bytes are as each thing, and their first eight as a size.
///
/// # Panics
/// A parser does not as it must.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match text.parse::<Bytes>() {
        Ok(size) => printed_and_read(size),
        Err(error) => assert!(error.to_string().contains(&*text)),
    }
    name::<Selector>(&text);
    name::<Workload>(&text);
    name::<bench::Test>(&text);
    if let Some((number, _)) = bytes.split_first_chunk() {
        printed_and_read(Bytes(u64::from_le_bytes(*number)));
    }
}

/// What is printed of a size is read as the same, up to the rounding of what is no whole number of its unit.
fn printed_and_read(size: Bytes) {
    let printed = size.to_string();
    let again: Bytes = match printed.parse() {
        Ok(again) => again,
        // Rounded up to what 64 bits do not hold.
        Err(_) if printed == "16777216.0 TiB" => return,
        Err(error) => panic!("{size:?} is printed as `{printed}`: {error}"),
    };
    let (number, _) = printed.split_once(' ').expect("there is a unit");
    let digits = number.split_once('.').map(|(_, digits)| digits.len());
    let unit = 1_u64 << (size.0.max(1).ilog2() / 10 * 10).min(40);
    let error = match digits {
        None => 0,
        Some(1) => unit / 20,
        Some(_) => unit / 200,
    };
    let difference = size.0.abs_diff(again.0);
    assert!(
        // Rounded twice, to a byte and by floating point.
        difference == 0 || digits.is_some() && difference <= error + 1 + size.0 / (1 << 50),
        "{size:?} is printed as `{printed}`, which is {again:?}"
    );
}

/// What is read of a name is printed as a name of the same.
fn name<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + Debug + PartialEq,
{
    match text.parse::<T>() {
        Ok(value) => {
            let again = value.to_string().parse::<T>().ok();
            assert_eq!(again.as_ref(), Some(&value), "`{value}`");
        }
        Err(error) => assert!(error.to_string().contains(text)),
    }
}
