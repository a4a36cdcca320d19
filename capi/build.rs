//! Compiles the device functions to PTX for both baselines, and makes the header with those that CUDA C++ inlines and the one
//! that names their sources.

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
    use scatterheap_ptx_builder::{Builder, PtxModule, fingerprint_of_sources};
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

    /// Leaves a module for each baseline, `inline.cuh` and `layout.h` in `OUT_DIR`, and the name that the library exports in
    /// `SCATTERHEAP_LAYOUT`.
    pub fn build() -> Result<(), Box<dyn Error>> {
        let modules =
            Builder::new(scatterheap_device::SOURCE_DIRECTORY).build_for_build_script()?;
        let [turing, ampere] = modules.as_slice() else {
            return Err("there are two baselines".into());
        };
        let layout = Layout::of_sources()?;
        let (turing, ampere) = (take_out(turing, &layout)?, take_out(ampere, &layout)?);
        if turing.declarations != ampere.declarations {
            return Err(
                "the baselines' slow paths are not called in the same way: inline one alone".into(),
            );
        }
        let directory = env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
        let directory = Path::new(&directory);
        fs::write(directory.join("inline.cuh"), header(&turing, &ampere))?;
        fs::write(directory.join("layout.h"), layout.header())?;
        println!("cargo::rustc-env=SCATTERHEAP_LAYOUT={}", layout.of_host);
        Ok(())
    }

    /// Takes the functions that are inlined out of a module, and names its sources.
    fn take_out(module: &PtxModule, layout: &Layout) -> Result<ForCudaCpp, Box<dyn Error>> {
        let made = for_cuda_cpp(&module.read()?, &INLINED)?;
        fs::write(&module.path, made.module.clone() + &layout.variable())?;
        Ok(made)
    }

    /// Names that tell which sources device functions and the library are of, and so how a heap lies in memory. Whoever is
    /// built with `layout.h` asks for both, and gets no others.
    struct Layout {
        of_host: String,
        of_device: String,
    }

    impl Layout {
        fn of_sources() -> Result<Self, Box<dyn Error>> {
            let fingerprint = fingerprint_of_sources(scatterheap_device::SOURCE_DIRECTORY)?;
            Ok(Self {
                of_host: format!("scatterheap_layout_{fingerprint}"),
                of_device: format!("scatterheap_device_layout_{fingerprint}"),
            })
        }

        /// What a module defines. Its value is there so that nobody takes it for a variable that kernels write.
        fn variable(&self) -> String {
            let name = &self.of_device;
            format!("\n.visible .global .align 1 .b8 {name}[1] = {{1}};\n")
        }

        fn header(&self) -> String {
            format!(
                "/* Names that tell which sources the library and the device functions are of: those of other sources have others. */\n\
                 #ifndef SCATTERHEAP_LAYOUT_H\n#define SCATTERHEAP_LAYOUT_H\n\n\
                 #define SCATTERHEAP_LAYOUT {}\n#define SCATTERHEAP_DEVICE_LAYOUT {}\n\n#endif\n",
                self.of_host, self.of_device
            )
        }
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
