// The explorer of a training: a slider for the epoch, a text whose words are coloured by their gates, and the rate and
// the multiplier over all epochs. All numbers were saved by the run; nothing is computed here but the drawing.

export function wordsAt(texts, epochs, text, epoch) {
  // each word with the probability that its gate is open, its value at test time, and whether it is gold
  const { tokens, gold } = texts[text],
    { open, z } = epochs[epoch - 1];
  return tokens.map((word, i) => ({ word, open: open[text][i], z: z[text][i], gold: Boolean(gold[i]) }));
}

export function sentenceAt(texts, epochs, text, epoch, target, best) {
  const row = epochs[epoch - 1],
    words = wordsAt(texts, epochs, text, epoch);
  const chosen = words.filter(w => w.z > 0),
    right = chosen.filter(w => w.gold).length;
  const percent = share => `${shown(100 * share)} %`;
  const parts = [`Epoch ${row.epoch} of ${epochs.length}${row.epoch === best ? ", the one that was kept" : ""}.`];
  const aim = target === null ? "" : ` (target ${percent(target)})`;
  parts.push(`Selected: ${percent(row.selected)} of all words${aim}, expected ${percent(row.expected)}.`);
  if (row.multiplier !== null) parts.push(`λ = ${shown(row.multiplier)}.`);
  const gold = words.some(w => w.gold) ? `, ${right} of them gold` : ""; // else nobody may have marked any
  parts.push(`In this text: ${chosen.length} of ${wordCount(words.length)}${gold}; prediction ${row.answers[text]}.`);
  return parts.join(" ");
}

function render({ model, el }) {
  const KEYS = ["epoch", "text"];
  const { root, put, link, close } = live("training", { model, el }, KEYS, redraw);
  const texts = model.get("texts"),
    epochs = model.get("epochs"),
    last = epochs.length;
  const epoch = () => Math.min(last, Math.max(1, Math.round(model.get("epoch"))));
  const text = () => Math.min(texts.length - 1, Math.max(0, Math.round(model.get("text"))));
  const steps = slider("epoch", { min: 1, max: last, step: 1, get: epoch, set: v => put({ epoch: v }) });
  const titles = texts.map(({ title }, i) => `${i + 1}: ${title}`);
  const choice = menu("text to watch", titles, title => put({ text: titles.indexOf(title) }));
  const play = element("button", { type: "button" }, "play");
  let playing = 0;
  const stop = () => {
    clearInterval(playing);
    playing = 0;
    play.textContent = "play";
  };
  play.addEventListener("click", () => {
    if (playing) return stop();
    if (epoch() === last) put({ epoch: 1 });
    play.textContent = "stop";
    playing = setInterval(() => {
      if (!root.isConnected || epoch() >= last) return stop();
      put({ epoch: epoch() + 1 });
    }, 500);
  });
  const words = element("p", { class: "words" });
  const pictures = element("div", { class: "row" });
  const numbers = element("div", { class: "numbers", "aria-live": "polite" });
  const look = ".words { line-height: 2; } .words span { padding: 2px 4px; border-radius: 3px; }";
  root.append(
    element("style", {}, look),
    element("div", { class: "row" }, steps, play, choice),
    words,
    numbers,
    pictures,
    ...(model.isStatic ? [link] : []),
  );

  function redraw(width) {
    steps.update();
    choice.select.value = titles[text()];
    words.replaceChildren(...wordsAt(texts, epochs, text(), epoch()).flatMap(one => [word(one), " "]));
    numbers.replaceChildren(
      sentenceAt(texts, epochs, text(), epoch(), model.get("target"), model.get("best")),
    );
    const size = width >= 640 ? Math.floor((width - 24) / 2) : width;
    const multipliers = epochs.map(row => row.multiplier);
    pictures.replaceChildren(
      over("Share of selected words", size, [
        { values: epochs.map(row => row.selected), name: "selected", stroke: model.get("palette")[0] },
        { values: epochs.map(row => row.expected), name: "expected (dashed)", stroke: model.get("palette")[0],
          "stroke-dasharray": "6 4" },
      ], model.get("target")),
      ...(multipliers.every(v => v !== null)
        ? [over("The multiplier λ", size, [{ values: multipliers, name: "λ", stroke: model.get("palette")[1] }])]
        : []),
    );
  }

  function word({ word, open, z, gold }) {
    const title = `P(z ≠ 0) = ${shown(open)}, z = ${shown(z)}`;
    return markedWord(word, { shade: open, selected: z > 0, gold, title });
  }

  function over(title, size, lines, target = null) {
    const all = [...lines.flatMap(({ values }) => values), target ?? 0, 0];
    const low = Math.min(...all),
      high = Math.max(...all);
    const frame = panel(title, size, 220, [1, Math.max(2, last)], [low, high > low ? high : low + 1], { xlabel: "epoch" });
    const { picture, x, y, west, east, north, south } = frame;
    if (target !== null)
      picture.append(line([[west, y(target)], [east, y(target)]], { stroke: "currentColor", "stroke-dasharray": "2 4" }));
    picture.append(line([[x(epoch()), north], [x(epoch()), south]], { stroke: "currentColor", "stroke-width": 1 }));
    for (const { values, name, ...attributes } of lines) {
      picture.append(line(values.map((v, i) => [x(i + 1), y(v)]), attributes));
      picture.append(shape("circle", { cx: x(epoch()), cy: y(values[epoch() - 1]), r: 5, fill: attributes.stroke }));
    }
    const now = lines.map(({ values, name }) => `${name} ${shown(values[epoch() - 1])}`).join(", ");
    const told = `${title} over ${last} epochs. At epoch ${epoch()}: ${now}.`;
    return say(picture, told);
  }

  return () => {
    stop();
    close();
  };
}

export default { render };
