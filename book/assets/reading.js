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

/* What the theme leaves out for screen readers. */
addEventListener("DOMContentLoaded", () => {
  const each = (selector, change) => document.querySelectorAll(selector).forEach(change);
  each("summary:has(> .toctree-toggle)", (fold) => fold.setAttribute("aria-label", "Its pages"));
  each("button.search-button-field", (button) => button.removeAttribute("aria-label")); // the text seen is its name
  each("i.theme-switch", (icon) => icon.removeAttribute("title"));
  each(".sidebar-primary-item:has(> .navbar-brand)", (brand) => {
    brand.setAttribute("role", "navigation");
    brand.setAttribute("aria-label", "Home");
  });
  each(".citation, .citation-list", (entry) => entry.removeAttribute("role"));
  each("th", (corner) => corner.textContent.trim() || corner.replaceWith(document.createElement("td")));
});
