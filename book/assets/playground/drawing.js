/* Small charts as SVG, as wide as their place; letters are 11 pixels high on every screen. */
playground.drawing = function () {
  "use strict";
  const HIGH = 0.72; // height of a chart in widths
  const [LEFT, RIGHT, TOP, BOTTOM] = [38, 10, 8, 32];

  // Asking for a width makes the browser lay the page out again: once for all charts, until they are resized.
  const widths = new Map();
  const wide = (place) => {
    if (!widths.has(place)) widths.set(place, place.getBoundingClientRect().width);
    return widths.get(place);
  };
  const resized = () => widths.clear();

  const plain = (value) => String(+value.toPrecision(3)).replace("-", "−");

  /** Places of about `most` round numbers from low to high; of a logarithmic axis powers of ten, or two. */
  function ticks({ low, high, log }, most) {
    if (log) {
      const all = [];
      const [from, to] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
      const stride = Math.max(1, Math.ceil((to - from) / most));
      for (let power = from; power <= to; power += stride) all.push(10 ** power);
      return all;
    }
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const size = [1, 2, 5, 10].map((part) => part * power).find((part) => part >= raw - 1e-12);
    const all = [];
    for (let at = Math.ceil(low / size - 1e-9); at * size <= high + 1e-9 * size; at++) all.push(at * size);
    return all;
  }

  /** What turns values into pixels: of "steps" axes 0, 1, 2, 4, … stand evenly. */
  function scale(axis, from, to) {
    const bent = axis.steps ? (v) => Math.log2(1 + v) : axis.log ? Math.log10 : (v) => v;
    const [low, high] = [bent(axis.low), bent(axis.high)];
    return (value) => from + ((to - from) * (bent(value) - low)) / (high - low || 1);
  }

  /** Draw into the <svg> `place`. x, y : {label, low, high, log, steps}.
   *
   * lines : [{x, y, kind, label, dashed, stairs}], kind a class that gives the colour; a label stands where its
   * line ends. bars : [{x, y, start}], with a tick at `start`.
   */
  function chart(place, { x, y, lines = [], bars = [] }) {
    const width = Math.max(150, wide(place) || 300);
    const height = Math.round(HIGH * width);
    const [right, bottom] = [width - RIGHT, height - BOTTOM];
    const [atX, atY] = [scale(x, LEFT, right), scale(y, bottom, TOP)];
    const few = width < 240 ? 3 : 5;
    const marks = x.steps ? stepTicks(x.high, few) : bars.length ? bars.map((bar) => bar.x) : ticks(x, few);
    const inside = (v, axis) => v >= axis.low - 1e-12 && v <= axis.high + 1e-12;
    let drawn = `<path class="pg-axis" d="M${LEFT} ${TOP}V${bottom}H${right}"/>`;
    for (const mark of marks.filter((v) => inside(v, x)))
      drawn += `<text x="${atX(mark).toFixed(1)}" y="${bottom + 14}" text-anchor="middle">${plain(mark)}</text>`;
    for (const mark of ticks(y, few).filter((v) => inside(v, y)))
      drawn +=
        `<path class="pg-grid" d="M${LEFT} ${atY(mark).toFixed(1)}H${right}"/>` +
        `<text x="${LEFT - 4}" y="${(atY(mark) + 4).toFixed(1)}" text-anchor="end">${plain(mark)}</text>`;
    drawn += `<text x="${(LEFT + right) / 2}" y="${height - 3}" text-anchor="middle">${x.label}</text>`;
    const thick = Math.min(26, (0.6 * (right - LEFT)) / Math.max(1, bars.length));
    for (const bar of bars) {
      const at = atX(bar.x) - thick / 2;
      if (Number.isFinite(bar.y))
        drawn += `<rect class="pg-fill ${bar.kind}" x="${at.toFixed(1)}" y="${atY(bar.y).toFixed(1)}" width="${thick.toFixed(1)}" height="${Math.max(0, bottom - atY(bar.y)).toFixed(1)}"/>`;
      if (Number.isFinite(bar.start))
        drawn += `<path class="pg-line pg-start" d="M${(at - 2).toFixed(1)} ${atY(bar.start).toFixed(1)}h${(thick + 4).toFixed(1)}"/>`;
    }
    const ends = [];
    for (const line of lines) {
      const path = along(line, x, y, atX, atY);
      drawn += `<path class="pg-line ${line.kind}${line.dashed ? " pg-dashed" : ""}" d="${path}"/>`;
      const last = line.y.length - 1;
      if (line.label && last >= 0 && Number.isFinite(line.y[last])) {
        const end = line.at ?? last;
        ends.push({ ...line, px: atX(line.x[end]), py: Math.min(bottom - 3, Math.max(TOP + 9, atY(line.y[end]))) });
      }
    }
    drawn += named(ends, right);
    place.setAttribute("viewBox", `0 0 ${width} ${height}`);
    place.innerHTML = drawn;
  }

  /** Names at the ends of lines, moved apart where they would lie on one another. */
  function named(ends, right) {
    ends.sort((a, b) => a.py - b.py);
    ends.forEach((end, i) => {
      end.ty = end.py - 5;
      if (i) end.ty = Math.max(end.ty, ends[i - 1].ty + 12);
    });
    return ends
      .map(({ px, ty, kind, label }) => {
        const turned = px + 6.2 * label.length > right;
        const at = Math.max(LEFT + 3, turned ? Math.min(px, right) : px + 3);
        return `<text class="pg-name ${kind}" x="${at.toFixed(1)}" y="${ty.toFixed(1)}" text-anchor="${turned && px > LEFT + 6.2 * label.length ? "end" : "start"}">${label}</text>`;
      })
      .join("");
  }

  function along(line, x, y, atX, atY) {
    let path = "";
    line.x.forEach((value, i) => {
      if (!Number.isFinite(line.y[i])) return;
      const px = atX(value).toFixed(1);
      const py = atY(Math.min(y.high, Math.max(y.low, line.y[i]))).toFixed(1);
      path += !path ? `M${px} ${py}` : line.stairs ? `V${py}H${px}` : `L${px} ${py}`;
    });
    return path;
  }

  function stepTicks(last, few) {
    const powers = [0, 1];
    while (2 * powers.at(-1) <= last) powers.push(2 * powers.at(-1));
    const stride = Math.ceil(powers.length / (few + 1));
    return powers.filter((_, i) => i % stride === 0);
  }

  /** Points of two classes on the map of what the network says. */
  function plane(canvas, { side, share }, task, colours) {
    const size = (canvas.width = canvas.height = Math.round(wide(canvas) * (window.devicePixelRatio || 1)) || 300);
    const pen = canvas.getContext("2d");
    const map = document.createElement("canvas");
    map.width = map.height = side;
    const image = map.getContext("2d").createImageData(side, side);
    share.forEach((p, i) => {
      const colour = colours[p > 0.5 ? 1 : 0];
      image.data.set([...colour, 20 + 180 * Math.abs(p - 0.5)], 4 * i);
    });
    map.getContext("2d").putImageData(image, 0, 0);
    // The map's outer points lie on the edge of the picture.
    const cell = size / (side - 1);
    pen.imageSmoothingEnabled = true;
    pen.drawImage(map, -cell / 2, -cell / 2, size + cell, size + cell);
    for (let i = 0; i < task.n; i++) {
      pen.beginPath();
      pen.arc(((task.x[2 * i] + 3) / 6) * size, ((3 - task.x[2 * i + 1]) / 6) * size, size / 75, 0, 7);
      pen.fillStyle = `rgb(${colours[task.labels[i]]})`;
      pen.fill();
      pen.lineWidth = size / 300;
      pen.strokeStyle = "#fff";
      pen.stroke();
    }
  }

  /** Rows of small pictures, each in its own range: the data's axes, then weights. */
  function filters(canvas, { axes, filters: weights }) {
    const [columns, gap] = [8, 1];
    const rows = 1 + Math.ceil(weights.length / columns);
    const map = document.createElement("canvas");
    [map.width, map.height] = [columns * (8 + gap), rows * (8 + gap) + 3];
    const pen = map.getContext("2d");
    [...axes, ...weights].forEach((picture, at) => {
      const top = picture.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-12);
      const image = pen.createImageData(8, 8);
      picture.forEach((value, i) => {
        const grey = 128 + (127 * value) / top;
        image.data.set([grey, grey, grey, 255], 4 * i);
      });
      const row = Math.floor(at / columns);
      pen.putImageData(image, (at % columns) * (8 + gap), row * (8 + gap) + (row ? 3 : 0));
    });
    const factor = Math.max(1, Math.ceil(((window.devicePixelRatio || 1) * wide(canvas)) / map.width));
    [canvas.width, canvas.height] = [map.width * factor, map.height * factor];
    const out = canvas.getContext("2d");
    out.imageSmoothingEnabled = false;
    out.drawImage(map, 0, 0, canvas.width, canvas.height);
  }

  return { chart, plane, filters, plain, resized };
};
