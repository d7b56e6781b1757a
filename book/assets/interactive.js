/* Moves the pictures that companion.pages.interactive drew: each carries its data, and its paths are drawn
   anew when one of its controls moves. Without this script a picture stays as it was drawn. */
(() => {
  "use strict";

  /* The least-squares line v = slope * u + intercept; with a slope given, the best intercept alone. */
  function leastSquares(u, v, slope = null) {
    const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;
    const [centre, height] = [mean(u), mean(v)];
    if (slope === null) {
      let [above, below] = [0, 0];
      u.forEach((value, n) => {
        above += (value - centre) * (v[n] - height);
        below += (value - centre) ** 2;
      });
      slope = above / below;
    }
    return { slope, intercept: height - slope * centre };
  }

  /* scaled: the number in which an axis is even; pixel: where that lies in the picture. */
  function scaleOf(axis) {
    const scaled = (value) => (axis.log ? Math.log(value) : value);
    const [low, high] = [scaled(axis.low), scaled(axis.high)];
    const pixel = (even) => (axis.from + ((even - low) / (high - low)) * (axis.to - axis.from)).toFixed(1);
    return { scaled, pixel };
  }

  const COMPARISONS = {
    "=": (value, chosen) => value === chosen,
    in: (value, chosen) => chosen.includes(value),
    ">=": (value, chosen) => value >= chosen,
    "<=": (value, chosen) => value <= chosen,
  };

  class Picture {
    constructor(box) {
      this.box = box;
      this.data = JSON.parse(box.querySelector('script[type="application/json"]').textContent);
      this.fields = this.data.fields.map(({ x, y }) => ({ x: scaleOf(x), y: scaleOf(y) }));
      box.querySelector(".ab-controls").hidden = false;
      box.addEventListener("input", () => this.draw());
      this.draw();
    }

    inputs(control) {
      return [...this.box.querySelectorAll(`[data-control="${control.key}"]`)];
    }

    /* Of each control the position of what is chosen, and its value; checkboxes have a list of values. */
    read() {
      this.position = {};
      this.chosen = {};
      for (const control of this.data.controls) {
        const inputs = this.inputs(control);
        if (control.kind === "checks") {
          this.chosen[control.key] = control.values.filter((_, n) => inputs[n].checked);
          continue;
        }
        const position = Number(inputs[0].value);
        this.position[control.key] = position;
        this.chosen[control.key] = control.values[position];
        if (control.kind === "slider") {
          const text = control.texts[position];
          inputs[0].setAttribute("aria-valuetext", text);
          inputs[0].parentElement.querySelector("output").textContent = text;
        }
      }
    }

    /* The frame that the controls named in `by` (the last one fastest) stand at. */
    frame(by, frames) {
      const count = (key) => this.data.controls.find((control) => control.key === key).values.length;
      return by.length ? frames[by.reduce((n, key) => n * count(key) + this.position[key], 0)] : frames;
    }

    /* Whether row n of a layer agrees with its conditions; the one on control `except` does not count. */
    agrees(layer, n, except = null) {
      return layer.where.every(
        ([column, comparison, key]) =>
          key === except || COMPARISONS[comparison](layer.columns[column][n], this.chosen[key]),
      );
    }

    /* Pairs of even numbers, null where a value is missing. */
    points(layer) {
      const frame = this.frame(layer.by, layer.y);
      const across = Array.isArray(layer.x[0]) ? this.frame(layer.by, layer.x) : layer.x;
      const field = this.fields[layer.field];
      const pair = (x, y) => (y === null ? null : [field.x.scaled(x), field.y.scaled(y)]);
      const kept = (_, n) => this.agrees(layer, n);
      if (layer.kind !== "band") return across.map((x, n) => pair(x, frame[n])).filter(kept);
      const [low, high] = frame.map((side) => across.map((x, n) => pair(x, side[n])));
      return [...low, ...high.reverse()].filter(Boolean);
    }

    path(kind, points, field) {
      let open = false;
      const steps = points.map((point) => {
        if (point === null) {
          open = false;
          return "";
        }
        const at = `${field.x.pixel(point[0])} ${field.y.pixel(point[1])}`;
        if (kind === "crosses") return `M${at}m-4.5 -4.5l9 9m0 -9l-9 9`;
        if (kind === "dots") return `M${at}h0.01`;
        const step = `${open ? "L" : "M"}${at}`;
        open = true;
        return step;
      });
      return steps.join("") + (kind === "band" && points.length ? "Z" : "");
    }

    fit(spec, points, field) {
      const found = points.filter(Boolean);
      const u = found.map((point) => point[0]);
      if (new Set(u).size < spec.needs) return { text: spec.none, path: "" };
      const { slope, intercept } = leastSquares(u, found.map((point) => point[1]), spec.slope);
      const ends = [Math.min(...u), Math.max(...u)].map((value) => [value, intercept + slope * value]);
      const text = spec.slope === null ? `${slope.toFixed(spec.digits)} (${found.length} points)` : "";
      return { text: text.replace("-", "−"), path: this.path("line", ends, field) };
    }

    draw() {
      this.read();
      const drawn = {};
      for (const layer of this.data.layers) {
        drawn[layer.key] = [this.points(layer), this.fields[layer.field]];
        this.set(layer.key, this.path(layer.kind, ...drawn[layer.key]));
      }
      for (const spec of this.data.fits) {
        const { text, path } = this.fit(spec, ...drawn[spec.layer]);
        this.set(spec.key, path, text);
      }
      for (const readout of this.data.readouts) {
        this.set(readout.key, null, this.frame(readout.by, readout.values));
      }
      for (const control of this.data.controls.filter(({ kind }) => kind === "checks")) this.offer(control);
    }

    set(key, path, text = null) {
      if (path !== null) this.box.querySelector(`path[data-key="${key}"]`).setAttribute("d", path);
      const output = this.box.querySelector(`output[data-key="${key}"]`);
      if (output && text !== null && output.textContent !== text) output.textContent = text;
    }

    /* What no row would have, as the other controls stand, cannot be ticked. */
    offer(control) {
      const layers = this.data.layers.filter((layer) => layer.where.some((clause) => clause[2] === control.key));
      this.inputs(control).forEach((input, position) => {
        const has = (layer) => {
          const column = layer.where.find((clause) => clause[2] === control.key)[0];
          const values = layer.columns[column];
          return values.some((v, n) => v === control.values[position] && this.agrees(layer, n, control.key));
        };
        input.disabled = !layers.some(has);
      });
    }
  }

  const start = () => document.querySelectorAll(".ab-interactive").forEach((box) => new Picture(box));
  window.alignbook = { leastSquares };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
