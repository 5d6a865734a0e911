// The explorer of saved rows: a text, and a slider over rows, each of which gives every word a number. The rows are the
// runs of a sweep, one per selection rate, or the layers of a probed model. All numbers were saved by a command.

export function wordsAt(texts, methods, text, method, row) {
  // each word with its number in [0, 1], and whether it is gold
  const { tokens, gold } = texts[text],
    values = methods[method].rows[row].values[text];
  return tokens.map((word, i) => ({ word, value: values[i], gold: Boolean(gold[i]) }));
}

// A word counts where its number is above the level, which is 0 for gates and 1/2 for probabilities.
export function sentenceAt({ texts, methods, label }, text, method, row) {
  const { level, did } = methods[method],
    { title, facts, answers } = methods[method].rows[row],
    words = wordsAt(texts, methods, text, method, row),
    chosen = words.filter(({ value }) => value > level).length;
  const verb = chosen === 1 || words.length === 1 ? "is" : "are";
  const answer = answers[text] ? ` ${answers[text]}.` : "";
  const told = `At ${label} ${title}, ${chosen} of ${wordCount(words.length)} ${verb} ${did}.`;
  return `${told}${answer}${facts ? ` ${facts}.` : ""}`;
}

function render({ model, el }) {
  const KEYS = ["row", "text", "method"];
  const name = model.get("name"),
    label = model.get("label");
  const { root, put, link, close } = live(name, { model, el }, KEYS, redraw);
  const texts = model.get("texts"),
    methods = model.get("methods");
  const within = (key, count) => Math.min(count - 1, Math.max(0, Math.round(model.get(key)) || 0));
  const text = () => within("text", texts.length),
    method = () => within("method", methods.length),
    rows = () => methods[method()].rows,
    row = () => within("row", rows().length);
  const steps = slider(`go to ${label}`, { min: 0, max: rows().length - 1, step: 1, get: row, set: v => put({ row: v }) });
  const titles = texts.map(({ title }, i) => `${i + 1}: ${title}`),
    ways = methods.map(({ name }) => name);
  const choice = menu(`text by ${label}`, titles, title => put({ text: titles.indexOf(title) })),
    way = menu(`method by ${label}`, ways, found => put({ method: ways.indexOf(found) }));
  const numbers = element("div", { class: "numbers", "aria-live": "polite" });
  const list = element("div", { class: "rows" });
  const pictures = element("div");
  const look = `
    .rows { margin: 8px 0; }
    .rows > div { display: flex; gap: 8px; padding: 2px 6px; cursor: pointer;
      border: 2px solid transparent; border-radius: 4px; }
    .rows > div[aria-current] { border-color: currentColor; }
    .rows > div > b { flex: 0 0 84px; font-weight: 400; }
    .rows > div[aria-current] > b { font-weight: 600; }
    .rows > div > p { margin: 0; line-height: 1.8; flex: 1; min-width: 0; overflow-wrap: anywhere; }
    .rows span { padding: 2px 4px; border-radius: 3px; }`;
  root.append(
    element("style", {}, look),
    element("div", { class: "row" }, steps, choice, ...(methods.length > 1 ? [way] : [])),
    numbers,
    list,
    pictures,
    element("p", { class: "about" }, model.get("about")),
    ...(model.isStatic ? [link] : []),
  );

  function redraw(width) {
    const input = steps.querySelector("input"),
      { title } = rows()[row()];
    input.max = rows().length - 1;
    steps.update();
    steps.querySelector("output").textContent = title;
    input.setAttribute("aria-valuetext", title);
    choice.select.value = titles[text()];
    way.select.value = ways[method()];
    const told = { texts, methods, label };
    numbers.replaceChildren(sentenceAt(told, text(), method(), row()));
    list.replaceChildren(...rows().map((one, i) => line_of(one, i)));
    const { curve } = methods[method()];
    pictures.replaceChildren(...(curve ? [over(curve, Math.min(width, 640))] : []));
  }

  function line_of({ title }, i) {
    const words = wordsAt(texts, methods, text(), method(), i).flatMap(one => [word(one), " "]);
    const made = element("div", {}, element("b", {}, title), element("p", {}, ...words));
    if (i === row()) made.setAttribute("aria-current", "true");
    made.addEventListener("click", () => put({ row: i }));
    return made;
  }

  function word({ word, value, gold }) {
    return markedWord(word, { shade: value, selected: value > methods[method()].level, gold, title: shown(value) });
  }

  function over({ title, xlabel, x: places, y: values }, size) {
    const low = Math.min(...values),
      high = Math.max(...values),
      room = high > low ? (high - low) / 10 : 0.5;
    const ends = [places[0], places.at(-1)];
    const whole = places.every(Number.isInteger);
    const frame = panel(title, size, 200, ends, [low - room, high + room], { xlabel, whole });
    const { picture, x, y, north, south } = frame;
    const here = x(places[row()]);
    picture.append(
      line([[here, north], [here, south]], { stroke: "currentColor", "stroke-width": 1 }),
      line(values.map((v, i) => [x(places[i]), y(v)]), { stroke: model.get("palette")[0] }),
      ...values.map((v, i) =>
        shape("circle", { cx: x(places[i]), cy: y(v), r: i === row() ? 6 : 3, fill: model.get("palette")[0] })),
    );
    const told = `${title}, by ${xlabel}: ${values.map((v, i) => `${rows()[i].title} ${shown(v)}`).join(", ")}.`;
    return say(picture, told);
  }

  return close;
}

export default { render };
