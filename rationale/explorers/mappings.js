// The explorer of attention mappings: one row of scores through each map, eqs. (A1)-(A6) of 40_sparse_attention.

// --- the mathematics, in plain forms; a test compares it with rationale/nn/mappings

const sum = values => values.reduce((total, v) => total + v, 0);

const positive = v => (v > 1e-13 ? v : 0); // less is rounding: the weight is exactly 0

export function project(v) {
  // (A2): the nearest point of the simplex
  const sorted = [...v].sort((x, y) => y - x);
  let total = 0,
    tau = 0;
  sorted.forEach((x, i) => {
    total += x;
    if (x > (total - 1) / (i + 1)) tau = (total - 1) / (i + 1);
  });
  return v.map(x => positive(x - tau));
}

export function smooth(x, lam) {
  // P_TV of (A3): the shortest path through a tube around the sums, its slopes
  const sums = [0];
  for (const v of x) sums.push(sums.at(-1) + v);
  const last = x.length,
    found = [];
  const low = j => sums[j] - (j < last ? lam : 0),
    high = j => sums[j] + (j < last ? lam : 0);
  let [start, value] = [0, 0];
  while (start < last) {
    let [steepest, atSteepest, flattest, atFlattest] = [-Infinity, 0, Infinity, 0],
      bend = null;
    for (let j = start + 1; j <= last && !bend; j++) {
      const [rise, fall] = [(low(j) - value) / (j - start), (high(j) - value) / (j - start)];
      if (rise > flattest) bend = [atFlattest, high(atFlattest)];
      else if (fall < steepest) bend = [atSteepest, low(atSteepest)];
      else {
        if (rise >= steepest) [steepest, atSteepest] = [rise, j];
        if (fall <= flattest) [flattest, atFlattest] = [fall, j];
      }
    }
    const [end, height] = bend || [last, sums[last]];
    for (let j = start; j < end; j++) found.push((height - value) / (end - start));
    [start, value] = [end, height];
  }
  return found;
}

function pooled(v) {
  // the nearest sequence that does not increase
  const groups = [];
  for (const x of v) {
    groups.push([x, 1]);
    while (groups.length > 1 && groups.at(-1)[0] > groups.at(-2)[0]) {
      const [[x2, n2], [x1, n1]] = [groups.pop(), groups.pop()];
      groups.push([(x1 * n1 + x2 * n2) / (n1 + n2), n1 + n2]);
    }
  }
  return groups.flatMap(([x, n]) => Array(n).fill(x));
}

function root(decreasing, low, high) {
  // where a decreasing function is 1
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2;
    if (decreasing(middle) > 1) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

export const MAPS = {
  softmax(x, gamma) {
    const top = Math.max(...x),
      powers = x.map(v => Math.exp((v - top) / gamma)),
      total = sum(powers);
    return powers.map(v => v / total);
  },
  sparsemax: (x, gamma) => project(x.map(v => v / gamma)),
  entmax(x, gamma) {
    // (A6) with alpha = 3/2
    const weights = u => x.map(s => positive(1 + 0.5 * (s / gamma - u)) ** 2);
    const top = Math.max(...x) / gamma;
    return weights(root(u => sum(weights(u)), top, top + 2));
  },
  fusedmax: (x, gamma, lam) =>
    project(
      smooth(
        x.map(v => v / gamma),
        lam,
      ),
    ),
  oscarmax(x, gamma, lam) {
    // (A4)
    const order = x.map((_, i) => i).sort((i, j) => x[j] - x[i]),
      d = x.length,
      y = Array(d);
    project(pooled(order.map((i, n) => x[i] / gamma - lam * (d - 1 - n)))).forEach((v, n) => {
      y[order[n]] = v;
    });
    return y;
  },
  sq_pnorm_max(x, gamma) {
    // (A5) with p = 3/2, so q = 3
    const weights = tau => {
      const v = x.map(s => positive((s - tau) / gamma)),
        norm = Math.cbrt(sum(v.map(s => s ** 3)));
      return v.map(s => (norm ? (s * s) / norm : 0));
    };
    const top = Math.max(...x);
    return weights(root(tau => sum(weights(tau)), top - gamma, top));
  },
};

export function isFlat(x, gamma, lam) {
  // (A9): fusedmax is uniform and has no gradient
  const mean = sum(x) / x.length;
  let partial = 0,
    largest = 0;
  for (const v of x) largest = Math.max(largest, Math.abs((partial += v - mean)));
  return lam > 0 && largest <= gamma * lam;
}

// --- the picture

const KEYS = ["scores", "gamma", "lam"];
export const LIMITS = { scores: [-3, 3], gamma: [0.1, 10], lam: [0, 1] };

function render({ model, el }) {
  const [blue, red] = model.get("palette");
  const { root: area, put, link, close } = live("mappings", { model, el }, KEYS, redraw, LIMITS);
  const setScore = (i, v) => put({ scores: model.get("scores").map((old, j) => (j === i ? v : old)) });
  const rows = model
    .get("scores")
    .map((_, i) =>
      slider(`score ${i + 1}`, {
        min: -3,
        max: 3,
        step: 0.1,
        get: () => model.get("scores")[i],
        set: v => setScore(i, v),
      }),
    );
  const gamma = slider("γ", {
    min: -1,
    max: 1,
    step: 0.02,
    to: x => Number((10 ** x).toPrecision(3)),
    from: Math.log10,
    get: () => model.get("gamma"),
    set: v => put({ gamma: v }),
  });
  const lam = slider("λ", { min: 0, max: 1, step: 0.01, get: () => model.get("lam"), set: v => put({ lam: v }) });
  const pictures = element("div", { class: "row" }),
    numbers = element("div", { class: "numbers", "aria-live": "polite" });
  area.append(
    element("div", { class: "row" }, ...rows),
    element("div", { class: "row" }, gamma, lam),
    pictures,
    numbers,
    ...(model.isStatic ? [link] : []),
  );

  function redraw(width) {
    for (const row of [...rows, gamma, lam]) row.update();
    const x = model.get("scores"),
      settings = [model.get("gamma"), model.get("lam")];
    const size = Math.floor((width - 24 * (width >= 640 ? 2 : 1)) / (width >= 960 ? 3 : width >= 420 ? 2 : 1)) - 8;
    const all = Object.entries(MAPS).map(([name, map]) => [name.replaceAll("_", "-"), map(x, ...settings)]);
    pictures.replaceChildren(...all.map(([name, y]) => bars(name, y, size)));
    const zeros = all.map(([name, y]) => `${name} ${y.filter(v => v === 0).length}`).join(", ");
    const warning = isFlat(x, ...settings) ? " Fusedmax gives equal weights here and has no gradient." : "";
    numbers.textContent = `Number of weights that are exactly 0: ${zeros}.${warning}`;
  }

  function bars(name, y, size) {
    const frame = panel(name, size, 190, [0, y.length], [0, 1]);
    frame.picture.querySelectorAll("text[text-anchor=middle]").forEach(node => node.remove());
    y.forEach((v, i) => {
      const [left, right] = [frame.x(i + 0.15), frame.x(i + 0.85)];
      frame.picture.append(
        shape("rect", {
          x: left,
          y: frame.y(v),
          width: right - left,
          height: frame.south - frame.y(v),
          fill: blue,
          "data-weight": v,
        }),
      );
      if (v === 0)
        frame.picture.append(
          shape(
            "text",
            { x: (left + right) / 2, y: frame.south - 3, "text-anchor": "middle", style: `fill: ${red}` },
            "×",
          ),
        );
      frame.picture.append(
        shape("text", { x: (left + right) / 2, y: frame.south + 14, "text-anchor": "middle" }, String(i + 1)),
      );
    });
    const heard = `${name}: ${y.map((v, i) => `${i + 1}: ${shown(v)}`).join(", ")}`;
    return say(frame.picture, heard);
  }

  return close;
}

export default { render };
