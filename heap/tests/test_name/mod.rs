//! The name of the test that explores a model or a scenario, for what it prints.

use std::any::type_name;

/// The test that made a closure: the last part of its path that is no closure.
pub fn test_of<Closure>() -> &'static str {
    let path = type_name::<Closure>();
    path.rsplit("::")
        .find(|part| !part.starts_with('{'))
        .unwrap_or(path)
}
