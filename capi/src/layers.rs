//! Builds what a composition says, and keeps hold of the parts that can be asked something.

use crate::composition::{Adaptor, Base, Composition};
use crate::error::{Error, Result};
use crate::figures::{Figures, Place, add, raise};
use crate::shared_arena::SharedArena;
use scatterheap_host::Device;
use scatterheap_host::resource::adaptor::Report;
use scatterheap_host::resource::{
    BlockPool, Buddy, Caching, Configuration, DeviceMemory, Fragmentation, Limiting, Logging,
    MemoryResource, Remapping, Segments, Slab, Statistics, Tracking, Usage,
};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

/// Any resource.
type Shared = Arc<dyn MemoryResource>;
type Log = Logging<Shared, BufWriter<File>>;
/// Adds what a part knows to the figures. Parts are asked from the innermost on.
type View = Box<dyn Fn(&mut Figures) + Send + Sync>;

/// The parts of a resource.
pub struct Layers {
    /// The outermost part, through which all calls go.
    pub memory: Shared,
    views: Vec<View>,
    spans: Option<Box<dyn Fn() -> Vec<Place> + Send + Sync>>,
    tracking: Option<Arc<Tracking<Shared>>>,
    logs: Vec<Arc<Log>>,
    arena: Option<Arc<SharedArena>>,
    has_adaptors: bool,
}

impl Layers {
    /// Builds what a composition says on a device.
    ///
    /// # Errors
    ///
    /// If there is not as much memory, a file cannot be made, or a size makes no sense.
    pub fn build(composition: &Composition, device: &Device) -> Result<Self> {
        let mut layers = Self::base(&composition.base, device)?;
        for adaptor in composition.adaptors.iter().rev() {
            layers.wrap(adaptor)?;
        }
        layers.has_adaptors = !composition.adaptors.is_empty();
        Ok(layers)
    }

    fn of(memory: Shared) -> Self {
        Self {
            memory,
            views: Vec::new(),
            spans: None,
            tracking: None,
            logs: Vec::new(),
            arena: None,
            has_adaptors: false,
        }
    }

    fn base(base: &Base, device: &Device) -> Result<Self> {
        let memory = || DeviceMemory::new(device);
        Ok(match base {
            Base::Default => {
                let caching = Arc::new(Configuration::from_environment()?.build(device)?);
                let mut layers = Self::of(caching.clone());
                let see = move |figures: &mut Figures| see_usage(figures, caching.usage());
                layers.views.push(Box::new(see));
                layers
            }
            Base::Remapping => {
                let remapping = Arc::new(Remapping::new(device)?);
                let mut layers = Self::of(remapping.clone());
                layers.views.push(Box::new(move |figures| {
                    see_fragmentation(figures, remapping.fragmentation());
                    add(&mut figures.waits, remapping.waits());
                }));
                layers
            }
            Base::Caching => {
                let caching = Arc::new(Caching::new(Segments::new(memory())));
                let mut layers = Self::of(caching.clone());
                let (cache, below) = (caching.clone(), caching.clone());
                layers.views.push(Box::new(move |figures| {
                    see_segments(figures, below.upstream());
                    see_usage(figures, cache.usage());
                }));
                layers.spans = Some(Box::new(move || places(caching.upstream())));
                layers
            }
            Base::Segments => {
                let segments = Arc::new(Segments::new(memory()));
                let mut layers = Self::of(segments.clone());
                layers.watch_segments(segments);
                layers
            }
            Base::Device => Self::of(Arc::new(memory())),
            Base::Slab => Self::of(Arc::new(Slab::new(memory()))),
            Base::Buddy(bytes) => {
                let buddy = Arc::new(Buddy::new(memory(), *bytes)?);
                let mut layers = Self::of(buddy.clone());
                layers.views.push(Box::new(move |figures| {
                    see_free(figures, buddy.free_bytes(), buddy.largest_free());
                }));
                layers
            }
            Base::Pool { block_bytes, count } => {
                let pool = BlockPool::new(memory(), *block_bytes, *count)?;
                Self::of(Arc::new(pool))
            }
            Base::Arena(bytes) => Self::arena(device, *bytes)?,
        })
    }

    fn arena(device: &Device, bytes: u64) -> Result<Self> {
        let arena = Arc::new(SharedArena::new(device, bytes)?);
        let mut layers = Self::of(arena.clone());
        let below = arena.clone();
        layers.views.push(Box::new(move |figures| {
            let (committed, used) = below.committed_and_used();
            let free = committed.saturating_sub(used);
            see_free(figures, free, free);
        }));
        layers.arena = Some(arena);
        Ok(layers)
    }

    /// Asks segments for figures and places.
    fn watch_segments<U: MemoryResource + 'static>(&mut self, segments: Arc<Segments<U>>) {
        let seen = segments.clone();
        self.views.push(Box::new(move |figures| {
            see_segments(figures, &seen);
        }));
        self.spans = Some(Box::new(move || places(&segments)));
    }

    /// Puts an adaptor around what there is.
    fn wrap(&mut self, adaptor: &Adaptor) -> Result<()> {
        let below = self.memory.clone();
        match adaptor {
            Adaptor::Statistics => {
                let statistics = Arc::new(Statistics::new(below));
                self.memory = statistics.clone();
                let see = move |figures: &mut Figures| see_counts(figures, &statistics);
                self.views.push(Box::new(see));
            }
            Adaptor::Tracking { takes_backtraces } => {
                let tracking = Arc::new(if *takes_backtraces {
                    Tracking::new(below)
                } else {
                    Tracking::without_backtraces(below)
                });
                self.memory = tracking.clone();
                self.tracking = Some(tracking);
            }
            Adaptor::Limit(bytes) => self.memory = Arc::new(Limiting::new(below, *bytes)),
            Adaptor::Trace(file) => {
                let log = Arc::new(Logging::new(below, BufWriter::new(make(file)?)));
                self.memory = log.clone();
                self.logs.push(log);
            }
            Adaptor::Caching => {
                let caching = Arc::new(Caching::new(below));
                self.memory = caching.clone();
                let see = move |figures: &mut Figures| see_usage(figures, caching.usage());
                self.views.push(Box::new(see));
            }
            Adaptor::Segments => {
                let segments = Arc::new(Segments::new(below));
                self.memory = segments.clone();
                self.watch_segments(segments);
            }
        }
        Ok(())
    }

    /// What the parts count.
    pub fn figures(&self) -> Figures {
        let live = self.memory.live();
        // The device's handle is this resource's alone.
        let taken = self.memory.device().usage();
        let mut figures = Figures {
            live_blocks: live.blocks,
            live_bytes: live.bytes,
            reserved_bytes: taken.bytes,
            peak_reserved_bytes: taken.peak_bytes,
            ..Figures::default()
        };
        for see in &self.views {
            see(&mut figures);
        }
        figures
    }

    /// How the memory lies, by address; nothing where the resource has no map.
    pub fn places(&self) -> Vec<Place> {
        self.spans.as_ref().map_or_else(Vec::new, |spans| spans())
    }

    /// What is not deallocated yet, if it is tracked.
    pub fn tracked(&self) -> Option<Report> {
        self.tracking.as_ref().map(|tracking| tracking.report())
    }

    /// Writes what logs have in memory.
    ///
    /// # Errors
    ///
    /// If one cannot be written.
    pub fn flush(&self) -> Result<()> {
        for log in &self.logs {
            log.flush()?;
        }
        Ok(())
    }

    /// Whether there is a log.
    pub fn has_log(&self) -> bool {
        !self.logs.is_empty()
    }

    /// The arena, if it is alone: adaptors would not notice that it is emptied.
    pub fn lone_arena(&self) -> Option<&SharedArena> {
        let arena = self.arena.as_deref();
        arena.filter(|_| !self.has_adaptors)
    }
}

fn make(file: &Path) -> Result<File> {
    File::create(file).map_err(|error| Error::TraceFile(file.display().to_string(), error))
}

fn see_usage(figures: &mut Figures, usage: Usage) {
    add(&mut figures.hits, usage.hits);
    add(&mut figures.misses, usage.misses);
    add(&mut figures.kept_bytes, usage.kept);
    add(&mut figures.waits, usage.waits);
}

/// The outermost ones count the program's calls, so theirs stand.
fn see_counts(figures: &mut Figures, statistics: &Statistics<Shared>) {
    let counts = statistics.counts();
    figures.allocations = counts.allocations;
    figures.deallocations = counts.deallocations;
    figures.failures = counts.failures;
    figures.peak_bytes = counts.peak_bytes;
    figures.total_bytes = counts.total_bytes;
}

fn see_segments<U: MemoryResource>(figures: &mut Figures, segments: &Segments<U>) {
    see_fragmentation(figures, segments.fragmentation());
    add(&mut figures.waits, segments.waits());
}

fn see_fragmentation(figures: &mut Figures, found: Fragmentation) {
    see_free(figures, found.free, found.largest_free);
    add(&mut figures.free_pieces, found.free_pieces);
}

/// What a part has free it has from the device, or from the part below, where it is not free: it is counted once.
fn see_free(figures: &mut Figures, free: u64, largest: u64) {
    add(&mut figures.free_bytes, free);
    raise(&mut figures.largest_free_bytes, largest);
}

fn places<U: MemoryResource>(segments: &Segments<U>) -> Vec<Place> {
    let spans = segments.spans().into_iter();
    spans
        .map(|span| Place {
            address: span.address,
            bytes: span.bytes,
            is_free: span.is_free.into(),
            begins_segment: span.begins_segment.into(),
        })
        .collect()
}
