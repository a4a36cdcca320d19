//! Bytes as a heap's shape and what is asked of it.
//!
//! Every byte string is a program, and each operation is a few bytes in order, so that a fuzzer which
//! changes, removes or repeats bytes does the same to operations.

use crate::host_heap::HostHeap;
use crate::shadow_model::Operation;
use arbitrary::{Arbitrary, Result, Unstructured};
use heap_core::COUNT_BYTES;
use heap_core::layout::{Layout, MAX_STRIPES, MIN_CAPACITY};

/// Capacities from here on are rare: their metadata alone take a while to initialise and to check.
const LARGE_CAPACITY: u64 = 4 << 20;
/// Most bytes that are zeroed or copied at once.
const LARGEST_CONTENT: u64 = 4 << 20;

/// Shape of a heap.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes.
    pub capacity: u64,
    /// Stripes asked for.
    pub stripes: u32,
    /// Flags of the heap.
    pub flags: u32,
}

impl Shape {
    /// A heap of this shape.
    pub fn build(self) -> HostHeap {
        HostHeap::new(self.capacity, self.stripes, self.flags)
    }

    /// The same, but no larger than this.
    pub fn at_most(self, capacity: u64) -> Self {
        Self {
            capacity: self.capacity.min(capacity),
            ..self
        }
    }

    fn page_bytes(self) -> u64 {
        Layout::new(self.capacity, 1).map_or(1, |layout| layout.page_bytes())
    }
}

impl<'a> Arbitrary<'a> for Shape {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> Result<Self> {
        let kind: u8 = bytes.arbitrary()?;
        let more = u64::from(bytes.arbitrary::<u16>()?);
        let capacity = match kind {
            0..90 => MIN_CAPACITY,
            90..150 => MIN_CAPACITY + more,
            150..190 => MIN_CAPACITY + more * 4,
            190..230 => MIN_CAPACITY << (more % 7),
            230..252 => MIN_CAPACITY + more * 32,
            252..=255 => LARGE_CAPACITY + more * 256,
        };
        Ok(Self {
            capacity,
            stripes: u32::from(bytes.arbitrary::<u8>()?) % MAX_STRIPES + 1,
            flags: if bytes.arbitrary::<u8>()? & 1 == 0 {
                0
            } else {
                COUNT_BYTES
            },
        })
    }
}

/// A size of each kind of block that a heap has, and some that it has not.
pub fn size(bytes: &mut Unstructured<'_>, shape: Shape) -> Result<u64> {
    let Shape { capacity, .. } = shape;
    let page = shape.page_bytes();
    let kind: u8 = bytes.arbitrary()?;
    let more = u64::from(bytes.arbitrary::<u16>()?);
    Ok(match kind {
        0..80 => more % 256 + 1,
        80..140 => more % (4 * page) + 1,
        140..170 => 1 << (more % 24),
        170..200 => (more % 64 + 1) * page + (more >> 6) % 3 - 1,
        200..225 => ((capacity / 4 * more) >> 16) + 1,
        225..245 => capacity - ((capacity / 16 * more) >> 16) + page / 2,
        245..250 => capacity,
        250..253 => more % 2,
        253 => u64::MAX - more,
        254 => (1 << 63) + more,
        255 => u64::MAX / 2 - more,
    })
}

/// A number to choose a block by.
fn number(bytes: &mut Unstructured<'_>) -> Result<usize> {
    Ok(usize::from(bytes.arbitrary::<u16>()?))
}

/// An offset in the heap: often a multiple of 16, near the beginning of a page, or any.
fn offset(bytes: &mut Unstructured<'_>, shape: Shape) -> Result<u64> {
    let kind: u8 = bytes.arbitrary()?;
    let more = u64::from(bytes.arbitrary::<u32>()?);
    Ok(match kind % 4 {
        0 => more % shape.capacity,
        1 => (more % shape.capacity) & !15,
        2 => (more % shape.capacity) & !(shape.page_bytes() - 1),
        _ => shape.capacity - 1 - more % shape.capacity.min(64),
    })
}

/// The next operation.
///
/// # Errors
/// The bytes are used up.
pub fn operation(bytes: &mut Unstructured<'_>, shape: Shape) -> Result<Operation> {
    let size = |bytes: &mut _| size(bytes, shape);
    let content = |size: u64| {
        // What cannot be had is not zeroed or copied either.
        if size <= shape.capacity {
            size.min(LARGEST_CONTENT)
        } else {
            size
        }
    };
    let kind: u8 = bytes.arbitrary()?;
    Ok(match kind {
        0..70 => Operation::Malloc(size(bytes)?),
        70..80 => Operation::Calloc(1, content(size(bytes)?)),
        80..86 => Operation::Calloc(
            u64::from(bytes.arbitrary::<u8>()?),
            u64::from(bytes.arbitrary::<u8>()?),
        ),
        86..88 => Operation::Calloc(bytes.arbitrary()?, bytes.arbitrary::<u64>()? | 1 << 63),
        88..115 => Operation::Realloc(number(bytes)?, content(size(bytes)?)),
        115..135 => {
            let shift = u32::from(bytes.arbitrary::<u8>()?) % 20;
            Operation::Aligned(size(bytes)?.min(1 << 40), shift)
        }
        135..138 => Operation::Aligned(
            u64::from(bytes.arbitrary::<u8>()?) + 1,
            20 + u32::from(bytes.arbitrary::<u8>()?) % 42,
        ),
        138..185 => Operation::Free(number(bytes)?),
        185..197 => Operation::Again(number(bytes)?),
        197..207 => Operation::DoubleFree(number(bytes)?),
        207..217 => Operation::Interior(number(bytes)?, bytes.arbitrary::<u32>()?.into()),
        217..221 => Operation::Foreign(kind & 1 == 0, bytes.arbitrary::<u16>()?.into()),
        221..229 => Operation::Wild(offset(bytes, shape)?),
        229..232 => Operation::WildRealloc(offset(bytes, shape)?, size(bytes)?),
        232..240 => Operation::Fill(filling(size(bytes)?, shape)),
        240..246 => Operation::FreeEach(usize::from(bytes.arbitrary::<u8>()?) % 32 + 1),
        246..253 => Operation::StandIn(u32::from(bytes.arbitrary::<u8>()?)),
        253..=255 => Operation::Pack,
    })
}

/// A size that fills a heap in a bounded number of requests.
fn filling(size: u64, shape: Shape) -> u64 {
    size.max(shape.capacity / 1024)
}
