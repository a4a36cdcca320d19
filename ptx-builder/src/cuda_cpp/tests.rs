//! Inline assembly from a small module.

use super::callee::last_segment;
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
        "\"bra own_label_end;\\n\\t\"",
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
fn braces_in_lines_of_their_own_end_no_function() {
    let with_block = "$L__BB0_2:\n{\n.reg .b32 x;\n}\n\t// }\n";
    let module = MODULE.replacen("$L__BB0_2:\n", with_block, 1);
    let made = for_cuda_cpp(&module, &[inlined("taken")]).expect("it can be");
    assert!(made.functions.contains("own_rd3"), "{}", made.functions);
    assert!(!made.module.contains("taken"), "{}", made.module);
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
    let module = MODULE.replace("ld.param.b32 \t%r1", "ld.param.v2.b32 \t{%r1, %r2}");
    let error = for_cuda_cpp(&module, &[inlined("taken")]).expect_err("two at once");
    assert!(error.to_string().contains("v2.b32"), "{error}");
    let module = MODULE.replace(".param .b32 _RNv4Core12", ".param .align 8 .b8 _RNv4Core12");
    let error = for_cuda_cpp(&module, &[inlined("taken")]).expect_err("a structure");
    assert!(error.to_string().contains("cannot be declared"), "{error}");
}

#[test]
fn mangled_names_end_with_a_name() {
    let name = "_RNvMs2_NtCs3hb_16scatterheap_heap6mallocNtNtB7_4heap4Core12malloc_again";
    assert_eq!(last_segment(name), Some("malloc_again"));
    assert_eq!(last_segment("_RNv1"), None);
}
