"""scikit-learn's own checks of an estimator. None is skipped; what cannot hold says why."""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelforest import KernelForestClassifier

EQUIVALENCE = (
    "rows are drawn for a tree alike whatever their weight, as in scikit-learn's forests, so a row that is repeated is "
    "drawn more often than one of weight two; and equally good cuts are met in another order"
)
PURE = "leaves of one row are pure: where no tree of a small forest saw class 0, no class weight can raise a share of zero"


def expected_failures(estimator):
    failures = {"check_sample_weight_equivalence_on_dense_data": EQUIVALENCE}
    if estimator.leaf_size == 1 and estimator.fill == "inbag":
        failures["check_class_weight_classifiers"] = PURE
    return failures


@pytest.mark.filterwarnings("ignore::kernelforest.tuning.TuningWarning")  # the tables of these checks are tiny
@parametrize_with_checks(
    [
        KernelForestClassifier(n_estimators=50, random_state=0),
        KernelForestClassifier.untuned(n_estimators=10, random_state=0),
        KernelForestClassifier.untuned(n_estimators=10, splitter="extra", aggregate="mean", fill="all", random_state=0),
        KernelForestClassifier.untuned(n_estimators=20, leaf_size=10, splitter="random", fill="oob", random_state=0),
        KernelForestClassifier.untuned(
            n_estimators=1, bootstrap=False, max_features="all", aggregate="vote", random_state=0
        ),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def test_a_notebook_shows_a_model_without_computing_what_it_lists():
    """scikit-learn lists all that ends in "_": kernel, draws and out-of-bag probabilities would be made, and kept."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = KernelForestClassifier.untuned(2, random_state=0).fit(X, X[:, 0] > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # some rows are never out of bag, which oob_proba_ warns of
        assert "n_features_in_" in model._repr_html_()
    assert not {"_kernel", "_oob"} & set(vars(model))
