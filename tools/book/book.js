// Equations: MathJax from this site's own folder; wide ones break into lines. A jump to an equation is made again when
// all are set, because they have moved the page by then.
window.MathJax = {
  messageStyle: "none",
  tex2jax: { inlineMath: [["\\(", "\\)"]], displayMath: [["\\[", "\\]"]], ignoreClass: ".*|", processClass: "arithmatex" },
  "HTML-CSS": { availableFonts: [], webFont: "STIX-Web", imageFont: null, linebreaks: { automatic: true, width: "container" },
    styles: { "@font-face": { "font-family": "MathJax_Blank", src: "local('no font')" } } },  // in place of a file "about:blank"
  showMathMenu: false,
  AuthorInit: () => MathJax.Hub.Register.StartupHook("End", () => {
    const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (place) place.scrollIntoView();
  }),
};
