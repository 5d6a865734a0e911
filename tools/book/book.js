// Equations: MathJax from this site's own folder; wide ones break into lines. A jump to an equation is made again when
// all are set, because they have moved the page by then. On a phone, the parts of an equation stand below each other.
const isWhole = part => {
  const bare = part.replace(/\\[{}]/g, "");
  const equal = (one, other) => (bare.match(one) || []).length === (bare.match(other) || []).length;
  return equal(/{/g, /}/g) && equal(/\\left(?![a-z])/g, /\\right(?![a-z])/g) && !/\\begin|\\\\|&/.test(bare);
};
if (matchMedia("(max-width: 600px)").matches)
  for (const equation of document.querySelectorAll("div.arithmatex")) {
    const latex = equation.textContent.trim().slice(2, -2);
    const parts = latex.split(/\s*\\qquad(?![A-Za-z])\s*|(?<=,)\s*\\quad(?![A-Za-z])\s*/).filter(part => part.trim());
    if (parts.length < 2 || !parts.every(isWhole)) continue;
    const box = document.createElement("div");
    box.className = "parts";
    for (const part of parts) {
      const line = document.createElement("div");
      line.className = "arithmatex";
      line.textContent = `\\[${part}\\]`;
      box.append(line);
    }
    equation.replaceWith(box);
  }
// What is wider than its place scrolls sideways, and says so.
function sayWhatScrolls() {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset .output, .md-typeset .drawing")) {
    box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 4);
  }
}
for (const event of ["load", "resize"]) addEventListener(event, sayWhatScrolls);
window.MathJax = {
  messageStyle: "none",
  tex2jax: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]], ignoreClass: ".*|", processClass: "arithmatex" },
  "HTML-CSS": { availableFonts: [], webFont: "STIX-Web", imageFont: null, linebreaks: { automatic: true, width: "container" },
    matchFontHeight: false, scale: 118,  // the height of usual fonts; a browser that rounds it would move the line breaks
    styles: { "@font-face": { "font-family": "MathJax_Blank", src: "local('no font')" } } },  // in place of a file "about:blank"
  showMathMenu: false,
  AuthorInit: () => {
    MathJax.Hub.Register.StartupHook("HTML-CSS multiline Ready", breakLikeAuthors);
    MathJax.Hub.Register.StartupHook("End", () => {
      const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (place) place.scrollIntoView();
    });
  },
};
