"""The scikit-learn classifier: checks at the door, then codes, partitions, fills and estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from numbers import Integral
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from kernelforest._engine.layout import Columns, Targets
from kernelforest.binning import code_table
from kernelforest.calibration import METHODS
from kernelforest.checks import check_choice
from kernelforest.data import is_frame, read_schema
from kernelforest.doubts import copies_as_groups, warn_if_noisy
from kernelforest.forest import AGGREGATES, FILLS
from kernelforest.growing import Rules, draw_seed, make_targets
from kernelforest.judging import Part
from kernelforest.kernel import Correction, ForestKernel, training_of
from kernelforest.labels import read_class_weight, read_groups, read_labels, read_weights
from kernelforest.outofbag import OutOfBag, calibrated, fit_calibration, no_calibration
from kernelforest.priors import read_population, split_weights
from kernelforest.scoring import SCORINGS, Scores
from kernelforest.summary import compare_with_untuned, describe
from kernelforest.threads import read_threads
from kernelforest.tuning import UNTUNED, Open, grow_blend, is_auto, left_open, open_choices, tune, with_classic_values

_FITTED = (
    *("_schema", "_population", "_oob", "_kernel", "n_features_in_", "feature_names_in_", "classes_", "forest_", "tuning_"),
    *("blend_", "splitter_", "max_features_", "leaf_size_", "aggregate_", "fill_", "calibration_"),
)


class KernelForestClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A random forest tuned for probabilities, each of them a kernel-weighted average of training labels.

    Whatever is "auto" is chosen by out-of-bag score: aggregate and fill, and a blend of ways to make cuts, mtry and leaf
    sizes. Then the out-of-bag probabilities are calibrated. Nothing is held out. Fix a parameter and only the rest is
    chosen; fix all, or use `KernelForestClassifier.untuned()`, and it is a classic random forest.

    One fitted forest gives every estimate of Olson and Wyner (2018): ask `predict_proba` for another `aggregate` or `fill`
    without fitting again.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    max_features : "auto", int, float, "sqrt", "third" or "all"
        Features tried per cut (mtry), drawn without replacement: a number, a fraction of the columns, the square root of
        their number or a third of it (both rounded up), or all of them, which is bagging. A feature that is constant in
        a node does not use up a draw. With the splitters "random" and "random-observed" it is 1.
    leaf_size : "auto" or int
        A node of at most this many in-bag draws is not split. Together with mtry this is the bandwidth of the kernel. "auto"
        reads the same trees at several leaf sizes, each with a weight by how well it did; with `max_leaf_nodes` it is 1.
    aggregate : "auto", "proximity", "mean" or "vote"
        How trees are combined. "vote": each tree votes for the largest class of its leaf, ties split. "mean": each tree
        gives the class shares of its leaf. "proximity": leaf counts are added up over the trees and divided once, so
        that each training row weighs as its proximity to the query. Votes are not tried by "auto": they have no weights
        that could be traced to training rows.
    fill : "auto", "inbag", "all" or "oob"
        Which training rows are counted in the leaves: those the tree was grown on, as often as they were drawn; every
        row once; or only rows that the tree did not see (an honest tree).
    splitter : "auto", "best", "extra", "random" or "random-observed"
        "best": the best cut of each candidate feature. "extra": one uniform random cut per candidate, the best of them
        is taken. "random": a random feature, cut uniformly between its smallest and largest value in the node;
        "random-observed" cuts at the value of a random row instead. Random cuts never look at the labels. "auto" tries
        the first two, or is "best" if all of the above are fixed.
    scoring : "log_loss" or "brier"
        The out-of-bag score by which everything is chosen. On average they end equally near the truth; where hits are rare,
        the log loss did better (benchmarks/scoring.py).
    calibration : "auto", None, "sigmoid", "isotonic", "beta" or "venn-abers"
        A map from out-of-bag probabilities to better ones, applied to all predictions. "auto" is a sigmoid unless
        cross-fitted out-of-bag scores speak against it, or a more flexible map if they clearly speak for it; it leaves a
        forest alone whose parameters are all fixed.
    bootstrap : bool
        Draw rows with replacement for each tree; otherwise without.
    max_samples : int, float or None
        Rows, or groups, drawn per tree: a number, a fraction, or as many as there are. With `bootstrap=False` and None
        there is no resampling at all, hence nothing out-of-bag.
    max_depth, max_leaf_nodes : int or None
        Further stops. With `max_leaf_nodes` the cut that decreases impurity most is made first.
    categorical_features : "from_dtype", None, or a list of names, numbers or booleans
        Columns split by subsets of their levels. "from_dtype" takes the category and text columns of a data frame.
    class_weight : None, "balanced" or dict
        Weight of each class in growing trees and in `predict`, never in a leaf: probabilities keep referring to the class
        shares of the training data.
    prior : None, "weighted", dict or array
        Class shares that the probabilities should refer to, if not those of the training data: p_c is multiplied by
        prior_c / share_c and the row divided by its sum. "weighted" means the shares after `class_weight`.
    n_jobs : int or None
        Threads; None is one, and -1 all of them. Results do not depend on it.
    random_state : int, RandomState or None
        Seed of all draws.
    verbose : int
        Show a progress bar.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_, feature_importances_
        As everywhere in scikit-learn.
    tuning_ : Tuning
        All candidates with their out-of-bag scores, if anything was tuned: `tuning_.best`, `tuning_.frame()`.
    splitter_, max_features_, leaf_size_, aggregate_, fill_
        What was chosen, or fixed: of several that are blended, the one with the largest share, `tuning_.best`.
    blend_ : tuple of Part(splitter, max_features, share, factors)
        All of them: ways to grow, their shares of the trees, and factors of the leaf sizes at which these are read. Smoother
        weights stay non-negative and sum to one. The shares of single candidates are in `tuning_.members`.
    calibration_ : Chosen
        The calibrator, and what it was compared with.
    oob_proba_ : array of shape (n_rows, n_classes)
        Probabilities of the training rows from the trees that did not draw them, calibrated by a map that was fitted
        without the row.
    oob_score_ : Scores(log_loss, brier, error)
        How good those are.
    kernel_ : ForestKernel
        The kernel behind the probabilities: similarities, smoother weights, voting points, explanations.
    inbag_counts_ : array of shape (n_rows, n_trees)
        How often each tree drew each row.
    node_counts_ : array of shape (n_trees,)
        Nodes of each tree, leaves included.
    forest_ : Forest
        The trees.

    Examples
    --------
    >>> X = [[i / 200, i % 7] for i in range(200)]
    >>> y = ["low" if row[0] < 0.5 else "high" for row in X]
    >>> model = KernelForestClassifier(100, random_state=0).fit(X, y)
    >>> model.predict([[0.05, 3], [0.95, 3]])
    array(['low', 'high'], dtype='<U4')

    """

    def __init__(
        self,
        n_estimators: int = 500,
        *,
        max_features: int | float | str = "auto",
        leaf_size: int | str = "auto",
        aggregate: str = "auto",
        fill: str = "auto",
        splitter: str = "auto",
        scoring: str = "log_loss",
        calibration: str | None = "auto",
        bootstrap: bool = True,
        max_samples: int | float | None = None,
        max_depth: int | None = None,
        max_leaf_nodes: int | None = None,
        categorical_features: Any = "from_dtype",
        class_weight: Mapping[Any, float] | str | None = None,
        prior: Mapping[Any, float] | Sequence[float] | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.leaf_size = leaf_size
        self.aggregate = aggregate
        self.fill = fill
        self.splitter = splitter
        self.scoring = scoring
        self.calibration = calibration
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.prior = prior
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def untuned(cls, n_estimators: int = 500, **parameters: Any) -> Self:
        """A classic random forest: mtry is the square root, leaves are pure, probabilities are means of leaf shares.

        Any parameter can still be given.

        >>> KernelForestClassifier.untuned(100, max_features="third").leaf_size
        1
        """
        return cls(n_estimators, **(UNTUNED | {"calibration": None} | parameters))

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, groups: Any = None) -> Self:
        """Choose what is left open by out-of-bag score, grow the forest, and calibrate its probabilities out-of-bag.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            numpy array, pandas or polars frame, or list of rows. Missing values and infinities are welcome.
        y : array of shape (n_rows,)
            Class labels: text, numbers, booleans, or dates of numpy or pandas without time zone.
        sample_weight : array of shape (n_rows,), optional
            What a row counts for when cuts are chosen, in the leaves and in scores. It is as likely to be drawn as any
            other, and `leaf_size` counts draws. Rows of weight zero are never drawn and count for nothing, but cuts may
            be placed at their values. If anything is tuned, and weights differ between classes only (as after thinning the
            frequent one), or the mean weights of classes differ by more than a factor of two, that difference is heard as a
            `prior`: trees and leaves do without it, and probabilities are moved.
        groups : array of shape (n_rows,), optional
            Rows that belong together: repeated measurements of a person, rows of one day. A tree draws a group as a whole
            or not at all, so that out-of-bag means: from groups the tree has not seen. If left out and anything is tuned,
            copies of rows are groups, with a warning, where there are many and two columns tell rows apart. Rows that agree
            but are separate observations need no groups: `np.arange(n_rows)` says so.

        """
        for stale in _FITTED:  # a fit that fails leaves no model behind
            self.__dict__.pop(stale, None)
        labels = read_labels(y)
        self._check_words()
        self._schema = read_schema(X, self.categorical_features)
        matrix = self._schema.matrix(X)
        validate_data(self, X, skip_check_array=True)
        if len(matrix) != len(labels.codes):
            raise ValueError(f"X and y must have as many rows, got {len(matrix)} and {len(labels.codes)}")
        weight = read_weights(sample_weight, len(matrix))
        class_weight = read_class_weight(self.class_weight, labels, weight)
        rules = self._rules()
        members = read_groups(groups, len(matrix))
        columns = code_table(matrix, self._schema.levels, self._threads())
        is_open = left_open(self._tunable(), self.max_leaf_nodes, matrix.shape[1])
        by_class = None
        if is_open:  # what weighs classes is better heard as a prior: few rows would decide what is chosen
            weight, by_class = split_weights(weight, labels.codes, len(labels.classes))
        if members is None and is_open:
            members = copies_as_groups(columns, labels.codes, weight, self._can_group())
        elif members is not None and len(np.unique(members)) == len(members):
            members = None  # each row a group of its own: no more is said than that no rows are copies
        mass = class_weight if class_weight is None or by_class is None else class_weight * by_class
        targets = make_targets(labels.codes, len(labels.classes), weight, mass, members)
        choices = open_choices(self._tunable(), rules, targets, matrix.shape[1])
        limits = rules.limits(len(targets.drawable), matrix.shape[1])
        leaves_out = limits.leaves_rows_out(len(targets.drawable))
        self._check_estimate(choices.aggregate[0], choices.fill[0], leaves_out)
        if self.calibration in METHODS and not leaves_out:
            raise ValueError(
                f"calibration={self.calibration!r} needs out-of-bag rows: set bootstrap=True or max_samples below 1.0"
            )
        self._population = read_population(self.prior, labels.classes, targets.shares, class_weight, by_class)
        self.classes_ = labels.classes
        seed = draw_seed(self.random_state)
        if not choices.is_decided:
            warn_if_noisy(targets, labels.classes, rules.n_estimators, limits.share_left_out(len(targets.drawable)))
        self._grow(columns, targets, rules, choices, seed)
        method = None if is_auto(self.calibration) and choices.is_decided else self.calibration
        if method is None:
            self.calibration_ = no_calibration(self.scoring)
        else:
            self.calibration_ = fit_calibration(self.forest_, self._raw_out_of_bag(), method, self.scoring, seed)
        return self

    def predict_proba(self, X: Any, aggregate: str | None = None, fill: str | None = None) -> NDArray[np.float64]:
        """Class probabilities, one column per class of `classes_`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Rows with the columns of training.
        aggregate, fill : str, optional
            Another estimate of the same forest, with the words of the parameters of these names. It is not calibrated. If
            both are left out, the estimate that was chosen, calibrated. Either refers to the `prior`.

        Examples
        --------
        >>> X, y = [[0.0], [0.1], [0.9], [1.0]], ["a", "a", "b", "b"]
        >>> model = KernelForestClassifier.untuned(50, bootstrap=False, random_state=0).fit(X, y)
        >>> model.predict_proba([[0.05]], aggregate="vote")
        array([[1., 0.]])

        """
        check_is_fitted(self)
        meant = aggregate is None and fill is None
        aggregate = self.aggregate_ if aggregate is None else aggregate
        fill = self.fill_ if fill is None else fill
        self._check_estimate(aggregate, fill, self.forest_.has_out_of_bag)
        proba = self.forest_.estimate(self._matrix(X), aggregate, fill, self._threads())
        return self._correction(proba, meant)

    def predict_log_proba(self, X: Any, aggregate: str | None = None, fill: str | None = None) -> NDArray[np.float64]:
        """Logarithm of `predict_proba`, which has the same parameters; minus infinity where a probability is zero."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X, aggregate, fill)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest probability, times its class weight if there is one."""
        proba = self.predict_proba(X)
        if self._population.preference is not None:
            proba = proba * self._population.preference
        return np.asarray(self.classes_[proba.argmax(axis=1)])

    def apply(self, X: Any) -> NDArray[np.int32]:
        """Number of the leaf that each row reaches in each tree, (n_rows, n_trees); the leaves of a tree count from 0."""
        check_is_fitted(self)
        return self.forest_.leaves(self._matrix(X), self._threads())

    @property
    def oob_proba_(self) -> NDArray[np.float64]:
        """Out-of-bag class probabilities of the training rows, computed on first use."""
        return self._out_of_bag().proba.copy()

    @property
    def oob_score_(self) -> Scores:
        """Out-of-bag log loss, Brier score and error; rows that every tree drew are left out.

        Of fewer than 100 rows or groups it may flatter: what is tuned by few rows is also scored on them.
        """
        return self._out_of_bag().scores(self.forest_, self._population)

    def summary(self) -> None:
        """Print what was chosen, and what that bought over an untuned forest, by out-of-bag scores.

        In the log loss of both an exact zero counts as half a row: a few of them could cost more than tuning can gain.
        """
        check_is_fitted(self)
        mine = self._out_of_bag() if self.forest_.has_out_of_bag else None
        scored = compare_with_untuned(self.forest_, mine, self._population, self._threads())
        print("\n".join([*describe(self), *scored]))

    @property
    def inbag_counts_(self) -> NDArray[np.int32]:
        """How often each tree drew each training row, (n_rows, n_trees)."""
        check_is_fitted(self)
        return np.ascontiguousarray(np.maximum(self.forest_.draws(), 0).T)

    @property
    def node_counts_(self) -> NDArray[np.int64]:
        """Number of nodes of each tree, leaves included."""
        check_is_fitted(self)
        return np.diff(self.forest_.starts[:, 0])

    @property
    def kernel_(self) -> ForestKernel:
        """The forest as a kernel on the training rows, made on first use."""
        check_is_fitted(self)
        if "_kernel" not in self.__dict__:
            default = [f"x{j}" for j in range(self.n_features_in_)]
            names = tuple(str(name) for name in getattr(self, "feature_names_in_", default))
            fitted = copy(self)  # the kernel stays that of this fit if there is another
            columns = {"show": fitted._schema.shown, "count": fitted._schema.counted}
            described = training_of(fitted.forest_, fitted._matrix, names, fitted.classes_, self._threads(), **columns)
            kernel = ForestKernel(described, (attrgetter("kernel_"), (fitted,)))
            kernel.meant_estimate(fitted.aggregate_, fitted.fill_, fitted._correction)
            self._kernel = kernel
        return self._kernel

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Mean decrease of impurity per feature. Quick, but biased to features with many values and to noise."""
        check_is_fitted(self)
        return self.forest_.importances()

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_kernel"}

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """What scikit-learn shows in notebooks: only what fit has stored; the rest is computed when it is asked for."""
        stored = BaseEstimator()
        vars(stored).update({name: value for name, value in vars(self).items() if name.endswith("_")})
        return stored._get_fitted_attr_html(doc_link)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_")  # what fit makes last

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _rules(self) -> Rules:
        """The rules of growth, with the classic values for what is open."""
        chosen = with_classic_values(self._tunable())
        return Rules(
            n_estimators=self.n_estimators,
            max_features=chosen["max_features"],
            leaf_size=chosen["leaf_size"],
            splitter=chosen["splitter"],
            bootstrap=self.bootstrap,
            max_samples=self.max_samples,
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
        )

    def _grow(self, columns: Columns, targets: Targets, rules: Rules, choices: Open, seed: int) -> None:
        """Choose what is left open, and grow the forest of it."""
        how: dict[str, Any] = {"threads": self._threads(), "verbose": self.verbose}
        if not choices.is_decided:
            aim: dict[str, Any] = {"scoring": self.scoring, "calibrated": self.calibration is not None}
            self.tuning_ = tune(columns, targets, rules, choices, seed, **aim, **how)
            best, self.blend_ = self.tuning_.best, self.tuning_.blend
        else:
            best = choices.first
            self.blend_ = (Part(best.splitter, best.max_features, 1.0, {best.leaf_size: 1.0}),)
        self.splitter_, self.max_features_, self.leaf_size_, self.aggregate_, self.fill_ = best[:5]
        self.forest_ = grow_blend(columns, targets, rules, self.blend_, seed, **how)

    def _can_group(self) -> bool:
        """Whether nothing is set that groups would change the meaning of."""
        return self.fill in ("auto", "inbag") and not isinstance(self.max_samples, Integral)

    def _tunable(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in UNTUNED}

    def _check_words(self) -> None:
        check_choice("scoring", self.scoring, SCORINGS)
        check_choice("aggregate", self.aggregate, ("auto", *AGGREGATES))
        check_choice("fill", self.fill, ("auto", *FILLS))
        if self.calibration is not None:
            check_choice("calibration, if not None,", self.calibration, ("auto", *METHODS))

    @staticmethod
    def _check_estimate(aggregate: Any, fill: Any, leaves_rows_out: bool) -> None:
        check_choice("aggregate", aggregate, AGGREGATES)
        check_choice("fill", fill, FILLS)
        if fill == "oob" and not leaves_rows_out:
            raise ValueError("fill='oob' needs rows that a tree did not draw: set bootstrap=True or max_samples below 1.0")

    def _threads(self) -> int:
        return read_threads(self.n_jobs)

    def _matrix(self, X: Any) -> NDArray[np.floating]:
        named = is_frame(X)  # other columns are named before their values are read
        if named:
            validate_data(self, X, skip_check_array=True, reset=False)
        matrix = self._schema.matrix(X)
        if not named:
            validate_data(self, X, skip_check_array=True, reset=False)
        return matrix

    @property
    def _correction(self) -> Correction:
        """Calibration of the estimate that is meant, then the prior."""
        calibrate = None if self.calibration_.method is None else self.calibration_.calibrator
        return Correction(calibrate, None if self._population.factors is None else self._population)

    def _out_of_bag(self) -> OutOfBag:
        """Calibrated, and in the population that is meant."""
        check_is_fitted(self)
        if not self.forest_.has_out_of_bag:
            raise AttributeError("nothing is out-of-bag: every tree was grown on all rows")
        if "_oob" not in self.__dict__:
            proba, n_trees = calibrated(self.forest_, self._raw_out_of_bag(), self.calibration_)
            self._oob = OutOfBag(self._population(proba), n_trees)
        return self._oob

    def _raw_out_of_bag(self) -> OutOfBag:
        return OutOfBag(*self.forest_.estimate_out_of_bag(self.aggregate_, self.fill_, self._threads()))
