//! Which bits of the metadata there are, and which of them mean something.
//!
//! What means nothing is what `heap/src/inspect/check.rs` says that it does not verify. Here the
//! same is told once more, by making all bits equal that may be any: two copies of the metadata that
//! then are equal mean the same.

use super::workload::Random;
use scatterheap_heap::layout::Layout;
use scatterheap_heap::ticket::{NO_PAGE, Ticket};
use scatterheap_heap::{Core, Globals};
use std::mem::{offset_of, size_of};

/// Where the three counts of the quarantine lie in the globals: of blocks, which place comes next; and of exchanges that were begun, and done.
const QUARANTINE: u64 = offset_of!(Globals, quarantined) as u64;

/// A kind of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Head,
    Globals,
    Quarantine,
    Classes,
    Counters,
    SetStates,
    Summaries,
    SetWords,
    Stripes,
    Entries,
    Slabs,
    SlotWords,
}

pub const KINDS: [Kind; 12] = [
    Kind::Head,
    Kind::Globals,
    Kind::Quarantine,
    Kind::Classes,
    Kind::Counters,
    Kind::SetStates,
    Kind::Summaries,
    Kind::SetWords,
    Kind::Stripes,
    Kind::Entries,
    Kind::Slabs,
    Kind::SlotWords,
];

/// Where the elements of a kind lie.
struct Elements {
    /// Offset in bytes of the first.
    start: u64,
    count: u64,
    /// Bytes from one to the next.
    stride: u64,
    /// Bytes of them that the allocator uses; the others are padding.
    used: u64,
}

impl Kind {
    fn elements(self, layout: &Layout) -> Elements {
        let offsets = &layout.offsets;
        let classes = u64::from(layout.class_count);
        let (sets, pages) = (classes + 1, u64::from(layout.page_count));
        let (start, count, stride, used) = match self {
            Self::Head => (0, 1, size_of::<Core>() as u64, size_of::<Core>() as u64),
            Self::Globals => (offsets.globals, 1, size_of::<Globals>() as u64, 20),
            Self::Quarantine => (offsets.globals + QUARANTINE, 1, 24, 24),
            Self::Classes => (offsets.classes, classes, 16, 16),
            Self::Counters => (offsets.counters, classes + 1, 64, 48),
            Self::SetStates => (offsets.set_states, sets, 128, 12),
            Self::Summaries => {
                let words = u64::from(layout.summary_words());
                (offsets.set_summaries, sets * words, 8, 8)
            }
            Self::SetWords => {
                let words = u64::from(layout.set_words());
                (offsets.set_words, sets * words, 8, 8)
            }
            Self::Stripes => (offsets.stripes, layout.stripe_words().into(), 8, 8),
            Self::Entries => (offsets.entries, pages, 32, 8),
            Self::Slabs => (offsets.slabs, layout.slab_places(), 32, 4),
            Self::SlotWords => (offsets.slot_words, layout.slot_word_count(), 4, 4),
        };
        Elements {
            start,
            count,
            stride,
            used,
        }
    }

    /// One or two random bits of this kind, counted from the beginning of the metadata. Most are
    /// of what the allocator uses, a few of padding; two are often of one element. Elements that hold
    /// something are preferred: most of a heap's are blank.
    pub fn pick(self, layout: &Layout, metadata: &[u8], random: &mut Random) -> Vec<u64> {
        let elements = self.elements(layout);
        let choose = |random: &mut Random| {
            let mut element = random.below(elements.count);
            for _ in 0..random.below(8) {
                if self.holds_something(&elements, metadata, element) {
                    break;
                }
                element = random.below(elements.count);
            }
            element
        };
        let bit = |element: u64, random: &mut Random| {
            let bytes = if random.below(16) == 0 {
                elements.stride
            } else {
                elements.used
            };
            8 * (elements.start + element * elements.stride) + random.below(8 * bytes)
        };
        let first = choose(random);
        let mut bits = vec![bit(first, random)];
        if random.below(2) == 0 {
            let other = match random.below(2) {
                0 => first,
                _ => choose(random),
            };
            bits.push(bit(other, random));
            // The same bit twice is no flip.
            bits.dedup();
        }
        bits
    }
}

impl Kind {
    fn holds_something(self, elements: &Elements, metadata: &[u8], element: u64) -> bool {
        let start = usize::try_from(elements.start + element * elements.stride).expect("fits");
        let used = usize::try_from(elements.used).expect("fits");
        let bytes = &metadata[start..start + used];
        match (self, bytes.try_into()) {
            (Self::Stripes, Ok(word)) => Ticket(u64::from_le_bytes(word)).has_slab(),
            _ => bytes.iter().any(|byte| *byte != 0),
        }
    }
}

pub fn flip(bytes: &mut [u8], bits: &[u64]) {
    for bit in bits {
        bytes[usize::try_from(bit / 8).expect("fits")] ^= 1 << (bit % 8);
    }
}

/// A copy of the metadata with every bit that may be any at a fixed value.
pub fn meaning(bytes: &[u8], layout: &Layout) -> Vec<u8> {
    let mut meaning = Meaning {
        before: bytes,
        bytes: bytes.to_vec(),
        layout,
    };
    for kind in KINDS {
        meaning.without_padding(kind);
    }
    meaning.globals();
    meaning.quarantine();
    meaning.set_states();
    meaning.summaries();
    meaning.stripes();
    meaning.churn_notes();
    meaning.bytes
}

struct Meaning<'a> {
    before: &'a [u8],
    bytes: Vec<u8>,
    layout: &'a Layout,
}

impl Meaning<'_> {
    fn at(offset: u64) -> usize {
        usize::try_from(offset).expect("fits")
    }

    /// Pages that are wanted are a wish of a heap that grows, and their limit is a hint.
    fn globals(&mut self) {
        for number in [8, 16] {
            let start = Self::at(self.layout.offsets.globals + number);
            self.bytes[start..start + 4].fill(0);
        }
    }

    /// Of the exchanges it matters how many are on their way.
    fn quarantine(&mut self) {
        let counts = self.layout.offsets.globals + QUARANTINE;
        let on_their_way = self.word(counts + 8).wrapping_sub(self.word(counts + 16));
        for (count, word) in (0..).zip([0, on_their_way, 0]) {
            self.set_word(counts + 8 * count, word);
        }
    }

    fn word(&self, offset: u64) -> u64 {
        let start = Self::at(offset);
        u64::from_le_bytes(self.before[start..start + 8].try_into().expect("eight"))
    }

    fn set_word(&mut self, offset: u64, word: u64) {
        let start = Self::at(offset);
        self.bytes[start..start + 8].copy_from_slice(&word.to_le_bytes());
    }

    fn without_padding(&mut self, kind: Kind) {
        let Elements {
            start,
            count,
            stride,
            used,
        } = kind.elements(self.layout);
        // What is counted for diagnosis is no more than padding.
        let used = if kind == Kind::Counters { 0 } else { used };
        for element in 0..count {
            let first = Self::at(start + element * stride);
            self.bytes[first + Self::at(used)..first + Self::at(stride)].fill(0);
        }
    }

    /// Epochs may be any.
    fn set_states(&mut self) {
        let elements = Kind::SetStates.elements(self.layout);
        for set in 0..elements.count {
            let offset = elements.start + set * elements.stride;
            let count = self.word(offset) & u64::from(u32::MAX);
            self.set_word(offset, count);
        }
    }

    /// Summary bits over words without members may be any.
    fn summaries(&mut self) {
        let offsets = &self.layout.offsets;
        let words = u64::from(self.layout.set_words());
        let summary_words = u64::from(self.layout.summary_words());
        let sets = u64::from(self.layout.set_count());
        for index in 0..sets * summary_words {
            let offset = offsets.set_summaries + 8 * index;
            let (set, over) = (index / summary_words, index % summary_words * 64);
            let mut summary = self.word(offset);
            for bit in 0..64.min(words - over) {
                if self.word(offsets.set_words + 8 * (set * words + over + bit)) == 0 {
                    summary |= 1 << bit;
                }
            }
            self.set_word(offset, summary);
        }
    }

    /// What is noted of rows of stripes is a hint.
    fn churn_notes(&mut self) {
        for word in 0..16 * u64::from(self.layout.stripes) {
            self.set_word(self.layout.churn_notes() + 8 * word, 0);
        }
    }

    /// The generation of a stripe in use may be any, what is but a hint too, and the density one at which its slab has as
    /// many units as are left. The end of a row is padding.
    fn stripes(&mut self) {
        for place in 0..self.layout.stripe_words() {
            let offset = self.layout.offsets.stripes + 8 * u64::from(place);
            let Some((class, index)) = self.layout.stripe_at(place) else {
                self.set_word(offset, 0);
                continue;
            };
            if index >= self.layout.stripe_count(class) {
                continue;
            }
            let ticket = Ticket(self.word(offset));
            let mut word = ticket.without_hints().0 & !(15 << 35);
            if self.may_be_of_any_density(class, ticket) {
                word &= !(7 << 32);
            }
            self.set_word(offset, word);
        }
    }

    fn may_be_of_any_density(&self, class: u32, ticket: Ticket) -> bool {
        if ticket.page() == NO_PAGE || ticket.density() > 5 || ticket.order() > 8 {
            return false;
        }
        let slots = self.layout.slots(class, ticket.order());
        let units = slots.div_ceil(1 << ticket.density());
        (0..=i64::from(units)).contains(&i64::from(ticket.left()))
    }
}
