//! Device functions for CUDA C++: as inline assembly, and the module that it calls.
//!
//! nvcc does not inline what is in PTX, and a function that is called must save and restore registers that its caller
//! may use. Inline assembly is compiled as a part of the kernel instead. What the functions call, which never was
//! inlined, stays in the module, is made visible there, and gets names that do not depend on the compiler.
//!
//! The functions must return a number of 64 bits or nothing, and take a structure of such numbers by value first and one more
//! after it.

mod assembly;
mod callee;
mod escape;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::code::{closing_brace, code_of};
use assembly::{ARGUMENT, END, Operands, RESULT};
use callee::Callee;
use std::collections::BTreeMap;

/// A function to be made into inline assembly.
#[derive(Clone, Copy, Debug)]
pub struct Inlined<'a> {
    /// Its name in the module.
    pub function: &'a str,
    /// How a C++ function that does the same is to begin: with its return type, name and parameters.
    pub signature: &'a str,
    /// The C++ array whose elements are the structure's numbers.
    pub structure: &'a str,
    /// The C++ expression, a number of 64 bits, of the other argument.
    pub argument: &'a str,
}

/// What became of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForCudaCpp {
    /// The module without the functions that are inlined, with what they call made visible.
    pub module: String,
    /// Declarations in C++ of what inline assembly calls.
    pub declarations: String,
    /// The functions in C++.
    pub functions: String,
}

/// Makes functions of a module into inline assembly.
///
/// # Errors
///
/// [`Error::NotForCudaCpp`] if the module has no such function, or one that is not as it must be.
pub fn for_cuda_cpp(module: &str, inlined: &[Inlined<'_>]) -> Result<ForCudaCpp, Error> {
    let mut functions = String::new();
    let mut slow_paths = BTreeMap::new();
    let mut rest = module.to_owned();
    for inlined in inlined {
        let whole = Function::find(module, inlined.function)?;
        rest = rest.replacen(whole.text, "", 1);
        functions += &whole.as_assembly(module, inlined, &mut slow_paths)?;
    }
    let mut declarations = String::new();
    for callee in slow_paths.values() {
        declarations += &callee.declaration();
        rest = callee.made_visible(&rest);
    }
    Ok(ForCudaCpp {
        module: rest,
        declarations,
        functions,
    })
}

/// A visible function of a module.
struct Function<'a> {
    name: &'a str,
    /// From its directive to the brace at its end.
    text: &'a str,
    returns: bool,
}

impl<'a> Function<'a> {
    fn find(module: &'a str, name: &'a str) -> Result<Self, Error> {
        let wrong = |reason: &str| wrong(name, reason);
        let head = format!(" {name}(\n");
        let place = module.find(&head).ok_or_else(|| wrong("there is none"))?;
        let start = module[..place].rfind('\n').map_or(0, |newline| newline + 1);
        let code = code_of(&module[start..]);
        let end = code.find('{').and_then(|open| closing_brace(&code, open));
        let end = start + end.ok_or_else(|| wrong("it has no end"))? + 1;
        let text = &module[start..end + usize::from(module[end..].starts_with('\n'))];
        let line = &module[start..place];
        let returns = match line.strip_prefix(".visible .func").map(str::trim) {
            Some("") => false,
            Some("(.param .b64 func_retval0)") => true,
            _ => return Err(wrong("it returns neither nothing nor 64 bits")),
        };
        Ok(Self {
            name,
            text,
            returns,
        })
    }

    /// The function in C++; adds what it calls.
    fn as_assembly(
        &self,
        module: &str,
        inlined: &Inlined<'_>,
        slow_paths: &mut BTreeMap<String, Callee>,
    ) -> Result<String, Error> {
        let body = self.text.split_once("\n{\n").map(|(_, body)| body);
        let body = body.ok_or_else(|| wrong(self.name, "it has no body"))?;
        let mut operands = Operands::new(self.returns);
        let mut callees = Vec::new();
        let mut lines = Vec::new();
        for line in body.lines() {
            let line = line.split("//").next().unwrap_or_default().trim();
            // What is between quotes in PTX are hints.
            if line.is_empty() || line.starts_with(".pragma") {
                continue;
            }
            if let Some(name) = call(line) {
                let unknown = || {
                    let reason = format!("it calls {name}, which cannot be declared in C++");
                    wrong(self.name, &reason)
                };
                let callee = Callee::find(module, name).ok_or_else(unknown)?;
                lines.push(line.replace(name, &callee.public));
                if !callees.contains(&callee.public) {
                    callees.push(callee.public.clone());
                }
                let other = slow_paths.insert(callee.public.clone(), callee);
                if other.is_some_and(|other| other.name != name) {
                    return Err(wrong(self.name, "it calls two functions of the same name"));
                }
            } else {
                lines.push(self.line(line, &mut operands)?);
            }
        }
        // The function's own brace.
        lines.pop();
        Ok(operands.assemble(&lines, inlined, &callees))
    }

    /// A line, with operands in place of parameters.
    fn line(&self, line: &str, operands: &mut Operands) -> Result<String, Error> {
        if let Some(condition) = line.strip_suffix("ret;") {
            return Ok(format!("{condition}bra {END};"));
        }
        if let Some(value) = line.strip_prefix("st.param.b64") {
            if let Some(register) = value.trim().strip_prefix("[func_retval0], ") {
                return Ok(format!("mov.b64 {RESULT}, {register}"));
            }
            return Ok(line.to_owned());
        }
        if !line.contains(&format!("{}_param_", self.name)) {
            return Ok(line.to_owned());
        }
        let unread = || {
            let reason = format!("`{line}` is no load that is known here");
            wrong(self.name, &reason)
        };
        let load = line.strip_prefix("ld.param.b").ok_or_else(unread)?;
        let (register, place) = load.split_once(", [").ok_or_else(unread)?;
        let place = place.strip_prefix(self.name).ok_or_else(unread)?;
        let (width, register) = register
            .split_once(char::is_whitespace)
            .ok_or_else(unread)?;
        let (width, register) = (width.parse().map_err(|_| unread())?, register.trim());
        let place = place.strip_suffix("];").ok_or_else(unread)?;
        if place == "_param_1" {
            return Ok(format!("mov.b64 {register}, {ARGUMENT};"));
        }
        let offset = match place.strip_prefix("_param_0").ok_or_else(unread)? {
            "" => 0,
            offset => offset
                .strip_prefix('+')
                .and_then(|offset| offset.parse().ok())
                .ok_or_else(unread)?,
        };
        operands.part(register, width, offset).ok_or_else(unread)
    }
}

/// The name in a line that calls a function.
fn call(line: &str) -> Option<&str> {
    let call = line
        .strip_prefix("call.uni ")
        .or_else(|| line.strip_prefix("call "))?;
    let name = call.strip_prefix("(retval0), ").unwrap_or(call);
    name.split([',', ';']).next()
}

fn wrong(function: &str, reason: &str) -> Error {
    Error::NotForCudaCpp {
        function: function.to_owned(),
        reason: reason.to_owned(),
    }
}
