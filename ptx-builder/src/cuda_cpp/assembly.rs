//! Inline assembly as a C++ function: its operands, and its text.

use super::Inlined;
use super::escape::escaped;
use std::fmt::Write as _;

/// Stands for what the function returns.
pub const RESULT: &str = "@result@";
/// Stands for the argument after the structure.
pub const ARGUMENT: &str = "@argument@";
/// Where a function returns to.
pub const END: &str = "own_label_end";

/// The C++ operands of inline assembly, by placeholders until it is known how many there are.
pub struct Operands {
    words: Vec<u32>,
    returns: bool,
}

impl Operands {
    pub fn new(returns: bool) -> Self {
        Self {
            words: Vec::new(),
            returns,
        }
    }

    fn word(&mut self, word: u32) -> String {
        if !self.words.contains(&word) {
            self.words.push(word);
        }
        format!("@word{word}@")
    }

    /// Loads a part of the structure, of `width` bits from a byte on.
    pub fn part(&mut self, register: &str, width: u32, offset: u32) -> Option<String> {
        let word = self.word(offset / 8);
        if width == 64 {
            return offset
                .is_multiple_of(8)
                .then(|| format!("mov.b64 {register}, {word};"));
        }
        let holds = match register
            .trim_start_matches('%')
            .trim_end_matches(|digit: char| digit.is_ascii_digit())
        {
            "rs" => 16,
            "r" => 32,
            _ => return None,
        };
        let mask = (1_u64 << width) - 1;
        let shift = 8 * (offset % 8);
        Some(format!(
            "{{ .reg .b64 %part; shr.u64 %part, {word}, {shift}; and.b64 %part, %part, {mask}; \
             cvt.u{holds}.u64 {register}, %part; }}"
        ))
    }

    /// The placeholders and the numbers of the operands that they stand for.
    fn numbers(&self) -> Vec<(String, usize)> {
        let first = usize::from(self.returns);
        let mut numbers = vec![(RESULT.to_owned(), 0)];
        let words = self.words.iter().enumerate();
        numbers.extend(words.map(|(index, word)| (format!("@word{word}@"), first + index)));
        numbers.push((ARGUMENT.to_owned(), first + self.words.len()));
        numbers
    }

    /// The C++ function.
    pub fn assemble(&self, lines: &[String], inlined: &Inlined<'_>, callees: &[String]) -> String {
        let numbers = self.numbers();
        let mut text = format!("{} {{\n", inlined.signature);
        if self.returns {
            text += "    unsigned long long result;\n";
        }
        text += "    asm volatile(\"{\\n\\t\"\n";
        for line in lines {
            let mut line = escaped(line);
            for (placeholder, number) in &numbers {
                line = line.replace(placeholder, &format!("%{number}"));
            }
            let _ = writeln!(text, "        \"{line}\\n\\t\"");
        }
        let _ = writeln!(text, "        \"{END}:\\n\\t\"\n        \"}}\"");
        let result = if self.returns { " \"=l\"(result)" } else { "" };
        let _ = writeln!(text, "        :{result}");
        let words = self.words.iter();
        let mut inputs: Vec<String> = words
            .map(|word| format!("\"l\"({}[{word}])", inlined.structure))
            .collect();
        inputs.push(format!("\"l\"({})", inlined.argument));
        // So that the compiler declares them; nothing uses these operands.
        inputs.extend(callees.iter().map(|callee| format!("\"l\"({callee})")));
        let _ = writeln!(
            text,
            "        : {}\n        : \"memory\");",
            inputs.join(", ")
        );
        if self.returns {
            text += "    return reinterpret_cast<void *>(result);\n";
        }
        text + "}\n"
    }
}
