"""Slow truths.

Every closed form of the package has a twin here: plain loops that refit the model for each
question. Nothing of the package is imported, no closed form is reused, and every linear system is
a dual (never squared) one, solved in double precision and refined in extended precision.

Notation: K is the n x n Gram matrix of the training rows, Y the targets (n,) or (n, k), mu the
regularisation, w the frequency of a row, c its cost and v = w c. All models minimise

    sum_i v_i (y_i - f(x_i))^2 + mu pen(coef) [+ mu b^2],    f(x) = k(x, centres)' coef + b

with pen = coef' K_mm coef ("rkhs") or sum_j coef_j^2 / centre_weight_j ("coefficients").
"""

from __future__ import annotations

from itertools import combinations
from math import factorial

import mpmath
import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.optimize import minimize, minimize_scalar, root
from scipy.special import logsumexp

TAU = {"free": 0.0, "penalized": 1.0}


def noisy_classes(n, n_classes=2, d=2, seed=0):
    """Overlapping Gaussian classes of unequal size, so that leave-one-out errors are certain."""
    rng = np.random.default_rng(seed)
    shares = np.arange(n_classes, 2 * n_classes, dtype=float)
    y = np.repeat(np.arange(n_classes), np.round(n * shares / shares.sum()).astype(int) + 1)[:n]
    centres = 1.2 * np.stack([np.cos(np.arange(n_classes)), np.sin(2 * np.arange(n_classes))], 1)
    X = rng.normal(size=(n, d))
    X[:, :2] += centres[y]
    order = rng.permutation(n)
    return X[order], y[order]


def gram(X, Z=None, kernel="rbf", *, gamma=1.0, degree=3, coef0=1.0):
    """k(x_i, z_j), one pair at a time."""
    Z = X if Z is None else Z
    pair = {
        "linear": lambda x, z: x @ z,
        "polynomial": lambda x, z: (gamma * (x @ z) + coef0) ** degree,
        "rbf": lambda x, z: np.exp(-gamma * np.sum((x - z) ** 2)),
        "laplacian": lambda x, z: np.exp(-gamma * np.sum(np.abs(x - z))),
    }[kernel]
    return np.array([[pair(x, z) for z in Z] for x in X])


def unit(K, penalty="rkhs", centres=None):
    """tr(G) / n, the natural unit of mu."""
    return np.mean(np.sum(features(K, penalty, centres) ** 2, axis=1))


def solve(M, rhs):
    """M x = rhs by LU with three steps of extended-precision refinement."""
    factor = lu_factor(np.asarray(M, dtype=float))
    x = np.zeros(rhs.shape, dtype=np.longdouble)
    for _ in range(4):
        x += lu_solve(factor, np.asarray(rhs - M @ x, dtype=float))
    return np.asarray(x, dtype=float)


def ridge(K, Y, mu, *, penalty="rkhs", bias="free", v=None, centres=None, centre_weight=None):
    """(coef, b) from the saddle-point system of the weighted problem.

    With a_i = v_i (y_i - f(x_i)) / mu the optimality conditions are linear:
    Z coef + (mu / v) a + b 1 = y,  P coef = Z' a,  1'a = tau b.
    """
    n = len(K)
    v = np.ones(n) if v is None else np.asarray(v, dtype=float)
    rows = np.flatnonzero(v > 0)
    border = [] if bias == "none" else [np.ones((len(rows), 1))]
    if penalty == "rkhs" and centres is None:
        columns = rows
        core = K[np.ix_(rows, rows)].astype(np.longdouble)
        core[np.diag_indices(len(rows))] += mu / v[rows]
    else:
        columns = np.arange(n) if centres is None else np.asarray(centres)
        if centre_weight is not None:
            columns = columns[np.asarray(centre_weight)[columns] > 0]
        Z = K[np.ix_(rows, columns)].astype(np.longdouble)
        if penalty == "rkhs":
            P = K[np.ix_(columns, columns)]
        else:
            scale = np.ones(n) if centre_weight is None else np.asarray(centre_weight)
            P = np.diag(1 / scale[columns])
        core = np.block([[np.diag(mu / v[rows]), Z], [Z.T, -P]])
    if border:
        edge = np.zeros((len(core), 1))
        edge[: len(rows)] = 1
        core = np.block([[core, edge], [edge.T, -np.array([[TAU[bias]]])]])
    rhs = np.zeros((len(core), *Y.shape[1:]))
    rhs[: len(rows)] = Y[rows]
    solution = solve(core, rhs)
    b = solution[-1] if border else np.zeros(Y.shape[1:])
    body = solution[: len(solution) - len(border)]
    coef = np.zeros((n, *Y.shape[1:]))
    # The last block of unknowns: a itself where coef = a, coef otherwise.
    np.add.at(coef, columns, body[-len(columns) :])
    return (coef if centres is None else coef[np.asarray(centres)]), b


def predict(K_new, model, centres=None):
    """f on rows whose kernel values against all n training rows are K_new."""
    coef, b = model
    return (K_new if centres is None else K_new[:, centres]) @ coef + b


def reduced(w, c, i):
    """Weights v after one unit (or the row, if it weighs less) of row i has left."""
    v = w * c
    v[i] = c[i] * (w[i] - min(1.0, w[i]))
    return v


def leave_one_out(K, Y, mu, *, w=None, c=None, penalty="rkhs", bias="free", centres=None):
    """f_(i)(x_i) by n refits.

    The rkhs penalty loses row and column; the coefficients penalty and chosen centres lose the
    row only. Centres of the coefficients penalty carry the frequencies w when they are the data.
    """
    n = len(K)
    w = np.ones(n) if w is None else np.asarray(w, dtype=float)
    c = np.ones(n) if c is None else np.asarray(c, dtype=float)
    options = dict(penalty=penalty, bias=bias, centres=centres)
    if penalty == "coefficients" and centres is None:
        options["centre_weight"] = w
    out = np.empty(Y.shape)
    for i in range(n):
        model = ridge(K, Y, mu, v=reduced(w, c, i), **options)
        out[i] = predict(K[i : i + 1], model, centres)[0]
    return out


def leave_group_out(K, Y, mu, folds, *, penalty="rkhs", bias="free", centres=None):
    """f_(G)(x_i) for the rows of each test set G, one refit per fold."""
    out = np.full(Y.shape, np.nan)
    for test in folds:
        v = np.ones(len(K))
        v[test] = 0
        model = ridge(K, Y, mu, v=v, penalty=penalty, bias=bias, centres=centres)
        out[test] = predict(K[test], model, centres)
    return out


def fold_means(Y, w=None, c=None):
    """Weighted mean target of the training fold of each leave-one-out split."""
    w = np.ones(len(Y)) if w is None else np.asarray(w, dtype=float)
    c = np.ones(len(Y)) if c is None else np.asarray(c, dtype=float)
    return np.array([np.average(Y, axis=0, weights=reduced(w, c, i)) for i in range(len(Y))])


def indicators(y):
    """0/1 columns, one per class in sorted order."""
    return (np.asarray(y)[:, None] == np.unique(y)).astype(float)


def features(K, penalty="rkhs", centres=None, centre_weight=None):
    """Explicit coordinates whose plain ridge penalty is the penalty of the model."""
    if penalty == "coefficients":
        Z = K if centres is None else K[:, centres]
        scale = np.ones(len(K)) if centre_weight is None else np.asarray(centre_weight)
        return Z * np.sqrt(scale if centres is None else scale[centres])
    m = np.arange(len(K)) if centres is None else np.asarray(centres)
    values, vectors = np.linalg.eigh(K[np.ix_(m, m)])
    keep = values > 1e-13 * values[-1]
    return K[:, m] @ (vectors[:, keep] / np.sqrt(values[keep]))


def penalised_lda(Phi, y, mu, Phi_new, *, v=None, priors=True):
    """Linear discriminant scores with Sigma = (S_W + mu I) / l, S_W the within-class scatter.

    A class without rows scores -inf. Scores are defined up to a constant per row.
    """
    classes = np.unique(y)
    v = np.ones(len(y)) if v is None else v
    total = v.sum()
    mean = np.average(Phi, axis=0, weights=v)
    scatter = mu * np.eye(Phi.shape[1])
    centres, counts = {}, {}
    for k in classes:
        member = (y == k) & (v > 0)
        counts[k] = v[member].sum()
        if member.any():
            centres[k] = np.average(Phi[member], axis=0, weights=v[member]) - mean
            deviation = Phi[member] - mean - centres[k]
            scatter += (v[member, None] * deviation).T @ deviation
    scores = np.full((len(Phi_new), len(classes)), -np.inf)
    for j, k in enumerate(classes):
        if k in centres:
            direction = total * np.linalg.solve(scatter, centres[k])
            scores[:, j] = (Phi_new - mean - centres[k] / 2) @ direction
            scores[:, j] += np.log(counts[k] / total) if priors else 0.0
    return scores


def penalised_lda_loo(Phi, y, mu, *, w=None, c=None, priors=True):
    """Leave-one-out scores of the whole rule (means, scatter, priors) by n refits."""
    n = len(y)
    w = np.ones(n) if w is None else np.asarray(w, dtype=float)
    c = np.ones(n) if c is None else np.asarray(c, dtype=float)
    return np.vstack(
        [
            penalised_lda(Phi, y, mu, Phi[i : i + 1], v=reduced(w, c, i), priors=priors)
            for i in range(n)
        ]
    )


def discriminant_coordinates(Phi, y, mu, Phi_new):
    """Generalised eigenvectors of S_B against S_T + mu I, as centred coordinates of Phi_new."""
    mean = Phi.mean(axis=0)
    total = (Phi - mean).T @ (Phi - mean) + mu * np.eye(Phi.shape[1])
    between = np.zeros_like(total)
    for k in np.unique(y):
        offset = Phi[y == k].mean(axis=0) - mean
        between += np.sum(y == k) * np.outer(offset, offset)
    values, vectors = np.linalg.eig(np.linalg.solve(total, between))
    leading = np.argsort(values.real)[::-1][: len(np.unique(y)) - 1]
    return (Phi_new - mean) @ vectors[:, leading].real


def row_centred(scores):
    """Scores without the constant per row that no decision and no probability can see."""
    return scores - scores.mean(axis=1, keepdims=True)


def gap(value, truth):
    """Largest deviation in units of the root mean square of the truth."""
    value, truth = np.asarray(value), np.asarray(truth)
    assert value.shape == truth.shape, (value.shape, truth.shape)
    return np.max(np.abs(value - truth)) / np.sqrt(np.mean(truth**2))


def press(y, f, w=None):
    """Mean squared leave-one-out residual, summed over the columns."""
    squares = (y - f) ** 2
    return np.average(squares if squares.ndim == 1 else squares.sum(axis=1), weights=w)


def margin_loss(Y, F, w=None):
    """mean log(1 + exp(-4 m)), m the margin: y f for +-1 codes, true minus best other score."""
    margin = Y * F if Y.ndim == 1 else F[Y == 1] - np.where(Y == 1, -np.inf, F).max(axis=1)
    return np.average(np.logaddexp(0.0, -4 * margin), weights=w)


def smoothed_targets(y, w=None):
    """Labels with a little of the other classes, one column per class in sorted order.

    Two classes: (n_k + 1)/(n_k + 2) for the own class k of a row, of total frequency n_k, and
    1/(n_k + 2) for the other. More: 1 - eps (C - 1) and eps/2 with eps = 1/(n + 2), over their sum.
    """
    Y = indicators(y)
    w = np.ones(len(Y)) if w is None else w
    C = Y.shape[1]
    if C == 2:
        count = Y @ (Y.T @ w)
        return (Y * count[:, None] + 1) / (count[:, None] + 2)
    eps = 1 / (np.sum(w) + 2)
    targets = np.where(Y == 1, 1 - eps * (C - 1), eps / 2)
    return targets / targets.sum(axis=1, keepdims=True)


def slope(scores, y, w=None, loss_weight=None):
    """a > 0 minimising the cross-entropy of softmax(a * scores) against smoothed targets.

    scores: (n,), the log-odds of the second of two classes over a, or (n, classes). w counts rows
    in the targets and weighs the loss, unless loss_weight is given. Brute force on log a.
    """
    if scores.ndim == 1:
        scores = np.stack([np.zeros_like(scores), scores], axis=1)
    target = smoothed_targets(y, w)

    def loss(log_a):
        z = np.exp(log_a) * scores
        entropy = logsumexp(z, axis=1) - np.sum(target * z, axis=1)
        return np.average(entropy, weights=w if loss_weight is None else loss_weight)

    coarse = np.linspace(-12, 12, 241)
    best = coarse[np.argmin([loss(a) for a in coarse])]
    result = minimize_scalar(
        loss, bounds=(best - 0.2, best + 0.2), method="bounded", options={"xatol": 1e-11}
    )
    return np.exp(result.x)


def cross_entropy(logits, target, share):
    """Mean over rows of -sum_k target_k log softmax(logits)_k; both (n, classes)."""
    return float(share @ (logsumexp(logits, axis=1) - np.sum(target * logits, axis=1)))


def two_columns(u):
    """Logits (n, 2) of the two classes from the log-odds of the second."""
    return np.stack([np.zeros_like(u), u], axis=1)


def calibrate(Z, target, share):
    """a in [1e-3, 1e9] over the spread of Z, and b, that minimise the cross-entropy of a Z + b, and
    its value.

    Z is (n,), one log-odds with one offset, or (n, classes) with offsets that sum to zero. A
    minimiser without derivatives of ours, polished by finding the root of the gradient.
    """
    binary = Z.ndim == 1
    scale = np.abs(Z).max() or 1.0
    spread = np.sqrt(share @ (Z**2).reshape(len(Z), -1).sum(axis=1)) or 1.0
    lower, upper = 1e-3 / spread, 1e9 / spread

    def logits(a, b):
        return two_columns(a * Z + b[0]) if binary else a * Z + np.append(b, -np.sum(b))

    def gradient(a, b):
        u = logits(a, b)
        miss = share[:, None] * (np.exp(u - logsumexp(u, axis=1, keepdims=True)) - target)
        if binary:
            return np.array([miss[:, 1] @ Z, miss[:, 1].sum()])
        column = miss.sum(axis=0)
        return np.append(np.sum(miss * Z), column[:-1] - column[-1])

    size = 1 if binary else Z.shape[1] - 1
    bounds = [(lower * scale, upper * scale)] + [(None, None)] * size
    rough = minimize(
        lambda t: cross_entropy(logits(t[0] / scale, t[1:]), target, share),
        np.append(max(1.0, lower * scale), np.zeros(size)),
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9},
    ).x
    a = rough[0] / scale
    fixed = None
    for bound, side in ((lower, 1), (upper, -1)):
        if np.isclose(a, bound, rtol=1e-6) and side * gradient(bound, rough[1:])[0] >= 0:
            fixed = bound
    if fixed is None:
        found = root(
            lambda t: gradient(t[0] / scale, t[1:]) / [scale, *np.ones(size)], rough, tol=1e-14
        )
        a, b = found.x[0] / scale, found.x[1:]
    else:
        a, b = fixed, root(lambda t: gradient(fixed, t)[1:], rough[1:], tol=1e-14).x
    value = cross_entropy(logits(a, b), target, share)
    return a, (b[0] if binary else np.append(b, -b.sum())), value


def stack(U, omega, target, share):
    """v >= 0 and b_0 minimising cross_entropy(b_0 + sum_j v_j U_j) + 0.05 |v - omega|^2.

    U is (members, n) or (members, n, classes); the active set of a general minimiser is polished.
    """
    binary, m = U.ndim == 2, len(U)

    def logits(v, b):
        g = np.tensordot(v, U, axes=1)
        return two_columns(g + b[0]) if binary else g + np.append(b, -np.sum(b))

    def objective(t):
        v, b = t[:m], t[m:]
        u = logits(v, b)
        miss = share[:, None] * (np.exp(u - logsumexp(u, axis=1, keepdims=True)) - target)
        if binary:
            slope = np.append(U @ miss[:, 1], miss[:, 1].sum())
        else:
            column = miss.sum(axis=0)
            slope = np.append(np.tensordot(U, miss, axes=2), column[:-1] - column[-1])
        slope[:m] += 0.1 * (v - omega)
        return cross_entropy(u, target, share) + 0.05 * np.sum((v - omega) ** 2), slope

    size = 1 if binary else U.shape[2] - 1
    x = np.append(omega, np.zeros(size))
    x = minimize(
        objective,
        x,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * m + [(None, None)] * size,
        options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-10},
    ).x
    free = np.flatnonzero((x > 1e-8) | (np.arange(len(x)) >= m))

    def at(t):
        full = np.zeros(len(x))
        full[free] = t
        return objective(full)[1][free]

    out = np.zeros(len(x))
    out[free] = root(at, x[free], tol=1e-14).x
    return out[:m], (out[m] if binary else np.append(out[m:], -out[m:].sum()))


def committee(
    grams, y, relative_mu, *, w=None, c=None, combine="average", least=1e-4, penalty="rkhs"
):
    """Every ridge classifier on a grid, calibrated and weighted by brute-force leave-one-out.

    grams: one list for each kernel family of pairs (K, K_new) for its widths, K (n, n) among the
    training rows and K_new (new rows, n). w are frequencies, c costs. Returns slopes, offsets,
    losses and weights of all members, and log-odds (classes: logits) of the new rows and of the
    left-out ones.
    """
    n = len(y)
    w = np.ones(n) if w is None else np.asarray(w, dtype=float)
    c = np.ones(n) if c is None else np.asarray(c, dtype=float)
    v = w * c
    share, target = v / v.sum(), smoothed_targets(y, w)
    binary = target.shape[1] == 2
    Y = 2.0 * np.asarray(y) - 1 if binary else indicators(y)
    mean, fold = np.average(Y, axis=0, weights=v), fold_means(Y, w, c)
    centre_weight = w if penalty == "coefficients" else None
    slopes, offsets, losses, prior, left_out, new = [], [], [], [], [], []
    for family in grams:
        for K, K_new in family:
            features = K * np.sqrt(w) if penalty == "coefficients" else None
            diagonal = np.diag(K) if features is None else np.sum(features**2, axis=1)
            unit = np.sum(v * diagonal) / w.sum()
            for mu in relative_mu * unit:
                Z = leave_one_out(K, Y, mu, w=w, c=c, penalty=penalty) - fold
                a, b, loss = calibrate(Z, target, share)
                model = ridge(K, Y, mu, v=v, penalty=penalty, centre_weight=centre_weight)
                slopes.append(a)
                offsets.append(b)
                losses.append(loss)
                left_out.append(a * Z + b)
                new.append(a * (predict(K_new, model) - mean) + b)
                prior.append(1 / (len(grams) * len(family) * len(relative_mu)))
    slopes, offsets, losses = np.array(slopes), np.array(offsets), np.array(losses)
    left_out, new = np.array(left_out), np.array(new)
    b0 = 0.0
    omega = np.log(prior) - w.sum() * losses / 2
    omega = np.exp(omega - logsumexp(omega))
    if combine == "best":
        omega = (np.arange(len(losses)) == np.argmin(losses)).astype(float)
    if combine == "stack":
        top = np.argsort(-omega, kind="stable")[:120]
        stacked, b0 = stack(left_out[top], omega[top], target, share)
        omega = np.zeros(len(omega))
        omega[top] = stacked
    kept = np.where((omega >= least) | (omega == omega.max()), omega, 0.0)
    omega = kept * omega.sum() / kept.sum()
    new = b0 + np.tensordot(omega, new, axes=1)
    left_out = b0 + np.tensordot(omega, left_out, axes=1)
    if not binary:
        classes, weight = np.argmax(Y, axis=1), w.sum() * share
        W, shift = matrix_form(left_out, classes, weight, best_ridge(left_out, classes, weight)[0])
        new, left_out = new @ W + shift, left_out @ W + shift
    return {
        "slope": slopes,
        "offset": offsets,
        "loss": losses,
        "weight": omega,
        "new": new,
        "left_out": left_out,
    }


RIDGES = (30.0, 10.0, 3.0, 1.0)


def matrix_form(g, y, weight, ridge):
    """W (k, k) and c (k,) of the least sum_i w_i CE(g_i W + c, y_i) + ridge/2 |W - I|^2
    + ridge/20 |c|^2: Newton steps with the Hessian written out row by row."""
    n, k = g.shape
    rows = np.c_[g, np.ones(n)]
    penalty = ridge * np.append(np.ones(k), 0.1)  # of each row of W, and of c
    home = np.vstack([np.eye(k), np.zeros(k)])

    def objective(B):
        u = rows @ B
        entropy = logsumexp(u, axis=1) - u[np.arange(n), y]
        return weight @ entropy + 0.5 * np.sum(penalty[:, None] * (B - home) ** 2)

    B = home
    for _ in range(200):
        gradient = penalty[:, None] * (B - home)
        hessian = np.zeros((k + 1, k, k + 1, k))
        for j in range(k + 1):
            for c in range(k):
                hessian[j, c, j, c] = penalty[j]
        for i in range(n):
            u = rows[i] @ B
            p = np.exp(u - logsumexp(u))
            gradient = gradient + weight[i] * np.outer(rows[i], p - (np.arange(k) == y[i]))
            curvature = np.diag(p) - np.outer(p, p)
            hessian += weight[i] * np.einsum("j,l,cd->jcld", rows[i], rows[i], curvature)
        size = (k + 1) * k
        step = np.linalg.solve(hessian.reshape(size, size), gradient.ravel()).reshape(k + 1, k)
        length = 1.0
        while objective(B - length * step) > objective(B) * (1 + 1e-12) and length > 1e-6:
            length /= 2
        B = B - length * step
        if np.max(np.abs(step)) < 1e-13 * max(1.0, np.max(np.abs(B))):
            break
    return B[:-1], B[-1]


def folds_of_logits(g, y):
    """The fold of each row: a fifth of the fraction of what its logits, times 1,000, add up to."""
    folds = []
    for row, own in zip(g, y, strict=True):
        mark = 1000 * (np.sqrt(2) * (row[own] - np.mean(row)) + np.pi * np.std(row))
        folds.append(int(5 * (mark - np.floor(mark))))
    return np.array(folds)


def best_ridge(g, y, weight):
    """The ridge of least log-loss on rows that their fold's W and c have not seen, the largest of
    equals; with that log-loss and the share of wrong answers."""
    folds, n = folds_of_logits(g, y), len(y)
    found = []
    for ridge in RIDGES:
        entropy, wrong, mass = 0.0, 0.0, 0.0
        for fold in range(5):
            test = folds == fold
            if not test.any() or test.all():
                continue
            W, c = matrix_form(g[~test], y[~test], weight[~test], ridge)
            for i in np.arange(n)[test]:
                u = g[i] @ W + c
                entropy += weight[i] * (logsumexp(u) - u[y[i]])
                wrong += weight[i] * (np.argmax(u) != y[i])
                mass += weight[i]
        found.append((entropy / mass, wrong / mass))
    best = int(np.argmin([round(loss, 12) for loss, _ in found]))
    return RIDGES[best], *found[best]


def softmax_rule(K, y, mu, K_new, *, w=None, c=None, balanced=False, penalty="rkhs", bias="free"):
    """The softmax rule on brute-force leave-one-out: logits of the new rows and of left-out rows.

    Scores F of rows by models with the mean codes m lose m times the sum of F, which is one with a
    free bias.
    """
    n, Y = len(y), indicators(y)
    w = np.ones(n) if w is None else np.asarray(w, dtype=float)
    c = np.ones(n) if c is None else np.asarray(c, dtype=float)
    v, index = w * c, np.argmax(Y, axis=1)
    share = v / (Y @ (Y.T @ w)) if balanced else v  # costs stay where classes are as frequent
    share = share / share.sum()
    F = leave_one_out(K, Y, mu, w=w, c=c, penalty=penalty, bias=bias)
    Z = F - fold_means(Y, w, c) * F.sum(axis=1, keepdims=True)
    a, b, loss = calibrate(Z, smoothed_targets(y, w), share)
    g = a * Z + b
    weight = w.sum() * share
    lam, log_loss, error = best_ridge(g, index, weight)
    W, shift = matrix_form(g, index, weight, lam)
    centre_weight = w if penalty == "coefficients" else None
    model = ridge(K, Y, mu, v=v, penalty=penalty, bias=bias, centre_weight=centre_weight)
    f = predict(K_new, model)
    f = f - np.average(Y, axis=0, weights=v) * f.sum(axis=1, keepdims=True)
    return {
        "slope": a,
        "offset": b,
        "loss": loss,
        "ridge": lam,
        "log_loss": log_loss,
        "error": error,
        "matrix": W,
        "shift": shift,
        "left_out": g @ W + shift,
        "new": (a * f + b) @ W + shift,
    }


def leave_one_out_extended(K, y, mu, *, penalty="rkhs", bias="free", digits=60):
    """leave_one_out of +-1 or real targets (n,) in `digits` decimal digits."""
    with mpmath.workdps(digits):
        n = len(K)
        exact = mpmath.matrix(K.tolist())
        G = exact if penalty == "rkhs" else exact * exact.T
        out = []
        for i in range(n):
            rest = [j for j in range(n) if j != i]
            size = n - 1 + (bias != "none")
            M = mpmath.zeros(size)
            rhs = mpmath.zeros(size, 1)
            for a, j in enumerate(rest):
                rhs[a] = mpmath.mpf(float(y[j]))
                for b, k in enumerate(rest):
                    M[a, b] = G[j, k] + (mpmath.mpf(mu) if j == k else 0)
                if bias != "none":
                    M[a, n - 1] = M[n - 1, a] = 1
            if bias != "none":
                M[n - 1, n - 1] = -TAU[bias]
            solution = mpmath.lu_solve(M, rhs)
            f = mpmath.fsum(G[i, j] * solution[a] for a, j in enumerate(rest))
            out.append(float(f + (solution[n - 1] if bias != "none" else 0)))
    return np.array(out)


# The Bayesian Fisher discriminant. Class centres are a regular simplex of side 2, the precision
# beta has the prior Gamma(1/2, 1/2) up to its constant, K is the covariance in absolute units.


def shapley(value, n):
    """Shapley values of a game of n players by all coalitions, whose worth is value(set)."""
    coalitions = [frozenset(c) for r in range(n + 1) for c in combinations(range(n), r)]
    worth = {c: value(c) for c in coalitions}
    phi = np.zeros(n)
    for c in coalitions:
        for player in set(range(n)) - c:
            share = factorial(len(c)) * factorial(n - len(c) - 1) / factorial(n)
            phi[player] += share * (worth[c | {player}] - worth[c])
    return phi


def partly_known(x, z, known, kernel, gamma=1.0, coef0=1.0, degree=3):
    """k(x, z) where only some columns of x are known: nothing is added up for the others."""
    d = np.array([x[c] - z[c] for c in known])
    if kernel == "rbf":
        return np.exp(-gamma * np.sum(d**2))
    if kernel == "laplacian":
        return np.exp(-gamma * np.sum(np.abs(d)))
    if kernel == "exponential":
        return np.exp(-gamma * np.sqrt(np.sum(d**2)))
    if kernel == "additive":
        return np.prod([(1 + coef0 * np.exp(-gamma * abs(v))) / (1 + coef0) for v in d])
    product = sum(x[c] * z[c] for c in known)
    return product if kernel == "linear" else (gamma * product + coef0) ** degree


def simplex_contrasts(c):
    """c x (c-1) orthonormal contrasts; column j sets class j + 1 against all before it."""
    E = np.zeros((c, c - 1))
    for j in range(c - 1):
        E[: j + 1, j] = -1.0
        E[j + 1, j] = j + 1.0
        E[:, j] /= np.sqrt((j + 1) * (j + 2))
    return E


def fisher_observations(y):
    """What the model observes of f: matrix (N-1, N), which are noisy, values, class averages.

    N - c orthonormal contrasts within the classes are zero but for noise; c - 1 contrasts of the
    class centres are exact.
    """
    n, classes = len(y), np.unique(y)
    E = simplex_contrasts(len(classes))
    rows, averages = [], np.zeros((len(classes), n))
    for q, label in enumerate(classes):
        member = np.flatnonzero(y == label)
        averages[q, member] = 1 / len(member)
        for j in range(1, len(member)):
            row = np.zeros(n)
            row[member[:j]], row[member[j]] = -1.0, j
            rows.append(row / np.linalg.norm(row))
    within = len(rows)
    values = np.vstack([np.zeros((within, E.shape[1])), np.sqrt(2.0) * np.eye(E.shape[1])])
    return np.vstack([*rows, E.T @ averages]), np.arange(n - 1) < within, values, averages


def fisher_evidence(K, y, beta, nugget=0.0):
    """log density of the observations, plus log beta^(-1/2) e^(-beta/2) from the prior.

    Columns of f are independent. The centres count as differences that are not scaled: each column
    loses log(c)/2 against orthonormal contrasts.
    """
    B, noisy, values, averages = fisher_observations(y)
    S = B @ (K + nugget * np.eye(len(y))) @ B.T + np.diag(noisy / beta)
    density = 0.0
    for column in values.T:
        density -= 0.5 * (column @ np.linalg.solve(S, column) + np.linalg.slogdet(S)[1])
        density -= 0.5 * (len(column) * np.log(2 * np.pi) + np.log(len(averages)))
    return density - 0.5 * np.log(beta) - 0.5 * beta


def fisher_posterior(K, y, beta, nugget, K_new, k_new):
    """Mean (n*, c-1) and variance (n*,) of g = smooth f(x) - midpoint of the class centres of f."""
    B, noisy, values, averages = fisher_observations(y)
    n, h = len(y), averages.mean(axis=0)
    full = K + nugget * np.eye(n)
    S = B @ full @ B.T + np.diag(noisy / beta)
    mean, variance = [], []
    for k, prior in zip(K_new, k_new, strict=True):
        cross = B @ (k - full @ h)
        gain = np.linalg.solve(S, cross)
        mean.append(gain @ values)
        variance.append(prior - 2 * h @ k + h @ full @ h - gain @ cross)
    return np.array(mean), np.array(variance)


def fisher_weight_space(X, y, beta, A, X_new):
    """Mean and variance of w'(x - midpoint), w ~ N(0, A^-1), two classes, no nugget.

    Precision beta S_W + A, then the condition w'(m_1 - m_0) = 2.
    """
    means = [X[y == label].mean(axis=0) for label in np.unique(y)]
    B = np.array(A, dtype=float)
    for label, mean in zip(np.unique(y), means, strict=True):
        for x in X[y == label]:
            B += beta * np.outer(x - mean, x - mean)
    difference, midpoint = means[1] - means[0], (means[0] + means[1]) / 2
    solved = np.linalg.solve(B, difference)
    w = 2 * solved / (difference @ solved)
    left = np.linalg.inv(B) - np.outer(solved, solved) / (difference @ solved)
    return (X_new - midpoint) @ w, np.array([(x - midpoint) @ left @ (x - midpoint) for x in X_new])


def nugget_gap(n0, n1):
    """t*, the root of (nu-1)/t - nu/(d^2+t) - (N-2)/(t+n_h), d = 2 and nu = N - 2; by bisection."""
    N, n_h = n0 + n1, 1 / n0 + 1 / n1
    nu, low, high = N - 2.0, 1e-12, 1e12
    for _ in range(300):
        t = np.sqrt(low * high)
        slope = (nu - 1) / t - nu / (4 + t) - (N - 2) / (t + n_h)
        low, high = (t, high) if slope > 0 else (low, t)
    return t


def fisher_em(X, y, *, constrained, iterations=60):
    """Expectation-maximisation of an RBF kernel with nugget; two classes.

    Not constrained: the algorithm as printed. The E-step has the posterior of f with mean zero that
    has not seen the distance of the centres, and beta counts N. Constrained: f is conditioned on it
    and beta counts N - 2. Returns amplitude, width weight, nugget and beta, one row per iteration.
    """
    n = len(y)
    D2 = np.array([[np.sum((x - z) ** 2) for z in X] for x in X])
    members = [(y == label).astype(float) for label in np.unique(y)]
    L = np.eye(n) - sum(np.outer(m, m) / m.sum() for m in members)
    a = members[1] / members[1].sum() - members[0] / members[0].sum()
    log_theta, beta = np.zeros(3), 1.0
    path = []
    for _ in range(iterations):
        rho, w, nugget = np.exp(log_theta)
        K = rho * np.exp(-0.5 * w * D2) + nugget * np.eye(n)
        moment = np.linalg.solve(np.eye(n) + beta * K @ L, K)
        if constrained:
            gain = moment @ a / (a @ moment @ a)
            moment = moment - np.outer(gain, a @ moment) + 4 * np.outer(gain, gain)

        def negative(log_theta, moment=moment):
            rho, w, nugget = np.exp(log_theta)
            smooth = rho * np.exp(-0.5 * w * D2)
            inverse = np.linalg.inv(smooth + nugget * np.eye(n))
            value = 0.5 * np.linalg.slogdet(inverse)[1] - 0.5 * np.sum(inverse * moment)
            slope = 0.5 * (inverse @ moment @ inverse - inverse)
            gradient = [
                np.sum(slope * smooth),
                np.sum(slope * smooth * D2) * -0.5 * w,
                np.trace(slope) * nugget,
            ]
            return -value, -np.array(gradient)

        box = [(-14, 14)] * 3
        log_theta = minimize(negative, log_theta, jac=True, method="L-BFGS-B", bounds=box).x
        count = n - 2 if constrained else n
        beta = (count - 1) / (np.sum(L * moment) + 1)
        path.append([*np.exp(log_theta), beta])
    return np.array(path)


def slope_by_differences(value, theta, step=1e-5):
    """Central differences of value at theta, one coordinate at a time."""
    out = []
    for j in range(len(theta)):
        move = np.zeros(len(theta))
        move[j] = step
        out.append((value(theta + move) - value(theta - move)) / (2 * step))
    return np.array(out)
