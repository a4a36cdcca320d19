//! Text that is read as a whole. What never ends, such as a device, is refused, and not read until the memory is gone.

use std::io::{self, ErrorKind, Read};

/// The most bytes of a text: many times what a table or a document of a run has.
pub const MAXIMUM_BYTES: u64 = 256 << 20;

/// All that a reader has.
///
/// # Errors
/// What the reader says, that it is no UTF-8, or that it has more than [`MAXIMUM_BYTES`].
pub fn read(reader: impl Read) -> io::Result<String> {
    read_at_most(reader, MAXIMUM_BYTES)
}

fn read_at_most(reader: impl Read, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    let mut limited = reader.take(limit + 1);
    let read = limited.read_to_string(&mut text);
    if limited.limit() == 0 {
        // Whatever was read of it, a part is missing.
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("it has more than {limit} bytes"),
        ));
    }
    read.map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_too_much_is_refused_and_nothing_else() {
        for (text, limit, is_read) in [("", 0, true), ("four", 4, true), ("four", 3, false)] {
            let read = read_at_most(text.as_bytes(), limit);
            assert_eq!(read.ok().as_deref(), is_read.then_some(text), "{limit}");
        }
        // Cut in the middle of a letter it is too long, and not badly written.
        for endless in [b'0', 0xc3] {
            let error = read_at_most(io::repeat(endless), 99).expect_err("it never ends");
            assert_eq!(error.to_string(), "it has more than 99 bytes");
        }
        let error = read_at_most(&[0xff][..], 99).expect_err("no UTF-8");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
}
