"""The kernel as a matrix: definitions as loops, properties of every kind, weights, averages and nearest rows."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from kernelforest import ForestKernel, KernelForestClassifier
from kernelforest.kernel import KINDS
from kernelforest.kernel import memory as kernel_memory
from kernelforest.kernel.memory import available_bytes, container_bytes, index_bytes, sparse_bytes

N, T = 60, 15


def make_model(seed=0, n=N, weight=None, n_jobs=1, **rules):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).round(1)
    y = rng.integers(0, 3, n)
    rules = {"n_estimators": T, "leaf_size": 4, "random_state": seed, "n_jobs": n_jobs} | rules
    return KernelForestClassifier.untuned(**rules).fit(X, y, weight), X, y


def loop_kernel(model, X, kind):
    """Each definition, written out for pairs of training rows."""
    leaves, draws = model.apply(X), model.inbag_counts_
    n, n_trees = leaves.shape
    K = np.zeros((n, n))
    for i in range(n):
        out_of_bag = [t for t in range(n_trees) if draws[i, t] == 0]
        for j in range(n):
            together = [t for t in range(n_trees) if leaves[i, t] == leaves[j, t]]
            size = {t: (leaves[:, t] == leaves[i, t]).sum() for t in together}
            drawn = {t: draws[leaves[:, t] == leaves[i, t], t].sum() for t in together}
            both = [t for t in out_of_bag if draws[j, t] == 0]
            if kind == "leaf":
                K[i, j] = len(together) / n_trees
            elif kind == "inbag":
                K[i, j] = sum(draws[j, t] for t in together) / n_trees
            elif kind == "kerf":
                K[i, j] = sum(1 / size[t] for t in together) / n_trees
            elif kind == "oob":
                K[i, j] = len(set(together) & set(both)) / max(len(both), 1)
            elif kind == "gap":
                K[i, j] = sum(draws[j, t] / drawn[t] for t in together if t in out_of_bag) / max(len(out_of_bag), 1)
    return K


LOOPS = ("leaf", "inbag", "kerf", "oob", "gap")


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("seed", range(3))
def test_every_kind_is_its_definition(kind, seed):
    model, X, _ = make_model(seed)
    np.testing.assert_allclose(model.kernel_.matrix(kind=kind, dense=True), loop_kernel(model, X, kind), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_a_kind_is_true_of_it(kind):
    said = KINDS[kind]
    symmetric = bounded = semidefinite = True
    for seed in range(8):
        model, _, _ = make_model(seed, n=30, n_estimators=7)
        K = np.asarray(model.kernel_.matrix(kind=kind, dense=True))
        assert K.min() >= 0
        symmetric &= np.allclose(K, K.T)
        bounded &= K.max() <= 1 + 1e-12
        semidefinite &= np.allclose(K, K.T) and np.linalg.eigvalsh(K).min() > -1e-10
    assert (symmetric, bounded, semidefinite) == (said.symmetric, said.bounded, said.semidefinite)


def test_gap_weighted_labels_are_the_out_of_bag_prediction():
    for seed in range(5):
        model, _, y = make_model(seed, n_estimators=60, aggregate="mean")
        G = model.kernel_.matrix(kind="gap")
        np.testing.assert_allclose(G @ np.eye(3)[y], model.oob_proba_, atol=1e-12)
        np.testing.assert_allclose(G.sum(axis=1), 1.0)
        assert (G.diagonal() == 0).all()


@pytest.mark.parametrize("aggregate", ["mean", "proximity"])
@pytest.mark.parametrize("fill", ["inbag", "all", "oob"])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_times_labels_are_the_probabilities(aggregate, fill, weighted):
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.5, 3, N) * (rng.random(N) < 0.6) if weighted else None  # leaves may hold nothing that weighs
    model, _, y = make_model(weight=weight)
    new = np.random.default_rng(2).normal(size=(20, 3))
    expected = model.predict_proba(new, aggregate, fill)
    W = model.kernel_.weights(new, aggregate=aggregate, fill=fill)
    np.testing.assert_allclose(W @ np.eye(3)[y], expected, atol=1e-12)
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    assert W.data.min() >= 0
    np.testing.assert_allclose(model.kernel_.average(new, aggregate=aggregate, fill=fill), expected, atol=1e-12)
    values = np.random.default_rng(3).normal(size=(N, 2))
    averages = model.kernel_.average(new, values, aggregate=aggregate, fill=fill)
    np.testing.assert_allclose(averages, W @ values, atol=1e-12)
    one = model.kernel_.average(new, values[:, 0], aggregate=aggregate, fill=fill)
    np.testing.assert_allclose(one, averages[:, 0])


def test_weights_without_a_name_are_those_of_the_forest_itself():
    for aggregate, fill in (("mean", "all"), ("proximity", "oob")):
        model, X, y = make_model(aggregate=aggregate, fill=fill)
        np.testing.assert_allclose(model.kernel_.weights(X) @ np.eye(3)[y], model.predict_proba(X), atol=1e-12)
        model.set_params(aggregate="mean", fill="inbag")
        np.testing.assert_allclose(model.kernel_.average(X), model.predict_proba(X), atol=1e-12)
    with pytest.raises(ValueError, match=r"'vote' has no weights.*; give aggregate='mean' or 'proximity'"):
        make_model(aggregate="vote")[0].kernel_.weights(X)
    rival = RandomForestClassifier(10, random_state=0).fit(X, y)
    np.testing.assert_allclose(ForestKernel.from_model(rival, X, y).average(X), rival.predict_proba(X), atol=1e-12)


def test_where_no_tree_has_an_opinion_weights_are_even():
    model = KernelForestClassifier.untuned(1, leaf_size=1, random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    new = np.linspace(-1, 4, 50)[:, None]
    W = model.kernel_.weights(new, fill="oob")
    np.testing.assert_allclose(W @ np.eye(2)[[0, 1, 0, 1]], model.predict_proba(new, fill="oob"), atol=1e-12)
    assert (np.abs(W.toarray() - 0.25) < 1e-12).all(axis=1).any()


@given(st.integers(0, 1000), st.integers(1, 12), st.sampled_from(["leaf", "inbag", "kerf", "gap"]))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_nearest_rows_are_the_largest_entries_of_the_matrix(seed, k, kind):
    model, _, _ = make_model(seed % 5, n=25)
    K = model.kernel_.matrix(kind=kind, dense=True)
    np.fill_diagonal(K, 0.0)
    rows, similar = model.kernel_.nearest(k=k, kind=kind)
    expected = -np.sort(-K, axis=1)[:, :k]
    np.testing.assert_allclose(similar, expected, atol=1e-12)
    for i in range(25):
        found = rows[i][rows[i] >= 0]
        assert i not in found
        np.testing.assert_allclose(K[i, found], similar[i][rows[i] >= 0], atol=1e-12)


def test_threads_change_nothing():
    one, X, _ = make_model(n=700)
    two, _, _ = make_model(n=700, n_jobs=3)
    for kind in LOOPS:
        a, b = one.kernel_.matrix(kind=kind), two.kernel_.matrix(kind=kind)
        assert (a != b).nnz == 0
    np.testing.assert_array_equal(one.kernel_.nearest(X, 5)[0], two.kernel_.nearest(X, 5)[0])


def test_entries_may_be_narrow():
    kernel = make_model()[0].kernel_
    narrow = kernel.matrix(dtype=np.float32)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow.toarray(), kernel.matrix(dense=True), rtol=1e-6)
    with pytest.raises(ValueError, match="dtype must be float64 or float32"):
        kernel.matrix(dtype=int)


def test_columns_of_the_sparse_matrix_are_sorted():
    K = make_model(n=300)[0].kernel_.matrix()
    assert K.has_canonical_format


def test_rows_and_columns_may_be_other_tables():
    model, X, _ = make_model()
    K = model.kernel_.matrix(dense=True)
    for kind in ("leaf", "kerf"):
        K = model.kernel_.matrix(kind=kind, dense=True)
        np.testing.assert_allclose(model.kernel_.matrix(X[:7], X[10:15], kind=kind, dense=True), K[:7, 10:15])
    np.testing.assert_allclose(model.kernel_.distance(X[:7]), 1 - model.kernel_.matrix(X[:7], dense=True))


def test_effective_neighbours_count_even_weights():
    model = KernelForestClassifier.untuned(5, max_depth=0, random_state=0).fit(np.arange(9.0)[:, None], np.arange(9) % 2)
    np.testing.assert_allclose(model.kernel_.effective_neighbours([[0.0]], fill="all"), 9.0)


@pytest.mark.parametrize("aggregate", ["mean", "proximity"])
def test_effective_neighbours_are_known_of_more_rows_than_whose_weights_fit(monkeypatch, aggregate):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(2500, 2)), rng.integers(1, 4, 2500)
    model = KernelForestClassifier.untuned(3, max_depth=1, random_state=0).fit(X, rng.integers(0, 2, 2500), weight)
    how = {"aggregate": aggregate, "fill": "oob"}  # rows that every tree drew have the weights of all rows
    W = model.kernel_.weights(**how)
    monkeypatch.setattr(kernel_memory, "available_bytes", lambda: 12 * W.nnz // 2)
    with pytest.raises(MemoryError, match="a kernel of"):
        model.kernel_.weights(**how)
    expected = 1.0 / (W.toarray() ** 2).sum(axis=1)
    np.testing.assert_allclose(model.kernel_.effective_neighbours(**how), expected, rtol=1e-12)


def test_the_size_of_a_sparse_kernel_is_the_formula_and_building_it_takes_little_more():
    model, _, _ = make_model(n=2000, n_estimators=30)
    kernel = model.kernel_
    kernel.matrix()
    tracemalloc.start()
    K = kernel.matrix()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sparse_bytes(K.shape[0], K.nnz)
    assert K.data.nbytes + K.indices.nbytes + K.indptr.nbytes == size
    assert peak < size + index_bytes(2000 * 30, kernel._training.n_leaves, weighed=False) + 500_000


@pytest.mark.parametrize("version", [1, 2])
def test_the_limit_of_a_container_counts(tmp_path, version):
    folder, limit, used, stat = (
        (tmp_path / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        if version == 1
        else (tmp_path, "memory.max", "memory.current", "inactive_file")
    )
    folder.mkdir(exist_ok=True)
    assert container_bytes(tmp_path) is None
    for name, text in ((limit, "1000\n"), (used, "700\n"), ("memory.stat", f"anon 1\n{stat} 50\n")):
        (folder / name).write_text(text)
    assert container_bytes(tmp_path) == 350
    (folder / used).write_text("2000\n")
    assert container_bytes(tmp_path) == 0
    (folder / limit).write_text("max\n")
    assert container_bytes(tmp_path) is None


def test_the_smaller_of_machine_and_container_is_available(monkeypatch):
    for machine, container, least in ((5, 3, 3), (3, None, 3), (None, None, None)):
        monkeypatch.setattr(kernel_memory, "machine_bytes", lambda room=machine: room)
        monkeypatch.setattr(kernel_memory, "container_bytes", lambda room=container: room)
        assert available_bytes() == least


def test_a_request_that_does_not_fit_says_so_before_it_is_made(monkeypatch):
    kernel = make_model()[0].kernel_
    monkeypatch.setattr(kernel_memory, "available_bytes", lambda: 1000)
    with pytest.raises(MemoryError, match=r"index of .* leaves would take .* kB and 1\.0 kB are free.*voting_points"):
        kernel.matrix()
    assert len(kernel.voting_points([0.0, 0.0, 0.0], fill="all"))
    index = index_bytes(60 * T, kernel._training.n_leaves, weighed=False)
    monkeypatch.setattr(kernel_memory, "available_bytes", lambda: index)
    with pytest.raises(MemoryError, match=r"entries would take .* kB and .* kB are free.*nearest"):
        kernel.matrix()
    monkeypatch.setattr(kernel_memory, "available_bytes", lambda: 28_000)
    with pytest.raises(MemoryError, match=r"dense kernel of 60 x 60 would take 28\.8 kB and 28\.0 kB are free"):
        kernel.matrix(dense=True)
    assert kernel.matrix(dense=True, dtype=np.float32).nbytes == 14_400
    with pytest.raises(MemoryError, match="path"):
        kernel.matrix(kind="path")


def test_mistakes_are_named():
    model, X, _ = make_model()
    kernel = model.kernel_
    with pytest.raises(ValueError, match=r"kind must be one of.*'closeness'"):
        kernel.matrix(kind="closeness")
    with pytest.raises(ValueError, match="kind='gap' counts draws"):
        kernel.matrix(X, X, kind="gap")
    with pytest.raises(ValueError, match=r"k must be an integer from 1 to 59.*got 60"):
        kernel.nearest(k=60)
    with pytest.raises(ValueError, match=r"k must be an integer from 1 to 60.*got 0"):
        kernel.nearest(X, k=0)
    with pytest.raises(ValueError, match="'vote' has no weights"):
        kernel.weights(X, aggregate="vote")
    with pytest.raises(ValueError, match="fill must be one of"):
        kernel.weights(X, fill="none")
    with pytest.raises(ValueError, match="values must be numbers, one or several per training row, got dtype"):
        kernel.average(X, np.full(60, "a"))
    with pytest.raises(ValueError, match="dtype must be float64 or float32, got 'single-ish'"):
        kernel.matrix(dtype="single-ish")
    with pytest.raises(ValueError, match=r"values must have one row per training row \(60\), got shape \(3,\)"):
        kernel.average(X, np.zeros(3))
    with pytest.raises(ValueError, match="values must have one row"):
        kernel.average(X, 3.0)
    with pytest.raises(ValueError, match="features"):
        kernel.matrix(X[:, :2])
    with pytest.raises(ValueError, match="kind='oob' has no nearest"):
        kernel.nearest(kind="oob")
    whole = make_model(bootstrap=False)[0].kernel_
    for kind in ("oob", "gap"):
        with pytest.raises(ValueError, match="every tree was grown on all rows"):
            whole.matrix(kind=kind)
    with pytest.raises(ValueError, match="every tree was grown on all rows"):
        whole.weights(fill="oob")


@pytest.mark.parametrize("own", [True, False])
def test_a_pickled_kernel_is_the_same(own):
    model, X, y = make_model()
    if own:
        kernel = model.kernel_
    else:
        forest = RandomForestClassifier(T, min_samples_leaf=3, random_state=0).fit(X, y)
        kernel = ForestKernel.from_model(forest, X, y, n_jobs=1)
    again = pickle.loads(pickle.dumps(kernel))
    new = X[:5] + 0.05
    for kind in LOOPS:
        np.testing.assert_array_equal(again.matrix(new, kind=kind, dense=True), kernel.matrix(new, kind=kind, dense=True))
    np.testing.assert_array_equal(again.average(new, y), kernel.average(new, y))
    assert repr(again) == repr(kernel)
    assert f"{T} trees on {N} training rows" in repr(kernel)
