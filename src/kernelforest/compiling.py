"""The first use on a machine: Numba compiles, which takes seconds and is announced.

Half of the time goes to growing. So when that has to be compiled, a second process compiles the rest meanwhile
(`kernelforest.warming`) and leaves it in Numba's cache on disk, where this one finds it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import joblib
from numba.core import event

_PATIENCE = 120.0  # seconds to wait for the other process; what it has not done by then is compiled here


@contextmanager
def announced_compiling() -> Iterator[None]:
    """Say so, once per process, if Numba has to compile."""
    with event.install_listener("numba:compile", _Announcer()):
        yield


def wait_for_the_rest() -> None:
    """Wait until the second process, if there is one, has left in the cache what comes after growing."""
    other = _Announcer.other  # threads may wait together
    if other is not None:
        with suppress(subprocess.TimeoutExpired):
            other.wait(_PATIENCE)
        _Announcer.other = None


class _Announcer(event.Listener):
    said = grows = False
    other: subprocess.Popen[bytes] | None = None

    def on_start(self, event: Any) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if not _Announcer.said and module.startswith("kernelforest."):
            _Announcer.said = True
            print("kernelforest: compiling for this machine, once; later runs load the result", file=sys.stderr)
        if not _Announcer.grows and module == "kernelforest._engine.grow" and joblib.cpu_count() > 1:
            _Announcer.grows = True
            _Announcer.other = _compile_the_rest()

    def on_end(self, event: Any) -> None:
        pass


def _compile_the_rest() -> subprocess.Popen[bytes] | None:
    """Start the second process; without one everything is compiled here, later.

    None is started if KERNELFOREST_ONE_PROCESS is set, or in a frozen application, which would be started a second time.
    """
    if os.environ.get("KERNELFOREST_ONE_PROCESS") or getattr(sys, "frozen", False) or not sys.executable:
        return None
    command = [sys.executable, "-m", "kernelforest.warming", "--without-growing"]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = os.environ | {"PYTHONPATH": path}
    nothing = subprocess.DEVNULL
    with suppress(OSError, ValueError):
        return subprocess.Popen(command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing)
    return None
