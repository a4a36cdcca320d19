//! Runs a plan: case after case in an order by chance, and in each the allocators in turn.

use crate::allocator::Allocator;
use crate::bench::{Bench, Ground};
use crate::case::{Case, Test};
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::row::Event;
use crate::tests;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use scatterheap_host::Device;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measures what the plan says, and tells it as it is found. The device must have the kernels of scatterheap, and
/// those of [`module`](crate::module).
///
/// An allocator that fails in a case is told of, and goes on with the next case with a new heap. When `stop` is set,
/// from a signal's handler for example, nothing more is begun.
///
/// # Errors
///
/// If a case is none that the kernels of its test can do ([`Error::BadCase`]): then nothing is
/// measured. The same if an allocator is of another device ([`Error::OtherDevice`]). Or if the device is lost, so that nothing can
/// go on.
pub fn run(
    plan: &Plan,
    device: &Device,
    allocators: &mut [Box<dyn Allocator>],
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<()> {
    plan.check()?;
    allocators
        .iter()
        .try_for_each(|allocator| refuse_other_devices(device, &**allocator))?;
    // Relaxed: nothing else is told by it.
    let is_stopped = || stop.load(Ordering::Relaxed);
    let mut heaps = Heaps::new(allocators);
    for case in shuffled(plan) {
        if is_stopped() {
            break;
        }
        let ground = Ground { device, plan, case };
        if let Some((name, measure)) = tests::baseline(case.test) {
            let outcome = |figures: &mut Figures<'_>| measure(&ground, figures);
            attempt(device, case, name, on_event, outcome)?;
        }
        for index in 0..heaps.allocators.len() {
            if is_stopped() || !heaps.allocators[index].takes(&case) {
                continue;
            }
            let name = heaps.allocators[index].name().to_owned();
            let done = attempt(device, case, &name, on_event, |figures| {
                let allocator = heaps.prepare(index, plan, &case)?;
                let figures = Figures {
                    case,
                    allocator: name.clone(),
                    on_event: &mut *figures.on_event,
                };
                tests::measure(&mut Bench {
                    ground,
                    allocator,
                    figures,
                })
            })?;
            if !done {
                heaps.destroy(index);
            }
        }
    }
    Ok(())
}

/// Refuses an allocator whose blocks and handle kernels of the device cannot use.
fn refuse_other_devices(device: &Device, allocator: &dyn Allocator) -> Result<()> {
    match allocator.device() {
        Some(its) if !its.is_same(device) => Err(Error::OtherDevice {
            allocator: allocator.name().to_owned(),
            its: its.label(),
            measured: device.label(),
        }),
        _ => Ok(()),
    }
}

fn shuffled(plan: &Plan) -> Vec<Case> {
    let mut cases = plan.cases.clone();
    cases.shuffle(&mut StdRng::seed_from_u64(plan.seed));
    cases
}

/// Tells that something begins, does it, and tells if it failed. Whether it did not; an error if the device is lost.
fn attempt(
    device: &Device,
    case: Case,
    name: &str,
    on_event: &mut dyn FnMut(Event),
    measure: impl FnOnce(&mut Figures<'_>) -> Result<()>,
) -> Result<bool> {
    let allocator = name.to_owned();
    on_event(Event::Begin {
        case,
        allocator: allocator.clone(),
    });
    let measured = measure(&mut Figures {
        case,
        allocator: allocator.clone(),
        on_event,
    });
    let Err(error) = measured else {
        return Ok(true);
    };
    let reason = error.to_string();
    on_event(Event::Failed {
        case,
        allocator,
        reason,
    });
    if device.is_lost() {
        Err(error)
    } else {
        Ok(false)
    }
}

/// The allocators, and which of them have a heap.
struct Heaps<'a> {
    allocators: &'a mut [Box<dyn Allocator>],
    /// Bytes of each one's heap.
    bytes: Vec<Option<u64>>,
}

impl<'a> Heaps<'a> {
    fn new(allocators: &'a mut [Box<dyn Allocator>]) -> Self {
        let bytes = vec![None; allocators.len()];
        Self { allocators, bytes }
    }

    /// Gives the allocator the heap that the case needs, empty. Where there is no room for it beside the others',
    /// they lose theirs.
    fn prepare(&mut self, index: usize, plan: &Plan, case: &Case) -> Result<&mut dyn Allocator> {
        if case.test == Test::Init {
            self.destroy_all();
        }
        if let Some(bytes) = plan.heap_of(case) {
            if self.bytes[index] == Some(bytes) {
                self.allocators[index].reset()?;
            } else {
                self.destroy(index);
                if self.create(index, bytes).is_err() {
                    self.destroy_all();
                    self.create(index, bytes)?;
                }
            }
        }
        Ok(&mut *self.allocators[index])
    }

    fn create(&mut self, index: usize, bytes: u64) -> Result<()> {
        self.allocators[index].create(bytes)?;
        self.bytes[index] = Some(bytes);
        Ok(())
    }

    fn destroy(&mut self, index: usize) {
        self.allocators[index].destroy();
        self.bytes[index] = None;
    }

    fn destroy_all(&mut self) {
        for index in 0..self.allocators.len() {
            self.destroy(index);
        }
    }
}

impl Drop for Heaps<'_> {
    fn drop(&mut self) {
        self.destroy_all();
    }
}
