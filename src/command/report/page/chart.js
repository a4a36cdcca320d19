// Charts as SVG: areas and lines over a common axis, and bars.

const HEIGHT = 190;
const MARGIN = { left: 62, right: 12, top: 8, bottom: 24 };

// A scale from numbers to places; `of` a number that has no place is null.
function scale(least, most, from, to, isLog) {
  const place = isLog ? Math.log : (number) => number;
  const [low, high] = [place(least), place(most)];
  const width = high - low || 1;
  return (number) => (isLog && number <= 0 ? null : from + ((place(number) - low) / width) * (to - from));
}

// Round numbers from 0 to `most`, about `wanted` of them.
function ticks(most, wanted) {
  const rough = most / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const numbers = [];
  for (let number = 0; number <= most * 1.0001; number += step) numbers.push(number);
  return numbers;
}

// Round numbers of bytes.
function byteTicks(most, wanted) {
  const rough = most / wanted || 1;
  const numbers = [];
  const step = 2 ** Math.ceil(Math.log2(rough));
  for (let number = 0; number <= most * 1.0001; number += step) numbers.push(number);
  return numbers;
}

// Powers of `base` between two numbers, at most `wanted`.
function logTicks(least, most, base, wanted) {
  const log = (number) => Math.log(number) / Math.log(base);
  const [low, high] = [Math.ceil(log(least) - 1e-9), Math.floor(log(most) + 1e-9)];
  const step = Math.max(1, Math.ceil((high - low + 1) / wanted));
  const numbers = [];
  for (let power = low; power <= high; power += step) numbers.push(base ** power);
  return numbers;
}

// The axes of a chart: lines and numbers. `x` and `y` have `at` (a scale), `ticks` and `words`.
function axes(width, height, x, y) {
  const bottom = height - MARGIN.bottom;
  const parts = y.ticks.map((number) => [
    draw("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: y.at(number), y2: y.at(number) }),
    draw("text", { x: MARGIN.left - 6, y: y.at(number) + 4, "text-anchor": "end" }, y.words(number)),
  ]);
  const room = (width - MARGIN.left - MARGIN.right) / Math.max(1, x.ticks.length - 1);
  const each = Math.max(1, Math.ceil(60 / room));
  const marks = x.ticks.filter((_, index) => index % each === 0).map((number) => draw("text", {
    // In the middle under its place, unless it would be cut off there.
    x: x.at(number), y: bottom + 16, "text-anchor": x.at(number) > width - 30 ? "end" : "middle",
  }, x.words(number)));
  return draw("g", {}, parts.flat(), marks);
}

function frame(label, width, height, children) {
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label }, children);
}

function path(points, isArea) {
  const line = points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L");
  return line && `M${line}${isArea ? "Z" : ""}`;
}

// Runs of points that have a place, so that a line has gaps where it is unknown.
function stretches(points) {
  const runs = [[]];
  for (const point of points) {
    if (point[0] === null || point[1] === null) runs.push([]);
    else runs[runs.length - 1].push(point);
  }
  return runs.filter((run) => run.length > 0);
}

// Areas on top of each other and lines, over `x.values`. What is shown of `options`:
//   label, x: { values, words }, y: { words, most, ticks }, areas and lines: [{ name, colour, values }],
//   marked(): the index of a marked value, pick(index): who wants to know that another was chosen.
function timeChart(options) {
  const { label, x, y, areas = [], lines = [], marked, pick } = options;
  const totals = x.values.map((_, index) => areas.reduce((sum, area) => sum + area.values[index], 0));
  const highest = Math.max(...totals, ...lines.flatMap((line) => line.values.map((value) => value ?? 0)));
  const most = y.most ?? (highest || 1);
  const last = x.values[x.values.length - 1];
  return picture((holder, width) => {
    const bottom = HEIGHT - MARGIN.bottom;
    const xAt = scale(x.values[0], last, MARGIN.left, width - MARGIN.right, false);
    const yAt = scale(0, most, bottom, MARGIN.top, false);
    const floor = x.values.map(() => 0);
    const stacked = areas.map((area) => {
      const low = floor.map((value, index) => [xAt(x.values[index]), yAt(value)]);
      area.values.forEach((value, index) => { floor[index] += value; });
      const high = floor.map((value, index) => [xAt(x.values[index]), yAt(value)]);
      return draw("path", { d: path([...high, ...low.reverse()], true), style: `fill:${area.colour}` });
    });
    const drawn = lines.flatMap((line) => {
      const points = line.values.map((value, index) => [xAt(x.values[index]), value === null ? null : yAt(value)]);
      return stretches(points).map((run) => draw("path", { d: path(run, false), style: `fill:none;stroke:${line.colour};stroke-width:2` }));
    });
    const grid = axes(width, HEIGHT, { at: xAt, ticks: ticks(last, 6), words: x.words }, { at: yAt, ticks: y.ticks(most, 4), words: y.words });
    const place = xAt(x.values[marked()]);
    const mark = draw("line", { class: "mark", x1: place, x2: place, y1: MARGIN.top, y2: bottom });
    const chart = frame(label, width, HEIGHT, [stacked, grid, drawn, mark].flat());
    const choose = (event) => {
      const share = (event.clientX - chart.getBoundingClientRect().left - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
      pick(nearest(x.values, x.values[0] + share * (last - x.values[0])));
    };
    chart.addEventListener("pointerdown", choose);
    chart.addEventListener("pointermove", (event) => { if (event.buttons > 0) choose(event); });
    holder.replaceChildren(chart);
  });
}

function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, index) => { if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = index; });
  return best;
}

// Lines between points on logarithmic axes: [{ name, colour, points: [[x, y, low, high]] }]; from low to high there is a thin line.
function logChart({ label, x, y, lines }) {
  const points = lines.flatMap((line) => line.points);
  const xs = points.map(([number]) => number);
  const ys = points.flatMap(([, ...numbers]) => numbers).filter((number) => number > 0);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys) / 1.3, Math.max(...ys) * 1.3];
  return picture((holder, width) => {
    const height = HEIGHT + 50;
    const xAt = scale(left, right, MARGIN.left + 4, width - MARGIN.right - 4, true);
    const yAt = scale(low, high, height - MARGIN.bottom, MARGIN.top, true);
    const grid = axes(width, height, { at: xAt, ticks: logTicks(left, right, 2, 12), words: x.words }, { at: yAt, ticks: logTicks(low, high, 10, 6), words: y.words });
    const drawn = lines.map((line) => {
      const places = line.points.map(([a, b]) => [xAt(a), yAt(b)]).filter(([, b]) => b !== null);
      const spreads = line.points.filter(([, , below, above]) => below > 0 && above > below).map(([a, , below, above]) =>
        draw("line", { x1: xAt(a), x2: xAt(a), y1: yAt(below), y2: yAt(above), style: `stroke:${line.colour};stroke-width:5;opacity:.35` }));
      const dots = places.map(([cx, cy]) => draw("circle", { cx, cy, r: 3, style: `fill:${line.colour}` }));
      return [draw("path", { d: path(places, false), style: `fill:none;stroke:${line.colour};stroke-width:2` }), spreads, dots];
    });
    holder.replaceChildren(frame(label, width, height, [grid, drawn.flat(2)].flat()));
  });
}

// Upright bars with a name under some of them: [{ name, value, back, colour }]; `back` is a paler bar behind. On a logarithmic scale bars
// begin below 1, so that a single thing is seen.
function barChart({ label, bars, words, marks = [], isLog = false }) {
  const highest = Math.max(...bars().map((bar) => Math.max(bar.value, bar.back || 0)));
  const most = isLog ? Math.max(10, highest) : highest || 1;
  return picture((holder, width) => {
    const all = bars();
    const bottom = HEIGHT - MARGIN.bottom;
    const room = (width - MARGIN.left - MARGIN.right) / Math.max(1, all.length);
    const place = scale(isLog ? 0.5 : 0, most, bottom, MARGIN.top, isLog);
    const yAt = (number) => place(number) ?? bottom;
    const bar = (index, value, fill, opacity) => draw("rect", {
      x: MARGIN.left + index * room + room * 0.1, width: room * 0.8, y: yAt(value), height: Math.max(0, bottom - yAt(value)),
      style: `fill:${fill};opacity:${opacity}`,
    });
    const drawn = all.map((each, index) => [each.back ? bar(index, each.back, each.colour, 0.25) : null, bar(index, each.value, each.colour, 1)]);
    const xAt = (index) => MARGIN.left + (index + 0.5) * room;
    const names = { at: xAt, ticks: all.map((_, index) => index), words: (index) => all[index].name };
    const lines = marks.map((mark, index) => draw("g", {}, draw("line", { class: "mark", x1: xAt(mark.at - 0.5), x2: xAt(mark.at - 0.5), y1: MARGIN.top, y2: bottom }),
      draw("text", { x: xAt(mark.at - 0.5) + 3, y: MARGIN.top + 9 + index * 12, class: "value" }, mark.name)));
    const grid = axes(width, HEIGHT, names, { at: yAt, ticks: isLog ? logTicks(1, most, 10, 6) : ticks(most, 4), words });
    holder.replaceChildren(frame(label, width, HEIGHT, [grid, drawn.flat().filter(Boolean), lines].flat()));
  });
}

// Lying bars with names and numbers: [{ name, value, words, colour }]. A logarithmic scale begins at half of the least.
function ranking({ label, bars, isLog }) {
  const values = bars.map((bar) => bar.value);
  const [least, most] = [isLog ? Math.min(...values) / 2 : 0, Math.max(...values)];
  return picture((holder, width) => {
    const [names, numbers] = [Math.min(130, width * 0.35), 74];
    const at = scale(least, most, 0, width - names - numbers, isLog);
    const rows = bars.map((bar, index) => [
      draw("text", { x: names - 6, y: index * 22 + 15, "text-anchor": "end" }, bar.name),
      draw("rect", { x: names, y: index * 22 + 4, width: Math.max(1, at(bar.value) ?? 1), height: 15, rx: 2, style: `fill:${bar.colour}` }),
      draw("text", { class: "value", x: names + Math.max(1, at(bar.value) ?? 1) + 5, y: index * 22 + 15 }, bar.words),
    ]);
    holder.replaceChildren(frame(label, width, bars.length * 22 + 6, rows.flat()));
  });
}

// Names of areas and lines with their colours, and their numbers where the mark is.
function legend(entries) {
  return make("ul", { class: "legend" }, entries.map(({ name, colour, text }) =>
    make("li", {}, swatch(colour), name, text ? [" ", make("b", {}, text)] : null)));
}
