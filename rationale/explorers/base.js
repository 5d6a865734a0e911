// What the explorers in this folder share: elements, sliders, axes, and the state in the address of a page.
// Each explorer is this file followed by its own. The result is one module for JupyterLab, for Voilà and for the book.

const NAMESPACE = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A number with three digits, as people write it.
function shown(value) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "no number" : value > 0 ? "∞" : "-∞";
  const size = Math.abs(value);
  return size > 0 && (size < 0.001 || size >= 1e4) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

// A number of words: 1 word, 3 words.
const wordCount = number => `${number} ${number === 1 ? "word" : "words"}`;

// Two to five numbers from `low` to `high`, whose steps are 1, 2 or 5 times a power of ten.
function roundNumbers(low, high) {
  if (!(high > low)) return [low];
  const unit = 10 ** Math.floor(Math.log10((high - low) / 2));
  const step = [5, 2, 1].map(factor => factor * unit).find(step => high - low >= 2 * step * (1 - 1e-9));
  const [first, last] = [Math.ceil(low / step - 1e-6), Math.floor(high / step + 1e-6)];
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(6)));
}

// Whether a key is pressed without Alt, Ctrl and Meta. With one of them it belongs to the browser, as Alt and an arrow.
const isPlain = event => !(event.altKey || event.ctrlKey || event.metaKey);

// A slider with a label and its value; `to` and `from` change between its position and its value.
function slider(label, { min, max, step, to = x => x, from = x => x, get, set }) {
  const input = element("input", { type: "range", min, max, step, "aria-label": label });
  const value = element("output");
  input.addEventListener("input", () => set(to(Number(input.value))));
  const ways = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
  input.addEventListener("keydown", event => {
    if (!ways[event.key] || !isPlain(event)) return;
    // done here, because JupyterLab does not leave the arrow keys to the browser
    event.preventDefault();
    event.stopPropagation();
    const before = input.value;
    input.value = Number(before) + step * ways[event.key];
    if (input.value !== before) set(to(Number(input.value))); // at its end, the number may lie beyond the slider
  });
  const row = element("label", { class: "slider" }, element("span", {}, label), input, value);
  row.update = () => {
    input.value = Math.min(Number(input.max), Math.max(Number(input.min), from(get()))); // of -∞ it would be the middle
    value.textContent = shown(get());
    input.setAttribute("aria-valuetext", shown(get()));
  };
  return row;
}

function menu(label, options, set) {
  const select = element("select", { "aria-label": label });
  for (const name of options) select.append(element("option", { value: name }, name));
  select.addEventListener("change", () => set(select.value));
  const row = element("label", { class: "menu" }, element("span", {}, label), select);
  row.select = select;
  return row;
}

// A panel with axes. `x` and `y` map numbers to pixels; `margin` is the room at the right; `whole` says that the x axis
// counts something, so that only whole numbers stand below it.
function panel(
  title,
  width,
  height,
  [left, right],
  [bottom, top],
  { logs = false, whole = false, xlabel = "", ylabel = "", margin = 18 } = {},
) {
  const [west, east, north, south] = [52, width - margin, 26, height - 36];
  const along = logs ? Math.log : v => v;
  const x = v => west + ((east - west) * (along(v) - along(left))) / (along(right) - along(left));
  const y = v => south - ((south - north) * (along(v) - along(bottom))) / (along(top) - along(bottom));
  const picture = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  const ticks = (low, high) =>
    logs ? [0.01, 0.1, 1, 10, 100].filter(v => v >= low && v <= high) : roundNumbers(low, high);
  picture.append(shape("text", { x: west, y: 16, class: "title" }, title));
  picture.append(shape("path", { d: `M${west},${north}V${south}H${east}`, class: "axis" }));
  for (const v of ticks(left, right).filter(v => !whole || Number.isInteger(v)))
    picture.append(shape("text", { x: x(v), y: south + 14, "text-anchor": "middle" }, shown(v)));
  for (const v of ticks(bottom, top))
    picture.append(shape("text", { x: west - 5, y: y(v) + 4, "text-anchor": "end" }, shown(v)));
  picture.append(shape("text", { x: (west + east) / 2, y: height - 6, "text-anchor": "middle" }, xlabel));
  picture.append(
    shape(
      "text",
      { x: 12, y: (north + south) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(north + south) / 2})` },
      ylabel,
    ),
  );
  return { picture, x, y, west, east, north, south };
}

function line(points, attributes) {
  const d = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(2)},${y.toFixed(2)}`).join("");
  return shape("path", { d, fill: "none", "stroke-width": 2, ...attributes });
}

// A picture with what it shows in words, for a tooltip and for those who do not see it.
function say(picture, text) {
  picture.setAttribute("aria-label", text);
  picture.prepend(shape("title", {}, text));
  return picture;
}

// A word on orange, the darker the larger `shade` in [0, 1] is; bold if it is selected, underlined if it is gold.
function markedWord(word, { shade, selected, gold, title }) {
  const made = element("span", { title }, word);
  made.style.background = `rgba(var(--mark, 230, 159, 0), ${(0.65 * shade).toFixed(3)})`;
  if (selected) made.style.fontWeight = "bold";
  if (gold) made.style.textDecoration = "underline";
  return made;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // a mark of the page itself, such as #100%
  }
}

// The state in the address of a static page: #name?key=value&key=value. A notebook's address is left alone.
// `limits` has the lowest and the highest number of a key, or all its texts. Any other value is left out. Returns
// whether the address is one of this explorer.
function readAddress(name, model, keys, limits = {}) {
  const [found, query] = decoded(location.hash.slice(1)).split("?");
  if (!model.isStatic || found !== name || !query) return false;
  const isNumber = (text, [low, high] = [-Infinity, Infinity]) =>
    text.trim() !== "" && Number.isFinite(Number(text)) && low <= Number(text) && Number(text) <= high;
  for (const [key, text] of new URLSearchParams(query))
    if (keys.includes(key)) {
      const old = model.get(key);
      if (Array.isArray(old)) {
        const numbers = text.split(",");
        if (numbers.length === old.length && numbers.every(number => isNumber(number, limits[key])))
          model.set(key, numbers.map(Number));
      } else if (typeof old === "boolean") model.set(key, text === "true");
      else if (typeof old === "string") (limits[key] || [text]).includes(text) && model.set(key, text);
      else if (isNumber(text, limits[key])) model.set(key, Number(text));
    }
  return true;
}

function address(name, model, keys) {
  return `#${name}?${keys.map(key => `${key}=${encodeURIComponent(String(model.get(key)))}`).join("&")}`;
}

// Redraws at most once per frame, when the model, the address or the width of the element changes.
function live(name, { model, el }, keys, redraw, limits) {
  let isWanted = false; // by an address that has just been opened: a long page is then scrolled to the explorer
  const read = () => {
    isWanted = readAddress(name, model, keys, limits);
    if (isWanted) later();
  };
  window.addEventListener("hashchange", read); // another address of the same page does not load it again
  const root = element("div", { class: "rationale-explorer", id: model.isStatic ? name : "" });
  el.append(element("style", {}, STYLE), root);
  let waiting = 0,
    lastWidth = 0;
  const link = element("a", { class: "address" }, "link to this state of the picture");
  const now = () => {
    waiting = 0;
    if (!root.isConnected) return;
    const start = performance.now();
    redraw(Math.max(260, root.clientWidth || 700));
    root.dataset.milliseconds = (performance.now() - start).toFixed(1);
    if (isWanted) root.scrollIntoView();
    isWanted = false;
    if (model.isStatic) {
      link.href = address(name, model, keys);
      if (root.dataset.touched) history.replaceState(null, "", link.href);
    }
  };
  const later = () => {
    waiting ||= requestAnimationFrame(now);
  };
  for (const key of keys) model.on(`change:${key}`, later);
  const watcher = new ResizeObserver(() => {
    if (root.clientWidth !== lastWidth) later();
    lastWidth = root.clientWidth;
  });
  watcher.observe(root);
  read();
  const put = changes => {
    root.dataset.touched = "yes";
    for (const [key, value] of Object.entries(changes)) model.set(key, value);
    model.save_changes();
    later();
  };
  later();
  return {
    root,
    put,
    link,
    close: () => {
      window.removeEventListener("hashchange", read);
      watcher.disconnect();
      cancelAnimationFrame(waiting);
    },
  };
}

const STYLE = `
.rationale-explorer { --ink: var(--jp-ui-font-color1, var(--md-typeset-color, currentColor)); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; }
.rationale-explorer * { box-sizing: border-box; }
.rationale-explorer .row { display: flex; flex-wrap: wrap; gap: 2px 24px; align-items: center; }
.rationale-explorer .slider { display: flex; align-items: center; gap: 8px; flex: 1 1 280px; max-width: 520px;
  min-height: 34px; }
.rationale-explorer .slider span { flex: 0 0 96px; white-space: nowrap; }
.rationale-explorer .slider input { flex: 1; min-width: 90px; height: 28px; }
.rationale-explorer .slider output { flex: 0 0 58px; font-variant-numeric: tabular-nums; }
.rationale-explorer .menu { display: flex; gap: 8px; align-items: center; min-width: 0; max-width: 100%; }
.rationale-explorer .menu select { flex: 1; min-width: 0; }
.rationale-explorer :is(select, button) { font: inherit; min-height: 32px; max-width: 100%; color: var(--ink);
  background: transparent; border: 1px solid currentColor; border-radius: 4px; padding: 0 8px; }
.rationale-explorer option { color: #000; background: #fff; }
.rationale-explorer svg { display: block; max-width: 100%; touch-action: pan-y; }
.rationale-explorer svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
.rationale-explorer svg .title { font-size: 14px; font-weight: 600; }
.rationale-explorer .axis { stroke: var(--ink); fill: none; stroke-width: 1; opacity: .7; }
.rationale-explorer .handle { cursor: grab; touch-action: none; }
.rationale-explorer .handle:focus-visible { outline: 3px solid #E69F00; outline-offset: 3px; }
.rationale-explorer .numbers { font-variant-numeric: tabular-nums; }
.rationale-explorer .said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.rationale-explorer .address { font-size: 14px; color: inherit; text-decoration: underline; }
`;
