//! Compiles the device functions to PTX for both baselines, and makes the header with those that CUDA C++ inlines.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    if let Err(error) = device_code::build() {
        // A panic would bury the message under a backtrace note.
        eprintln!("{error}");
        std::process::exit(1);
    }
}

#[cfg(feature = "cuda")]
mod device_code {
    use scatterheap_ptx_builder::cuda_cpp::{ForCudaCpp, Inlined, for_cuda_cpp};
    use scatterheap_ptx_builder::{Builder, PtxModule};
    use std::error::Error;
    use std::path::Path;
    use std::{env, fs};

    const INLINED: [Inlined<'_>; 2] = [
        Inlined {
            function: "scatterheap_inline_malloc",
            signature: "static __device__ __forceinline__ void *scatterheap_inline_malloc(const scatterheap_handle *heap, \
                        size_t bytes)",
            structure: "heap->words",
            argument: "static_cast<unsigned long long>(bytes)",
        },
        Inlined {
            function: "scatterheap_inline_free",
            signature: "static __device__ __forceinline__ void scatterheap_inline_free(const scatterheap_handle *heap, \
                        void *block)",
            structure: "heap->words",
            argument: "reinterpret_cast<unsigned long long>(block)",
        },
    ];

    /// Leaves a module for each baseline and `inline.cuh` in `OUT_DIR`.
    pub fn build() -> Result<(), Box<dyn Error>> {
        let modules =
            Builder::new(scatterheap_device::SOURCE_DIRECTORY).build_for_build_script()?;
        let [turing, ampere] = modules.as_slice() else {
            return Err("there are two baselines".into());
        };
        let (turing, ampere) = (take_out(turing)?, take_out(ampere)?);
        if turing.declarations != ampere.declarations {
            return Err(
                "the baselines' slow paths are not called in the same way: inline one alone".into(),
            );
        }
        let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
        let header = header(&turing, &ampere);
        Ok(fs::write(Path::new(&directory).join("inline.cuh"), header)?)
    }

    /// Takes the functions that are inlined out of a module.
    fn take_out(module: &PtxModule) -> Result<ForCudaCpp, Box<dyn Error>> {
        let made = for_cuda_cpp(&module.read()?, &INLINED)?;
        fs::write(&module.path, &made.module)?;
        Ok(made)
    }

    fn header(turing: &ForCudaCpp, ampere: &ForCudaCpp) -> String {
        format!(
            "/* malloc and free as a part of the kernels that call them, compiled from the same source as the linked ones.\n \
             * Made when scatterheap was built: use it with the device functions of the same build. */\n\
             #ifndef SCATTERHEAP_INLINE_CUH\n#define SCATTERHEAP_INLINE_CUH\n\n#include <scatterheap.h>\n\n\
             extern \"C\" {{\n{}}}\n\n\
             #if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800\n\n{}\n#else\n\n{}\n#endif\n\n#endif\n",
            ampere.declarations, ampere.functions, turing.functions
        )
    }
}
