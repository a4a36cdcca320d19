//! Device functions for CUDA C++: as inline assembly, and the module that it calls.
//!
//! nvcc does not inline what is in PTX, and a function that is called must save and restore registers that its caller
//! may use. Inline assembly is compiled as a part of the kernel instead. What the functions call, which never was
//! inlined, stays in the module, is made visible there, and gets names that do not depend on the compiler.
//!
//! The functions must return a number of 64 bits or nothing, and take a structure of such numbers by value first and one more
//! after it.

use crate::Error;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What begins the names of functions that inline assembly calls.
const CALLED: &str = "scatterheap_slow_";
/// What begins the names of registers in inline assembly, where `%` and what follows it belongs to the compiler.
const REGISTER: &str = "own_";
const LABEL: &str = "own_label_";
const END: &str = "own_label_end";

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
    let mut called = BTreeMap::new();
    let mut rest = module.to_owned();
    for inlined in inlined {
        let whole = Function::find(module, inlined.function)?;
        rest = rest.replacen(whole.text, "", 1);
        functions += &whole.as_assembly(module, inlined, &mut called)?;
    }
    let mut declarations = String::new();
    for callee in called.values() {
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
        let length = module[start..].find("\n}\n");
        let length = length.ok_or_else(|| wrong("it has no end"))? + "\n}\n".len();
        let text = &module[start..start + length];
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
        called: &mut BTreeMap<String, Callee>,
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
                let callee = Callee::find(module, name).ok_or_else(|| {
                    wrong(
                        self.name,
                        &format!("it calls {name}, which is not in the module"),
                    )
                })?;
                lines.push(line.replace(name, &callee.public));
                if !callees.contains(&callee.public) {
                    callees.push(callee.public.clone());
                }
                called.insert(callee.public.clone(), callee);
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
        if line == "ret;" {
            return Ok(format!("bra.uni {END};"));
        }
        if let Some(value) = line.strip_prefix("st.param.b64") {
            if let Some(register) = value.trim().strip_prefix("[func_retval0], ") {
                return Ok(format!("mov.b64 {}, {register}", operands.result()));
            }
            return Ok(line.to_owned());
        }
        let Some(load) = line.strip_prefix("ld.param.b") else {
            return Ok(line.to_owned());
        };
        let Some((register, place)) = load
            .split_once(", [")
            .and_then(|(register, place)| Some((register, place.strip_prefix(self.name)?)))
        else {
            return Ok(line.to_owned());
        };
        let unread = || {
            wrong(
                self.name,
                &format!("`{line}` is no load that is known here"),
            )
        };
        let (width, register) = register
            .split_once(char::is_whitespace)
            .ok_or_else(unread)?;
        let (width, register) = (width.parse().map_err(|_| unread())?, register.trim());
        let place = place.strip_suffix("];").ok_or_else(unread)?;
        if place == "_param_1" {
            return Ok(format!("mov.b64 {register}, {};", operands.argument()));
        }
        let offset = match place.strip_prefix("_param_0").ok_or_else(unread)? {
            "" => 0,
            offset => offset
                .strip_prefix('+')
                .and_then(|offset| offset.parse().ok())
                .ok_or_else(unread)?,
        };
        part(register, width, offset, operands).ok_or_else(unread)
    }
}

/// Loads a part of the structure, of `width` bits from a byte on.
fn part(register: &str, width: u32, offset: u32, operands: &mut Operands) -> Option<String> {
    let word = operands.word(offset / 8);
    if width == 64 {
        return (offset % 8 == 0).then(|| format!("mov.b64 {register}, {word};"));
    }
    let holds = match register
        .trim_start_matches('%')
        .trim_end_matches(|digit: char| digit.is_ascii_digit())
    {
        "rs" => 16,
        "r" => 32,
        _ => return None,
    };
    let mask = (1_u64 << width) - 1;
    let shift = 8 * (offset % 8);
    Some(format!(
        "{{ .reg .b64 %part; shr.u64 %part, {word}, {shift}; and.b64 %part, %part, {mask}; \
         cvt.u{holds}.u64 {register}, %part; }}"
    ))
}

/// The name in a line that calls a function.
fn call(line: &str) -> Option<&str> {
    let call = line
        .strip_prefix("call.uni ")
        .or_else(|| line.strip_prefix("call "))?;
    let name = call.strip_prefix("(retval0), ").unwrap_or(call);
    name.split([',', ';']).next()
}

/// The C++ operands of inline assembly, by placeholders until it is known how many there are.
struct Operands {
    words: Vec<u32>,
    returns: bool,
}

impl Operands {
    fn new(returns: bool) -> Self {
        Self {
            words: Vec::new(),
            returns,
        }
    }

    fn word(&mut self, word: u32) -> String {
        if !self.words.contains(&word) {
            self.words.push(word);
        }
        format!("@word{word}@")
    }

    fn argument(&self) -> &'static str {
        "@argument@"
    }

    fn result(&self) -> &'static str {
        "@result@"
    }

    /// The placeholders and the numbers of the operands that they stand for.
    fn numbers(&self) -> Vec<(String, usize)> {
        let first = usize::from(self.returns);
        let mut numbers = vec![("@result@".to_owned(), 0)];
        let words = self.words.iter().enumerate();
        numbers.extend(words.map(|(index, word)| (format!("@word{word}@"), first + index)));
        numbers.push(("@argument@".to_owned(), first + self.words.len()));
        numbers
    }

    /// The C++ function.
    fn assemble(&self, lines: &[String], inlined: &Inlined<'_>, callees: &[String]) -> String {
        let numbers = self.numbers();
        let mut text = format!("{} {{\n", inlined.signature);
        if self.returns {
            text += "    unsigned long long result;\n";
        }
        text += "    asm volatile(\"{\\n\\t\"\n";
        for line in lines {
            let mut line = escaped(line);
            for (placeholder, number) in &numbers {
                line = line.replace(placeholder, &format!("%{number}"));
            }
            let _ = writeln!(text, "        \"{line}\\n\\t\"");
        }
        let _ = writeln!(text, "        \"{END}:\\n\\t\"\n        \"}}\"");
        let result = if self.returns { " \"=l\"(result)" } else { "" };
        let _ = writeln!(text, "        :{result}");
        let words = self.words.iter();
        let mut inputs: Vec<String> = words
            .map(|word| format!("\"l\"({}[{word}])", inlined.structure))
            .collect();
        inputs.push(format!("\"l\"({})", inlined.argument));
        // So that the compiler declares them; nothing uses these operands.
        inputs.extend(callees.iter().map(|callee| format!("\"l\"({callee})")));
        let _ = writeln!(
            text,
            "        : {}\n        : \"memory\");",
            inputs.join(", ")
        );
        if self.returns {
            text += "    return reinterpret_cast<void *>(result);\n";
        }
        text + "}\n"
    }
}

/// A line as nvcc takes it in inline assembly: registers and labels with names of their own, and `%` doubled.
fn escaped(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(place) = rest.find(['%', '$']) {
        text += &rest[..place];
        let name = &rest[place + 1..];
        let end = name.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let (name, after) = name.split_at(end.unwrap_or(name.len()));
        if rest[place..].starts_with('$') {
            text += LABEL;
        } else if is_own_register(name) {
            text += REGISTER;
        } else {
            text += "%%";
        }
        text += name;
        rest = after;
    }
    text + rest
}

/// Whether a register is one that the function declares, and not one of the GPU's such as `laneid`.
fn is_own_register(name: &str) -> bool {
    let kind = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    ["p", "rs", "r", "rd", "part"].contains(&kind)
}

/// A function that inline assembly calls.
#[derive(Clone, Debug)]
struct Callee {
    /// In the module as it was.
    name: String,
    public: String,
    returns: Option<String>,
    parameters: Vec<String>,
}

impl Callee {
    /// Reads the declaration at the beginning of a module.
    fn find(module: &str, name: &str) -> Option<Self> {
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
        Some(Self {
            name: name.to_owned(),
            public: format!("{CALLED}{}", last_segment(name)?),
            returns: returns.map(str::to_owned),
            parameters: parameters.map(str::to_owned).collect(),
        })
    }

    fn declaration(&self) -> String {
        let kind = |kind: &String| match kind.as_str() {
            "b64" => "unsigned long long",
            _ => "unsigned int",
        };
        let parameters: Vec<&str> = self.parameters.iter().map(kind).collect();
        let returns = self.returns.as_ref().map_or("void", kind);
        format!(
            "__device__ {returns} {}({});\n",
            self.public,
            parameters.join(", ")
        )
    }

    /// The module in which it has its other name, which others can link.
    fn made_visible(&self, module: &str) -> String {
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

/// The last name in a mangled one: `malloc` of `..6malloc`.
fn last_segment(name: &str) -> Option<&str> {
    (1..name.len()).rev().find_map(|length| {
        let start = name.len().checked_sub(length)?;
        let segment = name.get(start..)?;
        let before = name.get(..start)?;
        (before.ends_with(&length.to_string())
            && !segment.starts_with(|letter: char| letter.is_ascii_digit()))
        .then_some(segment)
    })
}

fn wrong(function: &str, reason: &str) -> Error {
    Error::NotForCudaCpp {
        function: function.to_owned(),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
.version 7.8
.func  (.param .b64 func_retval0) _RNv4Core12malloc_again
(
\t.param .b64 _RNv4Core12malloc_again_param_0,
\t.param .b32 _RNv4Core12malloc_again_param_1
)
.noreturn;
.func _RNv4Core6refuse
(
\t.param .b64 _RNv4Core6refuse_param_0
)
;
.visible .func  (.param .b64 func_retval0) taken(
\t.param .align 8 .b8 taken_param_0[80],
\t.param .b64 taken_param_1
)
{
\t.reg .pred \t%p<2>;
\t.reg .b32 \t%r<3>;
\t.reg .b64 \t%rd<4>;
\tld.param.b64 \t%rd1, [taken_param_1];
\tld.param.b64 \t%rd2, [taken_param_0+48]; // the stripes
\tld.param.b32 \t%r1, [taken_param_0+76];
\tmov.u32 %r2, %laneid;
\t@%p1 bra \t$L__BB0_2;
\t.pragma \"nounroll\";
$L__BB0_2:
\t{ // callseq 1, 0
\t.param .b64 param0;
\t.param .b64 retval0;
\tst.param.b64 \t[param0], %rd2;
\tcall.uni (retval0), _RNv4Core12malloc_again, (param0, param1);
\tld.param.b64 \t%rd3, [retval0];
\t} // callseq 1
\tst.param.b64 \t[func_retval0], %rd3;
\tret;
}
.func  (.param .b64 func_retval0) _RNv4Core12malloc_again(
\t.param .b64 _RNv4Core12malloc_again_param_0,
\t.param .b32 _RNv4Core12malloc_again_param_1
)
{
\tret;
}
";

    fn inlined(function: &str) -> Inlined<'_> {
        Inlined {
            function,
            signature: "static void *taken(const Handle *heap, size_t bytes)",
            structure: "heap->words",
            argument: "bytes",
        }
    }

    #[test]
    fn a_function_becomes_inline_assembly() {
        let made = for_cuda_cpp(MODULE, &[inlined("taken")]).expect("it can be");
        for line in [
            "static void *taken(const Handle *heap, size_t bytes) {",
            "\".reg .b64 \town_rd<4>;\\n\\t\"",
            "\"mov.b64 own_rd1, %3;\\n\\t\"",
            "\"mov.b64 own_rd2, %1;\\n\\t\"",
            "shr.u64 own_part, %2, 32; and.b64 own_part, own_part, 4294967295; cvt.u32.u64 own_r1, own_part;",
            "\"mov.u32 own_r2, %%laneid;\\n\\t\"",
            "\"@own_p1 bra \town_label_L__BB0_2;\\n\\t\"",
            "\"own_label_L__BB0_2:\\n\\t\"",
            "\"call.uni (retval0), scatterheap_slow_malloc_again, (param0, param1);\\n\\t\"",
            "\"ld.param.b64 \town_rd3, [retval0];\\n\\t\"",
            "\"mov.b64 %0, own_rd3;\\n\\t\"",
            "\"bra.uni own_label_end;\\n\\t\"",
            ": \"=l\"(result)",
            ": \"l\"(heap->words[6]), \"l\"(heap->words[9]), \"l\"(bytes), \"l\"(scatterheap_slow_malloc_again)",
        ] {
            assert!(made.functions.contains(line), "{line}: {}", made.functions);
        }
        assert!(!made.functions.contains("nounroll"));
        assert_eq!(
            made.functions.matches('{').count(),
            made.functions.matches('}').count()
        );
        assert_eq!(
            made.declarations,
            "__device__ unsigned long long scatterheap_slow_malloc_again(unsigned long long, unsigned int);\n"
        );
    }

    #[test]
    fn what_is_called_is_visible_and_what_is_inlined_is_gone() {
        let module = for_cuda_cpp(MODULE, &[inlined("taken")])
            .expect("it can be")
            .module;
        let visible = ".visible .func  (.param .b64 func_retval0) scatterheap_slow_malloc_again";
        assert_eq!(module.matches(visible).count(), 2, "{module}");
        assert!(!module.contains("taken") && !module.contains("_RNv4Core12malloc_again"));
        assert!(module.contains("\n.func _RNv4Core6refuse\n"));
    }

    #[test]
    fn what_cannot_be_inlined_is_named() {
        let error = for_cuda_cpp(MODULE, &[inlined("other")]).expect_err("there is none");
        assert!(error.to_string().contains("`other`"), "{error}");
        let module = MODULE.replace("[taken_param_0+76]", "[taken_param_2]");
        let error = for_cuda_cpp(&module, &[inlined("taken")]).expect_err("a third one");
        assert!(error.to_string().contains("taken_param_2"), "{error}");
    }

    #[test]
    fn mangled_names_end_with_a_name() {
        let name = "_RNvMs2_NtCs3hb_16scatterheap_heap6mallocNtNtB7_4heap4Core12malloc_again";
        assert_eq!(last_segment(name), Some("malloc_again"));
        assert_eq!(last_segment("_RNv1"), None);
    }
}
