//! The terminal: draws the view again and again, and takes keys.

use super::draw::draw;
use super::view::View;
use anyhow::{Context, Result};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use scatterheap::monitor::Reading;
use signal_hook::consts::TERM_SIGNALS;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at what is published: readings come as often.
const PERIOD: Duration = Duration::from_millis(250);

/// Gives the terminal back as it was, whatever happens; a panic does so before it prints.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        // An error has nobody to go to.
        let _restored = ratatui::try_restore();
    }
}

/// Shows the view, with what `look` finds, until it is quit.
pub fn show(mut view: View, look: impl Fn() -> Result<Vec<Reading>>) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        flag::register(*signal, Arc::clone(&stop)).context("cannot wait for signals")?;
    }
    let restore = Restore;
    let mut terminal = ratatui::try_init().context("cannot use the terminal: try --once")?;
    let mut next = Instant::now() + PERIOD;
    // Relaxed: nothing else is told by it.
    while !stop.load(Ordering::Relaxed) {
        terminal.draw(|frame| draw(frame, &view))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            // Any other event, such as a new size, only has it drawn again.
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && press(&mut view, key)
            {
                break;
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + PERIOD;
            if !view.paused {
                take(&mut view, look());
            }
        }
    }
    drop(restore);
    Ok(())
}

/// Takes what was found, or says why nothing was.
fn take(view: &mut View, found: Result<Vec<Reading>>) {
    match found {
        Ok(readings) => {
            view.failure = None;
            view.update(readings);
        }
        Err(error) => view.failure = Some(error.to_string()),
    }
}

/// Does what a key says; true if that is to end.
pub fn press(view: &mut View, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Tab | KeyCode::Right | KeyCode::Down => view.select_next(),
        KeyCode::BackTab | KeyCode::Left | KeyCode::Up => view.select_previous(),
        KeyCode::Char('p') => view.paused = !view.paused,
        _ => {}
    }
    false
}
