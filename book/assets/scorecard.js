// Filters and sorts the scorecard's rows, which are all in the page. The state stands in the address after #.
"use strict";
(() => {
  const card = document.getElementById("ab-scorecard");
  if (!card) return;
  const figures = [...card.querySelectorAll("details.ab-figure")];
  const papers = [...card.querySelectorAll(".ab-score-paper")];
  const words = new Map(figures.flatMap(f => [f, ...f.querySelectorAll(".ab-statement")])
    .map(part => [part, part.textContent.toLowerCase()]));
  const title = figure => figure.querySelector(".ab-figure-title").textContent.toLowerCase();
  const outcomes = [...new Set([...document.querySelectorAll(".ab-counts .ab-sign")].map(s => s.dataset.outcome))];
  const count = (figure, outcome) =>
    figure.querySelectorAll(`.ab-strip .ab-sign[data-outcome="${outcome}"]`).length;
  const profiles = [...new Set(figures.map(f => f.dataset.profile))];
  const empty = { paper: "", outcome: "", profile: "", text: "", sort: "" };
  let state = { ...empty };

  const choice = (name, label, options) =>
    `<label>${label} <select name="${name}">` +
    options.map(([value, text]) => `<option value="${value}">${text}</option>`).join("") + "</select></label>";
  const form = document.createElement("form");
  form.className = "ab-filters";
  form.innerHTML =
    choice("paper", "Paper", [["", "all"], ...papers.map(p => [p.dataset.paper, p.textContent])]) +
    choice("outcome", "Outcome", [["", "all"], ...outcomes.map(o => [o, o.replaceAll("-", " ")])]) +
    choice("profile", "Profile", [["", "all"], ...profiles.map(p => [p, p])]) +
    '<label>Text <input name="text" type="search"></label>' +
    choice("sort", "Order", [["", "of the papers"], ["title", "by title"], ["claims", "most claims first"],
      ...outcomes.map(o => [o, `most “${o.replaceAll("-", " ")}” first`])]) +
    '<button type="reset">Clear</button><output aria-live="polite"></output>';
  card.before(form);

  const fits = (part, figure) =>
    (!state.text || words.get(part).includes(state.text.toLowerCase()) || title(figure).includes(state.text.toLowerCase())) &&
    (!state.outcome || part.dataset.outcomes.split(" ").includes(state.outcome));

  function filter() {
    let shown = 0, statements = 0;
    for (const figure of figures) {
      let found = 0;
      for (const part of figure.querySelectorAll(".ab-statement")) {
        part.hidden = !fits(part, figure);
        found += !part.hidden;
      }
      figure.hidden = !found || (state.paper && figure.dataset.paper !== state.paper) ||
        (state.profile && figure.dataset.profile !== state.profile);
      for (const sign of figure.querySelectorAll(".ab-strip .ab-sign"))
        sign.classList.toggle("ab-faint", !!state.outcome && sign.dataset.outcome !== state.outcome);
      if (!figure.hidden) { shown += 1; statements += found; }
    }
    const apart = state.sort !== "";
    for (const paper of papers)
      paper.hidden = apart || !figures.some(f => !f.hidden && f.dataset.paper === paper.dataset.paper);
    form.querySelector("output").textContent = `${shown} of ${figures.length} figures, ${statements} statements`;
  }

  function sort() {
    const rank = { "": () => 0, claims: f => -f.querySelectorAll(".ab-strip .ab-sign").length };
    const by = rank[state.sort] || (f => -count(f, state.sort));
    const order = state.sort === "title"
      ? [...figures].sort((a, b) => title(a).localeCompare(title(b), undefined, { numeric: true }))
      : [...figures].sort((a, b) => by(a) - by(b) || figures.indexOf(a) - figures.indexOf(b));
    if (state.sort === "")
      for (const paper of papers) {
        card.append(paper, ...order.filter(f => f.dataset.paper === paper.dataset.paper));
      }
    else card.append(...papers, ...order);
  }

  function show() {
    for (const [name, value] of Object.entries(state)) form.elements[name].value = value;
    sort();
    filter();
  }

  function read() {
    const given = new URLSearchParams(location.hash.slice(1));
    const known = { paper: papers.map(p => p.dataset.paper), outcome: outcomes, profile: profiles,
      sort: ["title", "claims", ...outcomes] };
    for (const name of Object.keys(empty)) {
      const value = given.get(name) || "";
      state[name] = !known[name] || known[name].includes(value) ? value : "";
    }
    const open = (given.get("open") || "").split(",");
    for (const figure of figures) figure.open = open.includes(figure.dataset.name);
    show();
  }

  function write() {
    const kept = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
    const open = figures.filter(f => f.open).map(f => f.dataset.name);
    if (open.length) kept.set("open", open.join(","));
    history.replaceState(null, "", `#${kept}`);
  }

  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("input", event => {
    state[event.target.name] = event.target.value;
    sort();
    filter();
    write();
  });
  form.addEventListener("reset", () => {
    state = { ...empty };
    sort();
    filter();
    write();
  });
  card.addEventListener("toggle", event => { if (figures.includes(event.target)) write(); }, true);
  window.addEventListener("hashchange", read);
  read();
})();
