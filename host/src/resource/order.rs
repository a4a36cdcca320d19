//! Which streams' work must be done before a free piece of memory is used again.
//!
//! A [`Mask`] names those streams, one bit for each that a resource has seen. It comes with a piece
//! of memory when it is freed, and pieces that are merged have the bits of both. Nothing is recorded
//! at that time: only when the piece is handed out to *another* stream does that stream wait, for
//! all that was enqueued on the streams of the mask so far, which includes what came before the
//! free. So memory that goes back and forth on one stream costs no call of the driver.

use super::Result;
use crate::device::Stream;

/// Streams, as bits of a resource's [`Order`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mask(u64);

impl Mask {
    /// Of memory that no work has touched yet.
    pub const NONE: Self = Self(0);

    /// The streams of both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The same if it is of one stream at most, else one mask for all others.
    pub fn or_mixed(self) -> Self {
        if self.0.count_ones() <= 1 {
            self
        } else {
            Self(u64::MAX)
        }
    }

    /// Whether work of the streams of `other` need not wait for it.
    pub fn is_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }
}

/// The streams that a resource has seen, each with a bit. It is part of what the resource's lock
/// guards.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The streams of each bit. Those that come after the 64th share the last one.
    bits: Vec<Vec<Stream>>,
    /// How often a stream was made to wait for another.
    waits: u64,
}

/// Streams that share the last bit before those that are not in use are forgotten.
const MOST_SHARING: usize = 64;

/// Takes out the streams that nobody else has and whose work is done: waits for it, and nobody can
/// enqueue more.
fn forget_idle(streams: &mut Vec<Stream>) {
    streams.retain(|stream| stream.is_shared() || stream.synchronize().is_err());
}

impl Order {
    /// The bit of a stream.
    pub fn mask(&mut self, stream: &Stream) -> Mask {
        let known = self
            .bits
            .iter()
            .position(|streams| streams.contains(stream));
        let index = known.unwrap_or_else(|| {
            if self.bits.len() < 64 {
                self.bits.push(Vec::new());
            }
            let index = self.bits.len() - 1;
            if self.bits[index].len() > MOST_SHARING {
                forget_idle(&mut self.bits[index]);
            }
            self.bits[index].push(stream.clone());
            index
        });
        Mask(1 << index)
    }

    /// Lets `stream` wait until the work of all streams of `mask` that is enqueued by now is done.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn join(&mut self, mask: Mask, stream: &Stream) -> Result<()> {
        if mask == Mask::NONE {
            return Ok(());
        }
        for (index, streams) in self.bits.iter().enumerate() {
            if mask.0 >> index & 1 == 0 {
                continue;
            }
            for other in streams.iter().filter(|other| *other != stream) {
                stream.wait(&other.record()?)?;
                self.waits += 1;
            }
        }
        Ok(())
    }

    /// Waits for all work of all streams, so that all masks may be [`Mask::NONE`] from now on, and
    /// forgets the streams.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn settle(&mut self) -> Result<()> {
        for stream in self.bits.iter().flatten() {
            stream.synchronize()?;
        }
        self.bits.clear();
        Ok(())
    }

    /// How often a stream was made to wait for another.
    pub fn waits(&self) -> u64 {
        self.waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    #[test]
    fn a_stream_waits_for_others_but_not_for_itself() {
        let device = Device::cpu();
        let mut order = Order::default();
        let streams: Vec<_> = (0..3)
            .map(|_| Stream::new(&device).expect("a stream"))
            .collect();
        let masks: Vec<_> = streams.iter().map(|stream| order.mask(stream)).collect();
        assert_eq!(order.mask(&streams[1].clone()), masks[1]);
        order.join(Mask::NONE, &streams[0]).expect("waits");
        order.join(masks[0], &streams[0]).expect("waits");
        assert_eq!(order.waits(), 0);
        order
            .join(masks[0].and(masks[1]).and(masks[2]), &streams[0])
            .expect("waits");
        assert_eq!(order.waits(), 2);
        assert!(masks[0].is_within(masks[0].and(masks[1])));
        assert!(!masks[0].is_within(masks[1]));
    }

    #[test]
    fn streams_that_are_gone_are_forgotten() {
        let device = Device::cpu();
        let mut order = Order::default();
        for _ in 0..1000 {
            order.mask(&Stream::new(&device).expect("a stream"));
        }
        let known: usize = order.bits.iter().map(Vec::len).sum();
        assert!(known < 63 + 2 * MOST_SHARING, "{known}");
    }

    #[test]
    fn more_streams_than_bits_share_the_last() {
        let device = Device::cpu();
        let mut order = Order::default();
        let streams: Vec<_> = (0..70)
            .map(|_| Stream::new(&device).expect("a stream"))
            .collect();
        let masks: Vec<_> = streams.iter().map(|stream| order.mask(stream)).collect();
        assert_ne!(masks[62], masks[63]);
        assert_eq!(masks[63], masks[69]);
        // The streams of the last bit are 7; a stream of them waits for the other 6.
        order.join(masks[64], &streams[64]).expect("waits");
        assert_eq!(order.waits(), 6);
    }
}
