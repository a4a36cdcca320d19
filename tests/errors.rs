//! Bad input of every kind: the right error, and a message that says what was asked, what was
//! found and what to do. Nothing panics, and what can go on does.

mod devices;

use devices::{for_each_device, for_each_gpu, gpus};
use scatterheap::heap::layout::{MAX_CAPACITY, MIN_CAPACITY};
use scatterheap::kernels::blocks::{Block, BlocksArguments, Fill};
use scatterheap::kernels::sizes::Sizes;
use scatterheap::simt::{kernel, thread};
use scatterheap::size::Bytes;
use scatterheap::stress::{self, Settings, Workload};
use scatterheap::{Device, Error, Grid, Heap, Result, Selector, open, replay};
use scatterheap_trace::{Operation, Trace};

const MIB: u64 = 1 << 20;

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Nothing {
    unused: u64,
}

const NOTHING: Nothing = Nothing { unused: 0 };

kernel! {
    /// Panics in one thread. No module has it.
    struct Panics = "test_panics";
    fn body(_arguments: &Nothing) {
        assert_ne!(thread::index_1d(), 300, "thread 300 was to panic");
    }
}

kernel! {
    /// Does nothing. No module has it.
    struct Idles = "test_idles";
    fn body(_arguments: &Nothing) {}
}

fn heap_on(device: &Device) -> Heap {
    let heap = Heap::builder(device).capacity(8 * MIB).build();
    heap.expect("there is memory for the heap")
}

/// Checks that the words are in the message of an error, which has one line.
fn says(error: &Error, words: &[&str]) {
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
    assert_eq!(message.lines().count(), 1, "{message}");
}

fn refused<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("this should have been refused"),
        Err(error) => error,
    }
}

/// Checks that everything works, by a short workload.
fn works(heap: &Heap) {
    let settings = Settings {
        threads: 2048,
        rounds: 2,
        ..Settings::for_workload(Workload::Mixed, heap)
    };
    let report = stress::run(heap, Workload::Mixed, &settings, &mut |_, _| ());
    let report = report.expect("the workload can be run");
    assert!(report.passed(), "{report:#?}");
}

#[test]
fn a_gpu_without_a_driver() {
    if Device::gpu_count() > 0 || Device::driver_version().is_some() {
        println!("skipped: a GPU without a driver (there is a driver)");
        return;
    }
    let error = refused(open(&Selector::Cuda(0)));
    if cfg!(feature = "cuda") {
        assert!(matches!(error, Error::NoDriver), "{error:?}");
        says(
            &error,
            &[
                "a GPU was asked for",
                "no NVIDIA driver",
                "install",
                "`cpu`",
            ],
        );
    } else {
        assert!(matches!(error, Error::NoGpuSupport), "{error:?}");
        says(&error, &["a GPU was asked for", "feature `cuda`", "`cpu`"]);
    }
    let device = open(&Selector::Auto).expect("the CPU is always there");
    assert!(!device.is_gpu());
    works(&heap_on(&device));
}

#[test]
fn a_gpu_that_is_not_there() {
    for_each_gpu("a GPU that is not there", |_| {
        let found = Device::gpu_count();
        let error = refused(open(&Selector::Cuda(found + 7)));
        assert!(
            matches!(error, Error::NoSuchDevice { asked, found: there } if (asked, there) == (found + 7, found)),
            "{error:?}"
        );
        says(
            &error,
            &[&format!("cuda:{}", found + 7), "cuda:0", "choose"],
        );
    });
}

#[test]
fn names_that_mean_no_device() {
    for name in [
        "", "gpu", "cpu:0", "cpu:-1", "cpu:many", "cuda:", "cuda:x", "CPU", "cuda:0:1",
    ] {
        let error = refused(name.parse::<Selector>());
        assert!(
            matches!(&error, Error::BadSelector(asked) if asked == name),
            "{error:?}"
        );
        says(
            &error,
            &[&format!("`{name}`"), "use `auto`", "`cuda:NUMBER`"],
        );
    }
}

#[test]
fn capacities_that_no_heap_has() {
    for_each_device("impossible capacities", |device| {
        for capacity in [0, 1, MIN_CAPACITY - 1] {
            let error = refused(Heap::builder(device).capacity(capacity).build());
            assert!(matches!(error, Error::CapacityTooSmall(asked) if asked == capacity));
            says(
                &error,
                &[
                    &format!("a heap of {capacity} bytes"),
                    "16 KiB",
                    "ask for more",
                ],
            );
        }
        for capacity in [MAX_CAPACITY + 1, u64::MAX] {
            let error = refused(Heap::builder(device).capacity(capacity).build());
            assert!(matches!(error, Error::CapacityTooLarge(asked) if asked == capacity));
            says(
                &error,
                &[&Bytes(capacity).to_string(), "1 TiB", "ask for less"],
            );
        }
    });
}

#[test]
fn more_than_the_device_has_free() {
    for_each_device("more than there is", |device| {
        let memory = device.memory_info().expect("the device works");
        let most = (memory.total + memory.total / 8).min(MAX_CAPACITY);
        let error = refused(Heap::builder(device).capacity(most).build());
        let Error::OutOfDeviceMemory {
            capacity,
            needed,
            free,
        } = error
        else {
            panic!("{error:?}");
        };
        assert!(capacity == most && needed > capacity && free <= memory.total);
        let (asked, found) = (Bytes(most).to_string(), Bytes(free).to_string());
        says(
            &error,
            &[&asked, &Bytes(needed).to_string(), &found, "ask for less"],
        );

        let error = refused(device.allocate(most));
        assert!(matches!(error, Error::OutOfMemory { asked, .. } if asked == most));
        says(&error, &[&asked, "free", "smaller"]);
        // Nothing was kept.
        works(&heap_on(device));
    });
}

/// Another holder has the memory: what is free is told, and asking for less works.
#[test]
fn memory_that_another_holder_has() {
    for_each_gpu("memory that another holder has", |device| {
        let free = device.memory_info().expect("the device works").free;
        let held = device.allocate(free - 512 * MIB).expect("it is free");
        let error = refused(Heap::builder(device).capacity(2048 * MIB).build());
        assert!(
            matches!(error, Error::OutOfDeviceMemory { free, .. } if free < 1024 * MIB),
            "{error:?}"
        );
        says(&error, &["2 GiB", "free", "ask for less"]);
        works(&heap_on(device));
        drop(held);
        let heap = Heap::builder(device).capacity(2048 * MIB).build();
        works(&heap.expect("the holder gave it back"));
    });
}

/// A process that may not have the memory, though the machine has it free.
#[cfg(all(unix, feature = "command"))]
#[test]
fn a_limit_of_the_process() {
    use std::process::Command;
    // Asked when it runs, because a bundle has it elsewhere. Cargo puts tests one directory below it.
    let scatterheap = std::env::var_os("CARGO_BIN_EXE_scatterheap").unwrap_or_else(|| {
        let test = std::env::current_exe().expect("a test is a program");
        let built = test.ancestors().nth(2).expect("it lies in `deps`");
        built.join("scatterheap").into()
    });
    let free = Device::cpu().memory_info().expect("the CPU works").free;
    // KiB: enough for the program, its threads and small heaps.
    let limit = 1 << 20;
    let run = |heap: &str| {
        let script =
            format!("ulimit -v {limit}; exec \"$0\" stress uniform --device cpu:2 --heap {heap}");
        let output = Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg(&scatterheap)
            .output();
        output.expect("there is a shell")
    };
    let output = run("16MiB");
    assert!(output.status.success(), "{output:?}");
    if free < 2500 * MIB {
        println!("skipped: a limit of the process: less than 2.5 GiB are free anyway");
        return;
    }
    let output = run("2GiB");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let expected =
        message.starts_with("error: a heap of 2 GiB needs ") && message.contains("ask for less");
    assert!(expected && message.lines().count() == 1, "{message}");
}

/// What the host cannot hold is refused, and not the end of the process.
#[test]
fn more_than_the_host_can_hold() {
    for_each_device("more than the host can hold", |device| {
        let bytes = u64::from(u32::MAX) << 24;
        // SAFETY: nothing is read from it: there is no room for what would be.
        let memory = unsafe { device.adopt(4096, bytes) };
        let count = usize::try_from(bytes).expect("64 bits");
        let error = refused(memory.read::<u8>(0, count));
        assert!(matches!(error, Error::OutOfHostMemory { asked } if asked == bytes));
        says(&error, &["host's memory", "free memory"]);
        works(&heap_on(device));
    });
}

#[test]
fn a_region_without_room() {
    for_each_device("a region without room", |device| {
        let memory = device.allocate(MIB).expect("there is memory");
        for bytes in [0, 1, 4096] {
            // SAFETY: the memory outlives the heap, and nobody else uses it.
            let builder = unsafe { Heap::builder(device).in_region(memory.address(), bytes) };
            let error = refused(builder.build());
            let Error::RegionTooSmall {
                address,
                bytes: given,
                needed,
            } = error
            else {
                panic!("{error:?}");
            };
            assert_eq!((address, given), (memory.address(), bytes));
            assert!(needed > MIN_CAPACITY);
            let (address, given) = (format!("{address:#x}"), Bytes(bytes).to_string());
            says(
                &error,
                &[&address, &given, &Bytes(needed).to_string(), "larger"],
            );
        }
    });
}

#[test]
fn a_heap_on_another_device() {
    let cpu = Device::cpu_with_threads(3);
    let another = Device::cpu_with_threads(2);
    let is_refused = |heap: &Heap, used: &Device| {
        let error = refused(heap.handle_on(used));
        assert!(matches!(error, Error::WrongDevice { .. }), "{error:?}");
        let (own, used) = (heap.device().label(), used.label());
        says(
            &error,
            &[&format!("a heap on {own}"), &used, "create a heap on each"],
        );
    };
    let heap = heap_on(&cpu);
    is_refused(&heap, &another);
    assert!(heap.handle_on(&cpu.clone()).is_ok());
    for_each_gpu("a heap on another device", |gpu| {
        is_refused(&heap, gpu);
        is_refused(&heap_on(gpu), &cpu);
    });
}

#[test]
fn impossible_grids() {
    for_each_device("impossible grids", |device| {
        for (blocks, block_dim) in [(0, 1), (1, 0), (1, 1025), (1 << 31, 1), (1 << 30, 1024)] {
            let grid = Grid { blocks, block_dim };
            // SAFETY: the kernel looks at nothing.
            let error = refused(unsafe { device.launch::<Idles>(grid, &NOTHING) });
            assert!(matches!(error, Error::BadGrid { .. }), "{error:?}");
            let asked = format!("{blocks} blocks of {block_dim} threads");
            says(&error, &[&asked, "1 to 1024 threads"]);
            // SAFETY: as above.
            let error = refused(unsafe { device.time::<Idles>(grid, &NOTHING) });
            assert!(matches!(error, Error::BadGrid { .. }), "{error:?}");
        }
    });
}

#[test]
fn memory_beyond_its_end() {
    for_each_device("beyond the end of memory", |device| {
        let memory = device.allocate(100).expect("there is memory");
        let errors = [
            refused(memory.read::<u64>(0, 13)),
            refused(memory.read::<u8>(101, 0)),
            refused(memory.read::<u64>(u64::MAX - 3, 1)),
            refused(memory.write(97, &[0_u32])),
        ];
        for error in errors {
            assert!(
                matches!(error, Error::OutOfBounds { bytes: 100, .. }),
                "{error:?}"
            );
            says(&error, &["asked for", "100 bytes"]);
        }
        memory.write(96, &[7_u32]).expect("it fits");
        assert_eq!(memory.read::<u32>(96, 1).expect("it fits"), [7]);
    });
}

#[test]
fn a_kernel_that_no_module_has() {
    for_each_gpu("a kernel that no module has", |device| {
        // SAFETY: the kernel looks at nothing.
        let error = refused(unsafe { device.launch::<Idles>(Grid::of(1), &NOTHING) });
        assert!(
            matches!(error, Error::NoSuchKernel("test_idles")),
            "{error:?}"
        );
        says(
            &error,
            &["`test_idles`", "no loaded module", "load the module"],
        );
        works(&heap_on(device));
    });
}

#[test]
fn ptx_that_the_driver_refuses() {
    for_each_gpu("PTX that the driver refuses", |device| {
        let nonsense = ".version 7.8\n.target sm_75\n.address_size 64\nnonsense_in_line_four;\n";
        let error = refused(device.load_module(nonsense));
        let Error::PtxRejected { message, log } = &error else {
            panic!("{error:?}");
        };
        println!("{error}");
        assert!(message.contains("PTX"), "{message}");
        // The driver's compiler names the line.
        assert!(log.contains("line 4"), "{log}");
        assert!(error.to_string().contains(log.as_str()));
        let error = refused(device.load_module("a zero \0 byte"));
        assert!(matches!(error, Error::PtxRejected { .. }), "{error:?}");
        works(&heap_on(device));
    });
}

#[test]
fn a_kernel_that_panics_on_the_cpu() {
    let device = Device::cpu_with_threads(4);
    let mut heap = heap_on(&device);
    for _ in 0..2 {
        // SAFETY: the kernel looks at nothing.
        let error = refused(unsafe { heap.launch::<Panics>(Grid::of(1000), &NOTHING) });
        assert!(
            matches!(
                error,
                Error::KernelFault {
                    kernel: Some("test_panics"),
                    ..
                }
            ),
            "{error:?}"
        );
        says(&error, &["`test_panics`", "panicked", "lost", "rebuild"]);
        heap.rebuild().expect("the heap can be rebuilt");
        works(&heap);
    }
}

/// Name of the test below, and of the variable that tells it which GPU is to fault.
const FAULTS: &str = "a_kernel_that_faults_on_a_gpu";

#[test]
fn a_kernel_that_faults_on_a_gpu() {
    if let Ok(label) = std::env::var(FAULTS) {
        let (faulty, others): (Vec<_>, Vec<_>) =
            gpus().iter().partition(|device| device.label() == label);
        let heaps: Vec<_> = others.into_iter().map(heap_on).collect();
        fault(faulty[0]);
        for heap in &heaps {
            println!("{} after a fault of {label}", heap.device());
            let error = refused(heap.reset().and_then(|()| heap.snapshot()));
            assert!(matches!(error, Error::LostWithAnother { .. }), "{error:?}");
            let own = heap.device().label();
            says(
                &error,
                &["`scatterheap_kernel_fill`", &label, &own, "new process"],
            );
            let error = refused(heap.handle());
            assert!(matches!(error, Error::HeapLost), "{error:?}");
        }
        return;
    }
    for_each_gpu("a kernel that faults", |device| {
        // The driver refuses every GPU to a process in which a kernel faulted: it is another
        // process that faults.
        let heap = heap_on(device);
        let executable = std::env::current_exe().expect("a test has an executable");
        let output = std::process::Command::new(executable)
            .args(["--exact", FAULTS, "--nocapture"])
            .env(FAULTS, device.label())
            .output()
            .expect("the test starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{printed}{errors}");
        works(&heap);
    });
}

fn fault(device: &Device) {
    let mut heap = heap_on(device);
    works(&heap);
    let blocks = device.allocate(size_of::<Block>() as u64);
    let blocks = blocks.expect("there is memory");
    // A block where there is no memory.
    let block = Block {
        address: 4096,
        bytes: 64,
    };
    blocks.write(0, &[block]).expect("the device works");
    let arguments = BlocksArguments {
        heap: heap.handle().expect("the heap is there"),
        blocks: blocks.address(),
        count: 1,
        tally: 0,
        first_owner: 0,
        sizes: Sizes {
            least: 1,
            most: 1,
            seed: 0,
        },
        stride: 1,
    };
    // SAFETY: it is not safe, since the kernel is to fault. Nothing on the device is used again.
    let launched = unsafe { heap.launch::<Fill>(Grid::of(1), &arguments) };
    let error = refused(launched.and_then(|()| device.synchronize()));
    let Error::KernelFault { kernel, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(kernel, Some("scatterheap_kernel_fill"));
    says(
        &error,
        &["`scatterheap_kernel_fill`", "ILLEGAL_ADDRESS", "lost"],
    );

    assert!(device.is_lost() && !blocks.is_alive());
    let lost = [
        refused(heap.handle()),
        refused(heap.snapshot()),
        refused(heap.reset()),
        refused(blocks.read::<u8>(0, 1)),
        refused(device.allocate(1)),
    ];
    for error in lost {
        assert!(matches!(error, Error::HeapLost), "{error:?}");
        says(&error, &["lost"]);
    }
    match heap.rebuild() {
        Ok(()) => works(&heap),
        // Drivers that cannot recover within the process: the message must say so.
        Err(error) => says(&error, &["process"]),
    }
}

#[test]
fn settings_of_a_workload_that_make_no_sense() {
    for_each_device("bad settings", |device| {
        let heap = heap_on(device);
        let run = |workload, change: &dyn Fn(&mut Settings)| {
            let mut settings = Settings::for_workload(workload, &heap);
            change(&mut settings);
            let error = refused(stress::run(&heap, workload, &settings, &mut |_, _| ()));
            assert!(matches!(error, Error::BadSettings { .. }), "{error:?}");
            error
        };
        let error = run(Workload::Uniform, &|settings| settings.threads = 0);
        says(&error, &["0 threads", "at least one"]);
        let error = run(Workload::Churn, &|settings| settings.rounds = 0);
        says(&error, &["0 rounds", "at least one"]);
        let error = run(Workload::Mixed, &|settings| settings.least = 0);
        says(&error, &["sizes from 0 to", "at least 1"]);
        let error = run(Workload::Mixed, &|settings| {
            settings.least = settings.most + 1;
        });
        says(&error, &["sizes from", "at most the largest"]);
        for workload in [Workload::CrossWarp, Workload::Exhaust] {
            let error = run(workload, &|settings| settings.least = 15);
            says(&error, &["15 bytes", workload.name(), "16 bytes or more"]);
        }
        let error = run(Workload::Grow, &|settings| settings.most = 8 * MIB + 1);
        says(&error, &["8388609 bytes", "larger than the heap"]);
        works(&heap);
    });
}

#[test]
fn replays_that_make_no_sense() {
    let trace = Trace::new([Operation::malloc(0, 1, 100), Operation::free(0, 1)]);
    let trace = trace.expect("the trace is valid");
    for_each_device("bad replays", |device| {
        let heap = heap_on(device);
        let run = |settings| refused(replay::run(&heap, &trace, &settings, &mut |_, _| ()));
        let usual = replay::Settings::default();
        for copies in [0, u32::MAX] {
            let error = run(replay::Settings {
                copies: Some(copies),
                ..usual
            });
            assert!(matches!(error, Error::BadSettings { .. }), "{error:?}");
            says(
                &error,
                &[&format!("{copies} copies of 32 lanes"), "at least one"],
            );
        }
        for settings in [
            replay::Settings { lanes: 0, ..usual },
            replay::Settings {
                windows: 0,
                ..usual
            },
        ] {
            let error = run(settings);
            assert!(matches!(error, Error::BadTrace(_)), "{error:?}");
            says(&error, &["cannot be replayed"]);
        }
        let empty = Trace::new([]).expect("an empty trace is valid");
        let report = replay::run(&heap, &empty, &usual, &mut |_, _| ());
        // But nothing was tried.
        assert!(!report.expect("an empty trace can be replayed").passed());
        works(&heap);
    });
}
