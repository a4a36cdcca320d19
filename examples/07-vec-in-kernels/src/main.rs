//! Runs kernels that use `Vec`: `cargo run` on the CPU, `cargo run -- cuda:0` on a GPU.

use anyhow::Result;
use scatterheap::{Grid, Heap, Selector};
use vec_kernels::{Arguments, Factor, Multiply, PLACE_BYTES};

/// What the build script made of the kernels.
#[cfg(feature = "cuda")]
const PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/vec-kernels.sm_75.ptx"));
#[cfg(not(feature = "cuda"))]
const PTX: &str = "";

const THREADS: u32 = 20_000;

fn main() -> Result<()> {
    let selector = match std::env::args().nth(1) {
        Some(name) => name.parse()?,
        None => Selector::Cpu { threads: None },
    };
    let device = scatterheap::open(&selector)?;
    device.load_module(PTX)?; // A CPU ignores it: it calls the same functions.
    let heap = Heap::builder(&device).capacity(64 << 20).build()?;
    let global = heap.make_global()?; // Until it is dropped.

    let factors = device.allocate(u64::from(THREADS) * PLACE_BYTES)?;
    let products = device.allocate(u64::from(THREADS) * 4)?;
    let arguments = Arguments {
        factors: factors.address(),
        products: products.address(),
        count: u64::from(THREADS),
    };
    // SAFETY: there is a vector and a product for each thread, until the launches have ended.
    unsafe { global.launch::<Factor>(Grid::of(THREADS), &arguments)? };
    let occupancy = heap.snapshot()?.occupancy();
    println!(
        "on {device}, the vectors of {THREADS} threads have {} blocks",
        occupancy.used_blocks
    );

    // SAFETY: as above; each place has a vector.
    unsafe { global.launch::<Multiply>(Grid::of(THREADS), &arguments)? };
    let products: Vec<u32> = products.read(0, THREADS as usize)?;
    for (number, product) in (0..).zip(products) {
        assert_eq!(product, number.max(1), "the factors of {number}");
    }
    assert!(heap.snapshot()?.is_empty());
    println!("the product of every thread's factors is its number, and the heap is empty again");
    Ok(())
}
