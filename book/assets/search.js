/* Below each page that a search has found: its chapter, and a line of its text around the words. */
const Excerpts = {
  LONGEST: 190, // characters of a line
  waiting: [],
  set(pages) {
    this.pages = pages;
    for (const item of this.waiting.splice(0)) this.show(item);
  },
  words() {
    const query = new URLSearchParams(location.search).get("q") || "";
    return splitQuery(query.toLowerCase()).filter((word) => word.length > 1);
  },
  /* What a word of the text begins with where it is one of the words. */
  pattern(words) {
    const stemmer = new Stemmer();
    const stems = words.map((word) => {
      const stem = stemmer.stemWord(word);
      return word.startsWith(stem) ? stem : word;
    });
    return new RegExp(`(?<![\\p{L}\\p{N}])(${stems.join("|")})[\\p{L}\\p{N}]*`, "giu");
  },
  /* The first of those texts in which most of the words stand. */
  best(texts, pattern) {
    const found = (text) => new Set([...text.matchAll(pattern)].map((match) => match[1].toLowerCase())).size;
    let best = texts[0], most = 0;
    for (const text of texts) {
      const count = found(text);
      if (count > most) [best, most] = [text, count];
    }
    return best;
  },
  /* A part of the text around its first match, from word to word. */
  cut(text, pattern) {
    if (text.length <= this.LONGEST) return text;
    const at = Math.max(text.search(pattern), 0);
    let start = at < this.LONGEST / 2 ? 0 : text.indexOf(" ", at - this.LONGEST / 3) + 1;
    const end = start + this.LONGEST < text.length ? text.lastIndexOf(" ", start + this.LONGEST) : text.length;
    return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
  },
  line(name, text) {
    const element = document.createElement("p");
    element.className = name;
    element.textContent = text;
    return element;
  },
  show(item) {
    const link = item.querySelector("a");
    const root = new URL(document.documentElement.dataset.content_root || "./", location);
    const page = link && link.href.slice(root.href.length).replace(/\.html(#.*)?$/, "");
    const [chapter, ...texts] = this.pages[page] || [""];
    if (chapter) item.append(this.line("ab-chapter", chapter));
    const first = !document.querySelector(`#search-results li[data-page="${page}"]`);
    item.dataset.page = page;
    const words = this.words();
    if (!texts.length || !first || !words.length) return;
    const pattern = this.pattern(words);
    const line = item.appendChild(this.line("ab-excerpt", ""));
    let done = 0;
    const text = this.cut(this.best(texts, pattern), pattern);
    for (const match of text.matchAll(pattern)) {
      line.append(text.slice(done, match.index));
      line.appendChild(document.createElement("mark")).textContent = match[0];
      done = match.index + match[0].length;
    }
    line.append(text.slice(done));
  },
  start() {
    const results = document.getElementById("search-results");
    new MutationObserver((changes) => {
      for (const change of changes)
        for (const added of change.addedNodes)
          if (added.nodeName === "LI") this.pages ? this.show(added) : this.waiting.push(added);
          else if (added.className === "search-summary") added.setAttribute("role", "status");
    }).observe(results, { childList: true, subtree: true });
    const root = document.documentElement.dataset.content_root || "./";
    document.body.appendChild(document.createElement("script")).src = `${root}_static/excerpts.js`;
  },
};
/* Before Sphinx's own start, which this script is read before: no result is missed. */
document.addEventListener("DOMContentLoaded", () => Excerpts.start());
