// The heap as a map: cells in the order of their addresses, coloured by the size of their blocks, paler where they are less full.

const [FREE, RUN, LOST] = [0, 1, 2];
const RAMP = 6;

// Place of a size on the ramp of colours, 0 to 1, by its logarithm.
function place(slotBytes, least, most) {
  const share = (Math.log2(slotBytes) - Math.log2(least)) / (Math.log2(most) - Math.log2(least) || 1);
  return Math.min(1, Math.max(0, share));
}

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function mixed(from, to, share) {
  return channels(from).map((channel, index) => Math.round(channel + (channels(to)[index] - channel) * share));
}

// The colour of a size on the ramp.
function rampColour(ramp, share) {
  const index = Math.min(RAMP - 2, Math.floor(share * (RAMP - 1)));
  return mixed(ramp[index], ramp[index + 1], share * (RAMP - 1) - index);
}

function palette() {
  const ramp = Array.from({ length: RAMP }, (_, index) => resolved(`ramp-${index}`));
  return { ramp, runs: channels(resolved("runs")), free: channels(resolved("free")), lost: channels(resolved("lost")) };
}

// The colour of a cell: of what is in it, over that of free pages.
function cellColour(colours, contents, used, range) {
  if (contents === FREE) return colours.free;
  const full = { [RUN]: colours.runs, [LOST]: colours.lost }[contents] || rampColour(colours.ramp, place(contents, ...range));
  const share = contents === LOST ? 1 : 0.22 + 0.78 * (used / 100);
  return colours.free.map((channel, index) => Math.round(channel + (full[index] - channel) * share));
}

function paintMap(canvas, width, moment, range) {
  const { contents, used } = moment.map;
  const columns = width < 480 ? 32 : width < 800 ? 48 : 64;
  const rows = Math.ceil(contents.length / columns);
  const cell = width / columns;
  const dense = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * dense), Math.round(cell * rows * dense)];
  canvas.style.height = `${cell * rows}px`;
  const context = canvas.getContext("2d");
  context.scale(dense, dense);
  const colours = palette();
  contents.forEach((what, index) => {
    context.fillStyle = `rgb(${cellColour(colours, what, used[index], range).join(",")})`;
    context.fillRect((index % columns) * cell, Math.floor(index / columns) * cell, cell - 1, cell - 1);
  });
  canvas.dataset.columns = columns;
}

// What a cell is, in words.
function cellWords(moment, index) {
  const { contents, used, pages_per_cell: pages } = moment.map;
  const what = contents[index];
  const begin = `at ${bytes(index * pages * moment.page_bytes)}: `;
  if (what === FREE) return `${begin}free`;
  if (what === LOST) return `${begin}in no use that makes sense`;
  return `${begin}${what === RUN ? "runs of pages" : `slots of ${bytes(what)}`}, ${used[index]} % handed out`;
}

// The map of the marked moment. `state` has `moments`, `index` and `range`, the least and the largest slot.
function heatMap(state) {
  const canvas = make("canvas", { role: "img" });
  const words = make("p", { class: "faint", "aria-live": "polite" }, "Touch a cell to see what it is.");
  canvas.addEventListener("pointermove", (event) => {
    const columns = Number(canvas.dataset.columns);
    const box = canvas.getBoundingClientRect();
    const cell = box.width / columns;
    const index = Math.floor((event.clientY - box.top) / cell) * columns + Math.floor((event.clientX - box.left) / cell);
    const moment = state.moments[state.index];
    if (index < moment.map.contents.length) words.textContent = cellWords(moment, index);
  });
  const holder = picture((_, width) => {
    const moment = state.moments[state.index];
    paintMap(canvas, width, moment, state.range);
    canvas.setAttribute("aria-label", `map of the heap ${moment.after}: ${percent(moment.used_bytes / moment.capacity)} handed out`);
  });
  holder.append(canvas);
  return { holder, words };
}

// The sizes of the ramp with their colours.
function mapLegend({ slots, range }) {
  const steps = Array.from({ length: RAMP }, (_, index) => {
    const distance = (size) => Math.abs(place(size, ...range) - index / (RAMP - 1));
    const size = slots.reduce((best, next) => (distance(next) < distance(best) ? next : best), slots[0]);
    return size === undefined ? null : { name: bytes(size), colour: colour(`ramp-${index}`) };
  }).filter((step, index, all) => step && step.name !== all[index - 1]?.name);
  return legend([...steps, { name: "runs of pages", colour: colour("runs") }, { name: "free", colour: colour("free") }]);
}
