"use strict";
/* Counting of left-out rows, without the page around it.
 *
 * A score is stored as its level, the number of edges below it; a threshold is the position of an
 * edge. `level > position` is `score > threshold`, exactly, so counts equal those in Python. */
const counting = (() => {
  function unpack(text, Type) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return new Type(bytes.buffer);
  }

  /** Wilson's 95 % interval. */
  function wilson(k, n) {
    const z = 1.959963984540054;
    const p = k / n;
    const centre = (p + (z * z) / (2 * n)) / (1 + (z * z) / n);
    const half = (z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n))) / (1 + (z * z) / n);
    return [Math.max(0, centre - half), Math.min(1, centre + half)];
  }

  /** Two classes: everything that a threshold and a mu decide. */
  class Scores {
    constructor(data) {
      this.data = data;
      this.n = data.rows;
      this.labels = unpack(data.labels, Uint8Array);
      this.levels = unpack(data.levels, Uint16Array);
      this.edges = unpack(data.edges, Float32Array);
      this.steps = this.levels.length / this.n;
      this.cache = [];
    }

    /** Rows of each class at every level, for one mu. */
    histogram(step) {
      if (!this.cache[step]) {
        const counts = [0, 1].map(() => new Uint32Array(this.edges.length + 1));
        for (let i = 0; i < this.n; i++) counts[this.labels[i]][this.levels[step * this.n + i]]++;
        const upTo = counts.map((c) => {
          let sum = 0;
          return Uint32Array.from(c, (v) => (sum += v));
        });
        this.cache[step] = { counts, upTo };
      }
      return this.cache[step];
    }

    /** Hits, misses, false alarms and correct rejections at one threshold. */
    confusion(step, stop) {
      const { upTo } = this.histogram(step);
      const level = this.data.stopLevels[stop];
      const last = this.edges.length;
      const [below0, below1] = [upTo[0][level], upTo[1][level]];
      return { tn: below0, fp: upTo[0][last] - below0, fn: below1, tp: upTo[1][last] - below1 };
    }

    error(step, stop) {
      const { fp, fn } = this.confusion(step, stop);
      return (fp + fn) / this.n;
    }

    /** ROC and precision-recall curves, with the areas under them; ties are one step. */
    curves(step) {
      const { counts, upTo } = this.histogram(step);
      const last = this.edges.length;
      const [negatives, positives] = [upTo[0][last], upTo[1][last]];
      const roc = [{ x: 0, y: 0 }];
      const pr = [];
      let [fp, tp, area, average] = [0, 0, 0, 0];
      for (let level = last; level >= 0; level--) {
        const [a, b] = [counts[0][level], counts[1][level]];
        if (!a && !b) continue;
        area += (a * (tp + tp + b)) / (2 * negatives * positives);
        fp += a;
        tp += b;
        average += ((b / positives) * tp) / (tp + fp);
        roc.push({ x: fp / negatives, y: tp / positives });
        if (tp) pr.push({ x: tp / positives, y: tp / (tp + fp) });
      }
      return { roc: thin(roc), pr: thin(pr), area, average };
    }

    /** Log-odds in the middle of a level. */
    value(level) {
      const last = this.edges.length - 1;
      return (this.edges[Math.max(0, level - 1)] + this.edges[Math.min(last, level)]) / 2;
    }

    /** Bins of log-odds between two bounds; the first and last hold what lies beyond. */
    projections(step, low, high, bins = 36) {
      const { counts } = this.histogram(step);
      const width = (high - low) / bins;
      const rows = d3
        .range(bins)
        .map((b) => ({ x1: low + b * width, x2: low + (b + 1) * width, n: [0, 0] }));
      for (let level = 0; level <= this.edges.length; level++) {
        if (!counts[0][level] && !counts[1][level]) continue;
        const b = Math.floor((this.value(level) - low) / width);
        const bin = rows[Math.min(bins - 1, Math.max(0, b))];
        bin.n[0] += counts[0][level];
        bin.n[1] += counts[1][level];
      }
      return rows;
    }

    /** Log-odds between which 99 % of the rows lie. */
    spread(step) {
      const { counts } = this.histogram(step);
      let sum = 0;
      let [low, high] = [null, 0];
      counts[0].forEach((c, level) => {
        sum += c + counts[1][level];
        if (low === null && sum > 0.005 * this.n) low = level;
        if (sum <= 0.995 * this.n) high = level + 1;
      });
      return [Math.min(-1, this.value(low)), Math.max(1, this.value(high))];
    }
  }

  /** More than two classes: the class decided at every mu, and by costs at the chosen one. */
  class Decisions {
    constructor(data, classes) {
      this.n = data.rows;
      const labelled = atob(data.labels).length === this.n ? Uint8Array : Uint16Array;
      this.labels = unpack(data.labels, labelled);
      this.decided = unpack(data.decided, classes <= 256 ? Uint8Array : Uint16Array);
      this.steps = this.decided.length / this.n;
      this.classes = classes;
      this.chosen = data.chosen;
      this.logits = unpack(data.logits, Float32Array);
    }

    /** Probabilities of the classes of a row, up to a factor. */
    chances(row) {
      const own = this.logits.subarray(row * this.classes, (row + 1) * this.classes);
      const top = Math.max(...own);
      return Array.from(own, (v) => Math.exp(v - top));
    }

    /** The answer of lowest expected cost for every row: `costs[true class][answer]`. */
    cheapest(costs) {
      const k = this.classes;
      const answers = new Uint16Array(this.n);
      for (let row = 0; row < this.n; row++) {
        const p = this.chances(row);
        let best = Infinity;
        for (let answer = 0; answer < k; answer++) {
          let cost = 0;
          for (let truth = 0; truth < k; truth++) cost += p[truth] * costs[truth][answer];
          if (cost < best) [best, answers[row]] = [cost, answer];
        }
      }
      return answers;
    }

    /** The answers of the model. */
    answers() {
      return this.decided.subarray(this.chosen * this.n, (this.chosen + 1) * this.n);
    }

    /** Rows by true class and answer. */
    confusion(answers) {
      const table = Array.from({ length: this.classes }, () => new Array(this.classes).fill(0));
      for (let i = 0; i < this.n; i++) table[this.labels[i]][answers[i]]++;
      return table;
    }

    error(step) {
      let wrong = 0;
      for (let i = 0; i < this.n; i++) wrong += this.labels[i] !== this.decided[step * this.n + i];
      return wrong / this.n;
    }
  }

  const thin = (points, most = 400) => {
    const every = Math.ceil(points.length / most);
    return points.filter((_, i) => i % every === 0 || i === points.length - 1);
  };

  return { Scores, Decisions, wilson };
})();
