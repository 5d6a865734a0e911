// The page on which one chooses among the committed results (choose.py): menus, a picture in SVG, a table.
(() => {
  const place = document.getElementById("choose");
  if (!place) return;
  const { units, commands, words } = JSON.parse(document.getElementById("choose-data").textContent);
  const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c564b", "#7f7f7f"];
  const KNOWN = ["hardkuma", "bernoulli", "attention"];  // models in the colours that the figures give them
  const FIRST = ["accuracy", "mse", "bleu", "rouge1", "js_1", "f1", "macro_f1", "kept"];  // measures to begin with
  const ALL = "all", chosen = { corpus: "", measure: "", split: "test", model: ALL, rate: ALL };
  const make = (tag, parent, text = "", attributes = {}) => {
    const svg = ["svg", "circle", "line", "text"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return parent.appendChild(made);
  };
  const corpusOf = unit => `${unit.task}: ${[unit.corpus, unit.aspect].filter(Boolean).join(", ")}`;
  const distinct = list => [...new Set(list)];
  const number = text => parseFloat(text);
  const inWords = name => words[name] || name.replaceAll("_", " ");
  const corpusInWords = name => distinct(name.split(/: |, /).map(inWords)).join(", ");
  const shown = x => Math.abs(x) >= 1e4 || (x && Math.abs(x) < 1e-3) ? x.toExponential(1) : String(+x.toPrecision(3));

  const menus = make("div", place, "", { class: "menus" }), selects = {};
  for (const [name, label] of [["corpus", "corpus"], ["measure", "measure"], ["split", "split"], ["model", "model"],
    ["rate", "target or price"]]) {
    const field = make("label", menus, `${label} `);
    selects[name] = make("select", field, "", { name });
    selects[name].addEventListener("change", () => { chosen[name] = selects[name].value; draw(); });
  }
  const legend = make("p", place, "", { class: "legend" }), picture = make("div", place, "", { class: "picture" });
  const facts = make("div", place, "", { class: "facts", "aria-live": "polite" });
  const details = make("details", place), line = make("summary", details), table = make("table", details);
  let pinned = null;

  // Fill a menu; what was chosen stays chosen if it is still there.
  function fill(name, options, otherwise = options[0]) {
    if (!options.includes(chosen[name])) chosen[name] = otherwise;
    const label = { corpus: corpusInWords, rate: text => text }[name] || inWords;
    selects[name].replaceChildren(...options.map(text => new Option(label(text), text, false, text === chosen[name])));
  }

  function draw() {
    const corpora = distinct(units.map(corpusOf)).sort();
    fill("corpus", corpora, corpora.find(name => name.startsWith("sst")) || corpora[0]);
    const here = units.filter(unit => corpusOf(unit) === chosen.corpus);
    fill("split", ["test", "dev", "train"].filter(split => here.some(unit => unit.values[split])));
    const measures = distinct(here.flatMap(unit => Object.keys(unit.values[chosen.split] || {}))).sort();
    fill("measure", measures, FIRST.find(name => measures.includes(name)) || measures[0]);
    const measured = here.filter(unit => unit.values[chosen.split]?.[chosen.measure] !== undefined);
    const found = distinct(measured.map(unit => unit.model));
    const models = [...KNOWN.filter(model => found.includes(model)), ...found.filter(model => !KNOWN.includes(model))];
    fill("model", [ALL, ...models]);
    const wanted = measured.filter(unit => chosen.model === ALL || unit.model === chosen.model);
    fill("rate", [ALL, ...distinct(wanted.map(unit => unit.rate)).sort((a, b) => number(a) - number(b))]);
    const dots = wanted.filter(unit => chosen.rate === ALL || unit.rate === chosen.rate);
    const colour = unit => COLOURS[models.indexOf(unit.model) % COLOURS.length];
    legend.replaceChildren();
    for (const model of distinct(dots.map(unit => unit.model))) {
      make("span", legend, inWords(model), { style: `--dot: ${colour({ model })}` });
    }
    drawPicture(dots, models, colour);
    drawTable(dots);
    pinned = null;
    facts.replaceChildren();
    make("p", facts, "Point at a dot.");
  }

  function drawPicture(dots, models, colour) {
    const width = Math.max(300, place.clientWidth), height = 360, left = 62, right = 16, top = 14, bottom = 46;
    const value = unit => number(unit.values[chosen.split][chosen.measure]);
    const rate = unit => number(unit.values[chosen.split].rate_selected ?? unit.values.test?.rate_selected);
    const byRate = dots.every(unit => rate(unit) >= 0) && distinct(dots.map(rate)).length > 1;
    const seen = models.filter(model => dots.some(unit => unit.model === model));
    const among = unit => dots.filter(other => other.model === unit.model);
    const column = unit => seen.indexOf(unit.model) + .5 + .5 * ((among(unit).indexOf(unit) + .5) / among(unit).length - .5);
    const scale = (values, from, to) => {
      let [low, high] = [Math.min(...values), Math.max(...values)];
      const margin = .06 * (high - low || Math.abs(high) || 1);
      [low, high] = [low - margin, high + margin];
      return { low, high, at: x => from + (to - from) * (x - low) / (high - low) };
    };
    const x = byRate ? scale(dots.map(rate), left, width - right)
      : { at: at => left + (width - left - right) * at / seen.length };
    const y = scale(dots.map(value), height - bottom, top);
    const said = `${inWords(chosen.measure)} of ${dots.length} runs on ${corpusInWords(chosen.corpus)}, from ${shown(Math.min(...dots.map(value)))} `
      + `to ${shown(Math.max(...dots.map(value)))}${byRate ? ", against the share of selected words" : ", by model"}`;
    picture.replaceChildren();
    const svg = make("svg", picture, "", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": said });
    for (const tick of ticks(y.low, y.high)) {
      make("line", svg, "", { x1: left, x2: width - right, y1: y.at(tick), y2: y.at(tick) });
      make("text", svg, shown(tick), { x: left - 6, y: y.at(tick) + 4, "text-anchor": "end" });
    }
    if (byRate) for (const tick of ticks(x.low, x.high)) {
      make("text", svg, `${shown(100 * tick)} %`, { x: x.at(tick), y: height - bottom + 18, "text-anchor": "middle" });
    }
    make("text", svg, byRate ? "share that is selected" : "one column for each model", {
      x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" });
    for (const unit of dots) {
      const dot = make("circle", svg, "", { cx: byRate ? x.at(rate(unit)) : x.at(column(unit)), cy: y.at(value(unit)), r: 6,
        fill: colour(unit), tabindex: 0, role: "button",
        "aria-label": `${unit.run}, ${unit.model}: ${unit.values[chosen.split][chosen.measure]}` });
      for (const event of ["pointerenter", "focus"]) dot.addEventListener(event, () => { if (!pinned) tell(unit); });
      dot.addEventListener("keydown", event => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        dot.dispatchEvent(new Event("click"));
      });
      dot.addEventListener("click", () => {
        pinned?.removeAttribute("class");
        pinned = pinned === dot ? null : dot;
        pinned?.setAttribute("class", "pinned");
        tell(unit);
      });
    }
  }

  function ticks(low, high) {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 2.5, 5, 10].find(factor => factor * power >= rough), found = [];
    for (let tick = Math.ceil(low / step); tick * step <= high; tick++) found.push(tick * step);
    return found;
  }

  function tell(unit) {
    facts.replaceChildren();
    const list = make("dl", facts);
    for (const [name, text] of [["run", unit.run], ["model", [unit.model, unit.variant].filter(Boolean).join(", ")],
      [`${chosen.measure}, ${chosen.split}`, unit.values[chosen.split][chosen.measure]], ["target or price", unit.rate],
      ["seed", unit.seed], ["vectors", unit.vectors], ["other settings", unit.settings || "all at their defaults"],
      ["made on", `${unit.device}, commit ${unit.commit}`]]) {
      make("dt", list, name);
      make("dd", list, text);
    }
    make("pre", facts, commands[unit.run]);
  }

  function drawTable(dots) {
    line.textContent = `The ${dots.length} values of the picture as a table`;
    table.replaceChildren();
    const row = (tag, cells) => { const tr = make("tr", table); cells.forEach(text => make(tag, tr, text)); };
    row("th", ["run", "model", "target or price", "seed", chosen.measure]);
    for (const unit of dots) {
      row("td", [unit.run, unit.model, unit.rate, unit.seed, unit.values[chosen.split][chosen.measure]]);
    }
  }

  draw();
  let width = place.clientWidth;  // on a phone, the height changes while one scrolls
  addEventListener("resize", () => { if (place.clientWidth !== width) { width = place.clientWidth; draw(); } });
})();
