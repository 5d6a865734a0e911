// One slide at a time. The number of the slide is in the address, so that a link leads to it.
const slides = [...document.querySelectorAll("section")];
let now = 0, other = window.name === "speaker" ? window.opener : null;  // the other window of the two

function show(number, told = false) {
  now = Math.max(0, Math.min(slides.length - 1, number));
  slides.forEach((slide, index) => slide.classList.toggle("now", index === now));
  history.replaceState(null, "", `#slide-${now + 1}`);
  if (other && !told) other.postMessage({ slide: now }, "*");
}

function openSpeaker() {
  other = window.open(location.href, "speaker", "width=1100,height=700");
  if (!other) document.body.classList.add("with-notes");  // the browser does not open windows
}

const keys = {
  ArrowRight: () => show(now + 1), ArrowDown: () => show(now + 1), PageDown: () => show(now + 1), " ": () => show(now + 1),
  ArrowLeft: () => show(now - 1), ArrowUp: () => show(now - 1), PageUp: () => show(now - 1),
  Home: () => show(0), End: () => show(slides.length - 1),
  s: () => document.body.classList.toggle("with-notes"),
  w: openSpeaker,
  f: () => document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen(),
};
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
addEventListener("message", event => { if (event.source === other && other) show(event.data.slide, true); });
addEventListener("hashchange", () => show(Number(location.hash.replace("#slide-", "")) - 1 || 0));

let from = null;  // where a finger touched the screen
addEventListener("touchstart", event => { from = event.touches.length === 1 ? event.touches[0].clientX : null; });
addEventListener("touchend", event => {
  const moved = from === null ? 0 : event.changedTouches[0].clientX - from;
  if (Math.abs(moved) > 60) show(now + (moved < 0 ? 1 : -1));
});

document.body.classList.add("deck");
if (window.name === "speaker") {
  document.body.classList.add("speaker");
  const clock = Object.assign(document.createElement("p"), { className: "clock" }), began = Date.now();
  const tick = () => { clock.textContent = new Date(Date.now() - began).toISOString().slice(11, 19); };
  document.body.append(clock);
  setInterval(tick, 1000);
  tick();
}
show(Number(location.hash.replace("#slide-", "")) - 1 || 0);
