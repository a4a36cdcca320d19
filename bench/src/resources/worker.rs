//! One thread of a measurement: it goes through the operations of a scenario, round after round, for as long as it may.
//!
//! A part that is cut short is gone on with by the next one, so that memory fills up and is thinned out as
//! the scenario says, however slow the resource is.

use super::pace::Pace;
use super::scenario::{Operation, Scenario};
use scatterheap_host::Stream;
use scatterheap_host::device::driver_calls_of_thread;
use scatterheap_host::resource::{DevicePointer, MemoryResource, Result};
use std::time::Duration;

/// The round that is not timed may take so many times longer if an eighth of it is done by then: the
/// most memory that is held is looked for in a whole one.
const PATIENCE: u32 = 8;

/// What a thread found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Seconds of the timed rounds.
    pub seconds: f64,
    /// Operations in them.
    pub timed: u64,
    /// Calls of the driver in them.
    pub calls: u64,
    /// Allocations that were looked at one by one, and those without a call of the driver.
    pub observed: u64,
    pub hits: u64,
    /// Allocations that failed, and operations, in all rounds.
    pub failures: u64,
    pub operations: u64,
}

/// A thread's blocks, and where in the scenario it is.
pub(super) struct Worker<'a> {
    resource: &'a dyn MemoryResource,
    scenario: &'a Scenario,
    stream: Stream,
    slots: Vec<Option<DevicePointer>>,
    position: usize,
    found: Found,
}

impl<'a> Worker<'a> {
    /// With a stream of its own.
    pub fn new(resource: &'a dyn MemoryResource, scenario: &'a Scenario) -> Result<Self> {
        Ok(Self {
            resource,
            scenario,
            stream: Stream::new(resource.device())?,
            slots: vec![None; scenario.slots()],
            position: 0,
            found: Found::default(),
        })
    }

    /// Does one operation; whether a block was allocated.
    #[inline]
    fn perform(&mut self, operation: Operation) -> Result<bool> {
        let Operation { slot, bytes, .. } = operation;
        let place = &mut self.slots[slot as usize];
        if !operation.allocates {
            if let Some(block) = place.take() {
                // SAFETY: the worker's own, and nothing uses it.
                unsafe { self.resource.deallocate(block, bytes, 256, &self.stream) }?;
            }
            return Ok(false);
        }
        match self.resource.allocate(bytes, 256, &self.stream) {
            Ok(block) => {
                *place = Some(block);
                Ok(true)
            }
            Err(error) if error.is_out_of_memory() => {
                self.found.failures += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Does the operation that comes next.
    #[inline]
    fn step(&mut self) -> Result<bool> {
        let operations = &self.scenario.operations;
        let operation = operations[self.position];
        self.position += 1;
        if self.position == operations.len() {
            self.position = 0;
        }
        self.perform(operation)
    }

    /// Goes on for so many operations, or until the time is over; the operations that were done.
    fn advance(&mut self, most: u64, pace: &mut Pace) -> Result<u64> {
        let mut done = 0;
        while done < most {
            self.step()?;
            done += 1;
            if pace.is_over() {
                break;
            }
        }
        self.found.operations += done;
        Ok(done)
    }

    fn round(&self) -> u64 {
        self.scenario.operations.len() as u64
    }

    /// A round that is not timed.
    pub fn warm_up(&mut self, limit: Duration) -> Result<()> {
        let mut pace = Pace::new(limit);
        let done = self.advance(self.round(), &mut pace)?;
        if done >= self.round() / u64::from(PATIENCE) {
            pace.extend(limit * PATIENCE);
            self.advance(self.round() - done, &mut pace)?;
        }
        Ok(())
    }

    /// The timed rounds.
    pub fn time(&mut self, limit: Duration) -> Result<()> {
        let before = driver_calls_of_thread();
        let mut pace = Pace::new(limit);
        let most = self.round() * u64::from(self.scenario.rounds);
        self.found.timed = self.advance(most, &mut pace)?;
        self.found.seconds = pace.elapsed().as_secs_f64();
        self.found.calls = driver_calls_of_thread() - before;
        Ok(())
    }

    /// One more round, in which allocations without a call of the driver are counted.
    pub fn observe(&mut self, limit: Duration) -> Result<()> {
        let mut pace = Pace::new(limit);
        for _ in 0..self.round() {
            let before = driver_calls_of_thread();
            self.found.observed += u64::from(self.scenario.operations[self.position].allocates);
            let allocated = self.step()?;
            self.found.hits += u64::from(allocated && driver_calls_of_thread() == before);
            self.found.operations += 1;
            if pace.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Gives back what is live, in the scenario's order.
    pub fn finish(mut self) -> Result<Found> {
        for index in self.position..self.scenario.operations.len() {
            let operation = self.scenario.operations[index];
            if !operation.allocates {
                self.perform(operation)?;
            }
        }
        Ok(self.found)
    }
}
