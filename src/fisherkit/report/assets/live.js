"use strict";
/* The live part: sliders and costs, and all that follows from them. Numbers are set at once, with
 * their exact values in `data-value`; figures are drawn in the next frame. */
const live = (() => {
  const { make, brief, figure, axis, ring, diagonal, COLOURS, UNIT, GRID } = charts;
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

  /** A cost that is typed; anything but a number above zero counts as the last one that was. */
  function cost(name, label, apply) {
    const input = make("input", { type: "number", id: name, min: 0, step: "any", value: 1 });
    let value = 1;
    input.addEventListener("input", () => {
      const typed = input.valueAsNumber;
      if (Number.isFinite(typed) && typed >= 0) value = typed;
      apply();
    });
    return {
      input,
      node: make("label", { className: "cost" }, make("span", { textContent: label }), input),
      set: (v) => ((value = v), (input.value = v)),
      get: () => value,
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

  const list = (readings, how = "") =>
    make(
      "dl",
      { className: `numbers ${how}` },
      ...readings.map((n) => make("div", {}, ...n.nodes)),
    );
  const button = (name, words, act) => {
    const node = make("button", { type: "button", id: name, textContent: words });
    node.addEventListener("click", act);
    return node;
  };
  const controls = (...nodes) =>
    make("div", { className: "controls", role: "group", "aria-label": "Settings" }, ...nodes);
  const scrolling = (label, node) =>
    make("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": label }, node);

  /** Draw in the next frame, once however many events came before it; numbers never wait. */
  function drawing(figures, heard) {
    let waiting = 0;
    return (words) => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(() => {
        heard.textContent = words;
        figures.forEach((f) => f.redraw());
      });
    };
  }
  const listener = () => make("p", { className: "heard", role: "status" });

  const rate = (k, n) => (n ? `${((100 * k) / n).toFixed(1)}\u00a0%` : "none");
  const whole = (v) => v.toLocaleString("en");
  const within = (k, n) =>
    `${wilson(k, n)
      .map((v) => (100 * v).toFixed(1))
      .join(" to ")}\u00a0%`;
  const money = (v) => v.toLocaleString("en", { maximumSignificantDigits: 3 });
  const certainty = (p) =>
    `${p < 0.1 || p > 0.9 ? (100 * p).toFixed(1) : Math.round(100 * p)}\u00a0%`;

  function fill(cell, count, truth, right, kind) {
    cell.dataset.value = count;
    cell.className = right ? "right" : count ? "wrong" : "none";
    cell.style.setProperty("--share", `${truth ? Math.round((100 * count) / truth) : 0}%`);
    cell.replaceChildren(
      make("b", { textContent: whole(count) }),
      kind ? make("small", { textContent: kind }) : "",
    );
  }

  /* --- two classes ---------------------------------------------------------------------------- */

  function binary(data, names) {
    const scores = new Scores(data);
    const step = data.chosen;
    const [no, yes] = names.map((name) => `“${brief(name)}”`);
    const middle = (data.stops.length - 1) / 2;
    const chance = (stop) => 1 / (1 + Math.exp(-data.stops[stop]));
    const heard = listener();

    const missed = cost("missed", `Missing a ${yes} costs`, () => (advise(), apply()));
    const alarm = cost("alarm", `A false alarm of ${yes} costs`, () => (advise(), apply()));
    const advised = make("p", { className: "advised", id: "advised" });
    const threshold = slider(
      "threshold",
      `Answer ${yes} when its probability is above`,
      `Lower finds more rows of ${yes} and causes more false alarms.`,
      data.stops.length,
      middle,
      (i) => certainty(chance(i)),
    );

    const error = reading("error", "Wrong answers");
    const interval = reading("interval", "95 % interval of this share");
    const recall = reading("recall", `Found among ${yes} (recall)`);
    const precision = reading("precision", `Right among answers ${yes} (precision)`);
    const specificity = reading("specificity", `Left alone among ${no} (specificity)`);
    const spent = reading("spent", "Cost of 100 rows");
    const area = reading("area", "Area under the ROC curve");
    const average = reading("average", "Average precision");
    const cells = Object.fromEntries(["tn", "fp", "fn", "tp"].map((id) => [id, make("td", { id })]));
    const head = (scope, before, name) =>
      make("th", { scope }, before, make("b", { textContent: brief(name) }));
    const matrix = make(
      "table",
      { className: "confusion" },
      make("caption", { textContent: "Rows by truth and answer (confusion matrix)" }),
      make(
        "thead",
        {},
        make("tr", {}, make("td"), ...names.map((n) => head("col", "answered ", n))),
      ),
      make(
        "tbody",
        {},
        make("tr", {}, head("row", "truly ", names[0]), cells.tn, cells.fp),
        make("tr", {}, head("row", "truly ", names[1]), cells.fn, cells.tp),
      ),
    );
    const kinds = { tn: "right", fp: "false alarm", fn: "missed", tp: "right" };

    const curves = scores.curves(step);
    const here = () => {
      const c = scores.confusion(step, threshold.get());
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
    const share = scores.histogram(step).upTo[1][scores.edges.length] / scores.n;
    const figures = [
      costFigure(),
      projections(),
      curve(
        "roc",
        "False alarms and hits (ROC curve)",
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
        () => [Plot.ruleY([share], { stroke: "var(--muted)", strokeDasharray: "3 4" })],
      ),
    ];
    const redraw = drawing(figures, heard);

    function projections() {
      const [low, high] = scores.spread(step);
      const note = `Each row by its left-out score: ${yes} above the line, ${no} below. Rows right of the dashed line are answered ${yes}. The outermost bars hold all rows beyond.`;
      return figure({ title: "How far apart the classes are", note, names, kind: "box" }, () => {
        const rows = scores.projections(step, low, high);
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
        "Lower is better. The ring is the threshold in use; costs are those stated above.";
      return figure({ title: "What each threshold costs", note }, () => {
        const line = data.stops.map((_, stop) => ({ x: chance(stop), y: costOf(stop) }));
        return {
          x: axis(
            { label: `threshold on the probability of ${yes}`, percent: true },
            { domain: [0, 1], ticks: 5 },
          ),
          y: axis({ label: "cost of 100 rows" }, { ...GRID, zero: true }),
          marks: [
            Plot.line(line, { x: "x", y: "y", stroke: COLOURS[0], strokeWidth: 2.4 }),
            ring([line[threshold.get()]]),
          ],
        };
      });
    }

    function costOf(stop) {
      const { fp, fn } = scores.confusion(step, stop);
      return (100 * (alarm.get() * fp + missed.get() * fn)) / scores.n;
    }

    /** The threshold of lowest expected cost, if probabilities hold: the stop next to it. */
    function recommended() {
      const odds = Math.log(alarm.get() / missed.get());
      if (!Number.isFinite(odds)) return odds > 0 ? data.stops.length - 1 : odds < 0 ? 0 : middle;
      return d3.minIndex(data.stops, (stop) => Math.abs(stop - odds));
    }

    function advise() {
      threshold.set(recommended());
    }

    function apply() {
      threshold.update();
      const stop = threshold.get();
      const c = scores.confusion(step, stop);
      const wrong = c.fp + c.fn;
      error.set(
        wrong / scores.n,
        `${rate(wrong, scores.n)} (${whole(wrong)} of ${whole(scores.n)})`,
      );
      interval.set(wilson(wrong, scores.n).join(" "), within(wrong, scores.n));
      recall.set(c.tp / (c.tp + c.fn), rate(c.tp, c.tp + c.fn));
      precision.set(c.tp / (c.tp + c.fp), rate(c.tp, c.tp + c.fp));
      specificity.set(c.tn / (c.tn + c.fp), rate(c.tn, c.tn + c.fp));
      spent.set(costOf(stop), money(costOf(stop)));
      area.set(curves.area, curves.area.toFixed(4));
      average.set(curves.average, curves.average.toFixed(4));
      for (const [id, cell] of Object.entries(cells)) {
        const truth = id === "tn" || id === "fp" ? c.tn + c.fp : c.fn + c.tp;
        fill(cell, c[id], truth, kinds[id] === "right", kinds[id]);
      }
      const best = recommended();
      const cheapest = d3.minIndex(data.stops, (_, i) => costOf(i));
      advised.dataset.value = best;
      advised.textContent =
        `Recommended for these costs: answer ${yes} from ${certainty(chance(best))} on. ` +
        `100 rows then cost ${money(costOf(best))}, against ${money(costOf(middle))} at 50\u00a0%. ` +
        `Among all thresholds, ${certainty(chance(cheapest))} was cheapest on these rows (${money(costOf(cheapest))}).`;
      redraw(`Wrong answers ${rate(wrong, scores.n)}`);
    }

    threshold.input.addEventListener("input", apply);
    const reset = button("reset", "Back to the model’s own answers", () => {
      missed.set(1);
      alarm.set(1);
      threshold.set(middle);
      apply();
    });
    apply();
    return [
      make(
        "div",
        { className: "halves" },
        controls(
          make("div", { className: "costs" }, missed.node, alarm.node),
          advised,
          threshold.node,
          reset,
        ),
        scrolling("Confusion matrix", matrix),
      ),
      list([error, interval, recall, precision, specificity, spent, area, average], "spread"),
      heard,
      make("div", { className: "figures" }, ...figures),
    ];
  }

  /* --- several classes ------------------------------------------------------------------------ */

  const MATRIX = 6; // classes up to which each confusion may have a cost of its own
  const SHOWN = 30; // classes of the confusion matrix
  const WORST = 10;

  function many(data, names) {
    const decisions = new Decisions(data, names.length);
    const heard = listener();
    const k = names.length;
    const own = decisions.answers();
    const totals = decisions.confusion(own).map((row) => d3.sum(row));
    const shown = d3
      .sort(d3.range(k), (c) => -totals[c])
      .slice(0, SHOWN)
      .sort(d3.ascending);
    const few = shown.length < k ? ` (the ${shown.length} largest of ${k} classes)` : "";

    const error = reading("error", "Wrong answers");
    const interval = reading("interval", "95 % interval of this share");
    const balanced = reading("balanced", "Found, averaged over the classes (balanced accuracy)");
    const spent = reading("spent", "Cost of 100 rows");
    const before = reading("before", "Cost of 100 rows with the model’s own answers");
    const redraw = drawing([], heard);

    const short = k > 12 ? 8 : 14;
    const heading = (c, scope) =>
      make(
        "th",
        { scope, title: names[c] },
        make("span", { textContent: brief(names[c], short + (scope === "row" ? 4 : 0)) }),
      );
    const cells = shown.map((t) => shown.map((d) => make("td", { id: `cell-${t}-${d}` })));
    const matrix = make(
      "table",
      { className: k > 8 ? "confusion many dense" : "confusion many" },
      make("caption", {
        textContent: `Confusion matrix: true class in rows, answer in columns${few}`,
      }),
      make("thead", {}, make("tr", {}, make("td"), ...shown.map((c) => heading(c, "col")))),
      make("tbody", {}, ...shown.map((c, i) => make("tr", {}, heading(c, "row"), ...cells[i]))),
    );
    const worst = make("tbody");
    const confusions = make(
      "table",
      { id: "worst" },
      make("caption", { textContent: "The most frequent confusions" }),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          ...["truly", "answered", "rows", "share of the class"].map((words, i) =>
            make("th", { scope: "col", className: i > 1 ? "number" : "", textContent: words }),
          ),
        ),
      ),
      worst,
    );

    /* Costs: of every confusion, or of missing each class. */
    const single = k <= MATRIX;
    const inputs = new Map();
    const typed = (t, d, label) => {
      const one = cost(`cost-${t}-${d}`, label, () => apply());
      one.input.setAttribute("aria-label", label);
      inputs.set(`${t} ${d}`, one);
      return one;
    };
    const costs = () =>
      d3.range(k).map((t) =>
        d3.range(k).map((d) => {
          if (t === d) return 0;
          return (inputs.get(`${t} ${single ? d : "any"}`) ?? { get: () => 1 }).get();
        }),
      );
    let asked;
    if (single) {
      asked = make(
        "table",
        { className: "costs-of" },
        make("caption", { textContent: "What each mistake costs: truth in rows, answer in columns" }),
        make("thead", {}, make("tr", {}, make("td"), ...names.map((_, c) => heading(c, "col")))),
        make(
          "tbody",
          {},
          ...names.map((truth, t) =>
            make(
              "tr",
              {},
              heading(t, "row"),
              ...names.map((answer, d) =>
                t === d
                  ? make("td", { textContent: "0" })
                  : make("td", {}, typed(t, d, `Cost of answering ${answer} for ${truth}`).input),
              ),
            ),
          ),
        ),
      );
    } else {
      asked = make(
        "details",
        {},
        make("summary", { textContent: "Say what missing a row of each class costs" }),
        make(
          "div",
          { className: "costs" },
          ...shown.map((c) => typed(c, "any", `Missing “${brief(names[c])}” costs`).node),
        ),
      );
    }

    function apply() {
      const of = costs();
      const equal = new Set(of.flatMap((row, t) => row.filter((_, d) => d !== t))).size === 1;
      const answers = equal ? own : decisions.cheapest(of);
      const table = decisions.confusion(answers);
      const wrong = decisions.n - d3.sum(table, (row, i) => row[i]);
      const price = (counts) =>
        (100 * d3.sum(counts, (row, t) => d3.sum(row, (n, d) => n * of[t][d]))) / decisions.n;
      error.set(
        wrong / decisions.n,
        `${rate(wrong, decisions.n)} (${whole(wrong)} of ${whole(decisions.n)})`,
      );
      interval.set(wilson(wrong, decisions.n).join(" "), within(wrong, decisions.n));
      const present = d3.range(k).filter((c) => totals[c]);
      const found = d3.mean(present, (c) => table[c][c] / totals[c]);
      balanced.set(found, `${(100 * found).toFixed(1)}\u00a0%`);
      spent.set(price(table), money(price(table)));
      const first = price(decisions.confusion(own));
      before.set(first, money(first));
      shown.forEach((t, i) =>
        shown.forEach((d, j) => fill(cells[i][j], table[t][d], totals[t], t === d)),
      );
      const pairs = d3.sort(
        d3.cross(d3.range(k), d3.range(k)).filter(([t, d]) => t !== d && table[t][d]),
        ([t, d]) => -table[t][d],
      );
      worst.replaceChildren(
        ...pairs.slice(0, WORST).map(([t, d]) => {
          const row = [names[t], names[d], whole(table[t][d]), rate(table[t][d], totals[t])];
          const node = make(
            "tr",
            {},
            ...row.map((words, i) =>
              make("td", { className: i > 1 ? "number" : "", textContent: words }),
            ),
          );
          node.dataset.value = `${t} ${d} ${table[t][d]}`;
          return node;
        }),
      );
      redraw(`Wrong answers ${rate(wrong, decisions.n)}`);
    }

    const reset = button("reset", "All mistakes cost the same", () => {
      inputs.forEach((one) => one.set(1));
      apply();
    });
    apply();
    const numbers = list([error, interval, balanced, spent, before]);
    const lists = scrolling("The most frequent confusions", confusions);
    const whole_matrix = scrolling("Confusion matrix", matrix);
    whole_matrix.classList.add("matrix");
    const settings = controls(single ? scrolling("Costs", asked) : asked, reset);
    return [
      make(
        "div",
        { className: "halves" },
        make("div", {}, settings, numbers),
        k > 8 ? lists : make("div", {}, whole_matrix, lists),
      ),
      k > 8 ? whole_matrix : null,
      heard,
    ].filter(Boolean);
  }

  /* --- the regularisation --------------------------------------------------------------------- */

  function smoothing(data, names) {
    const two = names.length === 2;
    const scores = two ? new Scores(data) : new Decisions(data, names.length);
    const middle = two ? (data.stops.length - 1) / 2 : 0;
    const wrong = (i) => (two ? scores.error(i, middle) : scores.error(i));
    const heard = listener();
    const show = (i) => {
      const factor = 10 ** (data.logMu[i] - data.logMu[data.chosen]);
      if (i === data.chosen) return "as chosen";
      const words = (v) => (v >= 100 ? whole(Math.round(v)) : v.toPrecision(2).replace(/\.0$/, ""));
      return factor > 1 ? `${words(factor)} times smoother` : `${words(1 / factor)} times less smooth`;
    };
    const mu = slider(
      "mu",
      "Regularisation",
      "Left: the model follows single rows. Right: it smooths the pattern away.",
      data.logMu.length,
      data.chosen,
      show,
    );
    const error = reading("mu-error", "Wrong answers");
    const value = reading("mu-value-exact", "mu, in units of tr(G)/n");
    const used = reading("mu-chosen", "Wrong answers as chosen");
    const note =
      "Wrong answers among left-out rows for each choice. The ring is the slider, the dashed line what the model uses.";
    const drawn = figure({ title: "Error for each choice", note }, () => {
      const line = data.logMu.map((x, i) => ({ x, y: wrong(i) }));
      return {
        x: axis({ label: "smoother to the right: log10 of mu, in units of tr(G)/n" }, { ticks: 6 }),
        y: axis({ label: "wrong answers", percent: true }, { ...GRID, zero: true }),
        marks: [
          Plot.ruleX([data.logMu[data.chosen]], { stroke: "var(--muted)", strokeDasharray: "3 4" }),
          Plot.line(line, { x: "x", y: "y", stroke: COLOURS[0], strokeWidth: 2.4 }),
          ring([line[mu.get()]]),
        ],
      };
    });
    const redraw = drawing([drawn], heard);
    function apply() {
      mu.update();
      const i = mu.get();
      error.set(wrong(i), `${(100 * wrong(i)).toFixed(1)}\u00a0%`);
      value.set(10 ** data.logMu[i], (10 ** data.logMu[i]).toPrecision(3));
      const chosen = wrong(data.chosen);
      used.set(chosen, `${(100 * chosen).toFixed(1)}\u00a0%`);
      redraw(`Wrong answers ${(100 * wrong(i)).toFixed(1)} %`);
    }
    mu.input.addEventListener("input", apply);
    const reset = button("mu-reset", "Back to the choice of the model", () => {
      mu.set(data.chosen);
      apply();
    });
    apply();
    return [
      make(
        "div",
        { className: "halves" },
        make("div", {}, controls(mu.node, reset), list([error, used, value])),
        drawn,
      ),
      heard,
    ];
  }

  return {
    build: (data, names) => (names.length === 2 ? binary(data, names) : many(data, names)),
    smoothing,
  };
})();
