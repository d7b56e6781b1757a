// Which pages a search shows first: what was found, then the rest; bookkeeping last.
var Scorer = {
  score: ([page, , , , score]) => {
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
