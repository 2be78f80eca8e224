"""scikit-learn's own checks of an estimator. None is skipped; what cannot hold says why."""

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
