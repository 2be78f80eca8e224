"""The examples run as they are told to, and what README and docs point to is there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_saves_its_picture(name, tmp_path):
    picture = tmp_path / "picture.png"
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), str(picture)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert len(done.stdout.splitlines()) > 1


@pytest.mark.parametrize(
    "script",
    [
        "copies.py --reps 1 --rows 120",
        "rare.py --reps 1 --rows 1500",
        "leaves.py --reps 1 --rows 40",
        "limits.py report",
        "breadth.py report",
    ],
)
def test_a_benchmark_that_reaches_into_the_package_runs(script):
    """They replace its functions, or read what earlier runs have kept: nothing else would notice that these have changed."""
    name, *options = script.split()
    command = [sys.executable, str(ROOT / "benchmarks" / name), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "| -" in done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_links_and_named_files_of_a_page_exist(page):
    text = (ROOT / page).read_text()
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    files = [(ROOT / page).parent / path for path, _, _ in links if path]
    files += [ROOT / path for path in re.findall(r"`((?:benchmarks|docs|examples|tests)/[\w/]+\.\w+)`", text)]
    assert files
    assert [str(path) for path in files if not path.exists()] == []
    for path, _, anchor in links:
        if anchor:
            titles = re.findall(r"^#+ (.+)$", ((ROOT / page).parent / path).read_text(), flags=re.MULTILINE)
            assert anchor in [title.lower().replace(" ", "-") for title in titles]
