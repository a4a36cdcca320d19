use super::draw::draw;
use super::screen::press;
use super::view::View;
use super::{find, text};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use scatterheap::inspect::PageOccupancy;
use scatterheap::monitor::Reading;
use scatterheap::timeline::{HeapState, MomentMap, SizeUse};

/// A heap of 64 MiB with 3072 blocks, a step later for each number.
fn reading(process: u32, step: u32) -> Reading {
    Reading {
        version: "0.1.0".into(),
        process,
        number: 1,
        name: "scatterheap stress".into(),
        doing: "churn, 3 of 9".into(),
        device: "cuda:0".into(),
        device_name: "NVIDIA H200".into(),
        taken_at: f64::from(step),
        watched: f64::from(step),
        period: 0.25,
        copying: 0.000_31,
        largest_capacity: 256 << 20,
        operations: Some(u64::from(step) * 2_000_000),
        misuses: 5,
        state: HeapState {
            capacity: 64 << 20,
            used_bytes: u64::from(step) * (16 << 20),
            used_blocks: 3072,
            page_bytes: 1 << 16,
            pages: PageOccupancy {
                free: 512,
                in_slabs: 384,
                reclaimable: 16,
                in_runs: 128,
                lost: 0,
            },
            largest_request: 24 << 20,
            external_fragmentation: 0.25,
            nulls: u64::from(step) * 7,
            sizes: [16, 256, 4096].map(size).to_vec(),
            runs: 3,
            map: MomentMap {
                pages_per_cell: 1,
                contents: (0..1024).map(content).collect(),
                used: vec![60; 1024],
            },
        },
    }
}

fn size(slot_bytes: u64) -> SizeUse {
    SizeUse {
        slot_bytes,
        used: 1024,
        slots: 2048,
    }
}

fn content(cell: u32) -> u32 {
    match cell {
        0..384 => 256,
        384..512 => MomentMap::RUN,
        _ => MomentMap::FREE,
    }
}

/// What is on a screen of this size.
fn screen(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("nothing can fail");
    let drawn = terminal
        .draw(|frame| draw(frame, view))
        .expect("nothing can fail");
    let buffer = drawn.buffer;
    let rows = (0..height).map(|row| {
        let symbols = (0..width).map(|column| buffer[(column, row)].symbol());
        let line: String = symbols.collect();
        line.trim_end().to_owned() + "\n"
    });
    rows.collect()
}

fn view(processes: &[u32]) -> View {
    let readings = |step| processes.iter().map(move |process| reading(*process, step));
    let mut view = View::new(readings(1).collect(), false);
    view.update(readings(2).collect());
    for watched in &mut view.heaps {
        watched.age = 0.2;
    }
    view
}

fn says(screen: &str, words: &[&str]) {
    for words in words {
        assert!(screen.contains(words), "no `{words}` in\n{screen}");
    }
}

#[test]
fn a_usual_terminal_shows_everything() {
    let screen = screen(&view(&[4711]), 80, 24);
    println!("{screen}");
    says(
        &screen,
        &[
            "scatterheap stress  process 4711  churn, 3 of 9",
            "heap of 64 MiB, which may grow to 256 MiB, 0.2 s ago, on cuda:0 (NVIDIA H200)",
            "32 MiB (50.0 %)",
            "slabs 37.5 %, runs 12.5 %, free 50.0 %",
            "blocks 3,072  largest request 24 MiB  fragmented 25.0 %",
            "NULL 14 (7.00/s)  misuse 5  operations 2.00 M/s  a copy takes 0.31 ms",
            "in use, of the heap",
            "NULL, to 7.00/s",
            "4,096     1,024     2,048 █████",
            " map ",
            "q quit",
        ],
    );
    assert!(!screen.contains("heap 1 of"), "{screen}");
    // Half of the bar, and 384 + 128 of 1024 pages.
    let bar = |label: &str, symbol| {
        let line = screen.lines().find(|line| line.starts_with(label));
        let line = line.expect("a bar");
        let full = line.matches(symbol).count();
        (full, full + line.matches('·').count())
    };
    let (full, all) = bar("in use", '█');
    assert_eq!(full, all / 2, "{screen}");
    let last = screen.lines().last().expect("a line");
    assert!(last.starts_with("q quit"), "{screen}");
}

#[test]
fn any_size_of_terminal_can_be_drawn() {
    let view = view(&[1, 2]);
    let sizes = [
        1, 2, 3, 5, 8, 10, 17, 18, 19, 24, 40, 59, 60, 61, 80, 120, 300,
    ];
    for width in sizes {
        for height in sizes {
            let screen = screen(&view, width, height);
            assert_eq!(screen.lines().count(), usize::from(height));
            assert!(
                height < 3 || width < 20 || screen.contains("scatterheap stress"),
                "{screen}"
            );
        }
    }
}

#[test]
fn a_heap_without_anything_can_be_drawn() {
    let mut empty = reading(1, 0);
    empty.operations = None;
    empty.doing.clear();
    empty.state.capacity = 0;
    empty.state.pages = PageOccupancy::default();
    empty.state.sizes.clear();
    empty.state.map.contents.clear();
    empty.state.map.used.clear();
    for colours in [false, true] {
        let mut view = View::new(vec![empty.clone()], colours);
        says(
            &screen(&view, 80, 24),
            &["0 B (0.0 %)", "operations not known"],
        );
        view.heaps.clear();
        says(&screen(&view, 80, 24), &["q quit"]);
    }
    says(&text::of(&empty), &["in use           0 B (0.0 %)"]);
}

#[test]
fn numbers_that_cannot_be_do_no_harm() {
    let mut odd = reading(1, 1);
    odd.state.used_bytes = u64::MAX;
    odd.state.pages = PageOccupancy {
        free: u64::MAX,
        in_slabs: u64::MAX,
        reclaimable: u64::MAX,
        in_runs: u64::MAX,
        lost: u64::MAX,
    };
    odd.state.sizes = vec![SizeUse {
        slot_bytes: u64::MAX,
        used: u64::MAX,
        slots: 1,
    }];
    odd.state.map.used.truncate(3);
    odd.taken_at = f64::NAN;
    let mut view = View::new(vec![odd.clone()], true);
    view.update(vec![odd.clone()]);
    screen(&view, 80, 24);
    assert!(text::of(&odd).contains("blocks"));
}

#[test]
fn keys_choose_among_heaps_pause_and_quit() {
    let key = |code| KeyEvent::new(code, KeyModifiers::NONE);
    let mut view = view(&[11, 12, 13]);
    let shown = |view: &View| view.shown().map(|watched| watched.reading.process);
    assert_eq!(shown(&view), Some(11));
    for (code, process) in [
        (KeyCode::Tab, 12),
        (KeyCode::Right, 13),
        (KeyCode::Down, 11),
        (KeyCode::Up, 13),
        (KeyCode::Left, 12),
        (KeyCode::BackTab, 11),
        (KeyCode::Char('x'), 11),
    ] {
        assert!(!press(&mut view, key(code)));
        assert_eq!(shown(&view), Some(process), "{code:?}");
    }
    says(&screen(&view, 80, 24), &["process 11  heap 1 of 3"]);
    assert!(!press(&mut view, key(KeyCode::Char('p'))) && view.paused);
    says(&screen(&view, 120, 24), &["paused"]);
    assert!(!press(&mut view, key(KeyCode::Char('c'))));
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for quits in [key(KeyCode::Char('q')), key(KeyCode::Esc), control_c] {
        assert!(press(&mut view, quits), "{quits:?}");
    }
}

#[test]
fn a_heap_that_ended_is_shown_until_another_is_chosen() {
    let mut view = view(&[11, 12]);
    view.update(vec![reading(12, 3), reading(10, 1)]);
    let shown = view.shown().expect("a heap");
    assert!(shown.ended && shown.reading.process == 11);
    assert_eq!(view.heaps.len(), 3);
    says(&screen(&view, 120, 24), &["heap 2 of 3", "ended"]);
    view.select_next();
    view.update(vec![reading(12, 4), reading(10, 2)]);
    assert_eq!(view.shown().expect("a heap").reading.process, 12);
    assert_eq!(view.heaps.len(), 2);
    // Nothing is left: the last one stays.
    view.update(Vec::new());
    assert_eq!(view.heaps.len(), 1);
    assert!(view.shown().expect("a heap").ended);
}

#[test]
fn rates_are_between_readings_and_start_anew_with_a_reset() {
    let mut view = view(&[11]);
    let sample = |view: &View| {
        view.shown()
            .and_then(super::view::Watched::now)
            .expect("a sample")
    };
    let now = sample(&view);
    assert_eq!((now.nulls, now.operations, now.used), (7.0, Some(2e6), 0.5));
    // The same again is no sample.
    view.update(vec![reading(11, 2)]);
    assert_eq!(view.shown().expect("a heap").history.len(), 2);
    let mut reset = reading(11, 4);
    reset.state.nulls = 0;
    reset.operations = Some(0);
    view.update(vec![reset]);
    let now = sample(&view);
    assert_eq!((now.nulls, now.operations), (0.0, None));
}

#[test]
fn who_finds_nothing_is_told_where_and_what_to_do() {
    let nowhere = std::env::temp_dir().join("scatterheap-no-such-directory");
    for process in [None, Some(7)] {
        let refused = find(&nowhere, process).expect_err("nothing is there");
        let line = refused.to_string();
        assert_eq!(line.lines().count(), 1);
        says(&line, &["scatterheap-no-such-directory", "--live"]);
    }
}
