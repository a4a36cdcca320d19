// Allocators side by side: times over the floor, who is fastest, charts for each test, and every figure.

const [FLOOR, OURS] = ["floor", "scatterheap"];
// Figures that have a chart, and what they are.
const TIMES = { alloc_us: "malloc", free_us: "free", churn_us: "malloc and free in turns", workgen_us: "outputs of any length", insert_us: "edges inserted", delete_us: "edges deleted", realloc_us: "realloc" };
const OTHERS = { init_ms_first: ["making a process's first heap, ms", digits], init_ms: ["making a heap after one was given back, ms", digits], utilization: ["share handed out before NULL", percent], range_ratio: ["address range over bytes asked for", digits], read_gbps: ["GB/s read", digits], registers: ["registers", count], stack_bytes: ["bytes of stack", count] };

const caseOf = (row) => `${row.test} ${row.size} ${row.n}`;
const geometricMean = (numbers) => Math.exp(numbers.reduce((sum, number) => sum + Math.log(number), 0) / numbers.length);

// Sound figures of a metric, by case and allocator.
function byCase(run, metric) {
  const cases = new Map();
  for (const row of run.rows) {
    if (row.metric !== metric || row.flaw || !(row.value > 0)) continue;
    const key = caseOf(row);
    if (!cases.has(key)) cases.set(key, { test: row.test, size: row.size, n: row.n, of: new Map(), floors: new Map() });
    cases.get(key).of.set(row.allocator, row.value);
    if (row.floor) cases.get(key).floors.set(row.allocator, row.floor);
  }
  return [...cases.values()];
}

// How much more time an allocator takes than another, over all cases that both have; than the floor of its own run.
function ratio(cases, allocator, other) {
  const timeOf = ({ of, floors }) => (other === FLOOR ? floors.get(allocator) : of.get(other));
  const ratios = cases.filter((each) => each.of.has(allocator) && timeOf(each)).map((each) => each.of.get(allocator) / timeOf(each));
  return ratios.length > 0 ? { mean: geometricMean(ratios), cases: ratios.length } : null;
}

const times = (number) => `${digits(number)} ×`;

function ratioTile(run, name, metric) {
  const cases = byCase(run, metric);
  const ours = ratio(cases, OURS, FLOOR);
  const others = run.allocators.filter(({ name }) => name !== FLOOR && name !== OURS).map((other) => [other.title, ratio(cases, other.name, OURS)]).filter(([, found]) => found);
  const words = others.map(([title, { mean, cases: number }]) => `${title} takes ${times(mean)} our time (${plural(number, "case")})`);
  return tile(`${name}, times the floor`, ours ? times(ours.mean) : "–", words.join("; ") || "nobody else was measured");
}

function fastestTile(run) {
  const cases = Object.keys(TIMES).flatMap((metric) => byCase(run, metric)).filter(({ of }) => of.has(OURS) && [...of.keys()].some((name) => name !== FLOOR && name !== OURS));
  const won = cases.filter(({ of }) => [...of].every(([name, value]) => name === FLOOR || name === OURS || of.get(OURS) <= value));
  return tile("Fastest", cases.length > 0 ? `${count(won.length)} of ${count(cases.length)}` : "–", "cases in which scatterheap took the least time of all allocators that did them");
}

function flawTile(run) {
  const cases = (isWanted) => new Set(run.rows.filter((row) => row.flaw && isWanted(row.allocator)).map((row) => `${row.allocator} ${caseOf(row)}`)).size;
  const ours = cases((name) => name === OURS);
  const failures = run.failures.length > 0 ? `; ${plural(run.failures.length, "failure")}` : "";
  return tile("Errors", count(ours), `cases in which scatterheap gave NULL or blocks were corrupt; of others ${count(cases((name) => name !== OURS))}${failures}`, null, ours === 0 ? "good" : "bad");
}

const colourOf = (run, name) => {
  if (name === FLOOR) return colour("line-0");
  if (name === OURS) return colour("line-1");
  const others = run.allocators.filter((other) => other.name !== FLOOR && other.name !== OURS);
  return colour(`line-${2 + (others.findIndex((other) => other.name === name) % 6)}`);
};

// Lines over what differs between the cases: sizes, or numbers of threads.
function linesPanel(run, title, cases, metric, over, words) {
  const [low, high] = ["_p10", "_p90"].map((suffix) => new Map(byCase(run, metric + suffix).map((each) => [caseOf(each), each.of])));
  const has = run.allocators.filter(({ name }) => cases.some(({ of }) => of.has(name)));
  const lines = has.map(({ name, title: text }) => ({
    name: text, colour: colourOf(run, name),
    points: cases.filter(({ of }) => of.has(name)).map((each) => [each[over], each.of.get(name), low.get(caseOf(each))?.get(name), high.get(caseOf(each))?.get(name)]).sort(([a], [b]) => a - b),
  }));
  return panel(title, `${over === "size" ? `over the bytes of a block, n = ${threads(cases[0].n)}` : `over the number of threads, blocks of ${bytes(cases[0].size)}`}; medians, with the middle 80 % of the launches; both axes are logarithmic`,
    logChart({ label: title, x: { words }, y: { words: microseconds }, lines }), legend(lines));
}

function rankingPanel(run, title, of, words) {
  const has = run.allocators.filter(({ name }) => of.has(name));
  const bars = has.map(({ name, title: text }) => ({ name: text, value: of.get(name), words: words(of.get(name)), colour: colourOf(run, name) }));
  const values = bars.map((bar) => bar.value);
  // Where the longest bar would leave nothing of the others.
  const isLog = Math.max(...values) > 20 * Math.min(...values);
  return panel(title, isLog ? "bars are logarithmic" : null, ranking({ label: title, bars, isLog }));
}

const caseWords = ({ size, n }) => [size > 0 ? bytes(size) : null, n > 0 ? `n = ${threads(n)}` : null].filter(Boolean).join(", ");

// The charts of a test and figure: lines where there are many cases, else bars for the largest.
function chartsOf(run, test, metric, name, words) {
  const cases = byCase(run, metric).filter((each) => each.test === test && [...each.of.keys()].some((name) => name !== FLOOR));
  if (cases.length === 0) return [];
  const title = `${test}: ${name}`;
  const group = (key, value) => cases.filter((each) => each[key] === value);
  const mostOf = (key) => [...new Set(cases.map((each) => each[key]))].map((value) => group(key, value)).reduce((best, next) => (next.length >= best.length ? next : best));
  const [sameThreads, sameSize] = [mostOf("n"), mostOf("size")];
  if (metric.endsWith("_us") && sameThreads.length >= Math.max(3, sameSize.length)) return [linesPanel(run, title, sameThreads, metric, "size", bytes)];
  if (metric.endsWith("_us") && sameSize.length >= 3) return [linesPanel(run, title, sameSize, metric, "n", threads)];
  return cases.slice(-2).map((each) => rankingPanel(run, [title, caseWords(each)].filter(Boolean).join(", "), each.of, words));
}

// Cases that are in no chart, with the reason.
function flawedCases(run) {
  const words = (row) => `${run.allocators.find(({ name }) => name === row.allocator)?.title}, ${row.test}${caseWords(row) ? `, ${caseWords(row)}` : ""}: ${row.flaw}`;
  const cases = [...new Set(run.rows.filter((row) => row.flaw).map(words))];
  if (cases.length === 0) return null;
  return make("details", {}, make("summary", {}, `${plural(cases.length, "case")} in no chart`), make("ul", {}, cases.map((each) => make("li", {}, each))));
}

function allFigures(run) {
  const rows = run.rows.map((row) => [row.test, run.allocators.find(({ name }) => name === row.allocator)?.title ?? row.allocator, row.size > 0 ? count(row.size) : "–", row.n > 0 ? threads(row.n) : "–", row.metric, digits(row.value) + (row.flaw ? " !" : "")]);
  const details = make("details", {}, make("summary", {}, `All ${count(rows.length)} figures`));
  // Thousands of lines are made when somebody wants them.
  details.addEventListener("toggle", () => { if (details.children.length === 1) details.append(table(["test", "allocator", "bytes", "n", "figure", ""], rows), make("p", { class: "faint" }, "! some requests got NULL, or some blocks did not hold what was written")); });
  return details;
}

function benchSection(run) {
  const tests = [...new Set(run.rows.map((row) => row.test))];
  const charts = tests.flatMap((test) => [
    ...Object.entries(TIMES).flatMap(([metric, name]) => chartsOf(run, test, metric, name, microseconds)),
    ...Object.entries(OTHERS).flatMap(([metric, [name, words]]) => (metric === "range_ratio" && test !== "frag" ? [] : chartsOf(run, test, metric, name, words))),
  ]);
  const failures = run.failures.length > 0 ? make("ul", { class: "faults" }, run.failures.map((failure) => make("li", {}, failure))) : null;
  return make("article", {},
    make("div", { class: "head" }, make("h1", {}, "bench")), run.sources.map((source) => make("p", { class: "faint" }, source)),
    make("div", { class: "tiles" }, ratioTile(run, "malloc", "alloc_us"), ratioTile(run, "free", "free_us"), fastestTile(run), flawTile(run)), failures,
    make("p", { class: "faint" }, "The floor is the same launch without an allocation. Ratios are geometric means over all cases. Cases with NULL or with corrupt blocks are in no chart."),
    make("div", { class: "panels" }, charts), flawedCases(run), allFigures(run));
}
