// A link to what is folded opens it, also in browsers that do not do so by themselves.
"use strict";
(() => {
  function open() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    for (const fold of target.querySelectorAll(":scope > details:only-child")) fold.open = true;
    target.scrollIntoView();
  }
  window.addEventListener("hashchange", open);
  open();
})();
