"""What is told to people: summaries, and explanations of calibrated probabilities."""

import numpy as np
import pytest

from kernelforest import KernelForestClassifier
from kernelforest.problems import DEVELOPMENT
from kernelforest.scoring import score
from kernelforest.tuning import apportion


@pytest.fixture(scope="module")
def tuned():
    drawn = DEVELOPMENT["friedman"].sample(200, seed=3)
    return KernelForestClassifier(60, calibration="sigmoid", random_state=0).fit(drawn.X, drawn.y), drawn


def test_the_summary_names_the_choice_and_both_scores(tuned, capsys):
    model, drawn = tuned
    model.summary()
    printed = capsys.readouterr().out
    assert f"among {len(model.tuning_.candidates):,} candidates" in printed
    for n_trees, part in zip(apportion([part.share for part in model.blend_], 60), model.blend_, strict=True):
        sizes = f"leaf sizes {min(part.factors)} to {max(part.factors)} blended,"
        assert any(line.startswith(f"{n_trees} trees, ") and line.endswith(sizes) for line in printed.splitlines())
    assert "calibrated (sigmoid)" in printed
    classic = KernelForestClassifier.untuned(60, random_state=0).fit(drawn.X, drawn.y)
    for scores in (model.oob_score_, classic.oob_score_):
        assert f"{scores.log_loss:8.4f} {scores.brier:8.4f} {scores.error:8.4f}" in printed


def test_the_summary_of_a_forest_without_out_of_bag_rows_says_so(capsys):
    model = KernelForestClassifier.untuned(5, bootstrap=False).fit([[0.0], [1.0]], [0, 1])
    model.summary()
    assert "nothing is out-of-bag" in capsys.readouterr().out


def test_an_explanation_names_the_probability_that_is_predicted(tuned):
    model, drawn = tuned
    for x0 in drawn.X[:5]:
        told = model.kernel_.explain(x0)
        assert np.isclose(told.corrected, model.predict_proba(x0[None])[0, 1])
        assert np.isclose(told.estimate, model.predict_proba(x0[None], aggregate=model.aggregate_, fill=model.fill_)[0, 1])
        assert ("calibrated; the weighted average is" in str(told)) == (f"{told.corrected:.2f}" != f"{told.estimate:.2f}")


def test_another_estimate_than_the_chosen_one_is_explained_as_it_is(tuned):
    model, drawn = tuned
    other = "mean" if model.aggregate_ == "proximity" else "proximity"
    told = model.kernel_.explain(drawn.X[0], aggregate=other)
    assert told.corrected is None


def test_the_weights_of_the_kernel_give_the_probabilities_before_calibration(tuned):
    model, drawn = tuned
    W = model.kernel_.weights(drawn.X[:20])
    raw = model.predict_proba(drawn.X[:20], aggregate=model.aggregate_, fill=model.fill_)
    assert np.allclose(W @ np.eye(2)[drawn.y], raw)


def test_the_sigmoid_of_a_forest_improves_its_out_of_bag_score(tuned):
    model, drawn = tuned
    plain = KernelForestClassifier(60, calibration=None, random_state=0).fit(drawn.X, drawn.y)
    raw, _ = model.forest_.estimate_out_of_bag(model.aggregate_, model.fill_)
    assert model.oob_score_.log_loss < score(raw, drawn.y).log_loss
    assert plain.calibration_.method is None
