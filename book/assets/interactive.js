/* Shows the state of a picture that its controls stand at: companion.pages.interactive has drawn every state. */
(() => {
  "use strict";

  function follow(box) {
    const { texts, states } = JSON.parse(box.querySelector('script[type="application/json"]').textContent);
    const controls = Object.fromEntries(
      [...box.querySelectorAll("[data-control]")].map((control) => [control.dataset.control, control]),
    );
    const moving = Object.entries(states).map(([key, { by, frames }]) => {
      return { by, frames, item: box.querySelector(`.ab-fields [data-key="${key}"], output[data-key="${key}"]`) };
    });

    function show() {
      for (const [key, control] of Object.entries(controls)) {
        if (control.type !== "range") continue;
        const text = texts[key][control.value];
        control.setAttribute("aria-valuetext", text);
        control.nextElementSibling.textContent = text;
      }
      for (const { by, frames, item } of moving) {
        const frame = frames[by.reduce((n, key) => n * texts[key].length + Number(controls[key].value), 0)];
        if (item.tagName === "path") item.setAttribute("d", frame);
        else if (item.textContent !== frame) item.textContent = frame;
      }
    }

    box.querySelector(".ab-controls").hidden = false;
    box.addEventListener("input", show);
    show();
  }

  const start = () => document.querySelectorAll(".ab-interactive").forEach(follow);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
