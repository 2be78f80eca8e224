"""The command line, and what importing costs."""

import subprocess
import sys

import pytest

import kernelforest
from kernelforest.cli import main


def test_the_demo_compares_and_explains(capsys):
    assert main(["demo"]) == 0
    printed = capsys.readouterr().out
    for phrase in ("Chosen by out-of-bag log loss", "kernelforest", "scikit-learn, untuned", "training rows hold 80 %"):
        assert phrase in printed


def test_an_unknown_command_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["dance"])
    assert "invalid choice" in capsys.readouterr().err


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert kernelforest.__version__ in capsys.readouterr().out


def test_the_module_can_be_run():
    done = subprocess.run([sys.executable, "-m", "kernelforest", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == kernelforest.__version__


def test_a_progress_bar_is_drawn_when_asked_for(capsys):
    kernelforest.KernelForestClassifier.untuned(20, verbose=1).fit([[0.0], [1.0]], [0, 1])
    assert "20/20 trees" in capsys.readouterr().err


def test_importing_the_package_loads_neither_scikit_learn_nor_numba():
    code = "import sys, kernelforest; print('sklearn' in sys.modules, 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_every_public_name_can_be_had():
    assert set(dir(kernelforest)) == set(kernelforest.__all__)
    assert all(getattr(kernelforest, name) is not None for name in kernelforest.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Forestry'"):
        _ = kernelforest.Forestry
