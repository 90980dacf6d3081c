"""
Columns that say nothing alone matter together
==============================================

The label says whether two columns have the same sign; 20 more columns are noise. No column by
itself is correlated with the label (left). Permuting one of the two among the rows takes away all
that the model knows, and the log-loss of left-out rows says so without a refit (right).

:Data: exclusive or of two columns, with 20 columns of noise
:Method: ``column_importance``
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from fisherkit import KernelFisherClassifier
from fisherkit.inspection import column_importance
from fisherkit.plots import ImportanceDisplay

rng = np.random.default_rng(0)
names = ["left", "right", *(f"noise {j}" for j in range(1, 21))]
X = pd.DataFrame(rng.uniform(-1, 1, size=(500, 22)), columns=names)
y = np.where(X["left"] * X["right"] > 0, "same", "different")

model = KernelFisherClassifier().fit(X, y)
found = column_importance(model, X, y)
print(found.to_frame().head(3))

correlation = X.corrwith(pd.Series(y == "same")).abs()
assert correlation[["left", "right"]].max() < 0.12  # noise alone has as much
assert set(found.to_frame().index[:2]) == {"left", "right"}
assert found.rise[:2].min() > 10 * found.rise[2:].max()

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
top = correlation.sort_values()[-10:]
left.barh(top.index, top, color="0.6")
left.set_xlabel("correlation with the label, its size")
ImportanceDisplay(found).plot(max_columns=10, ax=right)
plt.show()
