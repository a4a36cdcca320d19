//! `scatterheap info`: what there is to work with.

use super::Common;
use super::output::{print, print_json};
use super::session::DeviceDescription;
use super::unused::UnusedHeap;
use anyhow::Result;
use scatterheap::embedded::KERNELS;
use scatterheap::size::Bytes;
use scatterheap::{Device, KernelSource, Selector, open};
use serde::Serialize;

const NO_GPU_SUPPORT: &str = "none: this build has no GPU support (feature `cuda`)";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    unused: UnusedHeap,
}

#[derive(Serialize)]
struct Document {
    command: &'static str,
    version: &'static str,
    devices: Vec<DeviceDescription>,
    /// GPUs that cannot be used, and why.
    unusable_devices: Vec<UnusableDevice>,
    /// Version of CUDA that the driver speaks.
    driver: Option<String>,
    kernel_compiler: Option<Compiler>,
    /// Why there is no kernel compiler.
    kernel_compiler_missing: Option<String>,
    kernels: Vec<EmbeddedKernels>,
}

#[derive(Serialize)]
struct UnusableDevice {
    selector: String,
    error: String,
}

/// The compiler that would build kernels now; which one did is not kept.
#[derive(Serialize)]
struct Compiler {
    version: String,
    rustc: String,
    origin: String,
}

#[derive(Serialize)]
struct EmbeddedKernels {
    baseline: String,
    entries: usize,
    bytes: usize,
}

impl EmbeddedKernels {
    fn new(source: &KernelSource) -> Self {
        let (major, minor) = source.capability;
        Self {
            baseline: format!("sm_{major}{minor}"),
            entries: source.ptx.matches(".visible .entry").count(),
            bytes: source.ptx.len(),
        }
    }
}

pub fn run(common: &Common) -> Result<()> {
    let document = look(common)?;
    if common.json {
        print_json(&document)
    } else {
        print(&text(&document))
    }
}

fn look(common: &Common) -> Result<Document> {
    // One that was asked for must be there.
    let is_asked = common.device != Selector::Auto;
    let first = if is_asked {
        common.open_device()?
    } else {
        Device::cpu()
    };
    let mut devices = vec![DeviceDescription::new(&first)?];
    let mut unusable_devices = Vec::new();
    let others = if is_asked { 0 } else { Device::gpu_count() };
    for ordinal in 0..others {
        let selector = Selector::Cuda(ordinal);
        let described = open(&selector)
            .map_err(Into::into)
            .and_then(|device| DeviceDescription::new(&device));
        match described {
            Ok(described) => devices.push(described),
            Err(error) => unusable_devices.push(UnusableDevice {
                selector: selector.to_string(),
                error: error.to_string(),
            }),
        }
    }
    let (kernel_compiler, kernel_compiler_missing) = match find_compiler() {
        Ok(compiler) => (Some(compiler), None),
        Err(reason) => (None, Some(reason)),
    };
    Ok(Document {
        command: "info",
        version: env!("CARGO_PKG_VERSION"),
        devices,
        unusable_devices,
        driver: Device::driver_version(),
        kernel_compiler,
        kernel_compiler_missing,
        kernels: KERNELS.iter().map(EmbeddedKernels::new).collect(),
    })
}

#[cfg(feature = "cuda")]
fn find_compiler() -> Result<Compiler, String> {
    let found = scatterheap_ptx_builder::find_compiler().map_err(|error| error.to_string())?;
    Ok(Compiler {
        version: found.version,
        rustc: found.rustc.display().to_string(),
        origin: found.origin.to_string(),
    })
}

#[cfg(not(feature = "cuda"))]
fn find_compiler() -> Result<Compiler, String> {
    Err(NO_GPU_SUPPORT.into())
}

fn text(document: &Document) -> String {
    let mut lines = vec![("version", document.version.to_owned())];
    for device in &document.devices {
        lines.push(("device", device_text(device)));
    }
    for device in &document.unusable_devices {
        lines.push(("device", format!("{}  {}", device.selector, device.error)));
    }
    lines.push(("driver", driver_text(document.driver.as_deref())));
    let missing = document.kernel_compiler_missing.clone().unwrap_or_default();
    let compiler = document.kernel_compiler.as_ref();
    lines.push((
        "kernel compiler",
        compiler.map_or(missing, |compiler| {
            format!(
                "{} ({}, {})",
                compiler.version, compiler.rustc, compiler.origin
            )
        }),
    ));
    if document.kernels.is_empty() {
        lines.push(("kernels", NO_GPU_SUPPORT.into()));
    }
    for kernels in &document.kernels {
        let size = Bytes(kernels.bytes as u64);
        let EmbeddedKernels {
            baseline, entries, ..
        } = kernels;
        lines.push((
            "kernels",
            format!("{baseline}  {entries} entry points, {size} of PTX"),
        ));
    }
    let mut before = "";
    let labelled = lines.into_iter().map(|(label, line)| {
        // A label stands before the first of its lines only.
        let shown = if label == before { "" } else { label };
        before = label;
        format!("{shown:<17}{line}\n")
    });
    labelled.collect::<Vec<_>>().concat()
}

fn driver_text(version: Option<&str>) -> String {
    match version {
        Some(version) => format!("CUDA {version}"),
        None if cfg!(feature = "cuda") => "none found: GPUs cannot be used".into(),
        None => NO_GPU_SUPPORT.into(),
    }
}

fn device_text(device: &DeviceDescription) -> String {
    let memory = format!(
        "{} of memory, {} free",
        Bytes(device.memory_total),
        Bytes(device.memory_free)
    );
    let capability = device.compute_capability.as_ref();
    let capability = capability.map_or(String::new(), |capability| {
        let multiprocessors = device.multiprocessors;
        format!(", capability {capability}, {multiprocessors} multiprocessors")
    });
    format!(
        "{:<7} {}{capability}, {memory}",
        device.selector, device.name
    )
}
