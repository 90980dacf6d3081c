"use strict";
/* The live part: sliders, and all that follows from their positions. Numbers are set at once, with
 * their exact values in `data-value`; figures are drawn in the next frame. */
const live = (() => {
  const { make, brief, figure, axis, ring, diagonal, reliabilityMarks, COLOURS, UNIT, GRID } =
    charts;

  const { Scores, Decisions, wilson } = counting;

  /** A labelled slider; `show(position)` gives the words beside it. */
  function slider(name, label, help, count, start, show) {
    const input = make("input", { type: "range", id: name, min: 0, max: count - 1, step: 1 });
    input.value = start;
    const words = make("output", { id: `${name}-value` });
    words.setAttribute("for", name);
    const hint = make("p", { className: "hint", id: `${name}-help`, textContent: help });
    input.setAttribute("aria-describedby", hint.id);
    const update = () => {
      words.textContent = show(+input.value);
      input.setAttribute("aria-valuetext", words.textContent);
    };
    update();
    const title = make("label", { htmlFor: name, textContent: label });
    const node = make(
      "div",
      { className: "slider" },
      make("div", { className: "row" }, title, words),
      input,
      hint,
    );
    return {
      node,
      input,
      update,
      set: (v) => ((input.value = v), update()),
      get: () => +input.value,
    };
  }

  /** A named number whose exact value is kept beside the one shown. */
  function reading(name, label) {
    const value = make("dd", { id: name });
    return {
      nodes: [make("dt", { textContent: label }), value],
      set(v, words) {
        value.dataset.value = v;
        value.textContent = words;
      },
    };
  }

  /** What screen readers say after a slider has moved. */
  const heard = make("p", { className: "heard", role: "status" });

  /** Draw in the next frame, once however many events came before it; numbers never wait. */
  let waiting = 0;
  function redraw(figures, error) {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      heard.textContent = `Error ${error}`;
      figures.forEach((f) => f.redraw());
    });
  }

  const rate = (k, n) => (n ? `${((100 * k) / n).toFixed(1)}\u00a0%` : "none");
  const whole = (v) => v.toLocaleString("en");
  const within = (k, n) =>
    `${wilson(k, n)
      .map((v) => (100 * v).toFixed(1))
      .join(" to ")}\u00a0%`;

  function muSlider(data, apply) {
    if (!data.logMu) return null;
    const show = (i) =>
      `${(10 ** data.logMu[i]).toPrecision(3)}${i === data.chosen ? " (chosen)" : ""}`;
    const node = slider(
      "mu",
      "Regularisation (mu)",
      "Left: the model follows single rows. Right: it smooths the pattern away. In units of tr(G)/n; the steps are the values that tuning compared at the chosen kernel width.",
      data.logMu.length,
      data.chosen,
      show,
    );
    node.input.addEventListener("input", apply);
    return node;
  }

  function pathFigure(data, error, step) {
    const y = { label: "error of left-out rows", percent: true };
    const note =
      "The error at every value of mu, with the other settings as above. The ring is the value of the slider, the dashed line the value that the model uses.";
    return figure({ title: "Error against regularisation", note }, () => {
      const line = data.logMu.map((x, i) => ({ x, y: error(i) }));
      return {
        x: axis({ label: "log10 of mu (in units of tr(G)/n)" }, { ticks: 6 }),
        y: axis(y, { ...GRID, zero: true }),
        marks: [
          Plot.ruleX([data.logMu[data.chosen]], { stroke: "var(--muted)", strokeDasharray: "3 4" }),
          Plot.line(line, { x: "x", y: "y", stroke: COLOURS[0], strokeWidth: 2.4 }),
          ring([line[step()]]),
        ],
      };
    });
  }

  function binary(data, names) {
    const scores = new Scores(data);
    const [no, yes] = names.map((name) => `“${brief(name)}”`);
    const middle = (data.stops.length - 1) / 2;
    const even = (data.costs.length - 1) / 2;
    const chance = (stop) => 1 / (1 + Math.exp(-data.stops[stop]));
    const certainty = (p) =>
      `${p < 0.1 || p > 0.9 ? (100 * p).toFixed(1) : Math.round(100 * p)}\u00a0%`;

    const threshold = slider(
      "threshold",
      `Answer ${yes} when its probability is above`,
      `Lower finds more rows of ${yes} and causes more false alarms.`,
      data.stops.length,
      middle,
      (i) => certainty(chance(i)),
    );
    const cost = slider(
      "cost",
      `A missed ${yes} costs as much as`,
      "Moves the threshold to the lowest expected cost, if the probabilities can be trusted.",
      data.costs.length,
      even,
      (i) => {
        const c = data.costs[i];
        const words = c < 10 ? +c.toPrecision(2) : Math.round(c);
        return `${words} false alarm${words === 1 ? "" : "s"}`;
      },
    );
    const mu = muSlider(data, () => apply());
    const step = () => (mu ? mu.get() : data.chosen);

    const error = reading("error", "Error");
    const interval = reading("interval", "95 % interval of the error");
    const recall = reading("recall", `Found among ${yes} (recall)`);
    const precision = reading("precision", `Right among answers ${yes} (precision)`);
    const specificity = reading("specificity", `Cleared among ${no}`);
    const spent = reading("spent", "Cost per 100 rows, in false alarms");
    const area = reading("area", "Area under the ROC curve");
    const average = reading("average", "Average precision");
    const cells = Object.fromEntries(
      ["tn", "fp", "fn", "tp"].map((id) => [id, make("td", { id })]),
    );
    const matrix = make(
      "table",
      { className: "confusion" },
      make("caption", { textContent: "Confusion matrix: rows by truth and answer" }),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("td"),
          ...names.map((n) =>
            make("th", { scope: "col" }, "answer ", make("b", { textContent: n })),
          ),
        ),
      ),
      make(
        "tbody",
        {},
        make(
          "tr",
          {},
          make("th", { scope: "row" }, "truly ", make("b", { textContent: names[0] })),
          cells.tn,
          cells.fp,
        ),
        make(
          "tr",
          {},
          make("th", { scope: "row" }, "truly ", make("b", { textContent: names[1] })),
          cells.fn,
          cells.tp,
        ),
      ),
    );
    const kinds = { tn: "right", fp: "false alarm", fn: "missed", tp: "right" };

    let curves = scores.curves(step());
    const here = () => {
      const c = scores.confusion(step(), threshold.get());
      return {
        roc: [{ x: c.fp / (c.fp + c.tn), y: c.tp / (c.tp + c.fn) }],
        pr: c.tp + c.fp ? [{ x: c.tp / (c.tp + c.fn), y: c.tp / (c.tp + c.fp) }] : [],
      };
    };
    const curve = (kind, title, x, y, note, extra) =>
      figure({ title, note }, () => ({
        x: axis({ label: x, percent: true }, UNIT),
        y: axis({ label: y, percent: true }, UNIT),
        marks: [
          ...extra(),
          Plot.line(curves[kind], {
            x: "x",
            y: "y",
            stroke: COLOURS[0],
            strokeWidth: 2.4,
            curve: kind === "roc" ? "linear" : "step-before",
          }),
          ring(here()[kind]),
        ],
      }));
    const share = () => scores.histogram(0).upTo[1][scores.edges.length] / scores.n;
    const figures = [
      projections(),
      curve(
        "roc",
        "ROC: false alarms against hits",
        `false alarms (share of ${no})`,
        `hits (share of ${yes})`,
        "The ring is the threshold in use; the dashed line is guessing.",
        () => [diagonal()],
      ),
      curve(
        "pr",
        "Precision and recall",
        `recall (share of ${yes} found)`,
        `precision of ${yes}`,
        "The dashed line is what guessing gives.",
        () => [Plot.ruleY([share()], { stroke: "var(--muted)", strokeDasharray: "3 4" })],
      ),
      figure(
        {
          title: "Reliability: can the probabilities be trusted?",
          note: `Dots on the line: of rows given 80 % for ${yes}, 80 % are. Bars are 95 % intervals.`,
        },
        () => ({
          x: axis({ label: `stated probability of ${yes}`, percent: true }, UNIT),
          y: axis({ label: `share that are ${yes}`, percent: true }, UNIT),
          marks: reliabilityMarks(scores.reliability(step())),
        }),
      ),
      costFigure(),
    ];
    if (mu) figures.push(pathFigure(data, (i) => scores.error(i, threshold.get()), step));

    function projections() {
      const [low, high] = scores.spread(data.chosen);
      const note = `Each row by its left-out score: ${yes} above the line, ${no} below. Rows right of the dashed line are answered ${yes}. The outermost bars hold all rows beyond.`;
      return figure({ title: "Projections of the two classes", note, names, kind: "box" }, () => {
        const rows = scores.projections(step(), low, high);
        const bar = (c, sign) =>
          Plot.rectY(rows, {
            x1: "x1",
            x2: "x2",
            y1: 0,
            y2: (d) => sign * d.n[c],
            fill: COLOURS[c],
            inset: 0.5,
          });
        return {
          x: axis({ label: `log-odds of ${yes}` }, { ticks: 7 }),
          y: axis({ label: "rows" }, { ...GRID, tickFormat: (v) => whole(Math.abs(v)) }),
          marks: [
            bar(0, -1),
            bar(1, 1),
            Plot.ruleY([0]),
            Plot.ruleX([data.stops[threshold.get()]], {
              stroke: "var(--mark)",
              strokeWidth: 2,
              strokeDasharray: "5 4",
              clip: true,
            }),
          ],
        };
      });
    }

    function costFigure() {
      const note =
        "Lower is better; a missed row costs what is set above. The ring is the threshold in use.";
      return figure({ title: "Cost of the mistakes", note }, () => {
        const line = data.stops.map((x, stop) => ({ x: chance(stop), y: costOf(stop) }));
        return {
          x: axis(
            { label: `threshold on the probability of ${yes}`, percent: true },
            { domain: [0, 1], ticks: 5 },
          ),
          y: axis({ label: "cost per 100 rows (false alarms)" }, { ...GRID, zero: true }),
          marks: [
            Plot.line(line, {
              x: "x",
              y: "y",
              stroke: COLOURS[0],
              strokeWidth: 2.4,
            }),
            ring([line[threshold.get()]]),
          ],
        };
      });
    }

    function costOf(stop) {
      const { fp, fn } = scores.confusion(step(), stop);
      return (100 * (fp + data.costs[cost.get()] * fn)) / scores.n;
    }

    function apply() {
      threshold.update();
      cost.update();
      mu?.update();
      const stop = threshold.get();
      const c = scores.confusion(step(), stop);
      const wrong = c.fp + c.fn;
      error.set(
        wrong / scores.n,
        `${rate(wrong, scores.n)} (${whole(wrong)} of ${whole(scores.n)})`,
      );
      interval.set(wilson(wrong, scores.n).join(" "), within(wrong, scores.n));
      recall.set(c.tp / (c.tp + c.fn), rate(c.tp, c.tp + c.fn));
      precision.set(c.tp / (c.tp + c.fp), rate(c.tp, c.tp + c.fp));
      specificity.set(c.tn / (c.tn + c.fp), rate(c.tn, c.tn + c.fp));
      spent.set(costOf(stop), costOf(stop).toFixed(2));
      curves = scores.curves(step());
      area.set(curves.area, curves.area.toFixed(4));
      average.set(curves.average, curves.average.toFixed(4));
      for (const [id, cell] of Object.entries(cells)) {
        const truth = id === "tn" || id === "fp" ? c.tn + c.fp : c.fn + c.tp;
        fill(cell, c[id], truth, kinds[id] === "right", kinds[id]);
      }
      redraw(figures, rate(wrong, scores.n));
    }

    threshold.input.addEventListener("input", apply);
    cost.input.addEventListener("input", () => {
      threshold.set(middle - 4 * (cost.get() - even));
      apply();
    });
    const reset = make("button", {
      type: "button",
      id: "reset",
      textContent: "Back to the settings of the model",
    });
    reset.addEventListener("click", () => {
      threshold.set(middle);
      cost.set(even);
      mu?.set(data.chosen);
      apply();
    });
    const numbers = [error, interval, recall, precision, specificity, spent, area, average];
    apply();
    return panel([threshold, cost, mu], reset, numbers, matrix, figures);
  }

  function fill(cell, count, truth, right, kind) {
    cell.dataset.value = count;
    cell.className = right ? "right" : "wrong";
    cell.style.setProperty("--share", `${truth ? Math.round((100 * count) / truth) : 0}%`);
    cell.replaceChildren(
      make("b", { textContent: whole(count) }),
      kind ? make("small", { textContent: kind }) : "",
    );
  }

  function many(data, names) {
    const decisions = new Decisions(data, names.length);
    const mu = muSlider(data, () => apply());
    const step = () => (mu ? mu.get() : data.chosen);
    const error = reading("error", "Error");
    const interval = reading("interval", "95 % interval of the error");
    const totals = decisions.confusion(data.chosen).map((row) => d3.sum(row));
    const shown = d3
      .sort(d3.range(names.length), (c) => -totals[c])
      .slice(0, 30)
      .sort(d3.ascending);
    const cells = shown.map((t) => shown.map((d) => make("td", { id: `cell-${t}-${d}` })));
    const few =
      shown.length < names.length
        ? ` (the ${shown.length} largest of ${names.length} classes)`
        : "";
    const heading = (c, scope) =>
      make("th", { scope, title: names[c], textContent: brief(names[c]) });
    const title = `Confusion matrix: true class in rows, answer in columns${few}`;
    const matrix = make(
      "table",
      { className: "confusion many" },
      make("caption", { textContent: title }),
      make("thead", {}, make("tr", {}, make("td"), ...shown.map((c) => heading(c, "col")))),
      make("tbody", {}, ...shown.map((c, i) => make("tr", {}, heading(c, "row"), ...cells[i]))),
    );
    const figures = mu ? [pathFigure(data, (i) => decisions.error(i), step)] : [];

    function apply() {
      mu?.update();
      const table = decisions.confusion(step());
      const wrong = decisions.n - d3.sum(table, (row, i) => row[i]);
      error.set(
        wrong / decisions.n,
        `${rate(wrong, decisions.n)} (${whole(wrong)} of ${whole(decisions.n)})`,
      );
      interval.set(wilson(wrong, decisions.n).join(" "), within(wrong, decisions.n));
      shown.forEach((t, i) =>
        shown.forEach((d, j) => fill(cells[i][j], table[t][d], totals[t], t === d)),
      );
      redraw(figures, rate(wrong, decisions.n));
    }

    apply();
    const reset = make("button", {
      type: "button",
      id: "reset",
      textContent: "Back to the setting of the model",
    });
    reset.addEventListener("click", () => (mu.set(data.chosen), apply()));
    return panel([mu], mu ? reset : null, [error, interval], matrix, figures);
  }

  function panel(sliders, reset, numbers, matrix, figures) {
    const controls = sliders.filter(Boolean).map((s) => s.node);
    return [
      controls.length
        ? make(
            "div",
            { className: "controls", role: "group", "aria-label": "Settings" },
            ...controls,
            reset,
          )
        : null,
      make(
        "div",
        {
          className: matrix.rows.length > 6 ? "outcome tall" : "outcome",
          role: "region",
          "aria-label": "Outcome",
        },
        make("dl", { className: "numbers" }, ...numbers.map((n) => make("div", {}, ...n.nodes))),
        make(
          "div",
          { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Confusion matrix" },
          matrix,
        ),
      ),
      heard,
      make("div", { className: "figures" }, ...figures),
    ].filter(Boolean);
  }

  return {
    build: (data, names) => (names.length === 2 ? binary(data, names) : many(data, names)),
  };
})();
