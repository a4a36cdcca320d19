//! Functions that inline assembly calls, out of line.

/// What begins the names of functions that inline assembly calls.
const CALLED: &str = "scatterheap_slow_";

/// A function that inline assembly calls.
#[derive(Clone, Debug)]
pub struct Callee {
    /// In the module as it was.
    pub name: String,
    /// In C++ and in the module as it will be.
    pub public: String,
    /// Types in C++.
    returns: &'static str,
    parameters: Vec<&'static str>,
}

impl Callee {
    /// Reads the declaration at the beginning of a module.
    pub fn find(module: &str, name: &str) -> Option<Self> {
        let head = format!(" {name}\n(");
        let place = module.find(&head)?;
        let start = module[..place].rfind('\n')? + 1;
        let returns = module[start..place].split(".param .").nth(1);
        let returns = returns.and_then(|kind| kind.split(' ').next());
        let list = module[place + head.len()..].split(')').next()?;
        let parameters = list.lines().filter_map(|line| {
            let kind = line.trim().strip_prefix(".param .")?;
            kind.split(' ').next()
        });
        let kinds: Option<Vec<&str>> = parameters.map(in_cpp).collect();
        Some(Self {
            name: name.to_owned(),
            public: format!("{CALLED}{}", last_segment(name)?),
            returns: returns.map_or(Some("void"), in_cpp)?,
            parameters: kinds?,
        })
    }

    /// The declaration in C++.
    pub fn declaration(&self) -> String {
        let (returns, parameters) = (self.returns, self.parameters.join(", "));
        format!("__device__ {returns} {}({parameters});\n", self.public)
    }

    /// The module in which it has its other name, which others can link.
    pub fn made_visible(&self, module: &str) -> String {
        let mut text = String::with_capacity(module.len());
        for line in module.lines() {
            let is_head = line.starts_with(".func")
                && (line.ends_with(&format!(" {}", self.name))
                    || line.ends_with(&format!(" {}(", self.name)));
            if is_head {
                text += ".visible ";
            }
            text += &line.replace(&self.name, &self.public);
            text.push('\n');
        }
        text
    }
}

/// The type in C++ of a parameter.
fn in_cpp(kind: &str) -> Option<&'static str> {
    match kind {
        "b64" => Some("unsigned long long"),
        "b32" => Some("unsigned int"),
        _ => None,
    }
}

/// The last name in a mangled one: `malloc` of `..6malloc`.
pub(super) fn last_segment(name: &str) -> Option<&str> {
    (1..name.len()).rev().find_map(|length| {
        let start = name.len().checked_sub(length)?;
        let segment = name.get(start..)?;
        let before = name.get(..start)?;
        (before.ends_with(&length.to_string())
            && !segment.starts_with(|letter: char| letter.is_ascii_digit()))
        .then_some(segment)
    })
}
