//! Where functions of PTX end: braces, counted line by line.
//!
//! Inline assembly may have a brace in a line of its own, as the end of a function has one.

/// Counts the braces that are open. Those in comments and strings do not count.
#[derive(Default)]
pub(super) struct Braces {
    open: u32,
    in_comment: bool,
}

impl Braces {
    /// Reads the next line; true if it closes the last brace that was open.
    pub fn close_with(&mut self, line: &str) -> bool {
        let mut closed = false;
        let mut rest = line;
        loop {
            if self.in_comment {
                let Some((_, after)) = rest.split_once("*/") else {
                    return closed;
                };
                self.in_comment = false;
                rest = after;
            }
            let Some(place) = rest.find(['{', '}', '"', '/']) else {
                return closed;
            };
            let (mark, after) = rest[place..].split_at(1);
            rest = after;
            match mark {
                "{" => self.open += 1,
                "}" => {
                    self.open = self.open.saturating_sub(1);
                    closed |= self.open == 0;
                }
                "\"" => rest = after_string(after),
                _ if after.starts_with('/') => return closed,
                _ if after.starts_with('*') => {
                    self.in_comment = true;
                    rest = &after[1..];
                }
                _ => {}
            }
        }
    }
}

/// What follows the string that the text is in.
fn after_string(text: &str) -> &str {
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return &text[place + 1..],
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_brace_closes() {
        let mut braces = Braces::default();
        for (line, closes) in [
            ("// {", false),
            ("{", false),
            ("\t{ // callseq {", false),
            ("}", false),
            ("\t.pragma \"} \\\" }\"; /* } */ {", false),
            ("/*/ }", false),
            ("*/ /* }", false),
            ("} */ // }", false),
            ("a / b }", false),
            ("}", true),
            ("{}", true),
            (".global .b8 list[2] = {1, 2};", true),
            ("\tret;", false),
            ("}", true),
        ] {
            assert_eq!(braces.close_with(line), closes, "{line}");
        }
        assert_eq!(braces.open, 0);
    }
}
