//! Criterion benchmarks of malloc and free, on the first GPU or else on the CPU: the floor,
//! scatterheap, and on the CPU the system's malloc. Times are the device's own.
//!
//! `scatterheap bench` measures more, beside more allocators; these are for comparing two versions of the
//! code, as Criterion keeps what it measured before.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};
use scatterheap::{Device, Memory, Selector};
use scatterheap_bench::allocators::{Floor, Native, Scatterheap};
use scatterheap_bench::{Allocator, Churn, Request, module};
use std::time::Duration;

/// Sizes from `least` to `most`.
const SIZES: [u32; 4] = [16, 256, 4096, 8192];
const MIXED: [u32; 3] = [64, 512, 4096];
const LEAST: u32 = 16;
/// Rounds of each thread of the churn.
const ROUNDS: u32 = 16;

/// How much is done on a device.
struct Scope {
    device: Device,
    heap_bytes: u64,
    threads: u32,
    churners: u32,
}

/// What is timed.
#[derive(Clone, Copy)]
enum Timed {
    Malloc,
    Free,
}

type Result<T> = scatterheap_bench::Result<T>;

impl Scope {
    fn new() -> Result<Self> {
        let device = scatterheap::open(&Selector::Auto)?;
        module::load(&device)?;
        eprintln!("on {device}");
        let gpu = device.is_gpu();
        Ok(Self {
            heap_bytes: if gpu {
                (device.memory_info()?.free / 2).min(16 << 30)
            } else {
                256 << 20
            },
            threads: if gpu { 1 << 20 } else { 1 << 12 },
            churners: if gpu { 1 << 17 } else { 1 << 9 },
            device,
        })
    }

    /// CUDA's malloc is left out: it would take minutes.
    fn allocators(&self) -> Vec<Box<dyn Allocator>> {
        let mut allocators: Vec<Box<dyn Allocator>> = vec![
            Box::new(Floor::new(&self.device)),
            Box::new(Scatterheap::new(&self.device)),
        ];
        if !self.device.is_gpu() {
            allocators.push(Box::new(Native::new(&self.device)));
        }
        allocators
    }

    /// Time of `launches` launches that allocate, or that free; the others are not timed.
    fn time(
        &self,
        allocator: &mut dyn Allocator,
        request: &Request,
        what: Timed,
        launches: u64,
    ) -> Result<Duration> {
        let mut seconds = 0.0;
        for _ in 0..launches {
            // SAFETY: the arrays of the request have a place for each thread.
            let allocated = self
                .device
                .time_calls(|| unsafe { allocator.allocate(request) })?;
            // SAFETY: as above; the blocks were just allocated.
            let freed = self
                .device
                .time_calls(|| unsafe { allocator.free(request) })?;
            seconds += match what {
                Timed::Malloc => allocated,
                Timed::Free => freed,
            };
        }
        Ok(Duration::from_secs_f64(seconds))
    }

    /// A request of all threads, and the memory of its arrays.
    fn request(&self, size: u32, sizes: Option<&[u32]>) -> Result<(Request, Vec<Memory>)> {
        let blocks = self.device.allocate(u64::from(self.threads) * 8)?;
        blocks.clear()?;
        let mut request = Request {
            blocks: blocks.address(),
            sizes: 0,
            size,
            n: self.threads,
        };
        let mut arrays = vec![blocks];
        if let Some(sizes) = sizes {
            let array = self.device.allocate(u64::from(self.threads) * 4)?;
            array.write(0, sizes)?;
            request.sizes = array.address();
            arrays.push(array);
        }
        Ok((request, arrays))
    }

    /// The benchmarks of one request.
    fn measure(
        &self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        parameter: &str,
        request: &Request,
    ) -> Result<()> {
        group.throughput(Throughput::Elements(self.threads.into()));
        for mut allocator in self.allocators() {
            allocator.create(self.heap_bytes)?;
            for (name, timed) in [("malloc", Timed::Malloc), ("free", Timed::Free)] {
                let id = BenchmarkId::new(format!("{name}/{}", allocator.name()), parameter);
                group.bench_function(id, |bencher| {
                    bencher.iter_custom(|times| {
                        let time = self.time(&mut *allocator, request, timed, times);
                        time.unwrap_or_else(|error| end(&error))
                    });
                });
            }
        }
        Ok(())
    }

    fn uniform(&self, criterion: &mut Criterion) -> Result<()> {
        let mut group = criterion.benchmark_group("uniform");
        for size in SIZES {
            let (request, _arrays) = self.request(size, None)?;
            self.measure(&mut group, &size.to_string(), &request)?;
        }
        Ok(())
    }

    fn mixed(&self, criterion: &mut Criterion) -> Result<()> {
        let mut group = criterion.benchmark_group("mixed");
        for most in MIXED {
            let sizes = scatterheap::kernels::sizes::Sizes {
                least: LEAST.into(),
                most: most.into(),
                seed: 1,
            };
            let size = |thread| u32::try_from(sizes.of(thread, 0)).unwrap_or(most);
            let sizes: Vec<u32> = (0..self.threads.into()).map(size).collect();
            let (request, _arrays) = self.request(most, Some(&sizes))?;
            self.measure(&mut group, &format!("{LEAST}..{most}"), &request)?;
        }
        Ok(())
    }

    fn churn(&self, criterion: &mut Criterion) -> Result<()> {
        let mut group = criterion.benchmark_group("churn");
        let faults = self.device.allocate(8)?;
        faults.clear()?;
        group.throughput(Throughput::Elements(
            u64::from(self.churners) * u64::from(ROUNDS),
        ));
        for most in [16, 256, 4096] {
            let churn = Churn {
                n: self.churners,
                rounds: ROUNDS,
                least: LEAST,
                most,
                seed: 1,
                faults: faults.address(),
            };
            for mut allocator in self.allocators().into_iter().skip(1) {
                allocator.create(self.heap_bytes)?;
                let id = BenchmarkId::new(allocator.name(), format!("{LEAST}..{most}"));
                group.bench_function(id, |bencher| {
                    bencher.iter_custom(|times| {
                        let mut launch = || {
                            // SAFETY: there are two counters, and all sizes are 16 bytes at least.
                            self.device
                                .time_calls(|| unsafe { allocator.churn(&churn) })
                        };
                        let seconds: Result<f64> = (0..times).map(|_| launch()).sum();
                        Duration::from_secs_f64(seconds.unwrap_or_else(|error| end(&error)))
                    });
                });
            }
        }
        Ok(())
    }
}

/// Ends with one line.
fn end(error: &scatterheap_bench::Error) -> ! {
    eprintln!("error: {error}");
    std::process::exit(1);
}

fn run() -> Result<()> {
    let scope = Scope::new()?;
    let mut criterion = Criterion::default()
        .measurement_time(Duration::from_secs(2))
        .warm_up_time(Duration::from_millis(500))
        .configure_from_args();
    scope.uniform(&mut criterion)?;
    scope.mixed(&mut criterion)?;
    scope.churn(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        end(&error);
    }
}
