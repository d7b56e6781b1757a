/* What the playground's networks learn: 8×8 digits, or points in the plane; each with a first and a second task.
 *
 * digits : 0 to 4, then 5 to 9. stripes : a stretched cloud in wavy stripes, then in four quarters.
 * spirals : two arms, then inside and outside.
 */
playground.data = function (network) {
  "use strict";
  const POINTS = 100; // of a task
  const CLASSES = { digits: 5, stripes: 2, spirals: 2 };

  /** {first, second}: tasks {x, labels, n, inputs, classes} with their real labels.
   *
   * embedded : {pixels, labels}, a character for each pixel of the digits ("a" is 0) and for each label.
   */
  function tasks(points, embedded, seed) {
    if (points === "digits") return { first: digits(embedded, 0), second: digits(embedded, 5) };
    return { first: plane(points, 0, seed), second: plane(points, 1, seed) };
  }

  function digits(embedded, from) {
    const kept = [...embedded.labels].map(Number).flatMap((y, i) => (y >= from && y < from + 5 ? [i] : []));
    const x = kept.flatMap((i) =>
      [...embedded.pixels.slice(64 * i, 64 * i + 64)].map((c) => (c.charCodeAt(0) - 97) / 6),
    );
    const labels = kept.map((i) => Number(embedded.labels[i]) - from);
    return { x: Float64Array.from(x), labels, n: kept.length, inputs: 64, classes: CLASSES.digits };
  }

  function plane(points, which, seed) {
    const draw = network.normal(1000 * seed + 10 * which + 1);
    const x = new Float64Array(2 * POINTS);
    const labels = [];
    for (let i = 0; i < POINTS; i++) {
      let [u, v, label] = [1.3 * draw(), 0.6 * draw(), 0];
      if (points === "stripes") {
        label = which ? +(u > 0 === v > 0) : +(Math.sin(2.2 * u + 0.8 * v) > 0);
      } else {
        const t = 0.25 + (0.75 * (i >> 1)) / (POINTS / 2);
        const angle = 7 * t + Math.PI * (i % 2);
        u = 1.9 * t * Math.cos(angle) + 0.06 * draw();
        v = 1.1 * t * Math.sin(angle) + 0.06 * draw();
        label = which ? +(Math.hypot(u / 1.9, v / 1.1) > 0.62) : i % 2;
      }
      // The axes of the points are not those of the plane.
      x[2 * i] = 0.87 * u - 0.5 * v;
      x[2 * i + 1] = 0.5 * u + 0.87 * v;
      labels.push(label);
    }
    return { x, labels, n: POINTS, inputs: 2, classes: CLASSES[points] };
  }

  /** The task with its labels as they are ("real"), drawn anew ("random") or dealt out anew ("shuffled"). */
  function labelled(task, kind, seed) {
    const draw = network.uniform(7919 * seed + 5);
    if (kind === "real") return task;
    if (kind === "random") return { ...task, labels: task.labels.map(() => Math.floor(task.classes * draw())) };
    const labels = task.labels.slice();
    for (let i = labels.length - 1; i > 0; i--) {
      const j = Math.floor((i + 1) * draw());
      [labels[i], labels[j]] = [labels[j], labels[i]];
    }
    return { ...task, labels };
  }

  return { tasks, labelled };
};
