"use strict";
/* Builds the page from the data that Python wrote. Text from the data enters as text nodes only. */
(() => {
  const { make } = charts;
  const page = JSON.parse(document.getElementById("data").textContent);

  function table(block) {
    const from = block.numbers ?? Infinity;
    const cell = (text, i, tag = "td") =>
      make(tag, { textContent: text, className: i >= from ? "number" : "" });
    const head = block.head.map((text, i) => {
      const node = cell(text, i, "th");
      node.scope = "col";
      return node;
    });
    const rows = block.rows.map((row) => make("tr", {}, ...row.map((text, i) => cell(text, i))));
    const node = make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows),
    );
    const box = {
      className: "scroll",
      tabIndex: 0,
      role: "region",
      "aria-label": block.title ?? "Table",
    };
    return make(
      "div",
      { className: "table" },
      block.title ? make("h3", { textContent: block.title }) : null,
      make("div", box, node),
      block.note ? make("p", { className: "note", textContent: block.note }) : null,
    );
  }

  const card = (item) =>
    make(
      "div",
      { className: item.main ? "card main" : "card" },
      make("h3", { textContent: item.label }),
      make("p", { className: "value", textContent: item.value }),
      item.range ? make("p", { className: "range", textContent: item.range }) : null,
      make("p", { className: "note", textContent: item.note }),
    );

  const list = (className, rows) =>
    make(
      "dl",
      { className },
      ...rows.map(([a, b]) =>
        make("div", {}, make("dt", { textContent: a }), make("dd", { textContent: b })),
      ),
    );

  const draw = {
    text: (b) => make("p", { textContent: b.text }),
    cards: (b) => make("div", { className: "cards" }, ...b.items.map(card)),
    facts: (b) => list("facts", b.rows),
    terms: (b) => list("terms", b.rows),
    code: (b) => make("pre", { tabIndex: 0 }, make("code", { textContent: b.text })),
    table,
    lines: charts.lines,
    bars: charts.bars,
    scatter: charts.scatter,
    reliability: charts.reliability,
    live: (b) => make("div", { className: "live" }, ...live.build(b.data, b.classes)),
  };
  const isFigure = (block) => ["lines", "bars", "scatter", "reliability"].includes(block.type);

  function build(section) {
    const node = make("section", { id: section.id });
    const heading = make("h2", { id: `${section.id}-title`, textContent: section.title });
    node.setAttribute("aria-labelledby", heading.id);
    node.append(heading);
    if (section.intro) node.append(make("p", { className: "intro", textContent: section.intro }));
    let group = null;
    for (const block of section.blocks) {
      if (isFigure(block)) {
        if (!group) node.append((group = make("div", { className: "figures" })));
        group.append(draw[block.type](block));
      } else {
        group = null;
        node.append(draw[block.type](block));
      }
    }
    return node;
  }

  document.getElementById("title").textContent = page.title;
  const main = document.getElementById("content");
  const contents = document.getElementById("contents");
  for (const section of page.sections) {
    main.append(build(section));
    contents.append(
      make("li", {}, make("a", { href: `#${section.id}`, textContent: section.title })),
    );
  }
})();
