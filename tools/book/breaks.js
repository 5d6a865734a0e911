// Where a wide formula is broken into lines. MathJax fills each line, and also breaks products and behind functions. We
// break only before a relation or a binary operator, at a wide space or behind a comma, and choose the places that cost
// least together: a relation costs nothing, and a place in brackets costs more, the narrower these are.
const COSTS = { space: 0, relation: 100, binary: 200, comma: 600 };
const LINE = 300, RAGGED = 300, INSIDE = 400, NARROW = 1500, TOO_WIDE = 1e6;

// The cheapest of all ways to break a formula: the numbers of the places at which a line ends. A line may end at `end` of
// a place, and the next one begins at its `start`; `inside` lists the widths of the brackets around it.
function bestBreaks(places, whole, width) {
  const ways = [{ cost: 0, start: 0, before: null }], last = places.length;
  for (let to = 0; to <= last; to++) {
    const { kind, start, end, inside } = places[to] || { kind: "space", start: whole, end: whole, inside: [] };
    const own = to === last ? 0 : LINE + COSTS[kind]
      + inside.reduce((sum, bracket) => sum + INSIDE + NARROW * Math.max(0, 1 - bracket / width), 0);
    let best = null;
    ways.forEach((way, from) => {
      const free = 1 - (end - way.start) / width;
      const cost = way.cost + own + (free < 0 ? TOO_WIDE * (1 - free) : to === last ? 0 : RAGGED * free ** 2);
      if (end > way.start && (!best || cost < best.cost)) best = { cost, start, before: from };
    });
    ways.push(best || { cost: Infinity, start, before: 0 });
  }
  const chosen = [];
  for (let at = ways[last + 1].before; at; at = ways[at].before) chosen.unshift(at - 1);
  return chosen;
}

// The places of a formula at which it may be broken, from its operators and spaces in reading order. Each of these has
// its `text`, its `kind` (undefined if it is no place) and where it stands on one long line: `from` and `to`.
function placesOf(found) {
  const open = [], places = [];
  const close = () => { const { from, within } = open.pop(); within.forEach(place => place.inside.push(found.at - from)); };
  let opened = 0;  // where the last bracket was opened: a sign directly behind it belongs to a number
  for (const { text, kind, from, to, object } of found) {
    const bar = /^[|\u2016\u2225]$/.test(text);
    found.at = to;
    if (/^[([{]$/.test(text) || (bar && open.at(-1)?.text !== text)) {
      open.push({ text, from, within: [] });
      opened = to;
    }
    else if (bar) close();
    else if (/^[)\]}]$/.test(text)) {
      while (open.length && !/^[([{]$/.test(open.at(-1).text)) close();
      if (open.length) close();
    } else if (kind && (from > opened + .05 || kind === "space")) {
      const end = kind === "comma" ? to : from, start = kind === "space" ? to : end;
      const place = { kind, object, inside: [], end, start };
      places.push(place);
      open.forEach(bracket => bracket.within.push(place));
    }
  }
  while (open.length) open.pop();
  return places;
}

// To be called when MathJax knows how to break lines.
function breakLikeAuthors() {
  const { mbase, mo, mspace, TEXCLASS } = MathJax.ElementJax.mml, output = MathJax.OutputJax["HTML-CSS"];
  const kinds = { [TEXCLASS.REL]: "relation", [TEXCLASS.BIN]: "binary", [TEXCLASS.PUNCT]: "comma" };
  const before = new Map([mbase, mo, mspace].map(kind => [kind, { ...kind.prototype }]));
  let found = null, chosen = new Set();  // what is found on the way through a formula; where it is broken

  function look(element, info, text, kind) {
    const shown = (info.embellished || element).HTMLspanElement(), of = side => output.unEm(shown.style[side] || "0em") || 0;
    const width = shown.bbox.w + of("paddingLeft") + of("paddingRight");
    found.push({ text, kind, from: info.scanW, to: info.scanW + width, object: element });
  }
  mo.Augment({ HTMLbetterBreak(info, state) {
    const text = this.data.join(""), original = before.get(mo).HTMLbetterBreak;
    if (!text) return original.call(this, info, state);  // MathJax's mark for the end of a formula
    if (found) look(this, info, text, text === "\u2223" ? undefined : kinds[this.Get("texClass")]);
    if (chosen.has(this)) { this.linebreak = "newline"; return original.call(this, info, state); }
    delete info.embellished;
    return false;
  } });
  mspace.Augment({
    HTMLbetterBreak(info, state) {
      if (found && parseFloat(this.width) >= 1) look(this, info, "", "space");
      return (chosen.has(this) || this.linebreak === "newline") && before.get(mspace).HTMLbetterBreak.call(this, info, state);
    },
    hasDimAttr() { return !chosen.has(this) && before.get(mspace).hasDimAttr.call(this); },
  });
  mbase.Augment({ HTMLmultiline(span) {
    const width = output.linebreakWidth, info = { index: [], penalty: 1e6, w: 0, W: 0, shift: 0, scanW: 0, nest: 0 };
    [found, chosen] = [[], new Set()];
    output.linebreakWidth = 1e6;
    this.HTMLbetterBreak(info, { n: 0, values: {}, VALUES: {} });
    output.linebreakWidth = width;
    const places = placesOf(found);
    found = null;
    chosen = new Set(bestBreaks(places, span.bbox.w, width).map(number => places[number].object));
    return before.get(mbase).HTMLmultiline.call(this, span);
  } });
}
