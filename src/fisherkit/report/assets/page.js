"use strict";
/* Builds the page from the data that Python wrote. Text from the data enters as text nodes only. */
(() => {
  const { make } = charts;
  const page = JSON.parse(document.getElementById("data").textContent);

  /** A table of texts; columns from `numbers` to `last` are numbers, which end on one line. */
  function grid(block, rows) {
    const from = block.numbers ?? Infinity;
    const to = block.last ?? Infinity;
    const cell = (text, i, tag = "td") =>
      make(tag, { textContent: text, className: i >= from && i < to ? "number" : "" });
    const head = block.head.map((text, i) => {
      const node = cell(text, i, "th");
      node.scope = "col";
      return node;
    });
    const node = make(
      "table",
      { className: block.last ? "wraps" : "" },
      make("thead", {}, make("tr", {}, ...head)),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((text, i) => cell(text, i))))),
    );
    const box = {
      className: "scroll",
      tabIndex: 0,
      role: "region",
      "aria-label": block.title ?? "Table",
    };
    return make("div", box, node);
  }

  function table(block) {
    const middle = Math.ceil(block.rows.length / 2);
    const parts = block.halves
      ? [block.rows.slice(0, middle), block.rows.slice(middle)]
      : [block.rows];
    const grids = parts.map((rows) => grid(block, rows));
    grids.slice(1).forEach((node) => node.setAttribute("aria-label", `${block.title}, continued`));
    return make(
      "div",
      { className: "table" },
      block.title ? make("h3", { textContent: block.title }) : null,
      block.halves ? make("div", { className: "halves" }, ...grids) : grids[0],
      block.note ? make("p", { className: "note", textContent: block.note }) : null,
    );
  }

  /** The top of the page: one figure, what to do, and short answers that lead to their sections. */
  function verdict(block) {
    const answer = (item) =>
      make(
        "li",
        { className: `answer ${item.mood}` },
        make("h3", {}, make("a", { href: `#${item.link}`, textContent: item.question })),
        make("p", { className: "short", textContent: item.answer }),
        make("p", { className: "note", textContent: item.text }),
      );
    return make(
      "div",
      { className: "verdict" },
      make(
        "div",
        { className: "halves" },
        make(
          "div",
          { className: "headline" },
          make("p", { className: "value", textContent: block.value }),
          make("p", { className: "label", textContent: block.label }),
          make("p", { className: "plain", textContent: block.plain }),
          make("p", { className: "note", textContent: block.range }),
        ),
        make(
          "div",
          { className: "todo" },
          make("h3", { textContent: "What should I do?" }),
          make("ul", {}, ...block.todo.map((words) => make("li", { textContent: words }))),
        ),
      ),
      make("ul", { className: "answers" }, ...block.answers.map(answer)),
    );
  }

  /** A row, its answer, and a bar to the right or left for each column that moves it. */
  function example(item) {
    const [less, more] = item.sides ?? ["against it", "for it"];
    const bar = (share) => {
      const node = make("i", { className: share > 0 ? "for" : "against" });
      node.style.setProperty("--length", `${Math.round(50 * Math.abs(share))}%`);
      return make(
        "td",
        { className: "bar" },
        node,
        make("span", { className: "heard", textContent: share > 0 ? more : less }),
      );
    };
    const reason = (r) =>
      make(
        "tr",
        {},
        make("th", { scope: "row", textContent: r.column }),
        make("td", { className: "value", textContent: r.value }),
        bar(r.share),
      );
    const head = ["column", "value", `${less} | ${more}`].map((words) =>
      make("th", { scope: "col", textContent: words }),
    );
    return make(
      "article",
      { className: "example" },
      make("h3", { textContent: item.title }),
      make("p", { textContent: item.text }),
      make(
        "table",
        {},
        make("thead", {}, make("tr", {}, ...head)),
        make("tbody", {}, ...item.reasons.map(reason)),
      ),
      item.change ? make("p", { className: "change", textContent: item.change }) : null,
    );
  }

  const list = (className, rows) =>
    make(
      "dl",
      { className },
      ...rows.map(([a, b]) =>
        make("div", {}, make("dt", { textContent: a }), make("dd", { textContent: b })),
      ),
    );

  const blocks = page.sections.flatMap((section) => section.blocks);
  const counted = blocks.find((block) => block.type === "live");
  const draw = {
    verdict,
    text: (b) => make("p", { className: "text", textContent: b.text }),
    facts: (b) => list("facts", b.rows),
    terms: (b) => list("terms", b.rows),
    code: (b) => make("pre", { tabIndex: 0 }, make("code", { textContent: b.text })),
    examples: (b) => make("div", { className: "examples" }, ...b.items.map(example)),
    table,
    lines: charts.lines,
    bars: charts.bars,
    intervals: charts.intervals,
    levels: charts.levels,
    scatter: charts.scatter,
    reliability: charts.reliability,
    live: (b) => make("div", { className: "live" }, ...live.build(b.data, b.classes)),
    smoothing: () =>
      make("div", { className: "live" }, ...live.smoothing(counted.data, counted.classes)),
  };
  const alone = new Set(["verdict", "live", "smoothing", "code", "facts", "terms", "examples"]);

  function build(section) {
    const node = make("section", { id: section.id });
    const heading = make("h2", { id: `${section.id}-title`, textContent: section.title });
    node.setAttribute("aria-labelledby", heading.id);
    node.append(heading);
    if (section.intro) node.append(make("p", { className: "intro", textContent: section.intro }));
    let flow = null;
    for (const block of section.blocks) {
      if (block.wide || alone.has(block.type)) {
        flow = null;
        node.append(draw[block.type](block));
      } else {
        if (!flow) node.append((flow = make("div", { className: "flow" })));
        flow.append(draw[block.type](block));
      }
    }
    node.querySelectorAll(".flow").forEach((one) => {
      if (one.children.length === 1) one.classList.add("single");
    });
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
