//! What the source text says about orderings: in which function a line is, and which orderings no
//! model comes to. It is read line by line, as `rustfmt` leaves it.

use super::site::Site;

/// The function that a line of a source file belongs to: the nearest above it.
pub fn function_at(source: &str, line: u32) -> Option<&str> {
    let above: Vec<_> = source.lines().take(line as usize).collect();
    above.into_iter().rev().find_map(function_declared)
}

fn function_declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let begin = match line.find(" fn ") {
        Some(index) if !line.starts_with("//") => index + 4,
        _ => line.starts_with("fn ").then_some(3)?,
    };
    let rest = &line[begin..];
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    end.filter(|end| *end > 0).map(|end| &rest[..end])
}

/// The lines of a file that ask for more than relaxed, and that are none of `reached`'s. An
/// operation may name its ordering some lines after that which it begins in.
pub fn lines_unreached(source: &str, reached: &[&Site]) -> Vec<u32> {
    let mut lines = lines_with_orderings(source);
    let mut sites: Vec<_> = reached.iter().map(|site| site.line).collect();
    sites.sort_unstable();
    for site in sites.into_iter().rev() {
        if let Some(index) = lines.iter().position(|line| *line >= site) {
            lines.remove(index);
        }
    }
    lines
}

fn lines_with_orderings(source: &str) -> Vec<u32> {
    let stronger =
        ["Acquire", "Release", "AcqRel", "SeqCst"].map(|name| format!("Ordering::{name}"));
    (1..)
        .zip(source.lines())
        .take_while(|(_, line)| !(line.starts_with("#[cfg(") && line.contains("test")))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter(|(_, line)| stronger.iter().any(|name| line.contains(name)))
        .map(|(number, _)| number)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_belongs_to_the_function_above_it() {
        let source = "\
impl Stripe {
    /// A fn that draws.
    pub fn draw(&self, count: u32) -> Ticket {
        // a fn in a comment
        self.word.load(|cell: fn(u32)| 1)
    }
}

fn last<T>() {}";
        assert_eq!(function_at(source, 2), None);
        assert_eq!(function_at(source, 3), Some("draw"));
        assert_eq!(function_at(source, 5), Some("draw"));
        assert_eq!(function_at(source, 9), Some("last"));
    }

    #[test]
    fn orderings_that_no_model_comes_to_are_found() {
        let source = "\
// Ordering::Acquire
word.load(Ordering::Acquire);
word.load(Ordering::Relaxed);
word.compare_exchange(
    0,
    1,
    Ordering::AcqRel,
    Ordering::Relaxed,
);
word.store(1, Ordering::Release);
#[cfg(test)]
word.load(Ordering::Acquire);";
        let sites: Vec<_> = [2, 4, 10]
            .into_iter()
            .map(|line| Site::parse(&format!("a\t{line}\tload\tAcquire")).expect("a site"))
            .collect();
        let unreached = |indices: &[usize]| {
            let reached: Vec<_> = indices.iter().map(|index| &sites[*index]).collect();
            lines_unreached(source, &reached)
        };
        assert_eq!(unreached(&[]), [2, 7, 10]);
        assert_eq!(unreached(&[1]), [2, 10]);
        assert_eq!(unreached(&[0, 2]), [7]);
        assert!(unreached(&[2, 1, 0]).is_empty());
    }

    #[test]
    fn an_operation_has_several_lines() {
        let source = "\
self.entry(page).store(1, Ordering::Relaxed);
let kept = self.cell.store(
    1,
    Ordering::Release,
);";
        let written = Site::parse("a\t2\tstore\tRelease").expect("a site");
        assert_eq!(lines_unreached(source, &[]), [4]);
        assert!(lines_unreached(source, &[&written]).is_empty());
    }
}
