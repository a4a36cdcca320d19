//! The options that say how a heap is to be: hardened, growing.

use super::Common;
use super::output::note;
use anyhow::Result;
use scatterheap::size::Bytes;
use scatterheap::{Device, Growth, Hardening, Heap};

/// How a heap is to be.
#[derive(Debug, clap::Args)]
pub struct HeapArguments {
    /// Hardened modes of the heap: `all`, or some of red-zones, poison, zero, quarantine, trap and
    /// tags, with commas between
    #[arg(long, value_name = "MODES", default_value_t = Hardening::NONE)]
    harden: Hardening,
    /// Size up to which the heap may grow [default: it does not]
    #[arg(long, value_name = "SIZE")]
    max_heap: Option<Bytes>,
    /// When it grows: between-launches or live [default: between-launches]
    #[arg(long, value_name = "WHEN", requires = "max_heap")]
    growth: Option<Growth>,
}

/// How large a heap is that had `first` bytes when it was made: `64 MiB`, `64 MiB (at most 1 GiB)`, or
/// `64 MiB, grown to 128 MiB (at most 1 GiB)`.
pub fn size(heap: &Heap, first: Bytes) -> String {
    let (now, most) = (Bytes(heap.capacity()), Bytes(heap.max_capacity()));
    if most == first {
        return first.to_string();
    }
    if now == first {
        return format!("{first} (at most {most})");
    }
    format!("{first}, grown to {now} (at most {most})")
}

impl HeapArguments {
    /// The hardened modes that were asked for.
    pub fn modes(&self) -> Hardening {
        self.harden
    }

    /// Creates the heap. If it cannot grow as was asked for, it says so.
    pub fn build(&self, common: &Common, device: &Device, count_bytes: bool) -> Result<Heap> {
        let mut builder = Heap::builder(device)
            .capacity(common.capacity(device)?)
            .count_bytes(count_bytes)
            .harden(self.harden);
        if let Some(most) = self.max_heap {
            builder = builder.max_capacity(most.0);
        }
        if let Some(growth) = self.growth {
            builder = builder.growth(growth);
        }
        let heap = builder.build()?;
        if let Some(notice) = heap.growth_notice() {
            note(&notice);
        }
        Ok(heap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_that_grew_tells_from_where() {
        let device = Device::cpu();
        let (first, most) = (Bytes(1 << 20), Bytes(4 << 20));
        let whole = Heap::builder(&device).capacity(first.0).build();
        assert_eq!(size(&whole.expect("a heap"), first), "1 MiB");
        let growing = Heap::builder(&device)
            .capacity(first.0)
            .max_capacity(most.0);
        let heap = growing.build().expect("a heap");
        assert_eq!(size(&heap, first), "1 MiB (at most 4 MiB)");
        heap.grow(first.0).expect("it may grow");
        assert_eq!(size(&heap, first), "1 MiB, grown to 2 MiB (at most 4 MiB)");
    }
}
