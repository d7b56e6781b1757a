// Which pages a search shows first: what is called as the query, then questions and chapters, then what was found, then
// the rest; bookkeeping last.
var Scorer = {
  /* Whether a result is the public object, or the term of the glossary, of that very name. */
  named: (page, title, anchor) => {
    const query = (new URLSearchParams(location.search).get("q") || "").trim().toLowerCase();
    if (page === "glossary") return (anchor || "").toLowerCase() === `#term-${query.replace(/\s+/g, "-")}`;
    const name = title.toLowerCase().replace(/^alignbook\./, "");
    return page.startsWith("reference/") && name === query.replace(/^alignbook\./, "");
  },
  score: ([page, title, anchor, , score]) => {
    if (Scorer.named(page, title, anchor)) return score + 1000;
    if (/^(questions|(random_labels|representation_alignment|signal_propagation|transferability|synthesis)\/index)$/.test(page))
      return score + 105;
    if (/^(findings|(random_labels|representation_alignment|signal_propagation|transferability|synthesis)\/)/.test(page))
      return score + 100;
    return /^(status|scorecard|benchmarks|references|about)$/.test(page) ? score - 100 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
