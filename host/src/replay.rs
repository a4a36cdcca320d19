//! Replaying a real program's allocations: many copies at once, each spread over the lanes of a
//! warp, with every block's content verified.

use crate::device::Grid;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::latency::{CallLatency, DeviceLatencies};
use crate::monitor::ShownOperations;
use crate::stress::Progress;
use crate::tally::DeviceTally;
use crate::timeline::{Moment, Reached, Timeline};
use heap_core::inspect::{MisuseReport, Occupancy};
use kernels::replay::{Kind, Operation, Place, Replay, ReplayArguments, ReplayTimed};
use kernels::tally::Count;
use scatterheap_trace::{LaneSplit, Trace};
use serde::Serialize;
use simt::kernel::Kernel;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// Copies at once at most, where none are said.
const MAX_COPIES: u64 = 4096;
/// Copies on the CPU where none are said: it has few threads.
const CPU_COPIES: u64 = 8;
/// Windows after which the heap is looked at for its peak: a look costs more than a window.
const PEAK_LOOKS: usize = 8;

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Copies at once; as many as a quarter of the heap holds if nothing is said (lanes are not in
    /// step, so the copies' peak is above the program's).
    pub copies: Option<u32>,
    /// Lanes that each copy is spread over.
    pub lanes: u32,
    /// Launches that the trace is cut into, so that lanes stay in step.
    pub windows: u32,
    /// Moments at which the heap is looked at between windows, about; none if it is 0.
    pub moments: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            copies: None,
            lanes: 32,
            windows: 64,
            moments: 0,
        }
    }
}

/// Result of a replay. Same shape on every device.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// How the device is selected.
    pub device: String,
    /// Capacity of the heap in bytes.
    pub heap: u64,
    /// Operations of the trace, with the frees that the program left out.
    pub trace_operations: u64,
    /// Bytes live at once in the program at most.
    pub trace_peak_bytes: u64,
    /// Copies replayed at once.
    pub copies: u32,
    /// Lanes that each copy was spread over.
    pub lanes: u32,
    /// Launches.
    pub windows: u32,
    /// Calls that gave or took a block, in all copies.
    pub operations: u64,
    /// Seconds by the device's clock, filling and checking included.
    pub seconds: f64,
    /// Operations divided by seconds.
    pub operations_per_second: f64,
    /// Calls that gave NULL.
    pub nulls: u64,
    /// Blocks whose content was not what their owner wrote.
    pub corrupt: u64,
    /// Blocks not aligned as asked.
    pub misaligned: u64,
    /// Blocks not wholly inside the heap, or smaller than asked.
    pub out_of_bounds: u64,
    /// Blocks still allocated at the end.
    pub leaked: u64,
    /// Calls that the heap refused.
    pub misuses: MisuseReport,
    /// Invariants that did not hold at the end.
    pub violations: Vec<String>,
    /// The heap where it was fullest, as far as it was looked at.
    pub peak: Occupancy,
    /// The heap over time, if the settings ask for moments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Moment>,
    /// How long single calls took, if that was measured ([`time_calls`]).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<CallLatency>,
}

impl Report {
    /// Whether something was tried, and nothing was found wrong. NULL is not wrong.
    #[must_use]
    pub fn passed(&self) -> bool {
        let counts = [
            self.corrupt,
            self.misaligned,
            self.out_of_bounds,
            self.leaked,
            self.misuses.total(),
        ];
        self.operations > 0 && counts.iter().all(|count| *count == 0) && self.violations.is_empty()
    }
}

/// Replays a trace on a heap, which must be empty. Other threads' calls that empty or read it wait meanwhile.
///
/// # Errors
///
/// If the settings make no sense, or the device fails. What is found wrong is in the report.
pub fn run(
    heap: &Heap,
    trace: &Trace,
    settings: &Settings,
    progress: Progress<'_>,
) -> Result<Report> {
    let _turn = heap.take_turn();
    let mut replay = Replaying::new(heap, trace, settings)?;
    replay.look_at_beginning()?;
    for window in 0..settings.windows {
        replay.run_window::<Replay>(window)?;
        replay.look_after(window)?;
        progress(u64::from(window) + 1, u64::from(settings.windows));
    }
    replay.report()
}

/// Replays a trace on a heap, which must be empty, to know how long single calls take. The clocks cost time, so
/// this is no replay to take other figures from; the report says what was found wrong.
///
/// # Errors
///
/// As for [`run`].
pub fn time_calls(
    heap: &Heap,
    trace: &Trace,
    settings: &Settings,
    progress: Progress<'_>,
) -> Result<(Report, Vec<CallLatency>)> {
    let _turn = heap.take_turn();
    let latencies = DeviceLatencies::new(heap.device())?;
    let mut replay = Replaying::new(heap, trace, settings)?;
    replay.latencies = latencies.address();
    for window in 0..settings.windows {
        replay.run_window::<ReplayTimed>(window)?;
        progress(u64::from(window) + 1, u64::from(settings.windows));
    }
    Ok((replay.report()?, latencies.read()?))
}

/// Bytes that are live at the end of each window in a copy, as the program asked for them.
fn live_bytes(split: &LaneSplit) -> Vec<u64> {
    let mut live = HashMap::new();
    let mut bytes = 0_u64;
    let windows = (0..split.windows).map(|window| {
        for lane in 0..split.lanes {
            for operation in split.operations_of(window, lane) {
                let place = (lane, operation.slot);
                let old = if operation.kind == Kind::Free as u8 {
                    live.remove(&place)
                } else {
                    bytes = bytes.saturating_add(operation.size);
                    live.insert(place, operation.size)
                };
                bytes = bytes.saturating_sub(old.unwrap_or(0));
            }
        }
        bytes
    });
    windows.collect()
}

/// The windows at whose ends most bytes are live: there the heap is fullest, as all copies do the same.
fn fullest_windows(live_bytes: &[u64]) -> BTreeSet<u32> {
    let mut windows: Vec<_> = (0..).zip(live_bytes).collect();
    windows.sort_by_key(|(_, bytes)| Reverse(*bytes));
    let windows = windows.into_iter().map(|(window, _)| window);
    windows.take(PEAK_LOOKS).collect()
}

/// How many copies there are to be.
fn copies(heap: &Heap, settings: &Settings, peak_bytes: u64) -> Result<u32> {
    let usual = || usual_copies(heap, peak_bytes);
    let copies = settings.copies.unwrap_or_else(usual);
    if copies == 0 || copies.checked_mul(settings.lanes).is_none() {
        return Err(Error::BadSettings {
            asked: format!("{copies} copies of {} lanes", settings.lanes),
            advice: "use at least one copy, and fewer than 2^32 lanes in all",
        });
    }
    Ok(copies)
}

/// As many copies as a quarter of the heap holds.
fn usual_copies(heap: &Heap, peak_bytes: u64) -> u32 {
    let most = if heap.device().is_gpu() {
        MAX_COPIES
    } else {
        CPU_COPIES
    };
    let copies = heap.capacity() / 4 / peak_bytes.max(1);
    u32::try_from(copies.clamp(1, most)).unwrap_or(1)
}

/// A replay under way: the trace and the tables on the device.
struct Replaying<'a> {
    heap: &'a Heap,
    copies: u32,
    settings: &'a Settings,
    /// Of the trace: operations, and bytes live at once at most.
    trace: (u64, u64),
    /// See [`live_bytes`].
    live_bytes: Vec<u64>,
    /// See [`fullest_windows`].
    fullest_windows: BTreeSet<u32>,
    operations: crate::Memory,
    ranges: crate::Memory,
    tables: crate::Memory,
    places: u32,
    /// Before the tally, so that nobody looks at it when it is released.
    _shown: ShownOperations<'a>,
    tally: DeviceTally,
    seconds: f64,
    peak: Occupancy,
    timeline: Timeline,
    /// Address of the histogram, if calls are timed.
    latencies: u64,
}

impl<'a> Replaying<'a> {
    fn new(heap: &'a Heap, trace: &Trace, settings: &'a Settings) -> Result<Self> {
        let mut trace = trace.clone();
        trace.close();
        let summary = trace.summary();
        let split = trace
            .split_by_lane(settings.lanes, settings.windows)
            .map_err(|error| Error::BadTrace(error.to_string()))?;
        let copies = copies(heap, settings, summary.peak_live_bytes)?;
        let device = heap.device();
        // The trace's packed operation and the kernel's are the same 16 bytes.
        let packed: &[Operation] = bytemuck::cast_slice(&split.operations);
        let operations = device.allocate(size_of_val(packed) as u64)?;
        operations.write(0, packed)?;
        let ranges = device.allocate(size_of_val(split.offsets.as_slice()) as u64)?;
        ranges.write(0, &split.offsets)?;
        let places = split.slots_per_lane.max(1);
        let table = u64::from(places) * size_of::<Place>() as u64;
        let tables = device.allocate(table * u64::from(copies * settings.lanes))?;
        tables.clear()?;
        let tally = DeviceTally::new(device)?;
        let live_bytes = live_bytes(&split);
        // Not below: if it fails there, the tally goes before who is shown it.
        let peak = heap.snapshot()?.occupancy();
        Ok(Self {
            heap,
            copies,
            settings,
            trace: (summary.operations, summary.peak_live_bytes),
            fullest_windows: fullest_windows(&live_bytes),
            live_bytes,
            operations,
            ranges,
            tables,
            places,
            _shown: ShownOperations::new(heap, &tally),
            tally,
            seconds: 0.0,
            peak,
            timeline: Timeline::new(settings.moments),
            latencies: 0,
        })
    }

    fn run_window<K: Kernel<Arguments = ReplayArguments>>(&mut self, window: u32) -> Result<()> {
        let threads = self.copies * self.settings.lanes;
        let first_range = u64::from(window * self.settings.lanes) * size_of::<u32>() as u64;
        let arguments = ReplayArguments {
            heap: self.heap.handle()?,
            tally: self.tally.address(),
            count: u64::from(threads),
            lanes: u64::from(self.settings.lanes),
            operations: self.operations.address(),
            ranges: self.ranges.address() + first_range,
            tables: self.tables.address(),
            places: u64::from(self.places),
            latencies: self.latencies,
        };
        // SAFETY: the arrays were made for these copies and lanes, and live as long as `self`; so does the histogram.
        self.seconds += unsafe { self.heap.time::<K>(Grid::of(threads), &arguments)? };
        Ok(())
    }

    fn look_at_beginning(&mut self) -> Result<()> {
        if self.timeline.is_wanted() {
            let reached = Reached {
                asked_bytes: Some(0),
                ..Reached::default()
            };
            let snapshot = self.heap.snapshot()?;
            self.timeline
                .add("the heap was made".into(), reached, &snapshot);
        }
        Ok(())
    }

    /// Looks at the heap for its peak and for the timeline.
    fn look_after(&mut self, window: u32) -> Result<()> {
        let windows = self.settings.windows;
        let for_timeline = self.timeline.wants(window, windows, 1);
        let for_peak = self.fullest_windows.contains(&window);
        if !for_peak && !for_timeline {
            return Ok(());
        }
        let snapshot = self.heap.snapshot()?;
        if for_timeline {
            let counted = self.tally.read()?;
            // Who got NULL has no block, and what the trace says is not so.
            let live = self.live_bytes.get(window as usize);
            let live = live.filter(|_| counted.of(Count::Nulls) == 0);
            let reached = Reached {
                seconds: self.seconds,
                operations: counted.of(Count::Operations),
                asked_bytes: live.map(|bytes| bytes.saturating_mul(self.copies.into())),
            };
            self.timeline.add(
                format!("window {} of {windows}", window + 1),
                reached,
                &snapshot,
            );
        }
        let occupancy = snapshot.occupancy();
        if occupancy.used_bytes > self.peak.used_bytes {
            self.peak = occupancy;
        }
        Ok(())
    }

    fn report(self) -> Result<Report> {
        let counted = self.tally.read()?;
        self.heap.drain_quarantine()?;
        let snapshot = self.heap.snapshot()?;
        let occupancy = snapshot.occupancy();
        let operations = counted.of(Count::Operations);
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let operations_per_second = operations as f64 / self.seconds.max(1e-9);
        Ok(Report {
            device: self.heap.device().label(),
            heap: self.heap.capacity(),
            trace_operations: self.trace.0,
            trace_peak_bytes: self.trace.1,
            copies: self.copies,
            lanes: self.settings.lanes,
            windows: self.settings.windows,
            operations,
            seconds: self.seconds,
            operations_per_second,
            nulls: counted.of(Count::Nulls),
            corrupt: counted.of(Count::Corrupt),
            misaligned: counted.of(Count::Misaligned),
            out_of_bounds: counted.of(Count::OutOfBounds),
            leaked: occupancy.used_blocks,
            misuses: occupancy.misuses,
            violations: snapshot
                .violations()
                .iter()
                .map(ToString::to_string)
                .collect(),
            peak: self.peak,
            timeline: self.timeline.finish(),
            latencies: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn the_trace_and_the_kernel_mean_the_same_operations() {
        use scatterheap_trace::Kind as Traced;
        for (traced, kind) in [
            (Traced::Malloc, Kind::Malloc),
            (Traced::Calloc, Kind::Calloc),
            (Traced::Realloc, Kind::Realloc),
            (Traced::Free, Kind::Free),
        ] {
            assert_eq!(traced.code(), kind as u8);
        }
    }

    /// Two calls for each of 16 windows, after the second of which most bytes are live.
    fn early_peak() -> Trace {
        let two_small = "0,malloc,0,64,16\n0,malloc,1,64,16\n";
        let two_large = "0,malloc,2,4096,16\n0,malloc,3,4096,16\n";
        let without_large = "0,free,2,,\n0,free,3,,\n";
        let pairs = "0,malloc,4,64,16\n0,free,4,,\n".repeat(12);
        let without_small = "0,free,0,,\n0,free,1,,\n";
        let text = format!(
            "thread,operation,id,size,alignment\n{two_small}{two_large}{without_large}{pairs}{without_small}"
        );
        Trace::from_reader(text.as_bytes()).expect("a trace")
    }

    #[test]
    fn the_peak_is_the_same_with_and_without_a_timeline() {
        let device = Device::cpu();
        let heap = Heap::builder(&device).capacity(1 << 20).build();
        let heap = heap.expect("a heap");
        for moments in [0, 4, 16] {
            let settings = Settings {
                copies: Some(1),
                lanes: 1,
                windows: 16,
                moments,
            };
            let report = run(&heap, &early_peak(), &settings, &mut |_, _| ());
            let peak = report.expect("replayed").peak;
            assert_eq!((peak.used_blocks, peak.used_bytes), (4, 8320), "{moments}");
        }
    }

    #[test]
    fn few_windows_are_looked_at_and_the_fullest_among_them() {
        let rising: Vec<u64> = (0..64).collect();
        assert!(fullest_windows(&rising).into_iter().eq(56..64));
        assert_eq!(fullest_windows(&[7; 64]).len(), PEAK_LOOKS);
        assert!(fullest_windows(&[1, 0]).into_iter().eq(0..2));
        assert!(fullest_windows(&[]).is_empty());
    }
}
