//! Functions that call themselves, in the PTX text: they do so through a pointer.
//!
//! NVIDIA's assembler of PTX, where it compiles functions to be linked (`ptxas -c`, `cuLink…`), takes a function that
//! calls itself by name for one whose lanes all go the same way: it lets them not come together again after a
//! branch, and keeps values that differ from lane to lane in registers that a warp has once. Lanes then work with numbers of
//! others: sorting, whose quicksort calls itself, gives wrong orders or faults as soon as two lanes of a warp sort side by side.
//! ptxas 12.0, 12.1, 12.4, 12.6, 12.9, 13.0, 13.2 and 13.5 do so for `sm_90`, 13.0 also for `sm_75`, `sm_80` and `sm_100`. Of functions that call each other in a
//! circle, or that are called through a pointer, they think nothing of the kind.

use std::fmt::Write as _;

/// The module in which no function calls itself by name.
pub(crate) fn call_through_pointers(module: &str) -> String {
    let mut result = String::with_capacity(module.len());
    let mut rest = module;
    let mut number = 0;
    while let Some((before, function, after)) = next_function(rest) {
        result.push_str(before);
        match Head::of(function) {
            Some(head) => head.rewrite(function, &mut number, &mut result),
            None => result.push_str(function),
        }
        rest = after;
    }
    result.push_str(rest);
    result
}

/// What is before the next function, the function up to the brace that ends it, and what follows. Declarations of
/// functions, which have no body, count as what is before.
fn next_function(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let begin = from + text[from..].find(".func ")?;
        let open = begin + text[begin..].find(['{', ';'])?;
        if text[open..].starts_with('{') {
            let end = text[open..]
                .find("\n}")
                .map_or(text.len(), |end| open + end);
            return Some((&text[..begin], &text[begin..end], &text[end..]));
        }
        from = open;
    }
}

/// What a function is called and how: `.func (.param .b64 result) name(.param .b64 a, …)`.
struct Head<'a> {
    name: &'a str,
    /// Without names, as prototypes have it: `(.param .b64 _)`, or nothing.
    results: String,
    parameters: String,
    no_return: bool,
}

impl<'a> Head<'a> {
    fn of(function: &'a str) -> Option<Self> {
        let head = &function[".func ".len()..function.find('{')?];
        let (results, rest) = match head.trim_start().strip_prefix('(') {
            Some(rest) => rest.split_once(')')?,
            None => ("", head),
        };
        let (name, rest) = rest.split_once('(')?;
        let (parameters, attributes) = rest.split_once(')')?;
        Some(Self {
            name: name.trim(),
            results: nameless(results)?,
            parameters: nameless(parameters)?,
            no_return: attributes.contains(".noreturn"),
        })
    }

    /// Appends the function, with its calls of itself through a pointer.
    fn rewrite(&self, function: &str, number: &mut u32, result: &mut String) {
        let mut rest = function;
        while let Some((before, call, after)) = self.next_call(rest) {
            result.push_str(before);
            let end = if self.no_return { " .noreturn" } else { "" };
            let _ = write!(
                result,
                "{{\n\t.reg .b64 %itself;\n\tmov.b64 %itself, {};\n\t\
                 itself_{number} : .callprototype {} _ {}{end};\n\t\
                 call {}, itself_{number};\n\t}}",
                self.name,
                self.results,
                self.parameters,
                call.through("%itself"),
            );
            *number += 1;
            rest = after;
        }
        result.push_str(rest);
    }

    /// What is before the next call of itself, the call, and what follows.
    fn next_call<'b>(&self, text: &'b str) -> Option<(&'b str, Call<'b>, &'b str)> {
        let mut from = 0;
        loop {
            let begin = from + text[from..].find("\tcall")? + 1;
            let end = begin + text[begin..].find(';')?;
            match Call::of(&text[begin..end], self.name) {
                Some(call) => return Some((&text[..begin], call, &text[end + 1..])),
                None => from = end,
            }
        }
    }
}

/// `(.param .b64 _, .param .align 8 .b8 _[16])` of a list of parameters with names.
fn nameless(list: &str) -> Option<String> {
    let parameters: Option<Vec<String>> = list
        .split(',')
        .map(str::trim)
        .filter(|parameter| !parameter.is_empty())
        .map(|parameter| {
            let (kind, name) = parameter.rsplit_once(char::is_whitespace)?;
            let length = name.find('[').map_or("", |place| &name[place..]);
            Some(format!("{kind} _{length}"))
        })
        .collect();
    Some(format!("({})", parameters?.join(", ")))
}

/// A call: `call.uni (result), name, (arguments)`.
struct Call<'a> {
    /// With the comma that follows.
    results: &'a str,
    arguments: &'a str,
}

impl<'a> Call<'a> {
    /// Reads a statement, if it is a call of `name`.
    fn of(statement: &'a str, name: &str) -> Option<Self> {
        let operands = statement.strip_prefix("call")?;
        let operands = operands.strip_prefix(".uni").unwrap_or(operands);
        let place = operands.find(name)?;
        let (results, rest) = operands.split_at(place);
        let rest = &rest[name.len()..];
        let arguments = rest.trim_start().strip_prefix(',').unwrap_or("()").trim();
        let is_name = rest.is_empty() || rest.starts_with([',', ' ', '\t', '\n']);
        let results = results.trim();
        (is_name && (results.is_empty() || results.ends_with(',')))
            .then_some(Self { results, arguments })
    }

    fn through(&self, register: &str) -> String {
        format!("{} {register}, {}", self.results, self.arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = ".version 7.8\n.func  (.param .b32 func_retval0) depth\n(\n\t.param .b64 depth_param_0,\n\
        \t.param .align 8 .b8 depth_param_1[16]\n)\n;\n";

    const OTHERS: &str = ".func deeper(\n\t.param .b64 deeper_param_0\n)\n{\n\tcall.uni (retval0), depth, (param0, param1);\n\
        \tret;\n}\n.visible .entry kernel()\n{\n\tcall.uni deeper, (param0);\n\tret;\n}\n";

    fn depth(call: &str) -> String {
        format!(
            ".func  (.param .b32 func_retval0) depth(\n\t.param .b64 depth_param_0,\n\
             \t.param .align 8 .b8 depth_param_1[16]\n)\n{{\n\t{{ // callseq 1, 0\n\tcall.uni deeper, (param0);\n\
             \t{call}\n\t}} // callseq 1\n\tret;\n}}\n"
        )
    }

    #[test]
    fn who_calls_itself_does_so_through_a_pointer() {
        let by_name = depth("call.uni (retval0), depth, (param0, param1);");
        let by_pointer = depth(
            "{\n\t.reg .b64 %itself;\n\tmov.b64 %itself, depth;\n\t\
             itself_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]);\n\t\
             call (retval0), %itself, (param0, param1), itself_0;\n\t}",
        );
        let module = |function: &str| [DECLARED, OTHERS, function, OTHERS].concat();
        assert_eq!(
            call_through_pointers(&module(&by_name)),
            module(&by_pointer)
        );
        assert_eq!(
            call_through_pointers(&module(&by_pointer)),
            module(&by_pointer)
        );
    }

    #[test]
    fn calls_may_have_several_lines_no_result_and_no_end() {
        let module = ".func forever()\n.noreturn\n{\n\tcall.uni \n\tforever, \n\t(\n\t);\n\tcall.uni forever;\n}\n";
        let call = |number, arguments| {
            format!(
                "{{\n\t.reg .b64 %itself;\n\tmov.b64 %itself, forever;\n\t\
                 itself_{number} : .callprototype () _ () .noreturn;\n\t\
                 call  %itself, {arguments}, itself_{number};\n\t}}"
            )
        };
        let expected = format!(
            ".func forever()\n.noreturn\n{{\n\t{}\n\t{}\n}}\n",
            call(0, "(\n\t)"),
            call(1, "()"),
        );
        assert_eq!(call_through_pointers(module), expected);
    }

    #[test]
    fn modules_without_recursion_stay_as_they_are() {
        let similar = depth("call.uni (retval0), depth_first, (param0, param1);");
        for module in ["", ".version 7.8\n", DECLARED, OTHERS, &similar] {
            assert_eq!(call_through_pointers(module), module);
        }
    }
}
