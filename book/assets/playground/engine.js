/* Trains and measures: made of settings, told what to do by messages, tells what it found by messages.
 *
 * It runs in a worker, whose text is that of these modules, so that the page stays smooth while it computes:
 * pages that are opened as files cannot load a worker from another file.
 */
playground.engine = function (network, measures, data, post) {
  "use strict";
  const AXES = 8; // of the inputs, the widest: misalignment needs more filters than axes
  const LAST = 4096; // steps of a task after which training pauses
  const SLICE = 30; // milliseconds of training between two looks at messages
  const TOLERANCE = 0.01; // of the curvature's residual; its own error is about the square
  const MAP = 33; // points a side of the decision map

  let settings, tasks, task, net, control, seen, floor, phase, step, next, vector, running, timer;
  let round = 0; // messages of a run before are told by it

  function set(given, embedded) {
    settings = given;
    round = given.round;
    tasks = data.tasks(settings.points, embedded, settings.seed);
    const first = data.labelled(tasks.first, settings.labels, settings.seed);
    const sizes = [first.inputs, ...Array(settings.depth - 1).fill(settings.width), first.classes];
    begin(network.create(sizes, settings.scale, settings.seed + 1), null, first, "first");
  }

  function begin(start, other, what, name) {
    [net, control, task, phase, step, next, vector] = [start, other, what, name, 0, 0, null];
    seen = measures.dataAxes(task.x, task.n, task.inputs, AXES, settings.seed + 17);
    floor = seen.floor(settings.width);
    record();
  }

  /** The second task, from the network as it is, with a new head; beside it one from scratch. */
  function fineTune(labels) {
    const second = data.labelled(tasks.second, labels, settings.seed + 1);
    const fresh = network.create(net.sizes, settings.scale, settings.seed + 1);
    const head = [settings.scale, settings.seed + 2];
    begin(network.withNewHead(net, ...head), network.withNewHead(fresh, ...head), second, "second");
  }

  function train(steps) {
    for (let i = 0; i < steps; i++) {
      network.descend(net, task, settings.rate);
      if (control) network.descend(control, task, settings.rate);
      step++;
    }
  }

  /** Measure and tell; the next record is an eighth of an octave later, or the next step. */
  function record() {
    const { loss, accuracy } = network.gradient(net, task);
    const found = { kind: "record", round, phase, step, loss, accuracy, task, rate: settings.rate };
    if (control) found.scratch = network.gradient(control, task).loss;
    if (!Number.isFinite(loss)) {
      running = false;
      post({ ...found, kind: "diverged" });
      return;
    }
    const entering = network.forward(net, task.x, task.n);
    const top = measures.topCurvature(net, task, { start: vector, tolerance: TOLERANCE });
    vector = top.vector;
    Object.assign(found, {
      filters: { ...measures.filters(net, seen), floor },
      curve: measures.alignmentCurve(entering.at(-2), task.n, net.sizes.at(-2), task.labels, task.classes),
      tangent: measures.tangentAlignment(net, task),
      curvature: top.value,
      picture: task.inputs === 2 ? decisions() : weightPictures(),
      net: { sizes: net.sizes, theta: net.theta.slice() },
    });
    post(found);
    next = Math.max(step + 1, Math.round((step + 1) * 2 ** (1 / 8)) - 1);
  }

  /** Of points in the plane: the share of the second class on a grid from -3 to 3. */
  function decisions() {
    const x = new Float64Array(2 * MAP * MAP);
    for (let i = 0; i < MAP * MAP; i++) {
      x[2 * i] = -3 + (6 * (i % MAP)) / (MAP - 1);
      x[2 * i + 1] = 3 - (6 * Math.floor(i / MAP)) / (MAP - 1);
    }
    const outputs = network.forward(net, x, MAP * MAP).at(-1);
    const share = Float64Array.from({ length: MAP * MAP }, (_, i) =>
      1 / (1 + Math.exp(outputs[2 * i] - outputs[2 * i + 1])),
    );
    return { kind: "plane", side: MAP, share };
  }

  /** Of digits: the widest axes of the data, then weights of the first layer, a picture each. */
  function weightPictures() {
    const { inputs, weights, outputs } = network.layersOf(net.sizes, net.theta)[0];
    const axes = Array.from({ length: seen.d }, (_, i) => seen.axes.slice(i * inputs, (i + 1) * inputs));
    const filters = Array.from({ length: Math.min(16, outputs) }, (_, i) => weights.slice(i * inputs, (i + 1) * inputs));
    return { kind: "filters", axes: axes.reverse(), filters };
  }

  function work() {
    timer = null;
    if (!running) return;
    if (step >= LAST) {
      running = false;
      post({ kind: "paused", round, step });
      return;
    }
    const until = Date.now() + SLICE;
    while (step < next && Date.now() < until) train(1);
    if (step >= next) record();
    else post({ kind: "step", round, step });
    if (running) timer = setTimeout(work, 0);
  }

  /** A message: {do: "set" | "run" | "pause" | "step" | "fine-tune" | "rescale", …}. */
  return function receive(message) {
    if (message.do === "set") {
      running = false;
      set(message.settings, message.digits);
    } else if (message.do === "run") {
      running = true;
      timer ??= setTimeout(work, 0);
    } else {
      running = false;
      if (message.do === "step") {
        train(1);
        record();
      } else if (message.do === "fine-tune") fineTune(message.labels);
      else if (message.do === "rescale") {
        net = network.rescaled(net, message.factor);
        vector = null;
        record();
      }
    }
  };
};
