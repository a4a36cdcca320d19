//! What became of the trials.

use libtest_mimic::Trial;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names of the trials that ran, and whether each held. Clones are the same.
#[derive(Clone, Default)]
pub struct Outcomes(Arc<Mutex<BTreeMap<String, bool>>>);

impl Outcomes {
    /// A trial whose outcome is noted when it ran.
    pub fn trial(&self, name: String, check: impl FnOnce() + Send + 'static) -> Trial {
        let outcomes = self.clone();
        Trial::test(name.clone(), move || {
            // A check that panics does not come back.
            outcomes.note(&name, false);
            check();
            outcomes.note(&name, true);
            Ok(())
        })
    }

    fn note(&self, name: &str, held: bool) {
        self.0.lock().insert(name.into(), held);
    }

    /// Whether a trial held, if it ran.
    pub fn of(&self, name: &str) -> Option<bool> {
        self.0.lock().get(name).copied()
    }

    /// How many trials held.
    pub fn held(&self) -> usize {
        self.0.lock().values().filter(|held| **held).count()
    }
}
