"""Voting points and explanations: their numbers, against answers by hand and against loops."""

import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest

from kernelforest import KernelForestClassifier
from kernelforest.kernel import ForestKernel

ESTIMATES = [(aggregate, fill) for aggregate in ("mean", "proximity") for fill in ("inbag", "all", "oob")]


def kernel_of(leaves, y, x0_leaves=None, names=None):
    """A forest given by its leaf numbers. Row i has the features (i, -i); any other point is in the leaves `x0_leaves`."""
    leaves = np.array(leaves)
    X = np.column_stack([np.arange(len(leaves)), -np.arange(len(leaves))]).astype(float)

    def apply(Z):
        first = np.asarray(Z)[:, 0]
        out = np.tile(np.zeros_like(leaves[0]) if x0_leaves is None else x0_leaves, (len(first), 1))
        known = np.isin(first, X[:, 0])
        out[known] = leaves[first[known].astype(int)]
        return out

    return ForestKernel.from_model((leaves, apply), X if names is None else pd.DataFrame(X, columns=names), y)


# trees:    1  2     x0 is in leaf 0 of both, with rows {0, 1} in the first tree and {0, 2} in the second
SQUARE = [[0, 0], [0, 1], [1, 0], [1, 1]]
X0 = [9.0, 8.0]


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(120, 3)), columns=["a", "b", "c"])
    return X, random.random(120) < 1 / (1 + np.exp(-3 * X["a"].to_numpy())), random.integers(0, 3, 120).astype(float)


@pytest.fixture(scope="module")
def model(data):
    return KernelForestClassifier.untuned(40, leaf_size=4, random_state=0).fit(data[0], data[1])


@pytest.fixture(scope="module")
def weighted(data):
    return KernelForestClassifier.untuned(40, leaf_size=4, random_state=0).fit(*data)


def test_voting_points_of_a_forest_of_two_trees_are_those_by_hand():
    points = kernel_of(SQUARE, [1, 0, 1, 0]).voting_points(X0)
    assert points.rows.tolist() == [0, 1, 2]
    assert points.weight.tolist() == [0.5, 0.25, 0.25]
    assert points.share.tolist() == [1.0, 0.5, 0.5]
    assert points.label.tolist() == [1, 0, 1]
    assert points.features.tolist() == [[0, 0], [1, -1], [2, -2]]
    assert points.x0.tolist() == X0
    assert len(points) == 3
    assert repr(points) == "VotingPoints(3 of 4 training rows, 2 features)"


@pytest.mark.parametrize(("aggregate", "change"), [("proximity", [-0.25, 0.25, 2 / 3 - 0.75]), ("mean", [-0.25, 0.25, 0.0])])
def test_influence_of_a_forest_of_two_trees_is_that_by_hand(aggregate, change):
    explanation = kernel_of(SQUARE, [1, 0, 1, 0]).explain(X0, aggregate=aggregate)
    assert explanation.estimate == 0.75
    np.testing.assert_allclose(explanation.influence, change, atol=1e-15)


def test_a_tree_whose_only_voter_is_left_out_has_no_opinion():
    # first tree: rows 0 and 1, mean 1/2; second tree: row 2 alone, mean 1
    explanation = kernel_of([[0, 1], [0, 1], [1, 0], [1, 1]], [1, 0, 1, 0]).explain(X0, aggregate="mean")
    assert dict(zip(explanation.points.rows.tolist(), explanation.influence.tolist(), strict=True))[2] == 0.5 - 0.75


@pytest.mark.parametrize("aggregate", ["mean", "proximity"])
def test_without_the_only_voter_the_average_of_all_other_rows_is_left(aggregate):
    explanation = kernel_of([[0], [1], [1], [1]], [1, 0, 0, 1]).explain(X0, aggregate=aggregate)
    assert explanation.estimate == 1.0
    assert explanation.influence.tolist() == [pytest.approx(1 / 3 - 1.0)]


@pytest.mark.parametrize("aggregate", ["mean", "proximity"])
def test_where_no_tree_has_an_opinion_every_row_votes(aggregate):
    kernel = kernel_of(SQUARE, [1, 0, 1, 1], x0_leaves=[7, 7])
    explanation = kernel.explain(X0, aggregate=aggregate)
    assert explanation.points.weight.tolist() == [0.25] * 4
    assert explanation.points.share.tolist() == [0.0] * 4
    np.testing.assert_allclose(explanation.influence, [2 / 3 - 0.75, 1 - 0.75, 2 / 3 - 0.75, 2 / 3 - 0.75])


@pytest.mark.parametrize(("aggregate", "fill"), ESTIMATES)
@pytest.mark.parametrize("which", ["model", "weighted"])
def test_the_estimate_is_that_of_predict_proba_and_the_weights_those_of_the_kernel(request, data, which, aggregate, fill):
    model = request.getfixturevalue(which)
    for row in range(0, 120, 17):
        x0 = data[0].iloc[[row]]
        explanation = model.kernel_.explain(x0, aggregate=aggregate, fill=fill)
        assert explanation.estimate == pytest.approx(model.predict_proba(x0, aggregate, fill)[0, 1], abs=1e-12)
        line = np.zeros(120)
        line[explanation.points.rows] = explanation.points.weight
        np.testing.assert_allclose(line, model.kernel_.weights(x0, aggregate=aggregate, fill=fill).toarray()[0], atol=1e-14)
        neighbours = model.kernel_.effective_neighbours(x0, aggregate=aggregate, fill=fill)[0]
        assert explanation.points.effective_neighbours == pytest.approx(neighbours)


def average_by_loops(model, X, y, weight, x0, aggregate, fill, left_out):
    """Estimate at x0 from trees as they are, one training row not being counted anywhere."""
    leaves, mine, draws = model.apply(X), model.apply(x0)[0], model.inbag_counts_
    top = bottom = 0.0
    for t in range(len(mine)):
        total = ones = 0.0
        for i in np.flatnonzero(leaves[:, t] == mine[t]):
            count = {"inbag": draws[i, t], "all": 1, "oob": draws[i, t] == 0}[fill] * (i != left_out)
            total += count * weight[i]
            ones += count * weight[i] * y[i]
        if total > 0:
            top += ones / total if aggregate == "mean" else ones
            bottom += 1.0 if aggregate == "mean" else total
    return top / bottom


@pytest.mark.parametrize(("aggregate", "fill"), ESTIMATES)
def test_influence_is_the_change_of_the_average_when_a_row_is_left_out_by_loops(data, weighted, aggregate, fill):
    X, y, weight = data
    x0 = X.iloc[[5]]
    explanation = weighted.kernel_.explain(x0, aggregate=aggregate, fill=fill)
    for row, change in list(zip(explanation.points.rows, explanation.influence, strict=True))[::4]:
        without = average_by_loops(weighted, X, y, weight, x0, aggregate, fill, row)
        assert change == pytest.approx(without - explanation.estimate, abs=1e-12)


def test_shares_of_trees_are_the_leaf_kernel_whatever_the_fill(data, model):
    x0 = data[0].iloc[[5]]
    points = model.kernel_.voting_points(x0, fill="oob")
    np.testing.assert_allclose(points.share, model.kernel_.matrix(x0).toarray()[0, points.rows])


def test_an_explanation_takes_memory_by_rows_not_by_rows_and_trees():
    """Where leaves hold most of the rows, pairs of a row and a tree that share the leaf of x0 would be gigabytes."""
    X = np.random.default_rng(0).normal(size=(4000, 2))
    kernel = KernelForestClassifier.untuned(200, leaf_size=4000, random_state=0).fit(X, X[:, 0] > 0).kernel_
    kernel.explain(X[0])  # compiled, and draws known
    tracemalloc.start()
    kernel.explain(X[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_a_point_may_be_a_row_of_a_frame_a_list_an_array_or_a_table(data):
    X, y, _ = data
    kernel = KernelForestClassifier.untuned(10, random_state=0).fit(X.to_numpy(), y).kernel_
    row = X.to_numpy()[3]
    found = [kernel.voting_points(x0).rows.tolist() for x0 in (row, row.tolist(), tuple(row), row[None], [row.tolist()])]
    assert all(rows == found[0] for rows in found)
    named = KernelForestClassifier.untuned(10, random_state=0).fit(X, y).kernel_
    assert named.voting_points(X.iloc[3]).rows.tolist() == named.voting_points(X.iloc[[3]]).rows.tolist() == found[0]


def test_levels_of_a_categorical_feature_are_given_by_their_place():
    X = pd.DataFrame({"colour": ["red", "blue"] * 10, "size": np.arange(20.0)})
    kernel = KernelForestClassifier.untuned(10, random_state=0).fit(X, [0, 1] * 10).kernel_
    points = kernel.voting_points(X.iloc[0])
    assert points.x0.tolist() == [1.0, 0.0]
    assert set(points.features[:, 0]) <= {0.0, 1.0}
    assert "colour" not in kernel.explain(X.iloc[0]).narrowest  # no step leads from one level to another


@pytest.mark.parametrize(("mass", "n_rows"), [(0.1, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.8, 3), (1.0, 3), (1, 3)])
def test_the_heaviest_rows_are_as_few_as_hold_the_mass(mass, n_rows):
    kernel = kernel_of(SQUARE, [1, 0, 1, 0])
    assert kernel.voting_points(X0).heaviest(mass) == n_rows
    assert kernel.explain(X0, mass=mass).n_heaviest == n_rows


def test_the_sentence_of_two_classes_counts_the_positive_rows():
    text = str(kernel_of(SQUARE, [1, 0, 1, 0]).explain(X0))
    assert text == "p = 0.75: 3 of 4 training rows hold 80 % of the weight, 2 of them positive; effective neighbours 3"


def test_the_sentence_names_a_class_that_is_not_plainly_positive():
    text = str(kernel_of(SQUARE, ["spam", "ham", "spam", "ham"]).explain(X0, mass=0.5))
    assert text.startswith("p(spam) = 0.75: 1 of 4 training rows hold 50 % of the weight, 1 of them of class spam;")


def test_of_three_classes_the_most_probable_is_explained():
    explanation = kernel_of(SQUARE, ["b", "a", "c", "c"]).explain(X0)
    assert explanation.target == "b"
    assert explanation.estimate == 0.5
    assert "p(b) = 0.50" in str(explanation)
    assert explanation.n_agreeing == 1


def test_a_regression_explains_its_value():
    explanation = kernel_of(SQUARE, [1.5, 0.5, 2.5, 9.0]).explain(X0)
    assert explanation.estimate == 1.5
    assert explanation.n_agreeing == 0
    with pytest.raises(ValueError, match="label must be left out: the forest has no classes; got 1"):
        kernel_of(SQUARE, [1.5, 0.5, 2.5, 9.0]).explain(X0, label=1)
    assert str(explanation).startswith(
        "value = 1.5: 3 of 4 training rows hold 80 % of the weight, with values from 0.5 to 2.5; effective neighbours 3"
    )


def test_the_narrowest_feature_is_the_one_that_decides_in_whatever_unit():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.uniform(-1, 1, (200, 3)), columns=["noise", "signal", "more noise"])
    X["signal"] *= 1e6
    model = KernelForestClassifier.untuned(50, max_features="all", leaf_size=20, random_state=0).fit(X, X["signal"] > 0)
    explanation = model.kernel_.explain(pd.Series({"noise": 0.0, "signal": 1e3, "more noise": 0.0}))
    assert explanation.narrowest[0] == "signal"
    assert "the kernel is narrowest in signal" in str(explanation)


def test_the_table_of_an_explanation_has_the_most_influential_rows_first():
    table = kernel_of(SQUARE, [1, 0, 1, 0]).explain(X0).frame(2)
    with pytest.raises(ValueError, match="most must be an integer >= 0, got -1"):
        kernel_of(SQUARE, [1, 0, 1, 0]).explain(X0).frame(-1)
    assert table.columns.tolist() == ["row", "label", "weight", "share", "influence"]
    assert table["row"].tolist() == [0, 1]
    assert table["influence"].tolist() == [-0.25, 0.25]


def test_the_table_of_voting_points_has_the_features_by_name():
    kernel = kernel_of(SQUARE, [1, 0, 1, 0], names=["weight", "age"])
    table = kernel.voting_points(pd.Series(X0, index=["weight", "age"])).frame()
    assert table.columns.tolist() == ["row", "weight", "share", "label", "feature weight", "age"]
    assert table["weight"].tolist() == [0.5, 0.25, 0.25]
    assert table["feature weight"].tolist() == [0.0, 1.0, 2.0]


def test_without_pandas_tables_are_dicts_of_columns(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    explanation = kernel_of(SQUARE, [1, 0, 1, 0]).explain(X0)
    assert explanation.frame()["row"].tolist() == [0, 1, 2]
    assert explanation.points.frame()["x1"].tolist() == [0.0, -1.0, -2.0]
    assert "<td>-0.25</td>" in explanation._repr_html_()


def test_html_holds_the_sentence_and_escapes_labels():
    html = kernel_of(SQUARE, ["<b>", "a", "<b>", "a"]).explain(X0)._repr_html_()
    assert "<p>p(a) = 0.25" in html
    assert "<td>&lt;b&gt;</td>" in html
    assert "<b>" not in html


def test_the_repr_is_one_line():
    assert repr(kernel_of(SQUARE, [1, 0, 1, 0]).explain(X0)).startswith("Explanation(p = 0.75: 3 of 4")


def test_voting_points_of_several_or_unknown_targets_have_such_labels():
    several = kernel_of(SQUARE, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    assert several.voting_points(X0).frame()["label"].tolist() == [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]
    with pytest.raises(ValueError, match="explain needs one target, the forest has 2"):
        several.explain(X0)
    unknown = kernel_of(SQUARE, None)
    assert np.isnan(unknown.voting_points(X0).label).all()
    with pytest.raises(ValueError, match="y_train was not given"):
        unknown.explain(X0)


@pytest.mark.parametrize(
    ("x0", "shape"),
    [([0.0], r"\(1,\)"), ([[0.0, 1.0], [2.0, 3.0]], r"\(2, 2\)"), (np.zeros((1, 3)), r"\(1, 3\)"), (1.0, r"\(\)")],
)
def test_a_point_of_another_shape_is_named(x0, shape):
    kernel = kernel_of(SQUARE, [1, 0, 1, 0])
    for ask in (kernel.voting_points, kernel.explain):
        with pytest.raises(ValueError, match=f"x0 must be one row of 2 features, got shape {shape}"):
            ask(x0)


@pytest.mark.parametrize("mass", [0, 0.0, -0.1, 1.1, np.nan, "most", True, None])
def test_a_mass_that_is_no_share_is_named(mass):
    with pytest.raises(ValueError, match="mass must be above 0 and at most 1, got"):
        kernel_of(SQUARE, [1, 0, 1, 0]).explain(X0, mass=mass)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"aggregate": "vote"}, "aggregate='vote' has no weights"),
        ({"aggregate": "median"}, "aggregate must be one of .*'median'"),
        ({"aggregate": ""}, "aggregate must be one of"),
        ({"fill": "some"}, "fill must be one of .*'some'"),
        ({"fill": "oob"}, "fill='oob' needs rows that a tree did not draw"),
    ],
)
def test_an_estimate_without_weights_is_refused(choice, message):
    kernel = kernel_of(SQUARE, [1, 0, 1, 0])
    for ask in (kernel.voting_points, kernel.explain):
        with pytest.raises(ValueError, match=message):
            ask(X0, **choice)


def test_without_training_features_there_are_no_voting_points():
    pair = (np.array(SQUARE), lambda Z: np.zeros((len(Z), 2), int))
    with pytest.raises(ValueError, match="X_train was not given"):
        ForestKernel.from_model(pair, None, [1, 0, 1, 0]).voting_points(X0)


# ---- corrections ----


def three_classes(**parameters):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    y = np.digitize(X[:, 0] + rng.normal(size=200), [-0.5, 0.5])
    return KernelForestClassifier(60, random_state=0, **parameters).fit(X, y), X


def test_an_explanation_says_what_was_done_to_the_average():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = (X[:, 0] + rng.normal(size=150) > 0).astype(int)
    said = {}
    for calibration in (None, "sigmoid"):
        for prior in (None, [0.9, 0.1]):
            model = KernelForestClassifier(60, calibration=calibration, prior=prior, random_state=0).fit(X, y)
            told = model.kernel_.explain(X[0])
            said[calibration, prior is not None] = told.how
            assert (told.estimate if told.corrected is None else told.corrected) == pytest.approx(
                model.predict_proba(X[:1])[0, 1]
            )
    assert said == {
        (None, False): "",
        (None, True): "for the prior",
        ("sigmoid", False): "calibrated",
        ("sigmoid", True): "calibrated, for the prior",
    }


def test_naming_the_chosen_estimate_is_explained_as_it_is_predicted():
    model, X = three_classes(prior=[0.2, 0.5, 0.3])
    named = {"aggregate": model.aggregate_, "fill": model.fill_}
    told = model.kernel_.explain(X[0], label=1, **named)
    assert told.corrected == pytest.approx(model.predict_proba(X[:1], **named)[0, 1])
    assert told.how == "for the prior"


def test_of_several_classes_the_one_that_is_predicted_is_explained():
    model, X = three_classes(prior=[0.9, 0.05, 0.05])
    for x0, predicted in zip(X[:40], model.predict(X[:40]), strict=True):
        assert model.kernel_.explain(x0).target == predicted


@pytest.mark.parametrize("classes", [(0, 1), (False, True), (-1, 1)])
def test_only_the_second_of_two_classes_is_called_positive(classes):
    model, X = two_classes(classes)
    second, first = (str(model.kernel_.explain(X[0], label=label)) for label in classes[::-1])
    assert second.startswith("p = ")
    assert " of them positive" in second
    assert first.startswith(f"p({classes[0]}) = ")
    assert f" of them of class {classes[0]}" in first
    assert "positive" not in first


def two_classes(classes):
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    y = np.array(classes)[(X[:, 0] > 0.5).astype(int)]
    return KernelForestClassifier.untuned(10, random_state=0).fit(X, y), X


def test_a_class_can_be_asked_for():
    model, X = three_classes()
    for k, label in enumerate(model.classes_):
        told = model.kernel_.explain(X[0], label=label)
        assert told.target == label
        assert told.corrected == pytest.approx(model.predict_proba(X[:1])[0, k])
    with pytest.raises(ValueError, match="label must be one of 0, 1, 2; got 7"):
        model.kernel_.explain(X[0], label=7)
