// The explorer of gate shapes: its sliders and pictures. What they show is computed in gates.js.
// The gates of a trained model, which a run has saved after each epoch, can be shown on the map.

const KEYS = ["a", "b", "a2", "b2", "second", "left", "right", "u", "view", "text", "epoch", "word"];
const LOWEST = 0.01,
  HIGHEST = 100;
const OF_GATE = ["a", "b", "left", "right"];
const within = v => Math.min(HIGHEST, Math.max(LOWEST, v));
const round = v => Number(v.toPrecision(3));

// what an address may hold: the gate of a trained model may lie beyond the sliders
const SHAPES = [LOWEST, Infinity];
export const LIMITS = {
  a: SHAPES,
  b: SHAPES,
  a2: SHAPES,
  b2: SHAPES,
  left: [-Infinity, 0],
  right: [1, Infinity],
  u: [0, 1],
};

// how the lines of a gate are drawn: all but the slopes by `dash`, and these by `slopes`; `legend` says it in words
const FIRST = {
  dash: "none",
  slopes: { byA: "none", byB: "6 4" },
  hollow: false,
  legend: { slopes: "∂h/∂a solid, ∂h/∂b dashed", others: "solid" },
};
const SECOND = {
  dash: "6 4",
  slopes: { byA: "12 3 2 3", byB: "2 3" },
  hollow: true,
  legend: { slopes: "∂h/∂a with dashes and dots, ∂h/∂b dotted", others: "dashed" },
};

export function shapeAt(raw, smallest) {
  // with five digits, since a step of a large or a small raw output changes fewer than three
  return within(Number((smallest + softplus(raw)).toPrecision(5)));
}

export function regionsAt(left, right) {
  // the values at test time that are written on the map, each with its place; without a mass there is no region
  const places = [
    ["0", 0.03, 40],
    ["E[K]", 3, 3],
    ["1", 3, 0.03],
  ];
  return places.filter(([z, a, b]) => ["0", "E[K]", "1"][2 * decision(masses({ a, b, left, right }), 0.5)] === z);
}

export function trainedAt(texts, epochs, [left, right], text, epoch) {
  // each word of a text with its gate after an epoch: its shapes, P(z != 0) and its value by the rule of the run
  const { tokens, gold } = texts[text],
    { a, b, open, z } = epochs[epoch - 1];
  return tokens.map((word, i) => {
    const gate = { a: a[text][i], b: b[text][i], left, right };
    return { ...gate, word, gold: Boolean(gold[i]), open: open[text][i], z: z[text][i] };
  });
}

function render({ model, el }) {
  const [blue, red] = model.get("palette"),
    orange = "#E69F00";
  const gateOf = (a, b) => ({ a: model.get(a), b: model.get(b), left: model.get("left"), right: model.get("right") });
  // The second gate also differs from the first without colour: its lines have dashes, and its marks are hollow.
  const gates = () => [
    { ...gateOf("a", "b"), colour: blue, ...FIRST, name: chosen() ? `gate of “${chosen().word}”` : "gate" },
    ...(model.get("second") ? [{ ...gateOf("a2", "b2"), colour: red, ...SECOND, name: "second gate" }] : []),
  ];
  const markOf = ({ colour, hollow }) =>
    hollow ? { fill: "none", stroke: colour, "stroke-width": 2 } : { fill: colour };
  const limits = { ...LIMITS, view: model.get("views") };
  const { root, put: change, link, close } = live("shapes", { model, el }, KEYS, redraw, limits);
  // a gate that is changed is no longer that of the word on which it stood
  const put = changes => change(OF_GATE.some(key => key in changes) ? { word: 0, ...changes } : changes);

  const texts = model.get("texts"),
    epochs = model.get("epochs"),
    between = (v, low, high) => Math.min(high, Math.max(low, Math.round(v)));
  const text = () => between(model.get("text"), 0, texts.length - 1);
  const epoch = () => between(model.get("epoch"), 1, epochs.length);
  const trained = (at = epoch()) => (texts.length ? trainedAt(texts, epochs, model.get("support"), text(), at) : []);
  const word = () => between(model.get("word"), 0, texts.length && texts[text()].tokens.length);
  const chosen = () => trained()[word() - 1];
  const standOn = (number, at = epoch()) => {
    const gate = trained(at)[number - 1];
    const shapes = gate && { a: gate.a, b: gate.b, left: gate.left, right: gate.right };
    put({ epoch: at, ...shapes, word: number });
  };

  const logs = {
    min: Math.log(LOWEST),
    max: Math.log(HIGHEST),
    step: 0.01,
    to: x => round(Math.exp(x)),
    from: Math.log,
  };
  const smallest = model.get("smallest");
  const raws = { min: -7, max: 20, step: 0.05, to: x => shapeAt(x, smallest) };
  const sliderOf = (label, key, more) =>
    slider(label, { get: () => model.get(key), set: v => put({ [key]: v }), ...more });
  const rawOf = (label, key) => {
    const raw = () => inverseSoftplus(model.get(key) - smallest);
    const row = slider(label, { ...raws, get: raw, set: v => put({ [key]: v }) });
    return row;
  };
  const both = ["a", "b"].map(key => [sliderOf(key, key, logs), rawOf(`raw ${key}`, key)]);
  const others = ["a2", "b2"].map((key, i) => [
    sliderOf(`second ${"ab"[i]}`, key, logs),
    rawOf(`second raw ${"ab"[i]}`, key),
  ]);
  const ends = [
    sliderOf("left", "left", { min: -1, max: 0, step: 0.01 }),
    sliderOf("right", "right", { min: 1, max: 2, step: 0.01 }),
  ];
  const noise = sliderOf("u", "u", { min: 0.001, max: 0.999, step: 0.001 });
  const presets = model.get("presets");
  const preset = menu("preset", ["choose a shape …", ...Object.keys(presets)], name => {
    if (presets[name]) put(Object.fromEntries(["a", "b", "left", "right"].map((key, i) => [key, presets[name][i]])));
  });
  const view = menu("beside", model.get("views"), name => put({ view: name }));
  const draw = element("button", { type: "button" }, "draw u");
  draw.addEventListener("click", () => put({ u: round(0.001 + 0.998 * Math.random()) }));
  const second = element("button", { type: "button", "aria-pressed": "false" }, "second gate");
  second.addEventListener("click", () => put({ second: !model.get("second") }));
  const titles = texts.map(({ title }, i) => `${i + 1}: ${title}`);
  const choice = menu("text on the map", titles, title => put({ text: titles.indexOf(title), word: 0 }));
  const trainedSliders = [
    slider("epoch", { min: 1, max: Math.max(1, epochs.length), step: 1, get: epoch, set: v => standOn(word(), v) }),
    slider("word", { min: 0, max: 1, step: 1, get: word, set: v => standOn(v) }),
  ];
  const words = element("p", { class: "words" }),
    about = element("p", { class: "about" });
  const trainedRows = element("div", {}, element("div", { class: "row" }, choice, ...trainedSliders), words, about);
  const look = ".words { line-height: 2; } .words span { padding: 2px 4px; border-radius: 3px; cursor: pointer; }";
  const secondRows = element("div", {}, ...others.map(pair => element("div", { class: "row" }, ...pair)));
  const pictures = element("div", { class: "row" });
  const numbers = element("div", { class: "numbers", "aria-live": "polite" });
  root.append(
    element("div", { class: "row" }, preset, view, second),
    ...both.map(pair => element("div", { class: "row" }, ...pair)),
    secondRows,
    element("div", { class: "row" }, ...ends),
    element("div", { class: "row" }, noise, draw),
    pictures,
    numbers,
    ...(texts.length ? [element("style", {}, look), trainedRows] : []),
    ...(model.isStatic ? [link] : []),
  );

  function redraw(width) {
    for (const row of [...both.flat(), ...others.flat(), ...ends, noise]) row.update();
    const known = Object.keys(presets).find(name =>
      ["a", "b", "left", "right"].every((key, i) => presets[name][i] === model.get(key)),
    );
    preset.select.value = known || "choose a shape …";
    if (texts.length) redrawTrained();
    view.select.value = model.get("view");
    second.setAttribute("aria-pressed", model.get("second"));
    secondRows.hidden = !model.get("second");
    const size = width >= 960 ? Math.floor((width - 48) / 3) : width >= 640 ? Math.floor((width - 24) / 2) : width;
    const focused = pictures.querySelector(":focus")?.dataset.gate;
    const beside = { draw: journey, cdf: cdfs, "Beta twin": twins, slopes };
    pictures.replaceChildren(map(size), densities(size), (beside[model.get("view")] || journey)(size));
    if (focused !== undefined) pictures.querySelector(`[data-gate="${focused}"]`)?.focus();
    numbers.replaceChildren(
      ...gates().map(gate =>
        element(
          "p",
          { style: `border-left: 5px ${gate.hollow ? "dashed" : "solid"} ${gate.colour}; padding-left: 8px` },
          model.get("second") ? `${legend(gate)} ${sentence(gate)}` : sentence(gate),
        ),
      ),
    );
  }

  function redrawTrained() {
    const gates = trained(),
      [epochRow, wordRow] = trainedSliders;
    choice.select.value = titles[text()];
    wordRow.querySelector("input").max = gates.length;
    epochRow.update();
    wordRow.update();
    const name = chosen()?.word ?? "none";
    wordRow.querySelector("output").textContent = name;
    wordRow.querySelector("input").setAttribute("aria-valuetext", name);
    const spans = gates.map(({ word: token, open, z, gold }, i) => {
      const made = element("span", { title: `P(z ≠ 0) = ${shown(open)}, z = ${shown(z)}`, "data-word": i + 1 }, token);
      made.style.background = `rgba(var(--mark, 230, 159, 0), ${(0.65 * open).toFixed(3)})`;
      if (z > 0) made.style.fontWeight = "bold";
      if (gold) made.style.textDecoration = "underline";
      if (i + 1 === word()) made.style.outline = `2px solid ${blue}`;
      made.addEventListener("click", () => standOn(i + 1));
      return made;
    });
    words.replaceChildren(...spans.flatMap(span => [span, " "]));
    const number = epochs[epoch() - 1].epoch;
    about.textContent =
      `The dots on the map are the gates of these words after epoch ${number} of a training, orange for words of the ` +
      "gold rationale. A dot at the border lies beyond it. Choose a word to see its gate. A bold word is selected at " +
      "test time.";
  }

  function dots(frame) {
    // the gates of the trained model, those of the gold rationale on top
    const group = shape("g");
    const order = trained().map((gate, i) => ({ ...gate, number: i + 1 }));
    for (const gate of order.sort((one, other) => one.gold - other.gold)) {
      const dot = shape("circle", {
        cx: frame.x(within(gate.a)),
        cy: frame.y(within(gate.b)),
        r: gate.gold ? 5 : 4,
        fill: gate.gold ? orange : "currentColor",
        "fill-opacity": gate.gold ? 1 : 0.45,
        stroke: gate.gold ? "currentColor" : "none",
        class: "trained",
        "data-word": gate.number,
      });
      dot.append(shape("title", {}, gate.word));
      dot.addEventListener("click", () => standOn(gate.number));
      group.append(dot);
    }
    return group;
  }

  function sentence(gate) {
    const found = describe(gate),
      z = found.decision;
    const list = Object.entries(found)
      .filter(([name]) => name !== "decision")
      .map(([name, v]) => `${name} = ${shown(v)}`);
    const won =
      z > 0 && z < 1 ? "the interval is the most probable, so the value is E[K]" : `{${z}} is the most probable`;
    return `${list.join(", ")} nats. At test time, the rule argmax gives z = ${shown(z)} (${won}).`;
  }

  function legend({ name, legend: { slopes, others } }) {
    const told = model.get("view") === "slopes" ? `${others}; ${slopes}` : others;
    return `${name[0].toUpperCase()}${name.slice(1)} (${told}):`;
  }

  let tiles = { key: "" };
  function map(size) {
    // the plane of (a, b), coloured by the decision, with a point to drag for each gate
    const frame = panel("Drag the point: z at test time", size, 300, [LOWEST, HIGHEST], [LOWEST, HIGHEST], {
      logs: true,
      xlabel: "a",
      ylabel: "b",
    });
    const [left, right] = [model.get("left"), model.get("right")],
      key = `${left} ${right} ${size}`;
    if (tiles.key !== key) {
      const count = 44,
        group = shape("g"),
        logStep = Math.log(HIGHEST / LOWEST) / count;
      const [w, h] = [(frame.east - frame.west) / count, (frame.south - frame.north) / count];
      for (let i = 0; i < count; i++)
        for (let j = 0; j < count; j++) {
          const [a, b] = [i, j].map(n => LOWEST * Math.exp((n + 0.5) * logStep));
          const m = masses({ a, b, left, right }),
            z = decision(m, 0.5);
          group.append(
            shape("rect", {
              x: frame.west + i * w,
              y: frame.south - (j + 1) * h,
              width: w,
              height: h,
              "shape-rendering": "crispEdges",
              fill: blue,
              "fill-opacity": [0.05, 0.25, 0.55][2 * z],
            }),
          );
        }
      tiles = { key, group };
    }
    frame.picture.append(tiles.group);
    for (const [z, a, b] of regionsAt(left, right))
      frame.picture.append(shape("text", { x: frame.x(a), y: frame.y(b), "text-anchor": "middle" }, `z = ${z}`));
    frame.picture.append(dots(frame));
    gates().forEach((gate, i) => frame.picture.append(handle(frame, gate, i ? ["a2", "b2"] : ["a", "b"], i)));
    const places = gates().map(g => `The ${g.name} is at a = ${shown(g.a)}, b = ${shown(g.b)}.`);
    const found = trained(),
      [open, shut] = [found.filter(g => g.z > 0).length, found.filter(g => g.z === 0).length];
    if (found.length)
      places.push(`A trained model has ${wordCount(found.length)} here, ${shut} with z = 0 and ${open} with more.`);
    return say(frame.picture, `The plane of a and b on logarithmic scales. ${places.join(" ")}`);
  }

  function handle(frame, gate, [keyA, keyB], index) {
    const dot = shape("circle", {
      cx: frame.x(within(gate.a)), // the gate of a trained model may lie beyond the map
      cy: frame.y(within(gate.b)),
      r: 11,
      fill: gate.colour,
      stroke: "#fff",
      "stroke-width": gate.hollow ? 4 : 2,
      "stroke-dasharray": gate.hollow ? "5 4" : "none",
      class: "handle",
      tabindex: 0,
      role: "slider",
      "data-gate": index,
      "aria-label": `${gate.name}, a and b`,
      "aria-valuetext": `a = ${shown(gate.a)}, b = ${shown(gate.b)}`,
      "aria-valuenow": gate.a,
    });
    const inverse = (p, low, high) => within(round(LOWEST * (HIGHEST / LOWEST) ** ((p - low) / (high - low))));
    dot.addEventListener("pointerdown", down => {
      down.preventDefault();
      dot.focus();
      const move = event => {
        const box = pictures.querySelector("svg").getBoundingClientRect();
        put({
          [keyA]: inverse(event.clientX - box.left, frame.west, frame.east),
          [keyB]: inverse(event.clientY - box.top, frame.south, frame.north),
        });
      };
      const moving = new AbortController(),
        until = { signal: moving.signal };
      window.addEventListener("pointermove", move, until);
      for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => moving.abort(), until);
    });
    dot.addEventListener("keydown", event => {
      const steps = {
        ArrowLeft: [keyA, 1 / 1.05],
        ArrowRight: [keyA, 1.05],
        ArrowDown: [keyB, 1 / 1.05],
        ArrowUp: [keyB, 1.05],
      };
      const [key, factor] = steps[event.key] || [];
      if (!key || !isPlain(event)) return;
      event.preventDefault();
      event.stopPropagation();
      put({ [key]: within(round(model.get(key) * factor)) });
    });
    return dot;
  }

  function densities(size) {
    // f_T over (left, right), the tails shaded, and the two masses on a scale of their own at the right
    const [left, right] = [model.get("left"), model.get("right")];
    const grid = Array.from({ length: 241 }, (_, i) => left + ((right - left) * (i + 0.5)) / 241);
    const curves = gates().map(gate => grid.map(t => density(t, gate)));
    const top = Math.min(6, Math.max(1.2, ...curves.flat().filter(v => v < 6)));
    const frame = panel("Density of T and masses of H", size, 300, [left, right], [0, top], {
      xlabel: "t",
      ylabel: "density",
      margin: 50,
    });
    const { x, y, south, north, east } = frame,
      cap = v => y(Math.min(top, v)),
      heightOf = mass => south - (south - north) * mass;
    frame.picture.append(shape("path", { d: `M${east},${north}V${south}`, class: "axis" }));
    for (const mass of [0, 0.5, 1])
      frame.picture.append(shape("text", { x: east + 5, y: heightOf(mass) + 4 }, shown(mass)));
    const [side, half] = [east + 38, (north + south) / 2];
    frame.picture.append(
      shape("text", { x: side, y: half, "text-anchor": "middle", transform: `rotate(-90 ${side} ${half})` }, "mass (dots)"),
    );
    gates().forEach((gate, n) => {
      const { zero, one } = masses(gate),
        points = grid.map((t, i) => [x(t), cap(curves[n][i])]);
      for (const tail of [points.filter((_, i) => grid[i] <= 0), points.filter((_, i) => grid[i] >= 1)])
        if (tail.length > 1)
          frame.picture.append(
            line([[tail[0][0], south], ...tail, [tail.at(-1)[0], south]], {
              fill: gate.colour,
              "fill-opacity": 0.25,
              stroke: "none",
            }),
          );
      frame.picture.append(line(points, { stroke: gate.colour, "stroke-dasharray": gate.dash }));
      for (const [end, mass] of [
        [0, zero],
        [1, one],
      ]) {
        const [at, height] = [x(end) + 3 * n, heightOf(mass)];
        frame.picture.append(
          line(
            [
              [at, south],
              [at, gate.hollow ? Math.min(south, height + 5) : height],
            ],
            { stroke: gate.colour, "stroke-width": 3, "stroke-dasharray": gate.dash },
          ),
        );
        frame.picture.append(
          shape("circle", { cx: at, cy: height, r: 5, ...markOf(gate), class: `mass-${end}`, "data-mass": mass }),
        );
      }
      const drawn = travel(model.get("u"), gate);
      frame.picture.append(shape("path", { d: `M${x(drawn.t)},${south}l-6,9h12z`, ...markOf(gate) }));
    });
    const heard = gates().map(gate => {
      const { zero, one } = masses(gate);
      return `The ${gate.name} is 0 with probability ${shown(zero)} and 1 with probability ${shown(one)}.`;
    });
    return say(frame.picture, `The density of the stretched variable, with two masses. ${heard.join(" ")}`);
  }

  function journey(size) {
    // u -> K -> T -> H for one draw
    const [left, right] = [model.get("left"), model.get("right")];
    const frame = panel("One draw: u → K → T → H", size, 300, [Math.min(0, left), Math.max(1, right)], [0, 1]);
    frame.picture.querySelectorAll("path, text:not(.title)").forEach(node => node.remove());
    const rows = [
      ["u", 70, 0, 1],
      ["K", 130, 0, 1],
      ["T", 190, left, right],
      ["H", 250, 0, 1],
    ];
    for (const [name, at, low, high] of rows) {
      frame.picture.append(
        line(
          [
            [frame.x(low), at],
            [frame.x(high), at],
          ],
          { class: "axis" },
        ),
      );
      frame.picture.append(shape("text", { x: 14, y: at + 4 }, name));
      for (const v of [low, high])
        frame.picture.append(shape("text", { x: frame.x(v), y: at + 18, "text-anchor": "middle" }, shown(v)));
    }
    const heard = [];
    for (const gate of gates()) {
      const u = model.get("u"),
        drawn = travel(u, gate),
        at = [u, drawn.k, drawn.t, drawn.h];
      frame.picture.append(
        line(
          at.map((v, i) => [frame.x(v), rows[i][1]]),
          { stroke: gate.colour, "stroke-dasharray": gate.dash },
        ),
      );
      at.forEach((v, i) => {
        frame.picture.append(shape("circle", { cx: frame.x(v), cy: rows[i][1], r: 5, fill: gate.colour }));
        // the number stands beside the point, away from the line that arrives from above
        const before = i && at[i - 1] > v && frame.x(v) > frame.west + 30;
        const beside = before ? { x: frame.x(v) - 9, "text-anchor": "end" } : { x: frame.x(v) + 9 };
        if (gate.colour === blue) frame.picture.append(shape("text", { ...beside, y: rows[i][1] - 7 }, shown(v)));
      });
      const clipped = drawn.t === drawn.h ? "" : ", which is clipped";
      heard.push(
        `u = ${shown(u)} becomes K = ${shown(drawn.k)}, T = ${shown(drawn.t)}, H = ${shown(drawn.h)}${clipped}.`,
      );
    }
    return say(frame.picture, heard.join(" "));
  }

  function curvesOf(title, size, range, lines, xlabel, ylabel, text) {
    const frame = panel(title, size, 300, [0, 1], range, { xlabel, ylabel });
    for (const { points, ...attributes } of lines)
      frame.picture.append(
        line(
          points.map(([v, w]) => [frame.x(v), frame.y(Math.min(range[1], Math.max(range[0], w)))]),
          attributes,
        ),
      );
    return say(frame.picture, text);
  }

  const inside = Array.from({ length: 199 }, (_, i) => (i + 1) / 200);

  function cdfs(size) {
    const lines = gates().map(gate => ({
      points: [
        [0, 0],
        [0, masses(gate).zero],
        ...inside.map(h => [h, cdf(h, gate)]),
        [1, 1 - masses(gate).one],
        [1, 1],
      ],
      stroke: gate.colour,
      "stroke-dasharray": gate.dash,
    }));
    return curvesOf(
      "The cdf jumps at 0 and at 1",
      size,
      [0, 1],
      lines,
      "h",
      "P(H ≤ h)",
      "The cumulative distribution, with a jump at 0 and a jump at 1.",
    );
  }

  function twins(size) {
    const lines = gates().flatMap(({ a, b, colour, dash }) => {
      const [alpha, beta] = twin(a, b),
        log = logGamma(alpha + beta) - logGamma(alpha) - logGamma(beta);
      const betaAt = k => Math.exp(log + (alpha - 1) * Math.log(k) + (beta - 1) * Math.log1p(-k));
      return [
        {
          points: inside.map(k => [k, Math.exp(logDensity(Math.log(k), a, b))]),
          stroke: colour,
          "stroke-dasharray": dash,
        },
        { points: inside.map(k => [k, betaAt(k)]), stroke: "currentColor", "stroke-dasharray": "2 4" },
      ];
    });
    return curvesOf(
      "The base K, and its Beta (dotted)",
      size,
      [0, 4],
      lines,
      "k",
      "density",
      "The density of the Kumaraswamy and of the Beta with the same mean and variance.",
    );
  }

  function slopes(size) {
    const lines = gates().flatMap(gate =>
      ["byA", "byB"].map(by => ({
        points: inside.map(u => [u, travel(u, gate)[by]]),
        stroke: gate.colour,
        "stroke-dasharray": gate.slopes[by],
      })),
    );
    const top = Math.max(0.1, ...lines.flatMap(({ points }) => points.map(([, v]) => Math.abs(v))));
    return curvesOf(
      model.get("second") ? "∂h/∂a and ∂h/∂b" : "∂h/∂a (solid), ∂h/∂b (dashed)",
      size,
      [-top, top],
      lines,
      "u",
      "derivative of a draw",
      "How a draw moves with a, and how it moves with b. Both are 0 where the draw is clipped.",
    );
  }

  return close;
}

export default { render };
