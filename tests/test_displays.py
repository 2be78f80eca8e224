"""Displays hold the numbers of the kernel and draw them; matplotlib draws to memory."""

import sys
from functools import cache

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.dates import num2date
from sklearn.ensemble import RandomForestRegressor

from kernelforest import ForestKernel, KernelForestClassifier
from kernelforest.displays import (
    DerivativeImportanceDisplay,
    DerivativesDisplay,
    LevelSetsDisplay,
    ProfileDisplay,
    VotingPointsDisplay,
)
from kernelforest.kernel.shape import DerivativeImportance, Derivatives, LevelSets, Profile


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def X():
    return pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (150, 3)), columns=["a", "b", "c"])


@pytest.fixture(scope="module")
def kernel(X):
    """Only b decides, at 0."""
    y = np.where(X["b"] > 0, "yes", "no")
    return KernelForestClassifier.untuned(30, max_features="all", leaf_size=30, random_state=0).fit(X, y).kernel_


@pytest.fixture(scope="module")
def x0():
    return pd.DataFrame({"a": [0.3], "b": [0.05], "c": [-0.2]})


def made(kernel, x0):
    return [
        VotingPointsDisplay.from_kernel(kernel, x0),
        ProfileDisplay.from_kernel(kernel, x0, "b"),
        DerivativesDisplay.from_kernel(kernel, x0),
        DerivativeImportanceDisplay.from_kernel(kernel),
        LevelSetsDisplay.from_kernel(kernel, x0, ("a", "b")),
    ]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def offsets_of(ax):
    """Points of all scatters, in the order in which they were drawn."""
    return [np.asarray(drawn.get_offsets()) for drawn in ax.collections if len(drawn.get_offsets())]


@pytest.mark.parametrize("which", range(5))
def test_a_display_draws_on_new_or_given_axes_and_returns_itself(kernel, x0, which):
    display = made(kernel, x0)[which]
    assert display.ax_ is None
    assert display.plot() is display
    assert display.figure_ is display.ax_.figure
    ax = plt.figure().add_subplot()
    assert display.plot(ax).ax_ is ax
    assert ax.get_xlabel()
    display.figure_.canvas.draw()


@pytest.mark.parametrize("which", range(5))
def test_without_matplotlib_a_display_has_its_numbers_and_plot_names_the_extra(kernel, x0, which, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    display = made(kernel, x0)[which]
    assert len(display.frame())
    with pytest.raises(ImportError, match=r"kernelforest\[plot\]"):
        display.plot()


def test_the_area_of_a_voting_point_is_its_weight_whatever_its_shape(kernel, x0):
    display = VotingPointsDisplay.from_kernel(kernel, x0, features=("a", "c"), fill="all", mass=0.5).plot(area=1000.0)
    circles, squares = (drawn for drawn in display.ax_.collections if drawn.get_label() in ("y = no", "y = yes"))
    points = display.points
    yes = points.label == "yes"
    np.testing.assert_allclose(squares.get_sizes(), 1000 * points.weight[yes])
    np.testing.assert_allclose(circles.get_sizes() * np.pi / 4, 1000 * points.weight[~yes])
    np.testing.assert_allclose(squares.get_offsets(), points.features[yes][:, [0, 2]])


def test_every_training_row_is_drawn_once(kernel, x0, X):
    ax = VotingPointsDisplay.from_kernel(kernel, x0, features=("c", "a")).plot().ax_
    drawn = np.concatenate(offsets_of(ax))
    assert sorted(map(tuple, drawn.tolist())) == sorted(map(tuple, X[["c", "a"]].to_numpy().tolist()))


def test_the_point_the_features_and_the_mass_are_written_on_the_picture(kernel, x0):
    display = VotingPointsDisplay.from_kernel(kernel, x0, features=("a", 2), mass=0.5).plot()
    ax = display.ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "c")
    assert ax.get_title() == f"{display.points.heaviest(0.5)} of 150 rows hold 50 % of the weight"
    assert ax.lines[-1].get_xydata().tolist() == [[0.3, -0.2]]
    assert legend_of(ax) == ["no weight", "y = no", "y = yes", "x0"]
    assert VotingPointsDisplay.from_kernel(kernel, x0).plot(legend=False).ax_.get_legend() is None


def test_left_to_itself_the_picture_shows_where_the_kernel_is_narrowest(kernel, x0):
    assert kernel._training.names[VotingPointsDisplay.from_kernel(kernel, x0).features[0]] == "b"
    assert LevelSetsDisplay.from_kernel(kernel, x0).sets.names[0] == "b"


def test_a_regression_is_coloured_by_its_values(X):
    forest = RandomForestRegressor(10, min_samples_leaf=10, random_state=0).fit(X, X["b"])
    kernel = ForestKernel.from_model(forest, X, X["b"])
    display = VotingPointsDisplay.from_kernel(kernel, X.iloc[0], features=("a", "b"), aggregate="mean").plot()
    coloured = next(drawn for drawn in display.ax_.collections if drawn.get_label() == "voting row")
    np.testing.assert_allclose(coloured.get_array(), display.points.label)
    assert [ax.get_ylabel() for ax in display.figure_.axes] == ["b", "y"]
    unlabelled = ForestKernel.from_model(forest, X)
    display = VotingPointsDisplay.from_kernel(unlabelled, X.iloc[0], features=("a", "b")).plot()
    assert len(display.figure_.axes) == 1  # no colour bar


def test_a_profile_is_drawn_as_its_steps():
    display = ProfileDisplay(Profile("age", 40.0, np.array([35.0, 50.0]), np.array([0.2, 1.0, 0.6]))).plot()
    stairs = display.ax_.patches[0].get_data()
    np.testing.assert_allclose(stairs.values, [0.2, 1.0, 0.6])
    np.testing.assert_allclose(stairs.edges, [-5.75, -5.0, 10.0, 10.75])
    assert display.ax_.get_xlabel() == "h, added to age = 40"
    assert len(display.frame()) == 3


def test_a_profile_without_steps_is_a_line_around_the_point():
    display = ProfileDisplay(Profile("age", 40.0, np.array([]), np.array([1.0]))).plot()
    np.testing.assert_allclose(display.ax_.patches[0].get_data().edges, [-1.0, 1.0])


DERIVATIVES = Derivatives(
    ("flat", "level", "steep", "wide"),
    right=np.array([0.0, np.nan, -4.0, -0.1]),
    left=np.array([0.0, np.nan, 0.0, -0.1]),
    h=np.array([1.0, np.nan, 0.1, 3.0]),
)


@pytest.mark.parametrize(
    ("scaled", "names", "right"),
    [(True, ["wide", "steep", "flat"], [-0.3, -0.4, 0]), (False, ["steep", "wide", "flat"], [-4, -0.1, 0])],
)
def test_derivatives_are_sorted_and_features_without_one_left_out(scaled, names, right):
    ax = DerivativesDisplay(DERIVATIVES).plot(scaled=scaled).ax_
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    np.testing.assert_allclose(ax.lines[0].get_xdata(), right)
    assert legend_of(ax) == ["to the right", "to the left"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first is on top


def test_a_part_of_the_features_is_announced_as_such():
    ax = DerivativesDisplay(DERIVATIVES).plot(most=1).ax_
    assert ax.get_title() == "1 of 4 features"


@pytest.mark.parametrize(
    ("scaled", "names", "widths", "reach"),
    [(True, ["b", "a", "c"], [6, 2, 0], 0.6), (False, ["a", "b", "c"], [2, 0.6, 0], 0.5)],
)
def test_importances_are_bars_with_standard_errors(scaled, names, widths, reach):
    mean, per_sd = np.array([2.0, 0.6, 0.0, np.nan]), np.array([2.0, 6.0, 0.0, np.nan])
    error = np.array([0.5, 0.06, 0.0, np.nan])
    display = DerivativeImportanceDisplay(DerivativeImportance(("a", "b", "c", "level"), mean, error, per_sd, 10))
    ax = display.plot(scaled=scaled).ax_
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], widths)
    bars = next(drawn for drawn in ax.containers if hasattr(drawn, "errorbar"))
    line = bars.errorbar.lines[2][0].get_segments()[0]
    np.testing.assert_allclose(line[:, 0], [widths[0] - reach, widths[0] + reach])


def test_level_sets_have_the_first_feature_along_the_horizontal_axis():
    # K is one where x > 2 and zero elsewhere, whatever y
    x, y = np.arange(5.0), np.arange(3.0)
    sets = LevelSets(x, y, np.repeat((x > 2) * 1.0, 3).reshape(5, 3), np.array([3.0, 1.0]), ("age", "height"))
    ax = LevelSetsDisplay(sets).plot(levels=[0.0, 0.5, 1.0]).ax_
    with pytest.raises(ValueError, match=r"levels must be an integer >= 1, got 2\.5"):
        LevelSetsDisplay(sets).plot(levels=2.5)
    four = [LevelSetsDisplay(sets).plot(levels=n).ax_.collections[0].levels for n in (4, np.int64(4))]
    np.testing.assert_array_equal(*four)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "height")
    line = next(drawn for drawn in ax.collections if drawn.get_facecolor().size == 0 or not drawn.filled)
    half = line.get_paths()[1].vertices
    np.testing.assert_allclose(half[:, 0], 2.5)
    assert ax.figure.axes[1].get_ylabel() == "K"
    assert ax.lines[-1].get_xydata().tolist() == [[3.0, 1.0]]


def test_a_kernel_that_is_one_everywhere_is_drawn_without_lines_or_warnings():
    sets = LevelSets(np.arange(3.0), np.arange(3.0), np.ones((3, 3)), np.ones(2), ("a", "b"))
    assert len(LevelSetsDisplay(sets).plot().ax_.collections) == 1


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (("a", "weight"), "one of a, b, c; got 'weight'"),
        (("a", 3), "number from 0 to 2 .*got 3"),
        (("a", True), "got True"),
        (("a", "a"), "two different features"),
        (("a",), "features must name two features"),
        ("ab", "features must name two features"),
        (3, "features must name two features, got 3"),
    ],
)
def test_features_that_are_not_two_of_the_table_are_named(kernel, x0, features, message):
    with pytest.raises(ValueError, match=message):
        VotingPointsDisplay.from_kernel(kernel, x0, features=features)


def test_one_feature_is_not_enough_for_a_picture_of_two():
    kernel = KernelForestClassifier.untuned(5, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 0, 1]).kernel_
    with pytest.raises(ValueError, match="needs two, but the forest has only 'x0'"):
        VotingPointsDisplay.from_kernel(kernel, [0.0])
    leaves = [[0, 0], [0, 1], [1, 1]]
    unknown = ForestKernel.from_model((leaves, lambda X: [[0, 1] for _ in X]), None)
    with pytest.raises(ValueError, match="needs their values: give X_train to from_model"):
        VotingPointsDisplay.from_kernel(unknown, [0.0])


def test_wrong_mass_profile_feature_and_number_of_rows_are_named(kernel, x0, X):
    with pytest.raises(ValueError, match="mass must be above 0 and at most 1, got 2"):
        VotingPointsDisplay.from_kernel(kernel, x0, mass=2)
    with pytest.raises(ValueError, match=r"feature must be .*a, b, c.* got 'age'"):
        ProfileDisplay.from_kernel(kernel, x0, "age")
    with pytest.raises(ValueError, match="x0 must be one row"):
        DerivativesDisplay.from_kernel(kernel, X)


def test_a_point_with_a_missing_value_gets_no_cross():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    model = KernelForestClassifier.untuned(20, random_state=0).fit(X, (X[:, 0] > 0).astype(int))
    for x0, marked in ((np.array([np.nan, 0.0, 0.0]), False), (X[0], True)):
        drawn = VotingPointsDisplay.from_kernel(model.kernel_, x0, features=(0, 1)).plot()
        assert ("x0" in drawn.ax_.get_legend_handles_labels()[1]) == marked


def test_long_names_of_features_are_wrapped():
    X = np.random.default_rng(0).normal(size=(80, 2))
    frame = pd.DataFrame(X, columns=["short", "a very long name of a feature that goes on"])
    model = KernelForestClassifier.untuned(20, random_state=0).fit(frame, (X[:, 0] > 0).astype(int))
    drawn = DerivativeImportanceDisplay.from_kernel(model.kernel_).plot()
    assert max(len(line) for label in drawn.ax_.get_yticklabels() for line in label.get_text().split("\n")) <= 28


# ---- what is on the axes ----


@cache
def described():
    """A kernel of rows with dates, levels, durations and numbers."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2023-03-01") + pd.to_timedelta(np.arange(120), "D")
    kinds = rng.choice(["beer", "water", "a drink with an overlong name"], 120)
    frame = pd.DataFrame({"when": days, "kind": kinds, "age": pd.to_timedelta(rng.integers(1, 90, 120), "D")})
    frame["x"] = rng.normal(size=120)
    frame.loc[5, "kind"], frame.loc[6, "when"] = None, pd.NaT
    return KernelForestClassifier.untuned(20, random_state=0).fit(frame, np.arange(120) > 60).kernel_, frame


def names_of(axis):
    axis.figure.canvas.draw()
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_levels_on_an_axis_have_their_names_and_dates_are_dates():
    kernel, frame = described()
    ax = VotingPointsDisplay.from_kernel(kernel, frame.iloc[[3]], features=("when", "kind")).plot().ax_
    assert names_of(ax.yaxis) == ["a drink with an...", "beer", "water"]
    assert "May" in names_of(ax.xaxis)
    low, high = num2date(ax.get_xlim())
    assert low.year == high.year == 2023
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("when", "kind")


def test_durations_on_an_axis_are_days_and_numbers_are_numbers():
    kernel, frame = described()
    ax = VotingPointsDisplay.from_kernel(kernel, frame.iloc[[3]], features=("x", "age")).plot().ax_
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "age (days)")
    assert 80 < ax.get_ylim()[1] < 100
    assert ax.get_xlim()[1] == pytest.approx(frame["x"].max(), abs=0.5)


def test_a_profile_and_level_sets_along_dates():
    kernel, frame = described()
    ax = ProfileDisplay.from_kernel(kernel, frame.iloc[[3]], "when").plot().ax_
    assert ax.get_xlabel() == "h in days, added to when = 2023-03-04"
    assert ax.get_xlim()[1] < 150
    ax = LevelSetsDisplay.from_kernel(kernel, frame.iloc[[3]], ("when", "age")).plot().ax_
    assert "May" in names_of(ax.xaxis)
    assert ax.get_ylabel() == "age (days)"


def test_of_many_levels_some_are_named():
    rows = pd.DataFrame({"code": [f"c{k:03}" for k in np.arange(300) % 100], "x": np.arange(300.0)})
    kernel = KernelForestClassifier.untuned(5, random_state=0).fit(rows, np.arange(300) % 2).kernel_
    names = names_of(VotingPointsDisplay.from_kernel(kernel, rows.iloc[[3]], features=("code", "x")).plot().ax_.xaxis)
    assert names == [f"c{k:03}" for k in range(0, 100, 5)]
