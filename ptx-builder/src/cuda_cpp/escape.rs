//! Names in inline assembly, where `%` and what follows it belongs to the C++ compiler.

/// What begins the names of registers.
const REGISTER: &str = "own_";
/// What begins the names of labels.
const LABEL: &str = "own_label_";

/// A line as nvcc takes it in inline assembly: registers and labels with names of their own, and `%` doubled.
pub fn escaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(place) = rest.find(['%', '$']) {
        text += &rest[..place];
        let name = &rest[place + 1..];
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let (name, after) = name.split_at(end.unwrap_or(name.len()));
        if rest[place..].starts_with('$') {
            text += LABEL;
        } else if is_own_register(name) {
            text += REGISTER;
        } else {
            text += "%%";
        }
        text += name;
        rest = after;
    }
    text + rest
}

/// Whether a register is one that the function declares, and not one of the GPU's such as `laneid`.
fn is_own_register(name: &str) -> bool {
    let kind = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    ["p", "rs", "r", "rd", "part"].contains(&kind)
}
