//! The Mandelbrot set by recursive subdivision: kernels put new tiles into a queue in linked blocks, whose blocks come
//! from the heap and go back to it. Writes a picture.
//!
//! `cargo run -p scatterheap-collections --example 11-mandelbrot -- --output mandelbrot.png` runs on the CPU, with `--device cuda:0` on a
//! GPU. Without `--output` the picture goes to the system's directory for temporary files.

use anyhow::{Context, Result, ensure};
use scatterheap::Heap;
use scatterheap_collections::kernels::mandelbrot::View;
use scatterheap_collections::table::{milliseconds, table};
use scatterheap_collections::{mandelbrot, open_for_example};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

const WIDTH: u32 = 1536;
const HEIGHT: u32 = 1024;

const VIEW: View = View {
    left: -2.4,
    top: -1.13,
    step: 3.4 / WIDTH as f64,
    width: WIDTH,
    most: 1000,
};

fn main() -> Result<()> {
    let (device, arguments) = open_for_example()?;
    let output = match arguments.iter().position(|argument| argument == "--output") {
        Some(index) => PathBuf::from(arguments.get(index + 1).context("--output needs a file")?),
        None => std::env::temp_dir().join("scatterheap-mandelbrot.png"),
    };
    let heap = Heap::builder(&device).capacity(64 << 20).build()?;
    let tiles = mandelbrot::first_tiles(&VIEW, HEIGHT, 128);
    let picture = mandelbrot::draw(&heap, VIEW, HEIGHT, &tiles)?;

    println!(
        "{WIDTH} × {HEIGHT} pixels on {device}, {} tiles at first\n",
        tiles.len()
    );
    let rows = picture.rounds.iter().zip(1..).map(|(round, number)| {
        [
            number.to_string(),
            round.tiles.to_string(),
            round.blocks.to_string(),
            round.computed.to_string(),
            milliseconds(round.seconds),
        ]
    });
    let columns = [
        "round",
        "tiles",
        "blocks of the queue",
        "pixels computed",
        "time",
    ];
    println!("{}", table(columns, rows));
    let computed: u64 = picture.rounds.iter().map(|round| round.computed).sum();
    let pixels = u64::from(WIDTH * HEIGHT);
    println!("\ncomputed {computed} times a pixel, of {pixels}");

    let wrong = differences(&picture.steps);
    println!("{wrong} of the pixels are not what they are if each is computed");
    // Devices round alike, and nothing in this view slips between the pixels of a border.
    ensure!(wrong == 0, "the picture is wrong");
    ensure!(heap.snapshot()?.is_empty(), "blocks are left");
    write_png(&output, &picture.steps)?;
    println!(
        "the heap is empty again, and the picture is in {}",
        output.display()
    );
    Ok(())
}

/// Pixels that are not as the definition says.
fn differences(steps: &[u16]) -> u64 {
    let wrong = steps.iter().zip(0_u32..).filter(|(steps, index)| {
        let [x, y] = [index % WIDTH, index / WIDTH].map(|place| u16::try_from(place).unwrap_or(0));
        VIEW.steps(x, y) != **steps
    });
    wrong.count() as u64
}

/// Colours that come again: dark blue, white, orange.
fn colour(steps: u16) -> [u8; 3] {
    if u32::from(steps) == VIEW.most {
        return [0; 3];
    }
    let turn = f64::from(steps).sqrt() * 0.6;
    // From 0 to 255.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is between 0 and 255"
    )]
    [0.0, 0.6, 1.2].map(|shift: f64| (127.5 - 127.5 * (turn + shift).cos()) as u8)
}

fn write_png(path: &Path, steps: &[u16]) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut encoder = png::Encoder::new(BufWriter::new(file), WIDTH, HEIGHT);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    // Areas of one colour pack best as they are.
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header()?;
    let colours: Vec<u8> = steps.iter().flat_map(|steps| colour(*steps)).collect();
    writer.write_image_data(&colours)?;
    Ok(writer.finish()?)
}
