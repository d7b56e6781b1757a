/* Boxes that scroll can be reached with the keyboard, and only those. */
(() => {
  const scrolls = (box) => box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
  const start = () => {
    for (const box of document.querySelectorAll(".ab-scroll, .cell_output, .cell_output pre, .highlight pre, .math"))
      if (scrolls(box) && !box.hasAttribute("tabindex")) box.tabIndex = 0;
  };
  if (document.readyState === "complete") start();
  else addEventListener("load", start);
  addEventListener("toggle", start, true);
})();
