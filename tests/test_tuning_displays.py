"""Displays of a tuned model show the scores that chose it, and how its out-of-bag probabilities compare with the labels."""

import sys
from datetime import date

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from kernelforest import KernelForestClassifier
from kernelforest.displays import BandwidthPathDisplay, ReliabilityDisplay, SharpnessDisplay, SurfaceDisplay
from kernelforest.displays.canvas import ORANGE, PALE, spread
from kernelforest.displays.tuning import Section
from kernelforest.judging import Candidate
from kernelforest.reliability import reliability
from kernelforest.tuning import Tuning

OF_TUNING = [BandwidthPathDisplay, SurfaceDisplay]
ALL = [*OF_TUNING, ReliabilityDisplay, SharpnessDisplay]


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def sample(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, np.array(["high", "low", "mid"])[np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [-0.7, 0.7])]


@pytest.fixture(scope="module")
def model():
    """Of three classes; more than one round, so that some ways are dropped."""
    return KernelForestClassifier(120, random_state=0, n_jobs=1).fit(*sample(1200))


@pytest.fixture(scope="module")
def untuned():
    """Of two classes, one of them rare and nothing to find, all parameters fixed."""
    rare = np.where(np.arange(300) % 20 == 0, "yes", "no")
    model = KernelForestClassifier.untuned(60, leaf_size=100, calibration="sigmoid", random_state=0, n_jobs=1)
    return model.fit(sample(300)[0], rare)


def candidate(splitter="best", mtry=1, leaf_size=1, score=0.5, error=0.01, n_trees=100, penalised=None, **estimate):
    return Candidate(
        splitter,
        mtry,
        leaf_size,
        estimate.get("aggregate", "mean"),
        estimate.get("fill", "inbag"),
        score,
        error,
        score if penalised is None else penalised,
        n_trees,
        1.0,
    )


def tuned(*candidates, n_rows=1000, calibrated=True, scoring="log_loss"):
    """What the displays see of a tuned model."""
    model = KernelForestClassifier()
    model.calibration_, model.blend_, model.tuning_ = None, (), Tuning(candidates, scoring, n_rows, calibrated)
    return model


GRID = (
    candidate("best", 1, 1, 0.40, 0.02),
    candidate("best", 1, 4, 0.35, 0.00),
    candidate("best", 1, 16, 0.45, 0.03),
    candidate("extra", 1, 2, 0.50, np.nan, n_trees=25),
    candidate("extra", 1, 8, 0.30, np.nan, n_trees=25),  # looks better, but was dropped
    candidate("best", 1, 1, 0.60, 0.05, fill="all"),
    candidate("best", 1, 4, 0.70, 0.05, fill="all"),
)


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def lines_of(ax):
    """Lines of ways to grow."""
    return [line for line in ax.lines if line.get_marker() == "o"]


def stars_of(ax):
    return [line for line in ax.lines if line.get_marker() == "*"]


def cells_of(ax):
    return [drawn for drawn in ax.collections if hasattr(drawn, "get_coordinates")]


@pytest.mark.parametrize("display", ALL)
def test_a_display_of_a_fitted_model_draws_and_returns_itself(model, display):
    made = display.from_model(model)
    assert made.plot() is made
    drawn = made.axes_[0] if display in OF_TUNING else made.ax_
    assert made.figure_ is drawn.figure
    assert drawn.get_xlabel()
    made.figure_.canvas.draw()


@pytest.mark.parametrize("display", ALL)
def test_without_matplotlib_a_display_has_its_numbers_and_plot_names_the_extra(model, display, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    made = display.from_model(model)
    assert len(made.frame())
    with pytest.raises(ImportError, match=r"kernelforest\[plot\]"):
        made.plot()


@pytest.mark.parametrize("display", ALL)
def test_without_pandas_a_frame_is_a_dict_of_columns(model, display, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    columns = display.from_model(model).frame()
    assert isinstance(columns, dict)
    assert len({len(values) for values in columns.values()}) == 1


@pytest.mark.parametrize("display", ALL)
def test_a_model_that_was_not_fitted_is_refused(display):
    with pytest.raises(NotFittedError):
        display.from_model(KernelForestClassifier())


@pytest.mark.parametrize("display", OF_TUNING)
def test_a_model_with_nothing_left_to_choose_is_refused(untuned, display):
    with pytest.raises(ValueError, match=r"nothing was tuned: .*leave at least one of them at 'auto'"):
        display.from_model(untuned)


@pytest.mark.parametrize("display", OF_TUNING)
def test_an_estimate_that_was_not_tried_is_named(model, display):
    with pytest.raises(ValueError, match="aggregate must be one that was tried, mean, proximity; got 'vote'"):
        display.from_model(model, aggregate="vote")
    with pytest.raises(ValueError, match="fill must be one that was tried, all, inbag, oob; got 'none'"):
        display.from_model(model, fill="none")


@pytest.mark.parametrize("display", OF_TUNING)
def test_the_frame_holds_the_candidates_of_the_chosen_estimate(model, display):
    frame = display.from_model(model).frame()
    full = model.tuning_.frame()
    same = full[(full["aggregate"] == model.aggregate_) & (full["fill"] == model.fill_)]
    assert sorted(frame["score"]) == sorted(same["score"])
    chosen = frame[frame["chosen"]]
    assert chosen[["splitter", "max_features", "leaf_size"]].to_numpy().tolist() == [
        [model.splitter_, model.max_features_, model.tuning_.best.leaf_size]
    ]
    assert (frame[~frame["stayed"]]["error"] > 0).all()
    assert not frame["stayed"].all()  # or the model does not test what it should


@pytest.mark.parametrize("display", OF_TUNING)
def test_panels_are_drawn_on_given_axes_one_for_each_way_to_cut(display):
    drawn = plt.figure().subplots(1, 2)
    assert display.from_model(tuned(*GRID)).plot(drawn).axes_ == tuple(drawn)
    assert [ax.get_title() for ax in drawn] == ["best cuts", "random cuts (extra)"]
    assert drawn[0].get_xlim() == drawn[1].get_xlim()
    assert drawn[0].get_ylim() == drawn[1].get_ylim()
    with pytest.raises(ValueError, match="ax must be 2 axes, one for each of best, extra; got 1"):
        display.from_model(tuned(*GRID)).plot(drawn[0])
    one = plt.figure().add_subplot()
    assert display.from_model(tuned(*GRID[:3])).plot(one).axes_ == (one,)


def test_a_path_is_a_line_of_scores_and_the_best_of_those_that_stayed_is_marked():
    display = BandwidthPathDisplay.from_model(tuned(*GRID)).plot()
    best, extra = display.axes_
    assert best.get_xscale() == "log"
    (line,) = lines_of(best)
    assert line.get_xydata().tolist() == [[1, 0.40], [4, 0.35], [16, 0.45]]
    (star,) = stars_of(best)
    assert star.get_xydata().tolist() == [[4, 0.35]]
    assert star.get_color() == ORANGE
    assert stars_of(extra) == []
    assert display.axes_[0].get_ylabel() == "out-of-bag log loss, calibrated"


def test_a_way_dropped_early_is_thin_and_grey_and_the_legend_says_why():
    display = BandwidthPathDisplay.from_model(tuned(*GRID)).plot()
    (line,) = lines_of(display.axes_[1])
    assert line.get_color() == PALE
    assert line.get_linewidth() < lines_of(display.axes_[0])[0].get_linewidth()
    assert legend_of(display.axes_[1])[-1] == "dropped early, not comparable:\nscored with 25 of 100 trees"
    many = BandwidthPathDisplay.from_model(tuned(*GRID, n_rows=5000)).plot()
    assert legend_of(many.axes_[1])[-1].endswith("scored with 25 of 100 trees\nand 1,000 of 5,000 rows")
    none = BandwidthPathDisplay.from_model(tuned(*GRID[:3])).plot()
    assert not any("dropped" in text for text in legend_of(none.axes_[0]))


def test_the_band_is_one_standard_error_of_the_difference_around_the_line_of_the_best():
    ax = BandwidthPathDisplay.from_model(tuned(*GRID)).plot().axes_[0]
    corners = {(x, round(y, 9)) for x, y in ax.collections[0].get_paths()[0].vertices.tolist()}
    assert corners == {(1, 0.38), (1, 0.42), (4, 0.35), (16, 0.42), (16, 0.48)}


def test_another_estimate_has_its_own_best_and_the_score_of_the_chosen_one_for_comparison():
    ax = BandwidthPathDisplay.from_model(tuned(*GRID), fill="all").plot().axes_[0]
    assert legend_of(ax)[0] == "best here: mtry 1, leaf size 1"
    assert stars_of(ax)[0].get_color() == "white"
    dotted = next(line for line in ax.lines if line.get_linestyle() == ":")
    assert set(dotted.get_ydata()) == {0.35}
    assert BandwidthPathDisplay.from_model(tuned(*GRID)).plot(legend=False).axes_[0].get_legend() is None


def test_lines_are_labelled_by_mtry_and_get_lighter_with_it():
    ways = [candidate("best", m, s, 0.5 - 0.01 * m) for m in (1, 3, 9) for s in (1, 10)]
    ax = BandwidthPathDisplay.from_model(tuned(*ways)).plot().axes_[0]
    assert [text.get_text() for text in ax.texts] == ["1", "3", "9"]
    brightness = [sum(line.get_color()[:3]) for line in lines_of(ax)]
    assert brightness == sorted(brightness)


def test_scores_far_above_the_others_do_not_flatten_the_picture_but_are_counted():
    usual = [candidate("best", 1, s, 0.2 + 0.001 * s) for s in range(1, 20)]
    ax = BandwidthPathDisplay.from_model(tuned(*usual, candidate("best", 2, 1, 9.0, n_trees=25))).plot().axes_[0]
    assert ax.get_ylim()[1] < 0.3
    assert ax.get_title() == "best cuts; 1 worse not shown"


def test_labels_are_a_gap_apart_and_stay_in_order():
    heights = np.random.default_rng(0).normal(size=20)
    placed = spread(heights, 0.2)
    assert np.diff(np.sort(placed)).min() > 0.2 - 1e-12
    assert np.argsort(placed).tolist() == np.argsort(heights).tolist()
    np.testing.assert_allclose(spread(np.array([0.0, 1.0]), 0.5), [0.0, 1.0])  # nothing to move


def test_the_surface_has_a_cell_for_each_candidate_on_one_scale_of_colours():
    ways = [candidate(cut, m, s, 0.1 * m + 0.01 * s) for cut in ("best", "extra") for m in (1, 5) for s in (1, 4, 16)]
    display = SurfaceDisplay.from_model(tuned(*ways)).plot()
    for ax in display.axes_:
        rows = cells_of(ax)
        np.testing.assert_allclose(np.concatenate([row.get_array().ravel() for row in rows]), [c.score for c in ways[:6]])
        np.testing.assert_allclose(rows[0].get_coordinates()[0, :, 0], [0.5, 2, 8, 32])
        assert {(row.norm.vmin, row.norm.vmax) for row in rows} == {(0.11, 0.66)}
    assert [tick.get_text() for tick in display.axes_[0].get_yticklabels()] == ["1", "5"]
    assert stars_of(display.axes_[0])[0].get_xydata().tolist() == [[1, 0]]
    assert [ax.get_ylabel() for ax in display.figure_.axes] == ["mtry", "", "out-of-bag log loss,\ncalibrated"]


def test_on_the_surface_ways_dropped_early_are_hatched():
    display = SurfaceDisplay.from_model(tuned(*GRID)).plot()
    assert [len(ax.patches) for ax in display.axes_] == [0, 1]
    assert display.axes_[1].patches[0].get_hatch()
    assert legend_of(display.axes_[0]) == [
        "chosen: mtry 1, leaf size 4",
        "dropped early, not comparable:\nscored with 25 of 100 trees",
    ]
    assert SurfaceDisplay.from_model(tuned(*GRID)).plot(legend=False).axes_[0].get_legend() is None


def test_scores_that_differ_by_rounding_are_level_and_of_one_colour():
    model = KernelForestClassifier(60, random_state=0).fit(np.ones((200, 2)), np.arange(200) % 5 < 2)
    scores = [c.score for c in model.tuning_.candidates]
    assert max(scores) - min(scores) < 1e-9
    level, surface = (display.from_model(model).plot() for display in OF_TUNING)
    assert np.ptp(level.axes_[0].get_ylim()) > 6e-5
    assert [ax.get_title() for ax in level.axes_] == ["best cuts", "random cuts (extra)"]
    colours = [cell.norm(cell.get_array()) for ax in surface.axes_ for cell in cells_of(ax)]
    assert np.ptp(np.concatenate(colours, axis=None)) < 0.01


@pytest.mark.parametrize("display", OF_TUNING)
def test_one_candidate_is_a_picture_too(display):
    made = display.from_model(tuned(candidate(leaf_size=7), scoring="brier", calibrated=False)).plot()
    made.figure_.canvas.draw()
    assert [tick.get_text() for tick in made.axes_[0].get_xticklabels()] == ["7"]
    assert "out-of-bag Brier score" in [ax.get_ylabel() for ax in made.figure_.axes]


def test_the_best_is_the_one_with_the_smallest_penalised_score():
    smooth = candidate(leaf_size=9, score=0.41, penalised=0.39)
    assert Section.of(tuned(candidate(score=0.40), smooth), None, None).best == smooth


def test_reliability_of_a_model_is_that_of_its_out_of_bag_rows(model):
    hit = sample(1200)[1] == "low"
    found = ReliabilityDisplay.from_model(model, "low", bins=5).reliability
    expected = reliability(model.oob_proba_[:, 1], hit, bins=5)
    np.testing.assert_allclose(found.share, expected.share)
    np.testing.assert_allclose(found.p, expected.p)
    assert found.slope == pytest.approx(expected.slope)
    assert found.count.sum() == 1200
    assert ReliabilityDisplay.from_model(model).name == "mid"  # the last class


def test_sharpness_of_a_model_is_the_histogram_of_its_out_of_bag_probabilities(model):
    display = SharpnessDisplay.from_model(model, "high", bins=10)
    np.testing.assert_allclose(display.share, np.histogram(model.oob_proba_[:, 0], 10, (0, 1))[0] / 1200)
    assert display.base_rate == pytest.approx((sample(1200)[1] == "high").mean())
    assert list(display.frame()) == ["low", "high", "share"]


def test_weights_count_in_a_histogram_of_probabilities():
    shown = SharpnessDisplay.from_predictions([0.1, 0.2, 0.9], weight=[1.0, 1.0, 6.0], bins=2)
    assert shown.share.tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match=r"weight must have shape \(1,\), got \(2,\)"):
        SharpnessDisplay.from_predictions([0.5], weight=[1.0, 2.0])


def test_with_a_prior_the_base_rate_is_the_prior():
    X, y = sample(200)
    prior = {"low": 0.5, "mid": 0.4, "high": 0.1}
    moved = KernelForestClassifier.untuned(60, leaf_size=20, prior=prior, random_state=0, n_jobs=1).fit(X, y)
    for label, share in prior.items():
        assert SharpnessDisplay.from_model(moved, label).base_rate == pytest.approx(share)
    assert abs(ReliabilityDisplay.from_model(moved, "high").reliability.intercept) < 0.5


@pytest.mark.parametrize("display", [ReliabilityDisplay, SharpnessDisplay])
def test_an_unknown_label_and_wrong_bins_are_named(model, display):
    with pytest.raises(ValueError, match="label must be one of 'high', 'low', 'mid'; got 'tall'"):
        display.from_model(model, "tall")
    for bins in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"bins must be an integer >= 1, got {bins}"):
            display.from_model(model, bins=bins)


def test_a_class_that_is_a_date_is_named_as_it_is_written_or_stored():
    X, y = sample(60)
    days = np.where(y == "high", np.datetime64("2026-01-02"), np.datetime64("2026-01-01"))
    dated = KernelForestClassifier.untuned(30, leaf_size=20, random_state=0).fit(X, days)
    shown = [ReliabilityDisplay.from_model(dated, day).name for day in (dated.classes_[0], date(2026, 1, 1))]
    assert shown[0] == shown[1]
    assert shown[0].startswith("2026-01-01")


def test_without_rows_out_of_bag_there_is_nothing_to_compare():
    X, y = sample(50)
    whole = KernelForestClassifier.untuned(5, bootstrap=False, random_state=0).fit(X, y)
    with pytest.raises(AttributeError, match="nothing is out-of-bag"):
        ReliabilityDisplay.from_model(whole)
    drawn = KernelForestClassifier.untuned(1, random_state=1).fit([[0.0], [1.0]], [0, 1])
    while (drawn.inbag_counts_ == 0).any():
        drawn.set_params(random_state=drawn.random_state + 1).fit([[0.0], [1.0]], [0, 1])
    with (
        pytest.raises(ValueError, match="every tree drew every row"),
        pytest.warns(UserWarning, match="drawn by every tree"),
    ):
        SharpnessDisplay.from_model(drawn)


def test_reliability_shows_shares_intervals_diagonal_slope_and_intercept():
    p, hit = np.repeat([0.2, 0.6], 100), np.tile([1, 0, 0, 0, 0, 1, 1, 1, 0, 0], 20)
    display = ReliabilityDisplay.from_predictions(p, hit, bins=2).plot()
    ax, found = display.ax_, display.reliability
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[0, 0], [1, 1]])
    (points,) = ax.containers
    np.testing.assert_allclose(points.lines[0].get_xydata(), np.column_stack([found.p, found.share]))
    bars = np.array([bar[:, 1] for bar in points.lines[2][0].get_segments()])
    np.testing.assert_allclose(bars, np.column_stack([found.low, found.high]))
    assert f"slope {found.slope:.2f} (s.e. {found.slope_error:.2f})" in ax.texts[0].get_text()
    assert f"intercept {found.intercept:.2f} (s.e. {found.intercept_error:.2f})" in ax.texts[0].get_text()
    assert ax.get_xlabel() == "probability"


def test_of_a_rare_class_only_the_part_with_rows_is_drawn(untuned):
    sharp = SharpnessDisplay.from_model(untuned, bins=20)
    assert sharp.edges[0] == 0.0
    assert 0.0 < sharp.edges[-1] < 1.0
    assert sharp.share.sum() == pytest.approx(1.0)
    common = SharpnessDisplay.from_model(untuned, "no")
    assert 0.0 < common.edges[0] < common.edges[-1] == 1.0
    ax = ReliabilityDisplay.from_predictions(np.full(1000, 0.03), np.arange(1000) < 30).plot().ax_
    assert ax.get_xlim()[1] < 0.06
    assert ax.get_xlim() == ax.get_ylim()


def test_an_intercept_of_zero_has_no_minus():
    p = np.repeat([0.25, 0.75], 400)
    hit = np.concatenate([np.arange(400) < 100, np.arange(400) >= 100])
    text = ReliabilityDisplay.from_predictions(p, hit).plot().ax_.texts[0].get_text()
    assert "intercept 0.00" in text


def test_sharpness_is_drawn_as_steps_with_the_base_rate_if_it_is_known(model):
    display = SharpnessDisplay.from_model(model).plot()
    stairs = display.ax_.patches[0].get_data()
    np.testing.assert_allclose(stairs.values, display.share)
    np.testing.assert_allclose(stairs.edges, display.edges)
    assert legend_of(display.ax_) == [f"base rate {display.base_rate:.3g}"]
    assert display.ax_.get_xlabel() == "out-of-bag probability of class mid"
    assert SharpnessDisplay.from_predictions([0.1, 0.9]).plot().ax_.get_legend() is None
    given = plt.figure().add_subplot()
    assert SharpnessDisplay.from_predictions([0.1, 0.9], base_rate=0.4).plot(given).ax_ is given


@pytest.mark.parametrize(
    ("p", "hit", "message"),
    [
        ([0.5, 1.2], [0, 1], "p must be from 0 to 1, got values from 0.5 to 1.2"),
        ([0.5, np.nan], [0, 1], "p must be from 0 to 1"),
        ([[0.5, 0.5]], [0], r"p must be the probabilities of one class, \(n_rows,\); got shape \(1, 2\)"),
        ([], [], r"got shape \(0,\)"),
        ([0.5, 0.5], [0, 1, 1], "hit must be 2 times 0 or 1"),
        ([0.5, 0.5], [0, 2], "hit must be 2 times 0 or 1"),
        ([0.5, 0.5], ["no", "yes"], "hit must be 2 times 0 or 1"),
    ],
)
def test_predictions_that_make_no_sense_are_named(p, hit, message):
    with pytest.raises(ValueError, match=message):
        ReliabilityDisplay.from_predictions(p, hit)


@pytest.mark.parametrize("display", OF_TUNING)
def test_rings_are_where_the_candidates_are_that_are_blended_with_the_best(display):
    from matplotlib.collections import PathCollection

    best = candidate("best", 1, 4, 0.35, 0.0)._replace(weight=0.6)
    other = candidate("extra", 2, 16, 0.36)._replace(weight=0.4)
    drawn = display.from_model(tuned(best, other, candidate("best", 1, 1, 0.4), candidate("extra", 2, 1, 0.4))).plot().axes_
    rings = [[r for r in ax.collections if isinstance(r, PathCollection)] for ax in drawn]
    assert [len(mine) for mine in rings] == [0, 1]
    ((x, y),) = rings[1][0].get_offsets()
    assert (x, y) == (16, 0.36 if display is BandwidthPathDisplay else 1)  # a score, or the second row
