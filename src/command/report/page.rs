//! The page: markup, style, script and data in one text.

use super::run::Run;
use anyhow::Result;
use serde::Serialize;

/// The page with marks where the rest goes.
const MARKUP: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
/// The script's files in the order in which they are put together.
const SCRIPTS: [&str; 8] = [
    include_str!("page/words.js"),
    include_str!("page/element.js"),
    include_str!("page/chart.js"),
    include_str!("page/heat-map.js"),
    include_str!("page/heap-charts.js"),
    include_str!("page/heap.js"),
    include_str!("page/bench.js"),
    include_str!("page/main.js"),
];

/// What the script reads.
#[derive(Serialize)]
struct Data<'a> {
    title: &'a str,
    runs: &'a [Run],
}

/// Makes the page.
pub fn make(runs: &[Run], title: Option<&str>) -> Result<String> {
    let usual = usual_title(runs);
    let title = title.unwrap_or(&usual);
    let data = serde_json::to_string(&Data { title, runs })?;
    let parts = [
        ("{{title}}", escaped(title)),
        ("{{style}}", STYLE.to_owned()),
        // A string may hold anything, also what would end the element; elsewhere JSON has no such sign.
        ("{{data}}", data.replace('<', "\\u003c")),
        ("{{script}}", SCRIPTS.concat()),
    ];
    let mut page = String::new();
    let mut rest = MARKUP;
    for (mark, part) in parts {
        if let Some((before, after)) = rest.split_once(mark) {
            page += before;
            page += &part;
            rest = after;
        }
    }
    Ok(page + rest)
}

fn usual_title(runs: &[Run]) -> String {
    let names = runs.iter().map(|run| match run {
        Run::Heap(run) => run.command.as_str(),
        Run::Bench(_) => "bench",
    });
    format!("scatterheap {}", names.collect::<Vec<_>>().join(", "))
}

/// Text as markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_filled_in_its_order() {
        let places = ["{{title}}", "{{style}}", "{{data}}", "{{script}}"]
            .map(|mark| MARKUP.find(mark).expect("a mark"));
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(MARKUP.matches("{{").count(), places.len());
    }

    #[test]
    fn nothing_in_a_title_is_markup() {
        let page = make(&[], Some("</script><b>{{data}}&")).expect("a page");
        assert!(
            page.contains("<title>&lt;/script&gt;&lt;b&gt;{{data}}&amp;</title>"),
            "{page}"
        );
        assert!(page.contains("\\u003c/script>\\u003cb>"), "{page}");
        assert!(!page.contains("</script><b>"), "{page}");
    }

    #[test]
    fn nothing_is_fetched() {
        let page = make(&[], None).expect("a page");
        for sign in ["http:", "https:", "src=", "href=", "@import", "url("] {
            // The name of SVG's elements is an address that nobody opens.
            let page = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!page.contains(sign), "{sign}");
        }
        assert!(page.contains("default-src 'none'"), "{page}");
    }
}
