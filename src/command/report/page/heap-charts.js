// The charts of a heap over time, and of its calls. `state` is the timeline with the marked moment: { moments, index, choose }.

// Seconds of the launches up to each moment; where no launch was timed, the moments' numbers.
function timeAxis(state) {
  const times = state.moments.map((moment) => moment.seconds);
  const isTimed = times[times.length - 1] > 0;
  return {
    values: isTimed ? times : times.map((_, index) => index),
    words: isTimed ? seconds : (index) => count(index),
  };
}

const marks = (state) => ({ marked: () => state.index, pick: (index) => state.choose(index) });

// A chart over time with a legend that says the numbers of the marked moment; `entries` are areas and lines in one list.
function overTime(state, title, about, options, entries) {
  const names = make("div");
  state.watchers.push(() => {
    const named = entries.map((entry) => ({ ...entry, text: entry.values[state.index] === null ? "–" : options.y.words(entry.values[state.index]) }));
    names.replaceChildren(legend(named));
  });
  const chart = timeChart({
    label: title, x: timeAxis(state), ...options, ...marks(state),
    areas: entries.filter((entry) => entry.isArea), lines: entries.filter((entry) => !entry.isArea),
  });
  state.watchers.push(() => repaint(chart));
  return panel(title, about, chart, names);
}

function occupancyChart(state) {
  const { moments } = state;
  const of = (pick) => moments.map(pick);
  const page = (pages) => of((moment) => moment.pages[pages] * moment.page_bytes);
  const [runs, slabs, idle, free, lost] = ["in_runs", "in_slabs", "reclaimable", "free", "lost"].map(page);
  const inSlots = of((moment, index) => moment.used_bytes - Math.min(moment.used_bytes, runs[index]));
  const area = (name, colours, values) => ({ name, colour: colour(colours), values, isArea: true });
  const entries = [
    area("blocks in slots", "used", inSlots),
    area("blocks in runs", "runs", runs),
    area("free in slabs", "rest", slabs.map((bytes, index) => Math.max(0, bytes - idle[index] - inSlots[index]))),
    area("idle slabs", "reclaimable", idle),
    area("free pages", "free", free),
  ];
  if (lost.some((bytes) => bytes > 0)) entries.push(area("lost pages", "lost", lost));
  const y = { words: bytes, ticks: byteTicks, most: Math.max(...of((moment) => moment.capacity)) };
  return overTime(state, "Occupancy over time", "What the heap's bytes are used for.", { y }, entries);
}

function usedChart(state) {
  const { moments } = state;
  const line = (name, colours, values) => ({ name, colour: colour(colours), values });
  const entries = [line("handed out", "line-1", moments.map((moment) => moment.used_bytes))];
  const isAsked = moments.some((moment) => moment.asked_bytes !== null);
  if (isAsked) {
    entries.push(line("asked for", "line-2", moments.map((moment) => moment.asked_bytes)));
  }
  entries.push(line("in slabs and runs", "line-0", moments.map((moment) => (moment.pages.in_slabs - moment.pages.reclaimable + moment.pages.in_runs) * moment.page_bytes)));
  const title = isAsked ? "Bytes asked for, handed out, and kept" : "Bytes handed out, and kept";
  const about = `${isAsked ? "Rounding is the gap between what was asked for and handed out. " : ""}The gap above is what slabs have free.`;
  return overTime(state, title, about, { y: { words: bytes, ticks: byteTicks } }, entries);
}

function fragmentationChart(state) {
  const { moments } = state;
  const available = (moment) => (moment.pages.free + moment.pages.reclaimable) * moment.page_bytes;
  const entries = [
    { name: "largest request", colour: colour("line-1"), values: moments.map((moment) => moment.largest_request) },
    { name: "free", colour: colour("line-2"), values: moments.map(available) },
  ];
  const fragmented = () => `${percent(moments[state.index].external_fragmentation)} of the free pages lie outside of the longest run of them. A request up to the blue line is served.`;
  const about = make("p", { class: "faint" });
  state.watchers.push(() => { about.textContent = fragmented(); });
  const y = { words: bytes, ticks: byteTicks, most: Math.max(...moments.map((moment) => moment.capacity)) };
  return overTime(state, "Fragmentation", about, { y }, entries);
}

function speedChart(state) {
  const { moments } = state;
  const speeds = moments.map((moment, index) => {
    if (index === 0) return null;
    const before = moments[index - 1];
    const time = moment.seconds - before.seconds;
    return time > 0 ? (moment.operations - before.operations) / time : null;
  });
  const entries = [{ name: "calls", colour: colour("line-1"), values: speeds }];
  return overTime(state, "Speed", "Calls of malloc, realloc and free in a second, from moment to moment; filling and checking every block is part of that time.", { y: { words: rate, ticks } }, entries);
}

// Blocks of each size at the marked moment, and slots that there are for them. Runs come last.
function sizeChart(state) {
  const hasRuns = state.moments.some((moment) => moment.runs > 0);
  const ramp = (size) => {
    const index = Math.round(place(size, ...state.range) * (RAMP - 1));
    return colour(`ramp-${index}`);
  };
  const bars = () => {
    const moment = state.moments[state.index];
    const of = new Map(moment.sizes.map((size) => [size.slot_bytes, size]));
    const each = state.slots.map((size) => ({ name: bytes(size), value: of.get(size)?.used ?? 0, back: of.get(size)?.slots ?? 0, colour: ramp(size) }));
    return hasRuns ? [...each, { name: "runs", value: moment.runs, colour: colour("runs") }] : each;
  };
  const title = "Blocks by size";
  const holder = make("div");
  state.watchers.push(() => {
    [...holder.children].forEach(discard);
    holder.replaceChildren(barChart({ label: title, bars, words: count, isLog: true }));
  });
  return panel(title, "Blocks that are handed out at this moment; pale: slots that there are for them. Each line is ten times the one below.", holder);
}

// The buckets up to where 999 of 1000 calls are, and one with all that took longer.
function shortened({ buckets, p999 }) {
  const last = buckets.findIndex((bucket) => p999 < bucket.to);
  if (last < 0 || last + 2 >= buckets.length) return buckets;
  const rest = buckets.slice(last + 1);
  const longer = { from: rest[0].from, to: rest[rest.length - 1].to, count: rest.reduce((sum, bucket) => sum + bucket.count, 0) };
  return [...buckets.slice(0, last + 1), longer];
}

// How long single calls took: a bar for each bucket, with the quantiles marked.
function latencyPanel(latency) {
  const calls = latency.count;
  const buckets = shortened(latency);
  const bars = () => buckets.map((bucket) => ({ name: nanoseconds(bucket.from), value: bucket.count / calls, colour: colour("accent") }));
  const at = (time) => {
    const index = buckets.findIndex((bucket) => time < bucket.to);
    const bucket = buckets[index < 0 ? buckets.length - 1 : index];
    return (index < 0 ? buckets.length - 1 : index) + Math.min(1, (time - bucket.from) / (bucket.to - bucket.from));
  };
  const quantiles = [["50 %", latency.p50], ["99 %", latency.p99]].map(([name, time]) => ({ name, at: at(time) }));
  const rows = [["half", latency.p50], ["90 %", latency.p90], ["99 %", latency.p99], ["99.9 %", latency.p999], ["all", latency.most]];
  return panel(`How long ${latency.call} takes`, `${count(calls)} calls, each timed in a replay of its own. Bars are a quarter of a power of two wide; the last has all that took longer.`,
    barChart({ label: `how long ${latency.call} takes`, bars, words: percent, marks: quantiles }),
    make("p", { class: "faint" }, rows.map(([name, time]) => `${name} within ${nanoseconds(time)}`).join(" · ")));
}
