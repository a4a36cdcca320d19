//! PTX as text: what of it is code, and where a block of it ends.
//!
//! Lines mean nothing in PTX. Inline assembly may have a brace in a line of its own, as a function's end has one, and a
//! comment or a string may say anything.

/// The module with spaces in place of comments and strings: what is left is code, at the same places.
pub(crate) fn code_of(module: &str) -> String {
    let mut code = String::with_capacity(module.len());
    let mut rest = module;
    while let Some(place) = rest.find(['"', '/']) {
        let (before, marked) = rest.split_at(place);
        let (skipped, after) = marked.split_at(length_of_no_code(marked));
        code.push_str(before);
        // Byte by byte: a letter of several bytes leaves as many spaces.
        code.extend(skipped.bytes().map(|byte| match byte {
            b'\n' => '\n',
            _ => ' ',
        }));
        // A slash that begins no comment.
        let kept = usize::from(skipped.is_empty());
        code.push_str(&after[..kept]);
        rest = &after[kept..];
    }
    code.push_str(rest);
    code
}

/// Bytes of the comment or string that the text begins with; 0 if it begins with neither.
fn length_of_no_code(text: &str) -> usize {
    let through = |from: usize, end: &str| {
        let place = text[from..].find(end);
        place.map_or(text.len(), |place| from + place + end.len())
    };
    if text.starts_with("//") {
        text.find('\n').unwrap_or(text.len())
    } else if text.starts_with("/*") {
        through(2, "*/")
    } else if text.starts_with('"') {
        let mut end = through(1, "\"");
        while is_escaped(&text[..end]) && end < text.len() {
            end = through(end, "\"");
        }
        end
    } else {
        0
    }
}

/// Whether the quotation mark at the end of the text has a backslash before it that is not one of two.
fn is_escaped(text: &str) -> bool {
    let before = text.strip_suffix('"').unwrap_or(text);
    let backslashes = before.len() - before.trim_end_matches('\\').len();
    !backslashes.is_multiple_of(2)
}

/// The place of the brace that closes the one at `open`, in [code](code_of).
pub(crate) fn closing_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether names and directives may have this character.
pub(crate) fn is_of_names(character: char) -> bool {
    character.is_ascii_alphanumeric() || ['_', '$', '%'].contains(&character)
}

/// The names in [code](code_of), with what else is made of the same letters.
pub(crate) fn names(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character| !is_of_names(character))
        .filter(|name| !name.is_empty())
}

/// The places in [code](code_of) of a word that is no part of a longer name.
pub(crate) fn places_of<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).filter_map(move |(place, _)| {
        let before = code[..place].chars().next_back();
        let after = code[place + word.len()..].chars().next();
        let apart = !before.is_some_and(is_of_names) && !after.is_some_and(is_of_names);
        apart.then_some(place)
    })
}

/// A function's name, of what follows `.func`: `(.param .b64 result) name(.param .b64 a, …)`.
pub(crate) fn function_name(head: &str) -> Option<&str> {
    let head = head.trim_start();
    let rest = match head.strip_prefix('(') {
        Some(rest) => rest.split_once(')')?.1,
        None => head,
    };
    names(rest).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_no_code() {
        for (text, expected) in [
            ("a // } \"b\nc", "a        \nc"),
            ("a /* }\n// */ b", "a     \n      b"),
            (".pragma \"{ // \\\" {\"; a", ".pragma            ; a"),
            ("\"two \\\\\" }", "         }"),
            ("a / b \"open", "a / b      "),
            ("// ä\na", "     \na"),
            ("/* never ends", "             "),
        ] {
            assert_eq!(code_of(text), expected, "{text}");
            assert_eq!(code_of(text).len(), text.len());
        }
    }

    #[test]
    fn braces_are_counted() {
        let code = "f()\n{\n{\n.reg .b32 x;\n}\n{ } }\n}";
        assert_eq!(closing_brace(code, 4), Some(code.len() - 3));
        assert_eq!(closing_brace(code, 6), Some(21));
        assert_eq!(closing_brace("{ {", 0), None);
        assert_eq!(closing_brace("}", 0), None);
    }

    #[test]
    fn words_are_found_where_they_are_no_part_of_a_name() {
        let places: Vec<_> = places_of("call.uni recall, call_it; @%p1 call f;", "call").collect();
        assert_eq!(places, [0, 31]);
    }

    #[test]
    fn the_name_comes_after_the_results() {
        for head in [
            " one(\n)",
            "  (.param .b32 func_retval0) one\n(\n\t.param .b64 one_param_0\n)\n",
            " one;",
        ] {
            assert_eq!(function_name(head), Some("one"), "{head}");
        }
    }
}
