//! The text of the last error of each thread, and what keeps panics in.

use crate::error::{Error, Result};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::os::raw::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function of the interface. An error or a panic is kept as the thread's last error.
pub fn guard<T>(body: impl FnOnce() -> Result<T>) -> Option<T> {
    // What a panic leaves half done is behind locks or of no use without them, as parking_lot does not poison.
    let outcome = catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Error::Panic(text_of(panic.as_ref()))));
    match outcome {
        Ok(value) => Some(value),
        Err(error) => {
            keep(&error);
            None
        }
    }
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no reason given".into())
}

fn keep(error: &Error) {
    // PyTorch's own error says the first words, and programs look for them.
    let prefix = if error.is_out_of_memory() {
        "out of memory: "
    } else {
        ""
    };
    let text = format!("{prefix}{error}").replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    // A thread that ends may have no such variable any more; then nobody can ask either.
    let _kept = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// The text, empty if nothing failed. Valid until the thread's next failure, or its end.
pub fn last() -> *const c_char {
    const NONE: &CStr = c"";
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(NONE.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_text() -> String {
        // SAFETY: the text of this thread, which nothing changes meanwhile.
        let text = unsafe { CStr::from_ptr(last()) };
        text.to_string_lossy().into_owned()
    }

    #[test]
    fn panics_and_errors_become_text_of_their_thread() {
        assert_eq!(guard(|| Ok(3)), Some(3));
        assert_eq!(last_text(), "");
        let panicked: Option<()> = guard(|| panic!("a test of {}", "panics"));
        assert!(panicked.is_none());
        assert!(
            last_text().contains("(a test of panics)"),
            "{}",
            last_text()
        );
        let failed: Option<()> = guard(|| Err(Error::NullHandle("resource")));
        assert!(failed.is_none());
        assert!(last_text().contains("NULL"), "{}", last_text());
        let other = std::thread::spawn(last_text).join().expect("no panic");
        assert_eq!(other, "");
    }
}
