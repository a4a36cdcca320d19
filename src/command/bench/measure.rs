//! Measures: our allocators in this process, plug-ins in processes of their own.

use super::Arguments;
use super::machine::Machine;
use crate::command::output::note;
use crate::command::progress::Progress;
use crate::command::{Common, WORKER};
use anyhow::{Context, Result, bail};
use scatterheap::{Device, Heap, Selector};
use scatterheap_bench::allocators::{Floor, Native, Scatterheap};
use scatterheap_bench::peer::{Peer, Workers};
use scatterheap_bench::{Allocator, Case, Event, Plan, Row, Settings, Test, module};
use serde::Serialize;
use std::time::Duration;

/// Name of our allocator in tables.
pub const OURS: &str = "scatterheap";
/// Name of the floor in tables.
pub const FLOOR: &str = "floor";

/// What was measured.
pub struct Measured {
    pub machine: Machine,
    pub plan: Plan,
    /// In the order of tests, sizes, threads and allocators.
    pub rows: Vec<Row>,
    pub failures: Vec<Failure>,
    /// Why it ended before all was measured, if it did.
    pub lost: Option<String>,
    /// Names in the order of their columns.
    pub allocators: Vec<String>,
}

/// A case that an allocator could not do.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    pub case: Case,
    pub allocator: String,
    pub reason: String,
}

pub fn run(common: &Common, arguments: &Arguments) -> Result<Measured> {
    let device = common.open_device()?;
    let plan = plan(common, arguments, &device)?;
    let workers = workers(&device, arguments)?;
    let peers = workers.find(&arguments.peer)?;
    let chosen = Chosen::new(&device, &peers, &arguments.allocator)?;
    // A heap that cannot be made is refused here, before anything is measured.
    drop(Heap::builder(&device).capacity(plan.heap_bytes).build()?);
    module::load(&device)?;
    let mut allocators = chosen.allocators(&device);
    let mut collected = Collected::default();
    let progress = Progress::new(common, "");
    let mut watch = Watch::new(&progress, total(&plan, &allocators, &chosen, &peers));
    let run = scatterheap_bench::run(&plan, &device, &mut allocators, &mut |event| {
        watch.see(&event);
        collected.take(event);
    });
    // What was measured until then is worth reporting.
    let lost = run.err().map(|error| error.to_string());
    drop(allocators);
    for peer in peers.iter().filter(|peer| chosen.has(&peer.name)) {
        measure_peer(&workers, peer, &plan, &mut watch, &mut collected);
    }
    Ok(collected.finish(Machine::new(&device), plan, lost))
}

fn measure_peer(
    workers: &Workers,
    peer: &Peer,
    plan: &Plan,
    watch: &mut Watch<'_>,
    collected: &mut Collected,
) {
    let mut on_event = |event: Event| {
        watch.see(&event);
        // The floor and the baselines were measured in this process.
        if allocator_of(&event) == peer.name {
            collected.take(event);
        }
    };
    if let Err(error) = workers.measure(peer, plan, &mut on_event) {
        note(&format!("{}: {error}", peer.name));
    }
}

fn plan(common: &Common, arguments: &Arguments, device: &Device) -> Result<Plan> {
    let settings = Settings {
        tests: arguments.tests.clone(),
        heap_bytes: common.heap.map(|bytes| bytes.0),
        samples: arguments.samples,
        quick: arguments.quick,
        seed: common.seed,
    };
    Ok(Plan::new(device, &settings)?)
}

/// How plug-ins are measured: by this program, as a worker.
fn workers(device: &Device, arguments: &Arguments) -> Result<Workers> {
    Ok(Workers {
        program: std::env::current_exe().context("cannot find this program's own file")?,
        arguments: vec![WORKER.into()],
        device: device.label(),
        timeout: Duration::from_secs(arguments.peer_timeout),
    })
}

/// The worker's side: opens a device with all kernels that are needed.
pub fn open_for_worker(selector: &Selector) -> scatterheap_bench::Result<Device> {
    let device = scatterheap::open(selector)?;
    module::load(&device)?;
    Ok(device)
}

/// The allocators that were asked for, by their names.
struct Chosen(Vec<String>);

impl Chosen {
    /// All that there are, if no names are given.
    fn new(device: &Device, peers: &[Peer], names: &[String]) -> Result<Self> {
        let ours = [FLOOR, OURS, Native::name_on(device)].map(str::to_owned);
        let peers = peers.iter().map(|peer| peer.name.clone());
        let known: Vec<String> = ours.into_iter().chain(peers).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
            let known = known.join(", ");
            bail!(
                "`{unknown}` is no allocator here: choose from {known}, or give a plug-in by --peer"
            );
        }
        let wanted = |name: &String| name == FLOOR || names.is_empty() || names.contains(name);
        Ok(Self(known.into_iter().filter(wanted).collect()))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|chosen| chosen == name)
    }

    fn allocators(&self, device: &Device) -> Vec<Box<dyn Allocator>> {
        let all: [Box<dyn Allocator>; 3] = [
            Box::new(Floor::new(device)),
            Box::new(Scatterheap::new(device)),
            Box::new(Native::new(device)),
        ];
        all.into_iter()
            .filter(|allocator| self.has(allocator.name()))
            .collect()
    }
}

/// How often an allocator begins with a case, plug-ins with their floors included.
fn total(plan: &Plan, ours: &[Box<dyn Allocator>], chosen: &Chosen, peers: &[Peer]) -> u64 {
    let takes = |case: &Case| {
        ours.iter()
            .filter(|allocator| allocator.takes(case))
            .count()
    };
    let of_ours: usize = plan.cases.iter().map(takes).sum();
    let peers = peers.iter().filter(|peer| chosen.has(&peer.name)).count();
    (of_ours + peers * plan.cases.len() * 2) as u64
}

fn allocator_of(event: &Event) -> &str {
    match event {
        Event::Begin { allocator, .. } | Event::Failed { allocator, .. } => allocator,
        Event::Row(row) => &row.allocator,
    }
}

/// Shows how far it is.
struct Watch<'a> {
    progress: &'a Progress,
    begun: u64,
    total: u64,
}

impl<'a> Watch<'a> {
    fn new(progress: &'a Progress, total: u64) -> Self {
        Self {
            progress,
            begun: 0,
            total,
        }
    }

    fn see(&mut self, event: &Event) {
        if let Event::Begin { case, allocator } = event {
            self.progress.say(&format!("{allocator}, {case}"));
            self.progress.show(self.begun.min(self.total), self.total);
            self.begun += 1;
        }
    }
}

/// What the events told.
#[derive(Default)]
struct Collected {
    rows: Vec<Row>,
    failures: Vec<Failure>,
    allocators: Vec<String>,
}

impl Collected {
    fn take(&mut self, event: Event) {
        match event {
            Event::Begin { allocator, .. } => {
                if !self.allocators.contains(&allocator) {
                    self.allocators.push(allocator);
                }
            }
            Event::Row(row) => self.rows.push(row),
            Event::Failed {
                case,
                allocator,
                reason,
            } => {
                self.failures.push(Failure {
                    case,
                    allocator,
                    reason,
                });
            }
        }
    }

    fn finish(mut self, machine: Machine, plan: Plan, lost: Option<String>) -> Measured {
        // The floor and ours stand first, wherever they began.
        self.allocators.sort_by_key(|name| match name.as_str() {
            FLOOR => 0,
            OURS => 1,
            _ => 2,
        });
        let place = |name: &str| self.allocators.iter().position(|other| other == name);
        let test = |name: &str| Test::ALL.iter().position(|test| test.name() == name);
        self.rows
            .sort_by_key(|row| (test(&row.test), row.size, row.n, place(&row.allocator)));
        Measured {
            machine,
            plan,
            rows: self.rows,
            failures: self.failures,
            lost,
            allocators: self.allocators,
        }
    }
}
