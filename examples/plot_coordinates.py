"""
Discriminant coordinates of wines never seen keep the three grapes apart
=========================================================================

Thirteen measurements of 178 wines, half of them for training. ``transform`` gives the coordinates
that separate the classes best, in units of the spread within a class. For the other half they show
the three grapes as three clouds, and the nearest class mean in this plane names nearly all of them
right.

:Data: wine (scikit-learn)
:Method: ``KernelFisherClassifier.transform``
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fisherkit import KernelFisherClassifier
from fisherkit.plots import ProjectionDisplay

X, y = load_wine(return_X_y=True)
X, X_new, y, y_new = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
model = make_pipeline(StandardScaler(), KernelFisherClassifier()).fit(X, y)
means = NearestCentroid().fit(model.transform(X), y)
wrong = int((means.predict(model.transform(X_new)) != y_new).sum())
print(f"{wrong} of {len(y_new)} new wines are nearer to another class mean")
assert wrong <= 3

figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
ProjectionDisplay.from_predictions(y_new, model[0].transform(X_new)[:, :2], ax=axes[0])
axes[0].set_xlabel("alcohol (standardised)")
axes[0].set_ylabel("malic acid (standardised)")
axes[0].set_title("two of the thirteen measurements", fontsize=11)
ProjectionDisplay.from_estimator(model, X_new, y_new, ax=axes[1])
axes[1].plot(*means.centroids_.T, "+", color="black", ms=14, mew=2, label="training means")
axes[1].legend(frameon=False)
axes[1].set_title("discriminant coordinates", fontsize=11)
plt.show()
