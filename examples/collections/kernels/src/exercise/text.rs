//! `String`, `format!` and `write!`.

use super::Digest;
use crate::random::Random;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

pub(super) fn string(random: &mut Random, steps: u32, digest: &mut Digest) {
    let mut text = String::new();
    for step in 0..steps {
        let number = random.number();
        let written = match random.below(6) {
            0 => write!(text, "{number:>12} "),
            1 => write!(text, "{:#06x}, ", number as u8),
            2 => write!(text, "{:?} ", (step, Some(number % 10 < 3), "ä€\n")),
            3 => {
                text += &(number as i32).to_string();
                text.push('𝛿');
                Ok(())
            }
            4 => {
                text = text.replace(", ", ";") + &format!("{:<+5}|", number as i8);
                Ok(())
            }
            _ => {
                let kept = text.char_indices().nth(random.below(200));
                text.truncate(kept.map_or(text.len(), |(place, _)| place));
                Ok(())
            }
        };
        digest.add(u64::from(written.is_ok()));
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    digest.add(words.len() as u64);
    for word in &words {
        digest.add_some(word.parse::<u64>().ok());
    }
    for byte in words.join("-").bytes() {
        digest.add(u64::from(byte));
    }
}
