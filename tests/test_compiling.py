"""The first use on a machine: what is said, and that a second process compiles what comes after growing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelforest import compiling, warming
from kernelforest._engine import grow

LISTENING = """
import numpy as np
from numba.core import event
from kernelforest import KernelForestClassifier
from kernelforest.kernel import KINDS

class Names(event.Listener):
    depth, outermost = 0, []

    def on_start(self, event):
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        if self.depth == 0:
            self.outermost.append(event.data["dispatcher"].py_func.__name__)

X = np.random.default_rng(0).random((200, 3))
y = (X.sum(axis=1) > 1.5).astype(int)
"""
FIRST_USE = f"""{LISTENING}
with event.install_listener("numba:compile", Names()):
    KernelForestClassifier(100, n_jobs=2, random_state=0).fit(X, y).predict_proba(X)
print(*Names.outermost)
"""
LATER_USE = f"""{LISTENING}
with event.install_listener("numba:compile", Names()):
    for labels in (y, np.arange(200) % 4):
        model = KernelForestClassifier(60, random_state=1).fit(X, labels)
        for kind in KINDS:
            model.kernel_.matrix(kind=kind)
            model.kernel_.matrix(X[:9], kind=kind)
        model.kernel_.explain(X[0])
        X[:, 2] = np.arange(200) % 4
        model = KernelForestClassifier(60, random_state=1, categorical_features=[2]).fit(X, labels)
        model.kernel_.explain(X[0])
        KernelForestClassifier(60, random_state=1, n_jobs=2).fit(X, labels, groups=np.arange(200) // 4).predict_proba(X)
print(*Names.outermost)
"""


def run(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)


@pytest.mark.slow
@pytest.mark.skipif(compiling.joblib.cpu_count() == 1, reason="one core: there is no second process")
def test_only_growing_is_compiled_by_the_process_that_fits(tmp_path: Path) -> None:
    first = run(tmp_path, "-W", "error", "-c", FIRST_USE)
    assert first.stdout.split() == ["grow_trees"]
    assert first.stderr.count("compiling for this machine") == 1
    second = run(tmp_path, "-W", "error", "-c", FIRST_USE)
    assert second.stdout.split() == []
    assert second.stderr == ""


def test_without_a_second_process_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert compiling._compile_the_rest() is None
    compiling.wait_for_the_rest()


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as sleeper:
        monkeypatch.setattr(compiling, "_PATIENCE", 0.01)
        monkeypatch.setattr(compiling._Announcer, "other", sleeper)
        compiling.wait_for_the_rest()
        assert compiling._Announcer.other is None
        sleeper.kill()


def test_warming_can_leave_growing_to_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in list(vars(grow).items()):
        monkeypatch.setattr(grow, name, value)  # put back afterwards
    with np.errstate(over="ignore"):
        warming.main(["--without-growing"])
    assert not hasattr(grow.grow_trees, "py_func")


@pytest.mark.slow
def test_after_warming_nothing_is_left_to_compile(tmp_path: Path) -> None:
    warmed = run(tmp_path, "-m", "kernelforest.warming")
    assert warmed.stderr.count("compiling for this machine") == 1
    later = run(tmp_path, "-W", "ignore", "-c", LATER_USE)
    assert later.stdout.split() == []
    assert later.stderr == ""
