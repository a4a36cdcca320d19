//! Functions that call themselves, in the PTX text: they do so through a pointer.
//!
//! NVIDIA's assembler of PTX, where it compiles functions to be linked (`ptxas -c`, `cuLink…`), takes a function that
//! calls itself by name for one whose lanes all go the same way: it lets them not come together again after a
//! branch, and keeps values that differ from lane to lane in registers that a warp has once. Lanes then work with numbers of
//! others: sorting, whose quicksort calls itself, gives wrong orders or faults as soon as two lanes of a warp sort side by side.
//! ptxas 12.0, 12.1, 12.4, 12.6, 12.9, 13.0, 13.2 and 13.5 do so for `sm_90`, 13.0 also for `sm_75`, `sm_80` and `sm_100`. Of functions that call each other in a
//! circle, or that are called through a pointer, they think nothing of the kind.

use crate::Error;
use crate::code::{closing_brace, code_of, function_name, is_of_names, names, places_of};
use std::fmt::Write as _;
use std::ops::Range;

/// The module in which no function calls itself by name.
///
/// # Errors
///
/// [`Error::RecursionLeft`] if one still does: then it is written in a way that is not known here.
pub(crate) fn call_through_pointers(module: &str) -> Result<String, Error> {
    let code = code_of(module);
    let mut result = String::with_capacity(module.len());
    let mut copied = 0;
    let mut number = 0;
    while let Some(function) = next_function(&code, copied) {
        result.push_str(&module[copied..function.start]);
        copied = function.end;
        let begin = result.len();
        let (text, code) = (&module[function.clone()], &code[function]);
        match Head::of(code) {
            Some(head) => {
                head.rewrite(text, code, &mut number, &mut result);
                head.refuse_calls_by_name(&result[begin..])?;
            }
            None => result.push_str(text),
        }
    }
    result.push_str(&module[copied..]);
    Ok(result)
}

/// Where the next function is, from its directive to the brace that ends it. Declarations of functions, which have no
/// body, are none.
fn next_function(code: &str, from: usize) -> Option<Range<usize>> {
    let mut from = from;
    loop {
        let begin = from + places_of(&code[from..], ".func").next()?;
        let open = begin + code[begin..].find(['{', ';'])?;
        if code[open..].starts_with('{') {
            let end = closing_brace(code, open).unwrap_or(code.len());
            return Some(begin..end);
        }
        from = open;
    }
}

/// The statements of a function's body, without their labels and semicolons: what is between braces and semicolons.
fn statements(code: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut from = 0;
    let ends = code.match_indices([';', '{', '}']);
    ends.filter_map(move |(end, mark)| {
        let begin = end - without_labels(&code[from..end]).len();
        from = end + 1;
        (mark == ";").then_some(begin..end)
    })
}

/// A statement without what may stand before it: labels, and directives that end with their line.
fn without_labels(statement: &str) -> &str {
    let statement = statement.trim_start();
    if statement.starts_with(".loc") || statement.starts_with(".file") {
        return statement
            .split_once('\n')
            .map_or("", |(_, rest)| without_labels(rest));
    }
    let after_name = statement.trim_start_matches(is_of_names);
    match after_name.trim_start().strip_prefix(':') {
        Some(rest) if after_name.len() < statement.len() => without_labels(rest),
        _ => statement,
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
    /// Reads a function's code, from its directive on.
    fn of(function: &'a str) -> Option<Self> {
        let head = &function[".func".len()..function.find('{')?];
        let (results, rest) = match head.trim_start().strip_prefix('(') {
            Some(rest) => rest.split_once(')')?,
            None => ("", head),
        };
        let (_, rest) = rest.split_once('(')?;
        let (parameters, attributes) = rest.split_once(')')?;
        Some(Self {
            name: function_name(head)?,
            results: nameless(results)?,
            parameters: nameless(parameters)?,
            no_return: attributes.contains(".noreturn"),
        })
    }

    /// Appends the function, of which the text and the code are given, with its calls of itself through a pointer.
    fn rewrite(&self, function: &str, code: &str, number: &mut u32, result: &mut String) {
        let mut copied = 0;
        for statement in statements(code) {
            let Some(call) = Call::of(&code[statement.clone()], self.name) else {
                continue;
            };
            result.push_str(&function[copied..statement.start]);
            self.write_call(&call, *number, result);
            *number += 1;
            copied = statement.end + 1;
        }
        result.push_str(&function[copied..]);
    }

    /// Appends a call of itself through a pointer. Who does not make it by its condition also takes the address, which does no harm.
    fn write_call(&self, call: &Call<'_>, number: u32, result: &mut String) {
        let end = if self.no_return { " .noreturn" } else { "" };
        let _ = write!(
            result,
            "{{\n\t.reg .b64 %itself;\n\tmov.b64 %itself, {};\n\t\
             itself_{number} : .callprototype {} _ {}{end};\n\t\
             {}call {}, itself_{number};\n\t}}",
            self.name,
            self.results,
            self.parameters,
            call.condition(),
            call.through("%itself"),
        );
    }

    /// Looks for calls of itself by name, in whichever form: the word, and the name among its operands.
    fn refuse_calls_by_name(&self, function: &str) -> Result<(), Error> {
        let code = code_of(function);
        let calls_itself = places_of(&code, "call").any(|place| {
            let operands = &code[place + "call".len()..];
            let operands = operands.strip_prefix(".uni").unwrap_or(operands);
            let operands = operands.split(';').next().unwrap_or_default();
            outside_of_parentheses(operands).any(|part| names(part).any(|name| name == self.name))
        });
        if calls_itself {
            return Err(Error::RecursionLeft {
                function: self.name.to_owned(),
            });
        }
        Ok(())
    }
}

/// The parts of a call's operands that are neither results nor arguments.
fn outside_of_parentheses(operands: &str) -> impl Iterator<Item = &str> {
    operands
        .split('(')
        .enumerate()
        .filter_map(|(index, part)| match index {
            0 => Some(part),
            _ => part.split_once(')').map(|(_, after)| after),
        })
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

/// A call: `@%p1 call.uni (result), name, (arguments)`.
struct Call<'a> {
    /// `@` and a register, or nothing.
    condition: &'a str,
    /// With the comma that follows.
    results: &'a str,
    arguments: &'a str,
}

impl<'a> Call<'a> {
    /// Reads a statement, if it is a call of `name`.
    fn of(statement: &'a str, name: &str) -> Option<Self> {
        let (condition, call) = split_condition(statement);
        let operands = call.strip_prefix("call")?;
        let operands = operands.strip_prefix(".uni").unwrap_or(operands);
        if operands.starts_with(is_of_names) {
            return None;
        }
        let (results, rest) = split_results(operands.trim_start())?;
        let (callee, arguments) = match rest.split_once(',') {
            Some((callee, arguments)) => (callee, arguments.trim()),
            None => (rest, "()"),
        };
        (callee.trim() == name).then_some(Self {
            condition,
            results,
            arguments,
        })
    }

    /// The condition, as it stands before an instruction.
    fn condition(&self) -> String {
        match self.condition {
            "" => String::new(),
            condition => format!("{condition} "),
        }
    }

    fn through(&self, register: &str) -> String {
        format!("{} {register}, {}", self.results, self.arguments)
    }
}

/// The condition of a statement, `@%p1` or `@!%p1`, or nothing; and the rest.
fn split_condition(statement: &str) -> (&str, &str) {
    let Some(rest) = statement.strip_prefix('@') else {
        return ("", statement);
    };
    let register = rest.trim_start_matches(|mark: char| mark == '!' || mark.is_whitespace());
    let rest = register.trim_start_matches(is_of_names);
    let condition = &statement[..statement.len() - rest.len()];
    (condition, rest.trim_start())
}

/// The results of a call, up to the comma after them, or nothing; and the rest.
fn split_results(operands: &str) -> Option<(&str, &str)> {
    if !operands.starts_with('(') {
        return Some(("", operands));
    }
    let end = operands.find(')')? + 1;
    let comma = end + operands[end..].find(',')? + 1;
    Some(operands.split_at(comma))
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

    fn rewritten(module: &str) -> String {
        call_through_pointers(module).expect("no call by name is left")
    }

    /// A function of one parameter and one result, and how it calls itself through a pointer after a condition.
    fn named(name: &str, body: &str) -> String {
        format!(
            ".func  (.param .b32 func_retval0) {name}(\n\t.param .b32 {name}_param_0\n)\n{{\n{body}\tret;\n}}\n"
        )
    }

    fn pointed(name: &str, number: u32, condition: &str) -> String {
        format!(
            "{{\n\t.reg .b64 %itself;\n\tmov.b64 %itself, {name};\n\t\
             itself_{number} : .callprototype (.param .b32 _) _ (.param .b32 _);\n\t\
             {condition}call (retval0), %itself, (param0), itself_{number};\n\t}}"
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
        assert_eq!(rewritten(&module(&by_name)), module(&by_pointer));
        assert_eq!(rewritten(&module(&by_pointer)), module(&by_pointer));
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
        assert_eq!(rewritten(module), expected);
    }

    #[test]
    fn modules_without_recursion_stay_as_they_are() {
        let similar = depth("call.uni (retval0), depth_first, (param0, param1);");
        for module in ["", ".version 7.8\n", DECLARED, OTHERS, &similar] {
            assert_eq!(rewritten(module), module);
        }
    }

    #[test]
    fn inline_assembly_with_braces_of_its_own_ends_no_function() {
        let body = |call: &str| {
            let assembly =
                "\t// begin inline asm\n\t{\n.reg .b32 x;\n}\n\t// end inline asm\n\t// } { \"\n";
            let string = "\t.pragma \"nounroll }\";\n";
            named("deep", &format!("{assembly}{string}\t{call}\n"))
        };
        let by_name = [body("call.uni (retval0), deep, (param0);"), OTHERS.into()].concat();
        let by_pointer = [body(&pointed("deep", 0, "")), OTHERS.into()].concat();
        assert_eq!(rewritten(&by_name), by_pointer);
    }

    #[test]
    fn names_may_be_parts_of_other_operands() {
        for name in ["val", "ret", "r", "param", "uni", "call_it", "$deep"] {
            let others = "\tcall.uni (retval0), value, (param0);\n";
            let body = |call: &str| named(name, &format!("{others}\t{call}\n{others}"));
            let by_name = body(&format!("call.uni (retval0), {name}, (param0);"));
            let by_pointer = body(&pointed(name, 0, ""));
            assert_eq!(rewritten(&by_name), by_pointer);
            assert_eq!(rewritten(&by_pointer), by_pointer);
        }
    }

    #[test]
    fn calls_may_stand_anywhere_and_have_conditions_and_labels() {
        let body = |calls: [&str; 4]| {
            let [first, second, third, fourth] = calls;
            let lines = format!(
                "\t@%p1 bra $L__1;\n\t{first}\n{{ .reg .b32 x; {second} }}\n$L__1:\n$L__2: {third}\n\
                 .loc\t1 2 3\n{fourth}\n"
            );
            named("deep", &lines)
        };
        let by_name = body([
            "@%p1 call (retval0), deep, (param0);",
            "call\t(retval0) , deep , (param0);",
            "@!%p1 call.uni (retval0), deep, (param0);",
            "call(retval0), deep, (param0);",
        ]);
        let spaced = pointed("deep", 1, "").replace("(retval0),", "(retval0) ,");
        let by_pointer = body([
            &pointed("deep", 0, "@%p1 "),
            &spaced,
            &pointed("deep", 2, "@!%p1 "),
            &pointed("deep", 3, ""),
        ]);
        assert_eq!(rewritten(&by_name), by_pointer);
    }

    #[test]
    fn what_is_called_in_an_unknown_way_is_refused() {
        let module = named("deep", "\tcall.other (retval0), deep, (param0);\n");
        let error = call_through_pointers(&module).expect_err("a call by name is left");
        assert!(matches!(&error, Error::RecursionLeft { function } if function == "deep"));
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
}
