// Numbers as people read them. No line ends between a number and its unit.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytes(number) {
  let unit = 0;
  while (number >= 1024 && unit < UNITS.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${Number.isInteger(number) ? number : digits(number)}\u00a0${UNITS[unit]}`;
}

// Three digits.
function digits(number) {
  if (number === 0) return "0";
  const whole = Math.floor(Math.log10(Math.abs(number))) + 1;
  return number.toFixed(Math.min(4, Math.max(0, 3 - Math.max(whole, 1))));
}

const count = (number) => Math.round(number).toLocaleString("en");
const percent = (share) => `${(share * 100).toFixed(1)}\u00a0%`;
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

function scaled(number, steps) {
  if (number === 0) return `0${steps[0][0]}`;
  const [unit, size] = steps.find(([, size]) => number >= size) || steps[steps.length - 1];
  return `${digits(number / size)}${unit}`;
}

const rate = (number) => (number === 0 ? "0/s" : scaled(number, [["\u00a0G/s", 1e9], ["\u00a0M/s", 1e6], ["\u00a0k/s", 1e3], ["/s", 1]]));
const seconds = (number) => scaled(number, [["\u00a0s", 1], ["\u00a0ms", 1e-3], ["\u00a0µs", 1e-6], ["\u00a0ns", 1e-9]]);
const nanoseconds = (number) => seconds(number * 1e-9);
const microseconds = (number) => seconds(number * 1e-6);

// Powers of two as such where they are large.
function threads(number) {
  const log = Math.log2(number);
  return Number.isInteger(log) && log >= 10 ? `2^${log}` : count(number);
}
