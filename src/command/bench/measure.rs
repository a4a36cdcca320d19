//! Measures: our allocators in this process, plug-ins in processes of their own.

use super::Arguments;
use super::first;
use super::watch::{Watch, workload_of_a_peer, workload_of_ours};
use crate::command::machine::Machine;
use crate::command::progress::Progress;
use crate::command::{Common, WORKER};
use anyhow::{Context, Result, bail};
use scatterheap::{Device, Hardening, Selector};
use scatterheap_bench::allocators::{Floor, Native, Scatterheap, name_of_hardened};
use scatterheap_bench::peer::{Peer, Workers};
use scatterheap_bench::{Allocator, Case, Event, Plan, Row, Settings, Test, module};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// That it was interrupted, if it was.
    pub interrupted: Option<Interrupted>,
    /// Names in the order of their columns.
    pub allocators: Vec<String>,
}

/// How far a run was when it was interrupted.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Interrupted {
    /// Cases that were measured; each counts once for each allocator.
    pub done: u64,
    /// Cases that were to be measured.
    pub cases: u64,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, cases } = self;
        write!(formatter, "interrupted: {done} of {cases} cases")
    }
}

impl Error for Interrupted {}

/// A case that an allocator could not do.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// None: a plug-in ended before it was at a case, and all cases that were left were not measured.
    pub case: Option<Case>,
    pub allocator: String,
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.allocator)?;
        if let Some(case) = self.case {
            write!(formatter, ", {case}")?;
        }
        write!(formatter, ": {}", self.reason)
    }
}

/// Measures. `prepare` is called when it is known that what was asked for can be measured, and before that is done.
pub fn run(
    common: &Common,
    arguments: &Arguments,
    prepare: impl FnOnce() -> Result<()>,
) -> Result<Measured> {
    let device = common.open_device()?;
    let plan = plan(common, arguments, &device)?;
    let workers = workers(&device, arguments)?;
    let peers = workers.find(&arguments.peer)?;
    let harden = modes_of_hardened(arguments);
    let chosen = Chosen::new(&device, &peers, &arguments.allocator, &harden)?;
    let peers: Vec<_> = peers.iter().filter(|peer| chosen.has(&peer.name)).collect();
    // A heap that cannot be made is refused here, before anything is measured.
    Scatterheap::new(&device)
        .stripes(plan.stripes)
        .create(plan.heap_bytes)?;
    module::load(&device)?;
    prepare()?;
    let machine = Machine::new(&device);
    let progress = Progress::new(common, "");
    let stop = stop_by_signal()?;
    let mut collected = Collected::default();
    let modes = chosen.modes(&harden);
    let device = if modes.is_empty() || plan.cases.iter().all(|case| case.test != Test::Init) {
        device
    } else {
        progress.say("first heaps of processes");
        let first = first::by_this_program(&device)?;
        let (selector, is_gpu) = (device.label().parse()?, device.is_gpu());
        // They should find nothing of this process.
        drop(device);
        first.measure(&plan, &modes, is_gpu, &stop, &mut |event| {
            collected.take(event);
        });
        match open_with_kernels(&selector) {
            Ok(device) => device,
            Err(error) => {
                return Ok(Measured {
                    lost: Some(error.to_string()),
                    ..collected.finish(machine, plan)
                });
            }
        }
    };
    let mut allocators = chosen.allocators(&device, plan.stripes, &harden);
    let of_ours = workload_of_ours(&plan, &allocators);
    let of_a_peer = workload_of_a_peer(&plan);
    let parts = peers.iter().map(|_| &of_a_peer).chain([&of_ours]);
    let mut run = Run {
        plan: &plan,
        stop,
        watch: Watch::new(&progress, parts),
        collected,
    };
    run.watch.enter(String::new(), of_ours.clone());
    // What was measured until then is worth reporting.
    let lost = run.measure_ours(&device, &mut allocators).err();
    drop(allocators);
    for peer in peers {
        run.watch
            .enter(format!("{}, ", peer.name), of_a_peer.clone());
        run.measure_peer(&workers, peer);
    }
    run.watch.finish_case();
    let interrupted = run.watch.interrupted().filter(|_| run.is_stopped());
    let collected = run.collected;
    Ok(Measured {
        lost: lost.map(|error| error.to_string()),
        interrupted,
        ..collected.finish(machine, plan)
    })
}

/// A run of a plan.
struct Run<'a> {
    plan: &'a Plan,
    /// Set by SIGINT or SIGTERM.
    stop: Arc<AtomicBool>,
    watch: Watch<'a>,
    collected: Collected,
}

impl Run<'_> {
    fn measure_ours(
        &mut self,
        device: &Device,
        allocators: &mut [Box<dyn Allocator>],
    ) -> scatterheap_bench::Result<()> {
        let (watch, collected) = (&mut self.watch, &mut self.collected);
        scatterheap_bench::run(self.plan, device, allocators, &self.stop, &mut |event| {
            watch.see(&event);
            collected.take(event);
        })
    }

    fn measure_peer(&mut self, workers: &Workers, peer: &Peer) {
        let (watch, collected) = (&mut self.watch, &mut self.collected);
        let mut on_event = |event: Event| {
            watch.see(&event);
            // The floor and the baselines were measured in this process.
            if allocator_of(&event) == peer.name {
                collected.take(event);
            }
        };
        if let Err(error) = workers.measure(peer, self.plan, &self.stop, &mut on_event) {
            collected.fail(peer, error.to_string());
        }
    }

    fn is_stopped(&self) -> bool {
        // Relaxed: nothing else is told by it.
        self.stop.load(Ordering::Relaxed)
    }
}

/// Is set by the first SIGINT or SIGTERM; the second ends this process, and so its workers.
pub fn stop_by_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order, so that the second finds what the first has set.
        flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("cannot wait for signals")?;
    }
    Ok(stop)
}

fn plan(common: &Common, arguments: &Arguments, device: &Device) -> Result<Plan> {
    let settings = Settings {
        tests: arguments.tests.clone(),
        sizes: arguments.size.clone(),
        heap_bytes: common.heap.map(|bytes| bytes.0),
        samples: arguments.samples,
        quick: arguments.quick,
        seed: common.seed,
        stripes: arguments.stripes,
    };
    Ok(Plan::new(device, &settings)?)
}

/// This program's file.
pub fn own_file() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// How plug-ins are measured: by this program, as a worker.
fn workers(device: &Device, arguments: &Arguments) -> Result<Workers> {
    Ok(Workers {
        program: own_file()?,
        arguments: vec![WORKER.into()],
        device: device.label(),
        timeout: Duration::from_secs(arguments.peer_timeout),
    })
}

/// Opens a device with all kernels that are needed.
pub fn open_with_kernels(selector: &Selector) -> scatterheap_bench::Result<Device> {
    let device = scatterheap::open(selector)?;
    module::load(&device)?;
    Ok(device)
}

/// The modes of the hardened heaps that were asked for, each once. One without modes is measured anyway.
fn modes_of_hardened(arguments: &Arguments) -> Vec<Hardening> {
    let mut all = Vec::new();
    for modes in &arguments.harden {
        if *modes != Hardening::NONE && !all.contains(modes) {
            all.push(*modes);
        }
    }
    all
}

/// The allocators that were asked for, by their names.
struct Chosen(Vec<String>);

impl Chosen {
    /// All that there are, if no names are given.
    fn new(
        device: &Device,
        peers: &[Peer],
        names: &[String],
        harden: &[Hardening],
    ) -> Result<Self> {
        let hardened: Vec<String> = harden
            .iter()
            .map(|modes| name_of_hardened(*modes))
            .collect();
        let ours = [FLOOR, OURS, Native::name_on(device)].map(str::to_owned);
        let peers = peers.iter().map(|peer| peer.name.clone());
        let known: Vec<String> = ours
            .into_iter()
            .chain(hardened.clone())
            .chain(peers)
            .collect();
        let names: Vec<&str> = names.iter().map(|name| name.trim()).collect();
        let is_known = |name: &str| known.iter().any(|known| known == name);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            let known = known.join(", ");
            bail!(
                "`{unknown}` is no allocator here: choose from {known}, or give a plug-in by --peer"
            );
        }
        let wanted = |name: &String| {
            name == FLOOR
                || names.is_empty()
                || names.contains(&name.as_str())
                || hardened.contains(name)
        };
        Ok(Self(known.into_iter().filter(wanted).collect()))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|chosen| chosen == name)
    }

    fn allocators(
        &self,
        device: &Device,
        stripes: Option<u32>,
        harden: &[Hardening],
    ) -> Vec<Box<dyn Allocator>> {
        let ours = || Scatterheap::new(device).stripes(stripes);
        let hardened = harden
            .iter()
            .map(|modes| -> Box<dyn Allocator> { Box::new(ours().hardened(*modes)) });
        let plain: [Box<dyn Allocator>; 3] = [
            Box::new(Floor::new(device)),
            Box::new(ours()),
            Box::new(Native::new(device)),
        ];
        plain
            .into_iter()
            .chain(hardened)
            .filter(|allocator| self.has(allocator.name()))
            .collect()
    }

    /// The modes of our heaps, none of the plain one.
    fn modes(&self, harden: &[Hardening]) -> Vec<Hardening> {
        let all = [Hardening::NONE].into_iter().chain(harden.iter().copied());
        all.filter(|modes| self.has(&name_of_hardened(*modes)))
            .collect()
    }
}

fn allocator_of(event: &Event) -> &str {
    match event {
        Event::Begin { allocator, .. } | Event::Failed { allocator, .. } => allocator,
        Event::Row(row) => &row.allocator,
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
        let allocator = allocator_of(&event);
        if !self.allocators.iter().any(|other| other == allocator) {
            self.allocators.push(allocator.to_owned());
        }
        match event {
            Event::Begin { .. } => {}
            Event::Row(row) => self.rows.push(row),
            Event::Failed {
                case,
                allocator,
                reason,
            } => {
                self.failures.push(Failure {
                    case: Some(case),
                    allocator,
                    reason,
                });
            }
        }
    }

    /// A plug-in could not be measured any further.
    fn fail(&mut self, peer: &Peer, reason: String) {
        self.failures.push(Failure {
            case: None,
            allocator: peer.name.clone(),
            reason,
        });
    }

    fn finish(mut self, machine: Machine, plan: Plan) -> Measured {
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
            lost: None,
            interrupted: None,
            allocators: self.allocators,
        }
    }
}
