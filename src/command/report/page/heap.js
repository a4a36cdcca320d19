// A run on a heap: how full, how fragmented, how fast, what went wrong; then the heap over time.

function tile(name, value, about, meter, tone) {
  const bar = meter && make("div", { class: "meter" }, meter.map(([share, name]) =>
    make("span", { style: `width:${Math.min(100, share * 100)}%;background:${colour(name)}` })));
  return make("div", { class: "tile" }, make("div", { class: "name" }, name), make("div", { class: tone ? `value ${tone}` : "value" }, value),
    bar, make("div", { class: "faint" }, about));
}

const sumOf = (errors) => errors.reduce((sum, [, number]) => sum + number, 0);

function fullTile({ peak }) {
  const { pages, page_bytes: page, capacity } = peak;
  const kept = (pages.in_slabs - pages.reclaimable + pages.in_runs) * page;
  const used = peak.used_bytes / capacity;
  return tile("Full, at its fullest", percent(used), `${bytes(peak.used_bytes)} of ${bytes(capacity)} in ${plural(peak.used_blocks, "block")}; ${bytes(kept)} kept for them`,
    [[used, "used"], [Math.max(0, kept / capacity - used), "rest"]]);
}

function fragmentedTile({ peak }) {
  const available = (peak.pages.free + peak.pages.reclaimable) * peak.page_bytes;
  return tile("Fragmented, then", percent(peak.external_fragmentation), `the largest request that fits is ${bytes(peak.largest_request)}; ${bytes(available)} are free`,
    [[peak.external_fragmentation, "line-2"]]);
}

function fastTile({ operations, seconds: time, latencies }) {
  const calls = latencies.filter(({ call }) => call !== "realloc")
    .map((latency) => `${latency.call}: half in ${nanoseconds(latency.p50)}, 99 % in ${nanoseconds(latency.p99)}`);
  return tile("Fast", time > 0 ? rate(operations / time) : "–", [`${count(operations)} calls in ${seconds(time)}`, ...calls].join("; "));
}

function errorTile(part) {
  const wrong = sumOf(part.errors) + part.faults.length;
  const nulls = part.nulls === 0 ? "no request got NULL" : `${plural(part.nulls, "request")} got NULL, as nothing was left`;
  const refused = part.refused === 0 ? [] : [part.passed ? `${count(part.refused)} bad calls refused, as they should be` : `${count(part.refused)} calls refused`];
  const errors = part.errors.map(([name, number]) => `${count(number)} ${name}`);
  return tile("Errors", wrong > 0 ? count(wrong) : part.passed ? "0" : "failed", [...errors, nulls, ...refused].join(", "), null, part.passed ? "good" : "bad");
}

// The moment that is shown first: where most is handed out.
function fullest(moments) {
  let best = 0;
  moments.forEach((moment, index) => { if (moment.used_bytes > moments[best].used_bytes) best = index; });
  return best;
}

function timelineState(moments) {
  const slots = [...new Set(moments.flatMap((moment) => moment.sizes.map((size) => size.slot_bytes)))].sort((a, b) => a - b);
  const state = {
    moments,
    index: fullest(moments),
    // Bytes of the slots that there ever were, and the least and the most of them.
    slots,
    range: slots.length > 0 ? [slots[0], slots[slots.length - 1]] : [16, 1024],
    // Are told when another moment is chosen.
    watchers: [],
    choose(index) {
      state.index = index;
      for (const watcher of state.watchers) watcher();
    },
  };
  return state;
}

// Chooses the moment: by hand, or by and by.
function momentControl(state) {
  const last = state.moments.length - 1;
  const words = make("output", { for: "moment" });
  const slider = make("input", { id: "moment", type: "range", min: 0, max: last, step: 1, "aria-label": "moment of the run", oninput: () => state.choose(Number(slider.value)) });
  let timer = null;
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "▶ play";
  };
  const step = () => {
    if (!slider.isConnected || state.index >= last) stop();
    else state.choose(state.index + 1);
  };
  const play = () => {
    if (timer !== null) {
      stop();
      return;
    }
    if (state.index >= last) state.choose(0);
    timer = setInterval(step, Math.max(60, Math.min(400, 8000 / (last + 1))));
    button.textContent = "❚❚ stop";
  };
  const button = make("button", { type: "button", onclick: play }, "▶ play");
  state.watchers.push(() => {
    const moment = state.moments[state.index];
    slider.value = state.index;
    words.textContent = `after ${seconds(moment.seconds)}: ${moment.after}`;
    slider.setAttribute("aria-valuetext", words.textContent);
  });
  return make("div", { class: "moment" }, button, slider, words);
}

function timelineSection(state) {
  const { moments } = state;
  const map = heatMap(state);
  state.watchers.push(() => repaint(map.holder));
  const shown = make("p", { class: "faint" });
  state.watchers.push(() => {
    const moment = moments[state.index];
    shown.textContent = `A cell is ${bytes(moment.map.pages_per_cell * moment.page_bytes)} of the heap, from its beginning to its end; paler where less is handed out.`;
  });
  const mapPanel = panel("Map of the heap", null, shown, map.holder, mapLegend(state), map.words);
  mapPanel.classList.add("wide");
  return make("section", { class: "timeline" }, make("h2", {}, "The heap over time"), momentControl(state),
    make("div", { class: "panels" }, mapPanel, occupancyChart(state), usedChart(state), fragmentationChart(state), sizeChart(state)));
}

function partSection(part) {
  const faults = part.faults.length > 0 ? make("ul", { class: "faults" }, part.faults.map((fault) => make("li", {}, fault))) : null;
  const state = part.timeline.length > 1 ? timelineState(part.timeline) : null;
  const speed = [...(state ? [speedChart(state)] : []), ...part.latencies.map(latencyPanel)];
  if (speed.length === 1) speed[0].classList.add("wide");
  const section = make("section", { class: "part" },
    make("div", { class: "tiles" }, fullTile(part), fragmentedTile(part), fastTile(part), errorTile(part)), faults,
    make("p", { class: "faint" }, `${part.name}: ${part.about}`),
    state ? timelineSection(state) : make("p", { class: "faint" }, "The heap was not looked at on the way: run it with --moments or --report for pictures over time."),
    speed.length > 0 ? [make("h2", {}, "How fast"), make("div", { class: "panels" }, speed)] : null);
  state?.choose(state.index);
  return section;
}

function overview(run) {
  const head = ["", "result", "speed", "full", "fragmented", "NULL", "errors"];
  const rows = run.parts.map((part) => [part.name, part.passed ? "ok" : "FAILED", part.seconds > 0 ? rate(part.operations / part.seconds) : "–",
    percent(part.peak.used_bytes / part.peak.capacity), percent(part.peak.external_fragmentation), count(part.nulls), count(sumOf(part.errors))]);
  return make("section", {}, make("h2", {}, "All workloads"), table(head, rows));
}

// Where, with what and when: a list of names and words.
function facts(run) {
  const { machine, device, heap } = run;
  const growing = heap.largest_capacity > heap.capacity ? `, may grow to ${bytes(heap.largest_capacity)}` : "";
  const list = [
    ["device", `${machine.selector}: ${machine.device}${device.compute_capability ? `, compute capability ${device.compute_capability}` : ""}`],
    [machine.gpu ? "multiprocessors" : "threads", count(device.multiprocessors)],
    ["memory", bytes(device.memory_total)],
    ["driver", machine.driver ? `for CUDA ${machine.driver}` : null],
    ["heap", `${bytes(heap.capacity)}${growing}; pages of ${bytes(heap.page_bytes)}, ${count(heap.classes)} size classes up to ${bytes(heap.largest_slot)}, ${plural(heap.stripes, "stripe")} at most; ${bytes(heap.metadata_bytes)} of metadata beside it`],
    ["hardening", heap.hardening],
    ["scatterheap", `${machine.version}${machine.commit ? `, commit ${machine.commit}` : ""}`],
    ["when", machine.date],
  ];
  return make("section", {}, make("h2", {}, "Machine"), make("dl", {}, list.filter(([, words]) => words).map(([name, words]) => [make("dt", {}, name), make("dd", {}, words)])));
}

function heapSection(run) {
  const badge = make("span", { class: run.passed ? "badge" : "badge bad" }, run.passed ? "ok" : "FAILED");
  const one = run.parts.length === 1 ? `, ${run.parts[0].name}` : "";
  const head = make("div", { class: "head" }, make("h1", {}, `${run.command}${one}`), badge);
  const about = make("p", { class: "faint" }, `heap of ${bytes(run.heap.capacity)} on ${run.machine.device}${run.machine.commit ? `, commit ${run.machine.commit}` : ""}, ${run.machine.date}`);
  const section = make("article", {}, head, about, run.about ? make("p", { class: "faint" }, run.about) : null);
  if (run.parts.length === 0) return section;
  let shown = null;
  const buttons = run.parts.map((part, index) => make("button", { type: "button", onclick: () => show(index) }, `${part.passed ? "✓" : "✗"} ${part.name}`));
  const place = make("div");
  const show = (index) => {
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", String(other === index)));
    if (shown) discard(shown);
    shown = partSection(run.parts[index]);
    place.append(shown);
  };
  if (run.parts.length > 1) section.append(make("div", { class: "choices", role: "group", "aria-label": "workload" }, buttons));
  section.append(place);
  // What went wrong first, else what has most to show: many moments, and of those the fullest heap.
  const failed = run.parts.findIndex((part) => !part.passed);
  const worth = ({ timeline, peak }) => timeline.length + peak.used_bytes / peak.capacity;
  const best = run.parts.reduce((best, part, index) => (worth(part) > worth(run.parts[best]) ? index : best), 0);
  show(failed >= 0 ? failed : best);
  if (run.parts.length > 1) section.append(overview(run));
  section.append(facts(run));
  return section;
}
