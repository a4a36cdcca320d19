//! Fault injection: bits of every kind of metadata are flipped, in used heaps of several shapes.
//!
//! For each flip of one or two random bits:
//!
//! - `check` reports it if it changes what the metadata mean, and says nothing if it does not;
//! - the allocator, used on by one or two threads, neither panics, nor hangs, nor touches memory
//!   outside the heap (whose metadata and pages lie between guards), nor hands out a block there. (Of a heap that grows all
//!   pages have memory here: blocks may lie in those that are not the heap's yet.)
//!
//! The flips are tried in a child process, so that a crash or a hang costs one of them. It is named
//! with what repeats it. `SCATTERHEAP_FLIPS` says how many are tried of each kind.
//!
//! One pair of flips is not to be seen in the metadata: a slot's bit that is set, and another of the
//! same slab that is cleared. That is another heap, as whole as the first.

#![cfg(all(feature = "inspect", unix, not(any(loom, shuttle))))]

mod metadata;
#[path = "../packing/mod.rs"]
mod packing;
mod region;
mod workload;

use metadata::{KINDS, Kind, flip, meaning};
use region::{Growing, GuardedHeap};
use scatterheap_heap::hardened::Hardening;
use scatterheap_heap::inspect::Snapshot;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use workload::{Random, Use, use_damaged, use_heap};

/// Flips of each kind where nothing else is said.
const FLIPS: u64 = 300;
const FLIPS_VARIABLE: &str = "SCATTERHEAP_FLIPS";
/// What the child is to try: kind, shape, first flip, end.
const ORDER_VARIABLE: &str = "SCATTERHEAP_FLIPS_OF";
/// The test that the child runs.
const CHILD: &str = "child";
/// What the child writes before each flip, and at the end.
const TRIES: &str = "tries ";
const DONE: &str = "tried all";
/// A flip takes milliseconds; a machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Failures of a kind after which no more flips are tried.
const ENOUGH_FAILURES: usize = 5;

/// A heap without modes.
const PLAIN: Hardening = Hardening::NONE;
/// A heap whose blocks have headers and ends.
const FRAMED: Hardening = Hardening::RED_ZONES;

/// The same with a quarantine.
const QUARANTINED: Hardening = Hardening::of_flags(FRAMED.flags() | Hardening::QUARANTINE.flags());

/// Heaps to damage: capacity, stripes, modes, whether they grow, how they were used.
const SHAPES: [(u64, u32, Hardening, Growing, Use); 12] = [
    (16 << 10, 1, PLAIN, Growing::No, Use::Half),
    (16 << 10, 4, PLAIN, Growing::No, Use::Full),
    (100_000, 8, PLAIN, Growing::No, Use::Aged),
    (1_000_000, 8, PLAIN, Growing::No, Use::Full),
    (1_300_000, 8, PLAIN, Growing::No, Use::Half),
    (5_000_000, 16, PLAIN, Growing::No, Use::Aged),
    (16 << 20, 1, PLAIN, Growing::No, Use::Churned),
    (100_000, 8, FRAMED, Growing::No, Use::Full),
    (1_300_000, 8, FRAMED, Growing::No, Use::Aged),
    (100_000, 8, QUARANTINED, Growing::No, Use::Full),
    (200_000, 4, PLAIN, Growing::Yes, Use::Full),
    (5_000_000, 8, PLAIN, Growing::Yes, Use::Aged),
];

/// Flips of one kind in one shape.
#[derive(Clone, Copy)]
struct Order {
    kind: usize,
    shape: usize,
    first: u64,
    end: u64,
}

impl Order {
    fn text(self) -> String {
        let Self {
            kind,
            shape,
            first,
            end,
        } = self;
        format!("{kind},{shape},{first},{end}")
    }

    fn parse(text: &str) -> Option<Self> {
        let numbers: Vec<u64> = text.split(',').flat_map(str::parse).collect();
        let [kind, shape, first, end] = numbers[..] else {
            return None;
        };
        Some(Self {
            kind: usize::try_from(kind)
                .ok()
                .filter(|kind| *kind < KINDS.len())?,
            shape: usize::try_from(shape)
                .ok()
                .filter(|shape| *shape < SHAPES.len())?,
            first,
            end,
        })
    }
}

/// A used heap and what is known of it.
struct Victim {
    heap: GuardedHeap,
    blocks: Vec<u64>,
    whole: Vec<u8>,
    quarantined: Vec<u64>,
    meaning: Vec<u8>,
}

impl Victim {
    fn new(shape: usize) -> Self {
        let (capacity, stripes, modes, growing, way) = SHAPES[shape];
        let heap = GuardedHeap::new(capacity, stripes, modes, growing);
        let blocks = use_heap(heap.heap(), shape as u64 + 1, way);
        let (whole, quarantined) = (heap.metadata(), heap.quarantined());
        let snapshot = Snapshot::new(whole.clone()).expect("a heap");
        assert_eq!(snapshot.violations(), [], "shape {shape} before any damage");
        let meaning = meaning(&whole, heap.heap().layout());
        Self {
            heap,
            blocks,
            whole,
            quarantined,
            meaning,
        }
    }

    /// Tries one flip.
    fn try_flip(&self, kind: Kind, number: u64) {
        let layout = *self.heap.heap().layout();
        let mut random = Random::new(number);
        let bits = kind.pick(&layout, &self.whole, &mut random);
        let mut damaged = self.whole.clone();
        flip(&mut damaged, &bits);
        self.check(kind, &damaged, &bits);
        // The head is constant and the host's to verify, see docs/testing.md.
        if kind != Kind::Head {
            self.heap.restore(&damaged, &self.quarantined);
            let threads = if number % 4 == 3 { 2 } else { 1 };
            use_damaged(&self.heap, &self.blocks, number, threads);
            self.heap.assert_whole();
        }
    }

    fn check(&self, kind: Kind, damaged: &[u8], bits: &[u64]) {
        let means_the_same = meaning(damaged, self.heap.heap().layout()) == self.meaning;
        let told = match Snapshot::new(damaged.to_vec()) {
            Err(error) => Some(error.to_string()),
            Ok(snapshot) if !snapshot.is_of(&self.heap.core()) => Some("another heap".into()),
            Ok(snapshot) => snapshot
                .check()
                .err()
                .map(|violation| violation.to_string()),
        };
        let unseen = kind == Kind::SlotWords && self.slots_are_exchanged(bits);
        assert!(
            told.is_none() == means_the_same || (told.is_none() && unseen),
            "bits {bits:?} of {kind:?} mean the same: {means_the_same}, but `check` says {told:?}"
        );
    }

    /// Whether of two slots in a slab one became free and the other not.
    fn slots_are_exchanged(&self, bits: &[u64]) -> bool {
        let layout = self.heap.heap().layout();
        let set = |bit: u64| self.whole[usize::try_from(bit / 8).expect("fits")] >> (bit % 8) & 1;
        let page =
            |bit: u64| (bit / 8 - layout.offsets.slot_words) / 4 / (layout.page_bytes() / 512);
        let entry = |page: u64| {
            let start = usize::try_from(layout.offsets.entries + 32 * page).expect("fits");
            u64::from_le_bytes(self.whole[start..start + 8].try_into().expect("eight"))
        };
        let [a, b] = *bits else {
            return false;
        };
        // Slabs are aligned, so pages of one differ in the bits of its order only.
        let order = entry(page(a)) & 15;
        set(a) != set(b) && page(a) >> order == page(b) >> order
    }
}

/// Not a test by itself: what the child does.
#[test]
fn child() {
    let Ok(order) = std::env::var(ORDER_VARIABLE) else {
        return;
    };
    let order = Order::parse(&order).expect("kind, shape, first and end");
    let victim = Victim::new(order.shape);
    let mut stdout = std::io::stdout();
    let mut say = |line: &str| {
        // On a line of its own: the harness has begun one.
        writeln!(stdout, "\n{line}").and_then(|()| stdout.flush())
    };
    for number in order.first..order.end {
        say(&format!("{TRIES}{number}")).expect("the parent listens");
        victim.try_flip(KINDS[order.kind], number);
    }
    say(DONE).expect("the parent listens");
}

/// How a child ended.
enum End {
    Done,
    /// At a flip, and why.
    At(u64, String),
}

fn start(order: Order) -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    Command::new(program)
        .args(["--exact", CHILD, "--nocapture", "--test-threads", "1"])
        .env(ORDER_VARIABLE, order.text())
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program can be started again")
}

fn lines(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn watch(order: Order) -> End {
    let mut child = start(order);
    let lines = lines(child.stdout.take().expect("piped"));
    let mut errors = child.stderr.take().expect("piped");
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        errors
            .read_to_string(&mut text)
            .map(|_| text)
            .unwrap_or_default()
    });
    let mut current = order.first;
    let mut is_done = false;
    let why = loop {
        match lines.recv_timeout(TIMEOUT) {
            Ok(line) => {
                if let Some(number) = line.strip_prefix(TRIES) {
                    current = number.parse().expect("a number");
                }
                is_done |= line == DONE;
            }
            Err(RecvTimeoutError::Timeout) => break "it hangs".to_owned(),
            Err(RecvTimeoutError::Disconnected) => break String::new(),
        }
    };
    if !why.is_empty() {
        child.kill().expect("it is ours");
    }
    let status = child.wait().expect("it is ours");
    if is_done && status.success() {
        return End::Done;
    }
    let said = said.join().unwrap_or_default();
    End::At(current, format!("{why} {status} {said}"))
}

fn flips() -> u64 {
    std::env::var(FLIPS_VARIABLE).map_or(FLIPS, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{FLIPS_VARIABLE} is `{text}`, which is no number of flips"))
    })
}

/// Tries flips of a kind in all shapes.
fn try_kind(kind: Kind) {
    let kind = KINDS
        .iter()
        .position(|other| *other == kind)
        .expect("listed");
    let end = flips().div_ceil(SHAPES.len() as u64);
    let mut failures = Vec::new();
    for shape in 0..SHAPES.len() {
        let mut first = 0;
        while first < end && failures.len() < ENOUGH_FAILURES {
            let order = Order {
                kind,
                shape,
                first,
                end,
            };
            let End::At(number, why) = watch(order) else {
                break;
            };
            let again = Order {
                first: number,
                end: number + 1,
                ..order
            };
            failures.push(format!(
                "repeat with {ORDER_VARIABLE}={} and the test `{CHILD}`: {why}",
                again.text()
            ));
            first = number + 1;
        }
    }
    assert!(
        failures.is_empty(),
        "{:?}: {}",
        KINDS[kind],
        failures.join("\n")
    );
    println!("{:?}: {} flips", KINDS[kind], end * SHAPES.len() as u64);
}

/// The slots' bitmap ends where the metadata do, and the last page where the heap does. So what a
/// damaged entry of that page leads beyond is not the heap's.
#[test]
fn entries_at_the_end_of_the_heap() {
    for bytes in [16, 24, 100, 400] {
        let heap = GuardedHeap::new(1 << 20, 8, PLAIN, Growing::No);
        while !heap.heap().malloc(bytes).is_null() {}
        let (whole, layout) = (heap.metadata(), *heap.heap().layout());
        let last_page = heap.heap().base() + layout.capacity - layout.page_bytes();
        let first_bit = 8 * (layout.offsets.entries + 32 * u64::from(layout.page_count - 1));
        for (first, second) in
            (0..64).flat_map(|first| (first..64).map(move |second| (first, second)))
        {
            let mut damaged = whole.clone();
            let mut bits = vec![first_bit + first, first_bit + second];
            bits.dedup();
            flip(&mut damaged, &bits);
            heap.restore(&damaged, &[]);
            for address in (last_page..last_page + layout.page_bytes()).step_by(16) {
                let usable = heap.heap().usable_size(address as *const u8);
                heap.assert_inside(address, usable);
                // SAFETY: what a damaged heap gave; nobody uses it.
                unsafe { heap.heap().free(address as *mut u8) };
            }
        }
    }
}

macro_rules! kinds {
    ($($name:ident: $kind:ident;)*) => {
        $(
            #[test]
            fn $name() {
                try_kind(Kind::$kind);
            }
        )*
    };
}

kinds! {
    the_head: Head;
    globals: Globals;
    counts_of_the_quarantine: Quarantine;
    constants_of_classes: Classes;
    counters: Counters;
    states_of_sets: SetStates;
    summaries: Summaries;
    words_of_sets: SetWords;
    stripes: Stripes;
    entries: Entries;
    states_of_slabs: Slabs;
    words_of_slots: SlotWords;
}
