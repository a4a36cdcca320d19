//! What a worker prints, or rather its plug-in: drained all the time, so that it never waits, and
//! forgotten but for the end, which often says why it died.

use std::io::{PipeReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Bytes kept of the end.
const KEPT: usize = 4096;
/// Characters shown of the last line.
const SHOWN: usize = 200;
/// How long to wait for the end of what an ended process has printed.
const PATIENCE: Duration = Duration::from_millis(500);

/// The output of a worker.
pub(super) struct Output {
    end: Arc<Mutex<Vec<u8>>>,
    /// Disconnected when all is read.
    all_read: Receiver<()>,
}

impl Output {
    /// Reads a pipe until all its writers are gone.
    pub fn drain(mut pipe: PipeReader) -> std::io::Result<Self> {
        let end = Arc::new(Mutex::new(Vec::new()));
        let (reading, all_read) = channel();
        let kept = Arc::clone(&end);
        Builder::new().spawn(move || {
            let _reading: std::sync::mpsc::Sender<()> = reading;
            let mut piece = [0; KEPT];
            while let Ok(count @ 1..) = pipe.read(&mut piece) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&piece[..count]);
                let excess = kept.len().saturating_sub(KEPT);
                kept.drain(..excess);
            }
        })?;
        Ok(Self { end, all_read })
    }

    /// The last line with anything on it.
    pub fn last_line(&self) -> Option<String> {
        // A process that outlived the worker may hold the pipe open: then take what there is.
        let _all: Result<(), RecvTimeoutError> = self.all_read.recv_timeout(PATIENCE);
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        last_line(&String::from_utf8_lossy(&end))
    }
}

fn last_line(text: &str) -> Option<String> {
    let printable = |line: &str| -> String {
        let kept = line.chars().filter(|character| !character.is_control());
        kept.take(SHOWN).collect::<String>().trim().to_owned()
    };
    text.lines()
        .rev()
        .map(printable)
        .find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_last_line_with_anything_on_it_is_shown() {
        assert_eq!(last_line("one\ntwo\n\n  \n"), Some("two".into()));
        assert_eq!(last_line("\u{1b}[31mred\u{7}\n"), Some("[31mred".into()));
        assert_eq!(
            last_line(&"x".repeat(1000)).map(|line| line.len()),
            Some(SHOWN)
        );
        assert_eq!(last_line("\n\n"), None);
    }

    #[test]
    fn much_output_is_drained_and_its_end_is_kept() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let output = Output::drain(reader).expect("a thread starts");
        for _ in 0..1000 {
            writer.write_all(&[b'.'; 1000]).expect("somebody reads");
        }
        writer.write_all(b"\nthe end\n").expect("somebody reads");
        drop(writer);
        assert_eq!(output.last_line(), Some("the end".into()));
        assert!(output.end.lock().expect("unpoisoned").len() <= KEPT);
    }
}
