// Elements of the page. Text is only ever put in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const swatch = (colour) => make("span", { class: "swatch", style: `background:${colour}` });
const colour = (name) => `var(--${name})`;

// A colour as the canvas takes it, in the scheme that is shown now.
const resolved = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function panel(title, about, ...children) {
  return make("section", { class: "panel" }, make("h3", {}, title), typeof about === "string" ? make("p", { class: "faint" }, about) : about, ...children);
}

function table(head, rows) {
  const cells = (tag, texts) => make("tr", {}, texts.map((text) => make(tag, {}, String(text))));
  const body = make("tbody", {}, rows.map((row) => cells("td", row)));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, cells("th", head)), body));
}

// What is drawn for the width that there is, and again when that or the colours change.
const drawings = new Map();
const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const drawing = drawings.get(target);
    if (drawing && contentRect.width > 0 && contentRect.width !== drawing.width) redraw(target, contentRect.width);
  }
});

function redraw(holder, width) {
  const drawing = drawings.get(holder);
  drawing.width = width;
  drawing.paint(width);
}

function redrawAll() {
  for (const [holder, { width }] of drawings) if (width > 0) redraw(holder, width);
}

// A place for a picture; `paint(holder, width)` fills it.
function picture(paint) {
  const holder = make("div");
  drawings.set(holder, { width: 0, paint: (width) => paint(holder, width) });
  sizes.observe(holder);
  return holder;
}

// Forgets the pictures of what is taken out of the page.
function discard(element) {
  for (const holder of [...drawings.keys()]) {
    if (element.contains(holder)) {
      drawings.delete(holder);
      sizes.unobserve(holder);
    }
  }
  element.remove();
}

// Paints a picture again, if it is shown.
function repaint(holder) {
  const drawing = drawings.get(holder);
  if (drawing && drawing.width > 0) drawing.paint(drawing.width);
}
