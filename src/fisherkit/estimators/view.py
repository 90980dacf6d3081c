"""What other packages may read of a fitted estimator; only the estimator writes into itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from fisherkit.committee import Asked
from fisherkit.core import UNLIMITED, Residuals, Ridge, RidgePath, Rule, arrays
from fisherkit.estimators import opening, terms
from fisherkit.interfaces import Container
from fisherkit.rows import IN_MEMORY, Blend, Expansion, LocalRows, MemoryRows, Plan, Task, Terms
from fisherkit.tuning import Decision


@dataclass(frozen=True)
class Inside:
    """The inside of one estimator."""

    estimator: Any

    @property
    def expansion(self) -> Expansion:
        """What predicts its scores."""
        return self.estimator._expansion

    @property
    def blend(self) -> Blend:
        """What predicts the scores of a committee."""
        return self.estimator._expansion

    @property
    def terms(self) -> Terms:
        """Its logits, or the predictions of a regression, as a sum of kernel terms."""
        model = self.estimator
        if self.noise_model:
            raise ValueError(
                f"The decisions of this {type(model).__name__} are log-odds of a noise model, no "
                "sum over training rows. Use probability='loo'."
            )
        raw = self.score_terms
        slope = self.slope if hasattr(model, "calibration_") else 1.0
        decision = getattr(model, "_decision", None)
        if decision is None:
            return raw.mapped(None, 0.0, slope)
        matrix = None if decision.matrix is None else arrays.to_numpy(decision.matrix)
        return raw.mapped(matrix, arrays.to_numpy(decision.offset), slope)

    @property
    def score_terms(self) -> Terms:
        """What predicts, before any decision, as a sum of kernel terms."""
        return terms.of_expansion(self.estimator._expansion, self._places)

    @property
    def _places(self) -> Any:
        """Rows of the training data that are the centres; -1 for inducing points."""
        if hasattr(self.estimator, "basis_indices_"):
            return self.estimator.basis_indices_
        kept, merged = self.rows
        first = np.unique(merged, return_index=True)[1]
        m = self.expansion.coef.shape[0]
        return kept[first] if len(first) == m else np.full(m, -1)

    @property
    def decision(self) -> Decision:
        """From scores to decisions, where these are not the same."""
        return self.estimator._decision

    @property
    def noise_model(self) -> bool:
        """Whether decisions are log-odds of a noise model, not expansions."""
        return getattr(self.estimator, "_noise_model", False)

    @property
    def slope(self) -> float:
        """From decisions, as users see them, to logits."""
        return self.estimator._slope_in_use()

    @property
    def training(self) -> Task | None:
        """The rows and settings of the fit; ``None`` of a fit in blocks."""
        return getattr(self.estimator, "_training", None)

    @property
    def in_blocks(self) -> bool:
        """Whether the fit has read its rows in blocks, and keeps none of them."""
        return getattr(self.estimator, "_training", self) is None

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the data that took part in the fit, and which row of the fit each became."""
        return self.estimator._rows_of_fit()

    def refit(self) -> Ridge:
        """The fit once more, with its hyper-parameters."""
        return self.estimator._refit()

    def path(self) -> RidgePath:
        """Fits of all mu at the width of the fit."""
        return self.estimator._path()

    def task(self, X: ArrayLike, y: ArrayLike) -> Task:
        """A fit to X and y in memory that has not happened yet."""
        model = self.estimator
        class_weight = getattr(model, "class_weight", None)
        rows = opening.in_memory(model, X, y, None, IN_MEMORY, class_weight)
        return rows.task(replace(model._spec(rows), limits=UNLIMITED))

    def goes_in_blocks(self, X: Container) -> bool:
        """Whether a fit to X reads its rows in blocks."""
        return self._as_planned()._plan(X).streamed

    def _as_planned(self) -> Any:
        """The estimator, not fitted, with what the plan of its fit has chosen as parameters."""
        model = clone(self.estimator)
        plan = getattr(self.estimator, "plan_", None)
        if plan is not None and model.max_time is not None:
            model.set_params(max_time=None, **plan.parameters)
        return model

    def committee(self, X: ArrayLike, y: ArrayLike) -> tuple[MemoryRows, Asked]:
        """The rows of a committee's fit, without sample weights, and what it asked for."""
        model = self._as_planned()
        rows = opening.in_memory(model, X, y, None, IN_MEMORY, model.class_weight)
        return rows, model._asked(IN_MEMORY)

    def blocks(self, X: Container, y: ArrayLike) -> tuple[LocalRows, Rule]:
        """The rows of a fit in blocks, without sample weights, and its rule."""
        model = self.estimator
        plan = Plan(True, "given", None, "")
        rows = opening.in_blocks(clone(model), X, y, None, plan, model.class_weight)
        return rows.rows, model._decision.rule

    def rules(self) -> list[str]:
        """The hyper-parameters in use that are chosen from the data, as ``name='rule'``."""
        model = self.estimator
        used = {"regularization": model.regularization}
        if model._kernel().has_gamma:
            used["gamma"] = model.gamma
        return [f"{name}={value!r}" for name, value in used.items() if isinstance(value, str)]

    def left_out_coordinates(self, fit: Residuals) -> np.ndarray:
        """Discriminant coordinates of the rows of a fit by models without them, (n, c-1)."""
        scores = fit.Y - fit.leave_one_out()
        return arrays.to_numpy(self.estimator._decision.coordinates(scores))


def inside(estimator: BaseEstimator) -> Inside:
    """The inside of a (fitted) estimator."""
    return Inside(estimator)
