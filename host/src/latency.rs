//! How long single calls took on the device: the histogram of [`kernels::latency`], read back.

use crate::device::Device;
use crate::error::Result;
use crate::memory::Memory;
use kernels::latency::{BUCKETS, CALLS, COPIES, Call, Latencies, least_of};
use serde::{Deserialize, Serialize};

/// How long the calls of one kind took. Each time includes a look at the clock and, on a GPU, that lanes of a warp work
/// together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallLatency {
    /// `malloc` (with `calloc` and `aligned_alloc`), `realloc` or `free`.
    pub call: String,
    /// Calls.
    pub count: u64,
    /// Nanoseconds that half of the calls did not pass; like the others known to a quarter of itself.
    pub p50: f64,
    /// The same of 90 in 100 calls.
    pub p90: f64,
    /// The same of 99 in 100 calls.
    pub p99: f64,
    /// The same of 999 in 1000 calls.
    pub p999: f64,
    /// Nanoseconds that no call reached.
    pub most: f64,
    /// The calls by time, from the first time that there was to the last.
    pub buckets: Vec<Bucket>,
}

/// Calls that took about as long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Nanoseconds that each took at least.
    pub from: f64,
    /// Nanoseconds that none reached.
    pub to: f64,
    /// How many.
    pub count: u64,
}

/// A histogram on a device.
pub(crate) struct DeviceLatencies(Memory);

/// 64-bit words of a copy, with what fills it up.
const WORDS: usize = size_of::<Latencies>() / 8;

impl DeviceLatencies {
    pub fn new(device: &Device) -> Result<Self> {
        let memory = device.allocate((COPIES * size_of::<Latencies>()) as u64)?;
        memory.clear()?;
        Ok(Self(memory))
    }

    pub fn address(&self) -> u64 {
        self.0.address()
    }

    /// The calls that there were.
    pub fn read(&self) -> Result<Vec<CallLatency>> {
        let words = self.0.read::<u64>(0, COPIES * WORDS)?;
        let mut sums = [0_u64; WORDS];
        for copy in words.chunks_exact(WORDS) {
            for (sum, word) in sums.iter_mut().zip(copy) {
                *sum += word;
            }
        }
        let (calls, clocks) = sums.split_at(CALLS * BUCKETS);
        #[allow(clippy::cast_precision_loss, reason = "a rate for people")]
        let tick = clocks[1] as f64 / clocks[0].max(1) as f64;
        let kinds = [
            (Call::Malloc, "malloc"),
            (Call::Realloc, "realloc"),
            (Call::Free, "free"),
        ];
        let calls = kinds.into_iter().filter_map(|(call, name)| {
            let begin = call as usize * BUCKETS;
            CallLatency::new(name, &calls[begin..begin + BUCKETS], tick)
        });
        Ok(calls.collect())
    }
}

impl CallLatency {
    /// The calls that were counted in buckets of ticks of `tick` nanoseconds; nothing if there were none.
    #[allow(clippy::cast_precision_loss, reason = "times for people")]
    fn new(call: &str, counts: &[u64], tick: f64) -> Option<Self> {
        let first = counts.iter().position(|count| *count > 0)?;
        let last = counts.iter().rposition(|count| *count > 0)?;
        let edge = |bucket: usize| least_of(bucket) as f64 * tick;
        let buckets: Vec<_> = (first..=last)
            .map(|bucket| Bucket {
                from: edge(bucket),
                to: edge(bucket + 1),
                count: counts[bucket],
            })
            .collect();
        Some(Self {
            call: call.to_owned(),
            count: counts.iter().sum(),
            p50: quantile(&buckets, 0.5),
            p90: quantile(&buckets, 0.9),
            p99: quantile(&buckets, 0.99),
            p999: quantile(&buckets, 0.999),
            most: edge(last + 1),
            buckets,
        })
    }
}

/// The time below which a share of the calls lies, between the edges of its bucket by proportion.
#[allow(clippy::cast_precision_loss, reason = "times for people")]
fn quantile(buckets: &[Bucket], share: f64) -> f64 {
    let total: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let wanted = share * total as f64;
    let mut below = 0.0;
    for bucket in buckets {
        let count = bucket.count as f64;
        if count > 0.0 && below + count >= wanted {
            return bucket.from + (bucket.to - bucket.from) * (wanted - below) / count;
        }
        below += count;
    }
    buckets.last().map_or(0.0, |bucket| bucket.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_where_the_calls_are() {
        let mut counts = [0; BUCKETS];
        // 990 calls of 4 ticks, 10 of 64.
        counts[kernels::latency::bucket(4)] = 990;
        counts[kernels::latency::bucket(64)] = 10;
        let latency = CallLatency::new("malloc", &counts, 2.0).expect("calls");
        assert_eq!(latency.count, 1000);
        assert_eq!(
            latency.buckets.len(),
            kernels::latency::bucket(64) - kernels::latency::bucket(4) + 1
        );
        for (quantile, from, to) in [
            (latency.p50, 8.0, 10.0),
            (latency.p99, 8.0, 10.0),
            (latency.p999, 128.0, 160.0),
        ] {
            assert!((from..=to).contains(&quantile), "{latency:?}");
        }
        assert!((latency.most - 160.0).abs() < 1e-9);
    }

    #[test]
    fn no_calls_have_no_latency() {
        assert_eq!(CallLatency::new("free", &[0; BUCKETS], 1.0), None);
    }
}
