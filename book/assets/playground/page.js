/* The page: controls, buttons, six pictures, three challenges, and the address that holds the settings. */
(function () {
  "use strict";
  const VALUES = {
    points: ["digits", "stripes", "spirals"],
    labels: ["real", "random", "shuffled"],
    depth: [2, 3, 4, 5, 6, 7, 8, 9, 10],
    width: [16, 32, 64],
    rate: [0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1],
    scale: [0.25, 0.5, 0.75, 1, 1.5, 2, 3],
    seed: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    next: ["real", "random", "shuffled"],
  };
  const START = { points: "digits", labels: "real", depth: 6, width: 32, rate: 0.1, scale: 1, seed: 0, next: "real" };
  const COLOURS = [[0, 114, 178], [213, 94, 0]]; // of the two classes

  /** The settings that an address names; what it does not name, or names wrongly, is as at the start. */
  function read(hash) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const found = { ...START };
    for (const [key, values] of Object.entries(VALUES)) {
      const value = values.find((known) => String(known) === given.get(key));
      if (value !== undefined) found[key] = value;
    }
    return found;
  }

  /** A worker made of the modules' own text, or the same in the page where a browser refuses one. */
  function start(listen) {
    const modules = ["network", "measures", "data", "engine"];
    const texts = modules.map((name) => `const ${name}Of = ${playground[name]};`).join("\n");
    const made = `const window = self, network = networkOf(), measures = measuresOf(network),
      receive = engineOf(network, measures, dataOf(network), (message) => postMessage(message));
      onmessage = (event) => receive(event.data);`;
    try {
      const place = URL.createObjectURL(new Blob([`${texts}\n${made}`], { type: "text/javascript" }));
      const worker = new Worker(place);
      worker.onmessage = (event) => listen(event.data);
      return (message) => worker.postMessage(message);
    } catch {
      const network = playground.network();
      return playground.engine(network, playground.measures(network), playground.data(network), listen);
    }
  }

  function begin() {
    const root = document.getElementById("pg");
    if (!root) return;
    root.hidden = false;
    const $ = (key) => root.querySelector(`[data-key="${key}"]`);
    const { chart, plane, filters, plain, resized } = playground.drawing();
    const digits = JSON.parse(document.getElementById("playground-digits").textContent);
    let settings = read(location.hash);
    let [running, round, records, sharpened, waiting] = [false, 0, [], null, false];
    const done = new Set();
    const tell = start((message) => message.round === round && heard(message));

    function heard(message) {
      if (message.kind === "step") {
        $("step").textContent = message.step;
        return;
      }
      if (message.kind === "paused") return run(false, `Paused after ${message.step} steps.`);
      if (message.kind === "diverged")
        return run(false, `The loss is no longer a number at step ${message.step}: try a smaller rate, then reset.`);
      if (records.length && records.at(-1).phase !== message.phase) records = [];
      const before = records.at(-1);
      sharpened = before && before.step === message.step ? (sharpened ?? before.curvature) : null;
      records.push(message);
      playground.latest = message;
      judge(message);
      if (!waiting) requestAnimationFrame(draw);
      waiting = true;
    }

    function draw() {
      waiting = false;
      const now = records.at(-1);
      if (!now) return;
      const steps = records.map((record) => record.step);
      const x = { label: "step", low: 0, high: Math.max(16, now.step), steps: true };
      const of = (take) => records.map(take);
      const most = (values, least) => Math.max(least, ...values.filter(Number.isFinite)) * 1.08;

      const losses = of((r) => r.loss);
      const scratch = of((r) => r.scratch ?? NaN);
      const second = now.phase === "second";
      chart($("loss"), {
        x, y: { low: 0, high: most([...losses, ...scratch], 0.5) },
        lines: [
          { x: steps, y: scratch, kind: "pg-grey", label: second ? "from scratch" : "" },
          { x: steps, y: losses, kind: "pg-blue", label: second ? "fine-tuned" : "loss" },
        ],
      });

      const [data, random] = [of((r) => r.filters.data), of((r) => r.filters.random)];
      const floor = of((r) => r.filters.floor);
      chart($("misalignment"), {
        x, y: { low: 0, high: most([...data, ...random, ...floor], 0.05) },
        lines: [
          { x: steps, y: floor, kind: "pg-grey", dashed: true, label: "floor" },
          { x: steps, y: random, kind: "pg-grey", label: "random" },
          { x: steps, y: data, kind: "pg-orange", label: "data" },
        ],
      });

      const curvature = of((r) => Math.max(1e-3, Math.abs(r.curvature)));
      const edge = 2 / settings.rate;
      const logs = [...curvature, edge];
      chart($("curvature"), {
        x, y: { log: true, low: Math.min(1, ...logs) / 1.5, high: 2 * Math.max(10, ...logs) },
        lines: [
          { x: [0, x.high], y: [edge, edge], kind: "pg-grey", dashed: true, label: "2 / rate" },
          { x: steps, y: curvature, kind: "pg-pink", label: "λ" },
        ],
      });

      const stairs = (curve) => {
        const shown = curve.sigma.map((s, i) => [s, curve.share[i]]).filter(([s]) => s >= 0.01);
        const reversed = shown.reverse();
        const [left, top] = [[0.01, ...reversed.map(([s]) => s)], reversed.map(([, share]) => share)];
        return { x: left, y: [top[0], ...top], stairs: true };
      };
      chart($("curve"), {
        x: { label: "threshold τ", log: true, low: 0.01, high: 10.5 }, y: { low: 0, high: 1.05 },
        lines: [
          { ...stairs(records[0].curve), kind: "pg-grey", dashed: true, label: "start", at: 0 },
          { ...stairs(now.curve), kind: "pg-green", label: "now", at: 0 },
        ],
      });

      const first = records[0].tangent;
      const best = leader(now.tangent);
      chart($("tangent"), {
        x: { label: "layer", low: 0.4, high: now.tangent.length + 0.6 },
        y: { low: 0, high: most([...now.tangent, ...first], 0.05) },
        bars: now.tangent.map((y, l) => ({ x: l + 1, y, start: first[l], kind: l + 1 === best ? "pg-orange" : "pg-blue" })),
      });

      const picture = $("picture");
      if (now.picture.kind === "plane") plane(picture, now.picture, now.task, COLOURS);
      else filters(picture, now.picture);
      $("picture-name").textContent =
        now.picture.kind === "plane" ? "What the network says of each point" : "Top row: the data’s axes. Below: weights of the first layer";
      $("step").textContent = now.step;
      $("accuracy").textContent = `${Math.round(100 * now.accuracy)} %`;
      const { filters: f } = now;
      const said = {
        loss: `${plain(now.loss)}${second ? ` (from scratch ${plain(now.scratch)})` : ""}`,
        misalignment: `${plain(f.data)} (floor ${plain(f.floor)}, random axes ${plain(f.random)})`,
        curvature: `${plain(now.curvature)} (2 / rate ${plain(edge)})`,
        curve: `${Math.round(100 * (now.curve.share[now.task.classes - 1] ?? 0))} % of the labels on the top ${now.task.classes}`,
        tangent: `${now.tangent.map((a) => (Number.isFinite(a) ? a.toFixed(2) : "–")).join(" ")}`,
      };
      for (const [key, text] of Object.entries(said)) $(`${key}-said`).textContent = text;
    }

    const leader = (values) => 1 + values.indexOf(Math.max(...values.filter(Number.isFinite)));

    /** Ticks challenges that the network has met. */
    function judge(record) {
      const learned = record.accuracy >= 0.99;
      const best = leader(record.tangent);
      const met = {
        "first-layer": learned && best === 1,
        hump: learned && 1.2 * Math.max(record.tangent[0], record.tangent.at(-1)) < record.tangent[best - 1],
        sharp: learned && sharpened !== null && Math.abs(record.curvature) >= 10 * Math.abs(sharpened),
      };
      for (const [name, reached] of Object.entries(met))
        if (reached && !done.has(name)) {
          done.add(name);
          const place = document.querySelector(`[data-challenge="${name}"]`);
          if (place) place.textContent = `✓ reached at step ${record.step}`;
        }
    }

    function run(on, words = "") {
      running = on;
      $("run").textContent = on ? "Pause" : "Run";
      $("run").setAttribute("aria-pressed", on);
      if (words || on) $("words").textContent = words;
    }

    /** Show the settings in the controls and in the address, and start anew. */
    function reset(words = "") {
      round += 1;
      [records, sharpened] = [[], null];
      run(false, words);
      $("words").textContent = words;
      for (const key of Object.keys(VALUES)) show(key);
      keep();
      tell({ do: "set", settings: { ...settings, round }, digits });
    }

    function keep() {
      history.replaceState(null, "", `#${new URLSearchParams(settings)}`);
    }

    function show(key) {
      const control = $(key);
      const at = VALUES[key].indexOf(settings[key]);
      if (control.type === "range") {
        control.value = at;
        control.setAttribute("aria-valuetext", settings[key]);
        control.nextElementSibling.textContent = settings[key];
      } else control.value = settings[key];
    }

    for (const [key, values] of Object.entries(VALUES)) {
      const control = $(key);
      if (control.type === "range") control.max = values.length - 1;
      control.addEventListener("input", () => {
        settings[key] = control.type === "range" ? values[control.value] : values.find((v) => String(v) === control.value);
        if (key === "next") keep();
        else reset();
      });
    }
    const act = (name, message, words = "") =>
      $(name).addEventListener("click", () => {
        run(false, words);
        $("words").textContent = words;
        tell(message());
      });
    $("run").addEventListener("click", () => {
      run(!running);
      tell({ do: running ? "run" : "pause" });
    });
    act("one", () => ({ do: "step" }));
    act("rescale", () => ({ do: "rescale", factor: 2 }), "First layer × 2, second ÷ 2: the outputs are the same.");
    act("tune", () => ({ do: "fine-tune", labels: settings.next }), "Task 2, with a new last layer. Grey: from scratch.");
    $("reset").addEventListener("click", () => reset());
    $("link").addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(location.href);
        $("words").textContent = "The link is in the clipboard.";
      } catch {
        $("words").textContent = location.href;
      }
    });
    window.addEventListener("hashchange", () => {
      const given = read(location.hash);
      if (Object.keys(VALUES).some((key) => given[key] !== settings[key])) {
        settings = given;
        reset("Settings from the link.");
      }
    });
    for (const button of document.querySelectorAll("[data-settings]"))
      button.addEventListener("click", () => {
        location.hash = button.dataset.settings;
        root.scrollIntoView();
      });
    new ResizeObserver(() => {
      resized();
      requestAnimationFrame(draw);
    }).observe($("loss"));
    reset();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
