"""
A permutation test tells a weak signal from none where accuracy sees no difference
==================================================================================

Two features of 80 rows of the breast-cancer table, one at a time. With either, the accuracy is that
of always naming the more frequent class. The area under the ROC curve beside that of 999
permutations of the labels, each with a regularisation of its own: the error of concavity carries a
signal, the error of texture none that could be seen. The two were picked among 30 features to show
this; the 489 rows that were held out agree.

:Data: breast cancer, two of its features (scikit-learn)
:Method: ``permutation_test_score``
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.plots import PermutationDisplay

table = load_breast_cancer(as_frame=True)
rows = np.random.default_rng(0).permutation(len(table.data))[:80]
y = table.target[rows].to_numpy()
share = max(np.mean(y), 1 - np.mean(y))
model = KernelFisherClassifier(gamma="scale")

figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), sharex=True, sharey=True, layout="constrained")
others = table.data.index.difference(rows)
pvalues, elsewhere = [], []
for ax, name in zip(axes, ("concavity error", "texture error"), strict=True):
    X = StandardScaler().fit_transform(table.data.loc[rows, [name]])
    display = PermutationDisplay.from_estimator(
        model, X, y, scoring="roc_auc", n_permutations=999, random_state=0, ax=ax
    )
    pvalues.append(display.pvalue)
    elsewhere.append(abs(roc_auc_score(table.target[others], table.data.loc[others, name]) - 0.5))
    accuracy = np.mean((model.fit(X, y).loo_decision_ > 0) == y)
    print(f"{name}: accuracy {accuracy:.3f}, always the frequent class {share:.3f}")
    assert accuracy <= share
    ax.set_title(f"{name}, accuracy {accuracy:.2f}", fontsize=11)
    ax.legend(frameon=False, loc="upper left")
axes[1].set_ylabel("")
print("distance of the AUC from 1/2 on the other rows: {:.2f} and {:.2f}".format(*elsewhere))
assert pvalues[0] < 0.02 and pvalues[1] > 0.2
assert elsewhere[0] > 0.2 and elsewhere[1] < 0.05
plt.show()
