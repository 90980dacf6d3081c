"use strict";
/* Charts of the report, drawn by Observable Plot as SVG. Each takes plain data and returns a
 * <figure> with a title, a legend where there is more than one series, and a sentence. Classes
 * differ in colour and in dash or symbol; colours are CSS variables, so that dark mode and print
 * need no redrawing. */
const charts = (() => {
  const COLOURS = [1, 2, 3, 4, 5, 6, 7].map((i) => `var(--c${i})`);
  const DASHES = ["", "6 3", "2 3", "9 3 2 3", "12 4", "1 4", "4 2 1 2"];
  const SYMBOLS = ["circle", "triangle", "square", "diamond", "star", "wye", "cross"];
  const percent = (v) => `${+(100 * v).toFixed(1)}\u00a0%`;
  /** A name shortened in its middle: beginnings and ends tell names apart. */
  const brief = (name, most = 18) =>
    name.length > most ? `${name.slice(0, most - 8)}…${name.slice(-7)}` : name;

  /** An element with properties, and children that are nodes or text (never markup). */
  function make(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in node && name !== "role") node[name] = value;
      else node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child != null));
    return node;
  }

  function swatch(index, kind) {
    const ns = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(ns, "svg");
    svg.setAttribute("viewBox", "0 0 28 12");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS(ns, "path");
    if (kind === "box") {
      path.setAttribute("d", "M8,0H20V12H8Z");
      path.setAttribute("fill", COLOURS[index]);
    } else if (kind === "line") {
      path.setAttribute("d", "M1,6H27");
      path.setAttribute("stroke", COLOURS[index]);
      path.setAttribute("stroke-width", 2.5);
      path.setAttribute("stroke-dasharray", DASHES[index]);
    } else {
      const shape = d3[`symbol${SYMBOLS[index][0].toUpperCase()}${SYMBOLS[index].slice(1)}`];
      path.setAttribute("d", d3.symbol(shape, 60)());
      path.setAttribute("transform", "translate(14,6)");
      path.setAttribute("fill", COLOURS[index]);
    }
    svg.append(path);
    return svg;
  }

  function legend(names, kind) {
    const items = names.map((name, i) => make("li", {}, swatch(i, kind), name));
    return make("ul", { className: "legend" }, ...items);
  }

  const PAPER = 340; // pixels: a figure on A4, beside another one

  /** A figure that redraws itself when its width changes; `draw(width)` gives options for Plot. */
  function figure({ title, note, names, kind }, draw) {
    const canvas = make("div", { className: "canvas" });
    const node = make("figure", {}, make("figcaption", { textContent: title }));
    if (names && names.length > 1) node.append(legend(names, kind));
    node.append(canvas);
    if (note) node.append(make("p", { className: "note", textContent: note }));
    let seen = 0;
    node.redraw = (width = canvas.clientWidth) => {
      seen = canvas.clientWidth;
      if (!width) return;
      const svg = Plot.plot({
        width,
        height: Math.round(Math.min(340, Math.max(220, 0.66 * width))),
        marginLeft: 66,
        marginBottom: 40,
        marginRight: 18,
        style: { fontSize: "12px", background: "transparent", overflow: "visible" },
        ...draw(width),
      });
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", note ? `${title}. ${note}` : title);
      svg.querySelectorAll("[aria-label]").forEach((part) => part.removeAttribute("aria-label"));
      canvas.replaceChildren(svg);
    };
    new ResizeObserver(() => canvas.clientWidth !== seen && node.redraw()).observe(canvas);
    // Nothing is measured between this event and the paper: a figure of the screen's width would be
    // scaled down, and the words on its axes with it.
    window.addEventListener("beforeprint", () => node.redraw(PAPER));
    window.addEventListener("afterprint", () => node.redraw());
    return node;
  }

  const axis = (a, extra = {}) => ({
    label: a.label,
    labelArrow: "none",
    labelAnchor: "center",
    tickFormat: a.percent ? percent : d3.format("~g"),
    ...extra,
  });
  const points = (s) => s.x.map((x, i) => ({ x, y: s.y[i], low: s.low?.[i], high: s.high?.[i] }));
  const GRID = { ticks: 5, grid: true, nice: true };
  const UNIT = { domain: [0, 1], ticks: 5, grid: true };
  const diagonal = () =>
    Plot.line(
      [
        [0, 0],
        [1, 1],
      ],
      { stroke: "var(--muted)", strokeDasharray: "3 4" },
    );
  /** The line on which both coordinates are equal. */
  const equal = (values) =>
    Plot.line(
      d3.extent(values).map((v) => [v, v]),
      { stroke: "var(--mark)", strokeDasharray: "3 4" },
    );
  const ring = (marks) =>
    Plot.dot(marks, { x: "x", y: "y", r: 6, stroke: "var(--mark)", strokeWidth: 3 });

  function lines(block) {
    const strong = block.series.filter((s) => !s.faint);
    const names = strong.map((s) => s.name);
    const marks = block.marks ?? [];
    return figure({ ...block, names, kind: "line" }, (width) => ({
      ...(block.small ? { height: Math.round(Math.min(230, 0.5 * width)) } : {}),
      x: axis(
        block.x,
        block.square
          ? UNIT
          : {
              ticks: 6,
              domain: d3.extent([...strong.flatMap((s) => s.x), ...marks.map((m) => m.x)]),
            },
      ),
      y: axis(block.y, block.square ? UNIT : { ...GRID, zero: block.y.zero, ...domain(block) }),
      marks: [
        block.diagonal ? diagonal() : null,
        ...block.series.flatMap((s) => {
          const i = strong.indexOf(s);
          return [
            s.low
              ? Plot.areaY(points(s), {
                  x: "x",
                  y1: "low",
                  y2: "high",
                  fill: COLOURS[0],
                  fillOpacity: 0.15,
                })
              : null,
            Plot.line(points(s), {
              x: "x",
              y: "y",
              clip: true,
              stroke: s.faint ? "var(--faint)" : COLOURS[i],
              strokeWidth: s.faint ? 1.2 : 2.4,
              strokeDasharray: s.faint ? "" : DASHES[i],
            }),
          ];
        }),
        ring(marks),
      ],
    }));
  }

  function domain(block) {
    if (block.y.top == null) return {};
    const lowest = d3.min(block.series, (s) => d3.min(s.y));
    return { domain: [lowest - 0.05 * (block.y.top - lowest), block.y.top] };
  }

  /** Names on a vertical axis: each row has a number, so that equal names stay apart. */
  const named = (labels, most) => ({
    label: null,
    domain: labels.map((_, i) => `${i}`),
    tickFormat: (i) => brief(labels[i], most),
    tickSize: 0,
  });
  /** Room for names of at most so many characters, on a narrow screen less. */
  const room = (labels, width) => {
    const most = width < 420 ? 20 : 30;
    const longest = Math.min(most, d3.max(labels, (label) => label.length));
    return { most, marginLeft: 16 + 6.9 * longest };
  };

  function bars(block) {
    const rows = block.labels.map((label, i) => ({
      label: `${i}`,
      value: block.values[i],
      low: block.values[i] - 2 * (block.errors?.[i] ?? 0),
      high: block.values[i] + 2 * (block.errors?.[i] ?? 0),
    }));
    return figure(block, (width) => {
      const { most, marginLeft } = room(block.labels, width);
      return {
        height: 50 + 24 * rows.length,
        marginLeft,
        x: axis(block.x, { grid: true, ticks: 4 }),
        y: named(block.labels, most),
        marks: [
          Plot.barX(rows, { x: "value", y: "label", fill: COLOURS[0], insetTop: 4, insetBottom: 4 }),
          block.errors
            ? Plot.ruleY(rows, { x1: "low", x2: "high", y: "label", stroke: "var(--mark)" })
            : null,
          Plot.ruleX([0]),
        ],
      };
    });
  }

  /** A value and its interval for each of some names, the first of them in colour. */
  function intervals(block) {
    const rows = block.labels.map((label, i) => ({
      label: `${i}`,
      value: block.values[i],
      low: block.low[i],
      high: block.high[i],
    }));
    const colour = (row) => (row.label === "0" ? COLOURS[0] : "var(--muted)");
    return figure(block, (width) => {
      const { most, marginLeft } = room(block.labels, width);
      return {
        height: 60 + 36 * rows.length,
        marginLeft,
        x: axis(block.x, { grid: true, ticks: width < 420 ? 3 : 5, nice: !block.x.percent }),
        y: { ...named(block.labels, most), padding: 0.5 },
        marks: [
          Plot.ruleY(rows, { x1: "low", x2: "high", y: "label", stroke: colour, strokeWidth: 2.5 }),
          Plot.dot(rows, { x: "value", y: "label", r: 6, fill: colour }),
        ],
      };
    });
  }

  /** Dots for each level of a text, one series for each class. */
  function levels(block) {
    const names = block.series.map((s) => s.name);
    const dots = (s) => block.labels.map((_, i) => ({ label: `${i}`, value: s.values[i] }));
    return figure({ ...block, names, kind: "symbol" }, (width) => {
      const { most, marginLeft } = room(block.labels, width);
      return {
        height: 60 + 22 * block.labels.length,
        marginLeft,
        x: axis(block.x, { grid: true, ticks: 4, zero: block.x.percent, nice: true }),
        y: named(block.labels, most),
        marks: block.series.map((s, i) =>
          Plot.dot(dots(s), {
            x: "value",
            y: "label",
            r: 5,
            symbol: SYMBOLS[i],
            fill: COLOURS[i],
          }),
        ),
      };
    });
  }

  function scatter(block) {
    const names = block.series.map((s) => s.name);
    return figure({ ...block, names, kind: "symbol" }, () => ({
      x: axis(block.x, GRID),
      y: axis(block.y, GRID),
      marks: [
        ...block.series.map((s, i) =>
          Plot.dot(points(s), {
            x: "x",
            y: "y",
            r: 3.5,
            symbol: SYMBOLS[i],
            fill: COLOURS[i],
            fillOpacity: 0.65,
          }),
        ),
        block.diagonal ? equal(block.series.flatMap((s) => s.x)) : null,
        block.zero ? Plot.ruleY([0], { stroke: "var(--mark)", strokeDasharray: "3 4" }) : null,
      ],
    }));
  }

  const reliabilityMarks = (dots) => [
    diagonal(),
    Plot.ruleX(dots, { x: "x", y1: (d) => d.range[0], y2: (d) => d.range[1], stroke: COLOURS[0] }),
    Plot.dot(dots, { x: "x", y: "y", r: 5, fill: COLOURS[0] }),
  ];

  function reliability(block) {
    return figure(block, () => ({
      x: axis({ label: block.x, percent: true }, UNIT),
      y: axis({ label: block.y, percent: true }, UNIT),
      marks: reliabilityMarks(block.dots),
    }));
  }

  return {
    make,
    brief,
    figure,
    lines,
    bars,
    intervals,
    levels,
    scatter,
    reliability,
    reliabilityMarks,
    axis,
    ring,
    diagonal,
    COLOURS,
    UNIT,
    GRID,
  };
})();
