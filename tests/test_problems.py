"""Simulated problems: what is called the truth is one, and the paper's models are as they were found to be."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.special import expit

from kernelforest.problems import DEVELOPMENT, PAPER, Problem

EVERY = {**PAPER, **DEVELOPMENT}
SIX = ("circle", "1d", "1d-sparse", "10d", "logistic", "xor")


def truth(name: str, *rows) -> list[float]:
    """The chance of class 1 at some rows; columns that are not given are zero."""
    width = EVERY[name].sample(1, 0).X.shape[1]
    X = np.zeros((len(rows), width))
    for i, row in enumerate(rows):
        X[i, : len(row)] = row
    return EVERY[name].probabilities(X)[:, 1].tolist()


@pytest.mark.parametrize("name", EVERY)
def test_true_probabilities_lie_between_zero_and_one_and_sum_to_one(name):
    X, y, p = EVERY[name].sample(2000, 0)
    assert p.shape == (2000, p.shape[1])
    assert p.shape[1] >= 2
    assert p.min() >= 0.0
    assert p.max() <= 1.0
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert np.isfinite(X).all()
    assert set(y.tolist()) <= set(range(p.shape[1]))


@pytest.mark.parametrize("name", EVERY)
def test_labels_are_drawn_from_the_true_probabilities(name):
    _, y, p = EVERY[name].sample(20_000, 1)
    hits = np.eye(p.shape[1])[y]
    # on the whole, and where the probability is above and below its median
    for k in range(p.shape[1]):
        middle = np.median(p[:, k])
        for part in (p[:, k] >= 0.0, p[:, k] > middle, p[:, k] <= middle):
            difference = (hits[part, k] - p[part, k]).sum()
            deviation = np.sqrt((p[part, k] * (1.0 - p[part, k])).sum())
            assert abs(difference) <= 4.0 * deviation


@pytest.mark.parametrize("name", EVERY)
def test_a_class_of_probability_zero_is_never_drawn(name):
    _, y, p = EVERY[name].sample(5000, 2)
    assert p[np.arange(5000), y].min() > 0.0


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_sample_and_another_another(name):
    one, same, other = (EVERY[name].sample(50, seed) for seed in (3, 3, 4))
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.X, other.X)


@pytest.mark.parametrize("name", EVERY)
def test_probabilities_of_a_sample_are_those_of_its_rows(name):
    drawn = EVERY[name].sample(100, 5)
    np.testing.assert_array_equal(EVERY[name].probabilities(drawn.X), drawn.p)
    np.testing.assert_allclose(EVERY[name].probabilities(drawn.X[::-1])[::-1], drawn.p, rtol=1e-12)


@pytest.mark.parametrize("name", EVERY)
def test_categorical_columns_hold_level_numbers_and_others_do_not(name):
    problem = EVERY[name]
    X = problem.sample(500, 0).X
    for j in range(X.shape[1]):
        levels = np.unique(X[:, j])
        if j in problem.categorical:
            np.testing.assert_array_equal(levels, np.arange(len(levels)))
            assert len(levels) >= 2
        else:
            assert len(levels) > 400


@pytest.mark.parametrize("name", EVERY)
def test_a_problem_is_found_by_its_name_and_says_its_kind(name):
    assert EVERY[name].name == name
    assert EVERY[name].kind


def test_the_papers_problems_were_not_used_for_development():
    assert not set(PAPER) & set(DEVELOPMENT)
    assert set(SIX) <= set(PAPER)
    assert len(DEVELOPMENT) >= 10


@pytest.mark.parametrize("n", [0, -1, 2.5, "a", None, True])
def test_a_sample_without_a_whole_number_of_rows_is_refused(n):
    with pytest.raises(ValueError, match=f"n must be an integer >= 1, got {n!r}"):
        PAPER["xor"].sample(n)


@pytest.mark.parametrize("name", EVERY)
def test_a_problem_comes_back_from_a_pickle(name):
    again = pickle.loads(pickle.dumps(EVERY[name]))
    for a, b in zip(again.sample(20, 6), EVERY[name].sample(20, 6), strict=True):
        np.testing.assert_array_equal(a, b)


def test_collections_cannot_be_changed():
    with pytest.raises(TypeError):
        PAPER["xor"] = DEVELOPMENT["nothing"]


def test_a_problem_of_ones_own_may_have_two_classes_or_more():
    two = Problem("two", lambda rng, n: rng.random((n, 1)), lambda X: X[:, 0])
    more = Problem("more", lambda rng, n: rng.random((n, 1)), lambda X: np.tile([0.2, 0.3, 0.5], (len(X), 1)))
    np.testing.assert_allclose(two.probabilities(np.array([[0.25]])), [[0.75, 0.25]])
    np.testing.assert_allclose(more.sample(3, 0).p, np.tile([0.2, 0.3, 0.5], (3, 1)))


# ---- the six models of the paper's table ----


@pytest.mark.parametrize(
    ("name", "width", "low", "high"),
    [("circle", 2, -28, 28), ("1d", 2, -1, 1), ("1d-sparse", 50, -1, 1), ("logistic", 3, -1, 1), ("xor", 2, -1, 1)],
)
def test_rows_of_the_paper_are_uniform(name, width, low, high):
    X = PAPER[name].sample(4000, 0).X
    assert X.shape == (4000, width)
    assert X.min() >= low
    assert X.max() <= high
    half = (high - low) / 2
    np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=4.5 * half / np.sqrt(3 * 4000))
    np.testing.assert_allclose(X.std(axis=0), half / np.sqrt(3), rtol=0.05)


def test_rows_of_10d_are_independent_and_normal():
    X = PAPER["10d"].sample(4000, 0).X
    assert X.shape == (4000, 10)
    np.testing.assert_allclose(np.cov(X.T), np.eye(10), atol=0.1)


def test_the_circle_falls_from_one_at_radius_8_to_zero_at_radius_28():
    found = truth("circle", [0, 0], [8, 0], [0, 13], [-18, 0], [0, -23], [28, 0], [28, 28])
    np.testing.assert_allclose(found, [1, 1, 0.75, 0.5, 0.25, 0, 0], atol=1e-12)


@pytest.mark.parametrize("name", ["1d", "1d-sparse"])
def test_1d_steps_from_03_to_07_at_zero_in_the_first_column(name):
    assert truth(name, [-0.5, 0.9], [-1e-9, -0.9], [1e-9, 0.9], [0.5, -0.9]) == [0.3, 0.3, 0.7, 0.7]


def test_xor_is_07_where_signs_differ():
    assert truth("xor", [0.5, 0.5], [-0.5, -0.5], [0.5, -0.5], [-0.5, 0.5]) == [0.3, 0.3, 0.7, 0.7]


def test_the_logit_of_logistic_is_the_sum():
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 0.5, -0.2], [-1.0, -1.0, -1.0]])
    np.testing.assert_allclose(truth("logistic", *rows), expit(rows.sum(axis=1)))


def test_10d_has_six_active_columns_and_the_factor_two():
    # 2 (1 - x1 + x2 - x3 + x4 - x5 + x6) (x1 + ... + x6)
    rows = [[0.0], [1.0], [0.0, 1.0], [0.5, 0.0, 0.0, 0.0, 0.0, -0.25], [0, 0, 0, 0, 0, 0, 9, 9, 9, 9]]
    logits = [0.0, 0.0, 4.0, 2 * (1 - 0.5 - 0.25) * 0.25, 0.0]
    np.testing.assert_allclose(truth("10d", *rows), expit(logits))


# ---- some problems for development ----


def test_stairs_has_five_steps():
    assert truth("stairs", [-0.9], [-0.5], [0.0], [0.5], [0.9]) == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])


def test_a_board_has_nine_fields():
    fields = [[x, y] for x in (-0.7, 0.0, 0.7) for y in (-0.7, 0.0, 0.7)]
    assert truth("board", *fields) == pytest.approx([0.15, 0.85] * 4 + [0.15])


def test_nothing_says_the_same_everywhere():
    assert set(EVERY["nothing"].sample(100, 0).p[:, 1].tolist()) == {0.35}


@pytest.mark.parametrize("name", ["half-space", "game"])
def test_problems_without_noise_have_none(name):
    _, y, p = EVERY[name].sample(500, 0)
    np.testing.assert_array_equal(p, np.eye(2)[y])
    assert 0 < y.mean() < 1


def test_three_in_a_row_or_column_win_the_game():
    row, column, diagonal = np.zeros((3, 3, 3))
    row[1] = column[:, 2] = 2.0
    diagonal[np.diag_indices(3)] = 2.0
    assert truth("game", row.ravel(), column.ravel(), diagonal.ravel(), row.ravel() / 2) == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["rare", "rare-step"])
def test_imbalanced_problems_have_few_rows_of_one_class(name):
    assert 0.02 < EVERY[name].sample(20_000, 0).p[:, 1].mean() < 0.15


def test_neighbours_of_correlated_columns_have_correlation_08():
    found = np.corrcoef(EVERY["correlated"].sample(20_000, 0).X.T)
    np.testing.assert_allclose(np.diag(found, 1), 0.8, atol=0.03)
    np.testing.assert_allclose(np.diag(found, 2), 0.64, atol=0.04)
    np.testing.assert_allclose(EVERY["correlated"].sample(20_000, 0).X.std(axis=0), 1.0, atol=0.03)
