// What scrolls sideways (wide tables, long lines of code) does so with the keyboard, too. Material makes some of it late.
const reachable = () =>
  document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code").forEach((place) => {
    place.tabIndex = 0;
  });
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
reachable();
