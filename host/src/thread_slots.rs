//! A value for each thread, that can be asked for also where the thread ends.
//!
//! Who gives memory back may be a thread's own variable, of C++ or of Rust, or a global object, which ends after the main
//! thread's variables. By then the number by which a thread finds its value may be given back. Then there is none, and
//! callers do without.
//!
//! One case is found out by a panic that is caught, with its message, and is the end of a program that aborts instead: where another user of the crate `thread_local` in the same program had the number, and this thread
//! asks here first when it is gone. Then a number is lost for each such thread, too.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thread_local::ThreadLocal;

thread_local! {
    /// Whether the thread's values are gone. Without a destructor, so that it can be read as long as the thread runs.
    static ENDED: Cell<bool> = const { Cell::new(false) };
    static END: End = const { End };
}

/// Ends with the thread. What a thread made last ends first, so this does before the number that was made before it.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        ENDED.set(true);
    }
}

/// A value for each thread that asks for it.
#[derive(Debug)]
pub struct ThreadSlots<T: Send>(ThreadLocal<T>);

impl<T: Send> Default for ThreadSlots<T> {
    fn default() -> Self {
        Self(ThreadLocal::new())
    }
}

impl<T: Default + Send> ThreadSlots<T> {
    /// The calling thread's value; none if the thread ends and its values are gone.
    #[inline]
    #[must_use]
    pub fn own(&self) -> Option<&T> {
        self.0.get().or_else(|| self.begin())
    }

    #[cold]
    #[inline(never)]
    fn begin(&self) -> Option<&T> {
        if ENDED.get() {
            return None;
        }
        // It panics where another user of the same crate had the number, which is gone, and we come now only.
        let own = catch_unwind(AssertUnwindSafe(|| self.0.get_or_default())).ok();
        let noted = END.try_with(|_| ()).is_ok();
        ENDED.set(own.is_none() || !noted);
        own
    }
}

impl<T: Send + Sync> ThreadSlots<T> {
    /// The values of all threads.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

/// The same with one more value, which threads share that end.
#[derive(Debug, Default)]
pub(crate) struct SharedSlots<T: Send> {
    threads: ThreadSlots<T>,
    ending: T,
}

impl<T: Default + Send + Sync> SharedSlots<T> {
    /// The calling thread's value, or the shared one.
    #[inline]
    pub fn own(&self) -> &T {
        self.threads.own().unwrap_or(&self.ending)
    }

    /// All values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.threads.iter().chain([&self.ending])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::ptr;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    type Slots = Arc<SharedSlots<u64>>;

    /// Says when its thread ends whether the thread has a value of its own then.
    struct AtEnd(Slots, Sender<bool>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            let own = self.0.own();
            self.1
                .send(!ptr::eq(own, &raw const self.0.ending))
                .expect("somebody listens");
        }
    }

    thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }

    /// Whether a thread has a value of its own when it ends, before and after which `early` and `late` were done.
    fn has_own_at_the_end(early: fn(&Slots), late: fn(&Slots)) -> bool {
        let slots = Slots::default();
        let (sender, receiver) = channel();
        let ending = slots.clone();
        let thread = thread::spawn(move || {
            early(&ending);
            AT_END.set(Some(AtEnd(ending.clone(), sender)));
            late(&ending);
        });
        thread.join().expect("no panic");
        receiver.recv().expect("it ended")
    }

    fn nothing(_slots: &Slots) {}

    fn use_own(slots: &Slots) {
        assert!(!ptr::eq(slots.own(), &raw const slots.ending));
    }

    #[test]
    fn a_thread_that_ends_has_its_own_value_or_the_shared_one() {
        assert!(has_own_at_the_end(use_own, nothing));
        assert!(!has_own_at_the_end(nothing, use_own));
        assert!(has_own_at_the_end(nothing, nothing));
        // A number that another user of the crate had.
        assert!(!has_own_at_the_end(nothing, |_| {
            ThreadLocal::<u64>::new().get_or_default();
        }));
    }

    #[test]
    fn numbers_of_threads_that_ended_are_used_again() {
        let slots = Slots::default();
        for _ in 0..100 {
            let slots = slots.clone();
            let (sender, _receiver) = channel();
            let thread = thread::spawn(move || {
                AT_END.set(Some(AtEnd(slots.clone(), sender)));
                use_own(&slots);
            });
            thread.join().expect("no panic");
        }
        // Tests beside this one may have some too.
        assert!(slots.iter().count() < 50, "{}", slots.iter().count());
    }
}
