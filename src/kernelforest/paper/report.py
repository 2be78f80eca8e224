"""Records become one page, as Markdown and as HTML that needs nothing else: the ledger, then each figure with its claims."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kernelforest.paper.experiment import CORRECTED, FAILS, HOLDS, UNDECIDED, Claim, Experiment, Finding
from kernelforest.paper.ledger import EXPERIMENTS
from kernelforest.paper.run import Recorded, ResultsUnusable, prepare, read_records, usable

TITLE = "Olson and Wyner (2018), run again"
LEAD = (
    'The claims of "Making Sense of Random Forest Probabilities: a Kernel Perspective", each beside what was found. '
    "Numbers after ± are standard errors over repetitions."
)
DPI = 150  # of the figures, enough for print
MARKS = {HOLDS: "✓", CORRECTED: "≈", FAILS: "✗", UNDECIDED: "?"}  # a mark and a word: colour says nothing that they do not
STYLE = """
body { font: 16px/1.5 Georgia, serif; color: #222; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { font-family: Helvetica, Arial, sans-serif; line-height: 1.2; }
h2 { margin-top: 3rem; border-top: 1px solid #999; padding-top: 1rem; }
table { border-collapse: collapse; font: 14px/1.35 Helvetica, Arial, sans-serif; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #ccc; }
table.claims { table-layout: fixed; width: 100%; overflow-wrap: break-word; }
table.claims th { width: 21%; } table.claims th:nth-child(2), table.claims th:nth-child(5) { width: 15%; }
table.numbers td + td, table.numbers th + th { text-align: right; padding: .3rem .45rem; }
table.numbers td:first-child { white-space: nowrap; }
.wide { overflow-x: auto; }
img { max-width: 100%; height: auto; }
.verdict { font-weight: bold; white-space: nowrap; padding: .05rem .4rem; border-radius: .2rem; border: 2px solid; }
.holds { color: #004b75; border-color: #0072b2; background: #e3f0f8; }
.corrected { color: #6b4a00; border-color: #e69f00; background: #fdf3dc; border-style: dashed; }
.fails { color: #8a3500; border-color: #d55e00; background: #fbe6da; border-style: double; }
.undecided { color: #444; border-color: #777; background: #f2f2f2; border-style: dotted; }
.small { color: #555; font-size: .875em; }
@media print {
  body { font-size: 10pt; max-width: none; margin: 0; }
  table { font-size: 8pt; } .wide { overflow: visible; }
  figure, tr { break-inside: avoid; } h2, h3 { break-after: avoid; } a { color: inherit; text-decoration: none; }
}
"""
CLAIM_HEAD = ["claim", "paper", "ours", "verdict", "holds if"]


@dataclass(frozen=True)
class Section:
    """What the page says of one experiment."""

    experiment: Experiment
    recorded: Recorded
    findings: tuple[tuple[Claim, Finding], ...]  # none if it was not run
    tables: tuple[tuple[str, list[str], list[list[str]]], ...]
    picture: bytes  # a PNG, or nothing

    @property
    def was_run(self) -> bool:
        """Whether there are records."""
        return bool(self.recorded.found)

    @property
    def how(self) -> str:
        """How much of it was run."""
        if not self.was_run:
            return "Not run."
        caution = "a quick run, too small to judge by: " if self.recorded.quick else ""
        caution = "an incomplete run, verdicts may change: " if self.is_incomplete else caution
        seconds, aside = self.recorded.seconds, self.recorded.aside
        spent = f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} seconds"
        left = f" Of the full run there are {aside} of {self.experiment.reps} repetitions, which is less." if aside else ""
        return f"{self.experiment.where}; {caution}{self.repetitions}, {spent} of one core.{left}"

    @property
    def is_incomplete(self) -> bool:
        """Whether a full run was begun and not finished."""
        return self.was_run and not self.recorded.quick and len(self.recorded.found) < self.experiment.reps

    @property
    def repetitions(self) -> str:
        """How many repetitions there are, and of how many if some are missing."""
        n = len(self.recorded.found)
        planned = self.experiment.quick_reps if self.recorded.quick else self.experiment.reps
        return f"{n} of {planned} repetitions" if n < planned else f"{n} repetition{'s' if n > 1 else ''}"

    @property
    def suffix(self) -> str:
        """What is said beside a verdict that is not one of a full run."""
        if self.recorded.quick:
            return " (quick run)"
        return f" (incomplete: {self.repetitions})" if self.is_incomplete else ""


def report(out: str | Path) -> tuple[Path, Path]:
    """Write report.md and report.html from the records in a folder, and say where they are."""
    if not Path(out).is_dir():
        raise ResultsUnusable(f"out must be a folder with results of `paper run`, got {str(out)!r}: name another")
    return write_report(EXPERIMENTS.values(), Path(out))


def write_report(experiments: Iterable[Experiment], out: Path) -> tuple[Path, Path]:
    """Write the page of these experiments."""
    prepare(out)
    sections = [section(experiment, out) for experiment in experiments]
    for part in sections:
        if part.picture:
            _write(out / f"{part.experiment.name}.png", part.picture)
    written = out / "report.md", out / "report.html"
    _write(written[0], as_markdown(sections).encode())
    _write(written[1], as_html(sections).encode())
    return written


def _write(path: Path, content: bytes) -> None:
    with usable(path):
        path.write_bytes(content)


def section(experiment: Experiment, out: Path) -> Section:
    """Judge the claims of an experiment from its records and draw its figure."""
    recorded = read_records(experiment, out)
    if not recorded.found:
        return Section(experiment, recorded, (), (), b"")
    findings = tuple((claim, experiment.judge(claim, recorded.found)) for claim in experiment.claims)
    tables = tuple(experiment.tables(recorded.found)) if experiment.tables else ()
    return Section(experiment, recorded, findings, tables, _picture(experiment, recorded))


def _picture(experiment: Experiment, recorded: Recorded) -> bytes:
    if experiment.draw is None:
        return b""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ResultsUnusable("drawing the report needs matplotlib: pip install 'kernelforest[plot]'") from None
    figure = Figure(figsize=experiment.size, layout="constrained")
    experiment.draw(recorded.found, figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()


def counts(sections: Sequence[Section]) -> str:
    """How many claims hold, hold with a correction, fail, and were not judged; and how many verdicts are to be doubted."""
    verdicts = [finding.verdict for part in sections for _, finding in part.findings]
    waiting = sum(len(part.experiment.claims) for part in sections if not part.was_run)
    shown = [verdict for verdict in MARKS if verdict != UNDECIDED or UNDECIDED in verdicts]
    found = ", ".join(f"{verdicts.count(verdict)} {_plural(verdict, verdicts.count(verdict))}" for verdict in shown)
    quick = _n_verdicts(part for part in sections if part.recorded.quick)
    incomplete = _n_verdicts(part for part in sections if part.is_incomplete)
    caution = f" Verdicts from quick runs, too small to judge by: {quick}." if quick else ""
    caution += f" Verdicts from incomplete runs, which may change: {incomplete}." if incomplete else ""
    return f"{len(verdicts) + waiting} claims: {found}, {waiting} not run.{caution}"


def _n_verdicts(sections: Iterable[Section]) -> int:
    return sum(finding.verdict != UNDECIDED for part in sections for _, finding in part.findings)


def _plural(verdict: str, n: int) -> str:
    return verdict if n == 1 else verdict.replace("holds", "hold").replace("fails", "fail")


class Line(NamedTuple):
    """A line of the ledger."""

    claim: Claim
    experiment: str
    finding: Finding | None
    suffix: str  # where the verdict is not that of a full run


def _ledger(sections: Sequence[Section]) -> list[Line]:
    lines: list[Line] = []
    for part in sections:
        found = dict(part.findings)
        lines += [Line(claim, part.experiment.name, found.get(claim), part.suffix) for claim in part.experiment.claims]
    return lines


def as_markdown(sections: Sequence[Section]) -> str:
    """The page as Markdown; figures are files beside it."""
    ledger = [
        [
            line.claim.says,
            line.claim.where,
            f"[{line.experiment}](#{line.experiment})",
            _mark(line.finding.verdict) + line.suffix if line.finding else "not run",
        ]
        for line in _ledger(sections)
    ]
    head = ["claim", "where", "experiment", "verdict"]
    blocks = [f"# {TITLE}", LEAD, "## Ledger", f"**{counts(sections)}**", _pipes(head, ledger)]
    for part in sections:
        blocks += _markdown_section(part)
    return "\n\n".join(blocks) + "\n"


def _markdown_section(part: Section) -> list[str]:
    name = part.experiment.name
    blocks = [f'<a id="{name}"></a>', f"## {part.experiment.title}", part.how]
    if not part.was_run:
        return blocks
    claims = [
        [f"{claim.says} ({claim.where})", claim.paper, finding.ours, _noted(finding, part.suffix), claim.tolerance]
        for claim, finding in part.findings
    ]
    blocks.append(_pipes(CLAIM_HEAD, claims))
    if part.picture:
        blocks.append(f"![{part.experiment.title}]({name}.png)")
    for title, header, lines in part.tables:
        blocks += [f"### {title}", _pipes(header, lines)]
    return blocks


def _mark(verdict: str) -> str:
    return f"{MARKS[verdict]} {verdict}"


def _noted(finding: Finding, suffix: str) -> str:
    return f"**{_mark(finding.verdict)}**{suffix}" + (f": {finding.note}" if finding.note else "")


def _pipes(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows)


def as_html(sections: Sequence[Section]) -> str:
    """The page as HTML, with the figures in it."""
    ledger = [
        [
            _text(line.claim.says),
            _text(line.claim.where),
            f'<a href="#{line.experiment}">{_text(line.experiment)}</a>',
            _badge(line.finding) + line.suffix,
        ]
        for line in _ledger(sections)
    ]
    body = [
        f"<h1>{_text(TITLE)}</h1><p>{_text(LEAD)}</p><h2>Ledger</h2><p><strong>{_text(counts(sections))}</strong></p>",
        _grid(["claim", "where", "experiment", "verdict"], ledger),
        *(_html_section(part) for part in sections),
    ]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{_text(TITLE)}</title>'
    page = "\n".join(body)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{STYLE}</style></head>\n<body>\n{page}\n</body></html>\n'


def _html_section(part: Section) -> str:
    title = _text(part.experiment.title)
    blocks = [f'<h2 id="{part.experiment.name}">{title}</h2><p class="small">{_text(part.how)}</p>']
    if part.findings:
        claims = [
            [
                f'{_text(claim.says)} <span class="small">({_text(claim.where)})</span>',
                _text(claim.paper),
                _text(finding.ours),
                _badge(finding) + part.suffix + (f"<br>{_text(finding.note)}" if finding.note else ""),
                _text(claim.tolerance),
            ]
            for claim, finding in part.findings
        ]
        blocks.append(_grid(CLAIM_HEAD, claims, "claims"))
    if part.picture:
        code = base64.b64encode(part.picture).decode()
        blocks.append(f'<figure><img src="data:image/png;base64,{code}" alt="{title}"></figure>')
    for name, header, lines in part.tables:
        cells = [[_text(cell).replace(" (", "<br>(") for cell in line] for line in lines]
        blocks.append(f"<h3>{_text(name)}</h3>" + _grid(header, cells, "numbers"))
    return "\n".join(blocks)


def _badge(finding: Finding | None) -> str:
    if finding is None:
        return "not run"
    look = {HOLDS: "holds", CORRECTED: "corrected", FAILS: "fails", UNDECIDED: "undecided"}[finding.verdict]
    return f'<span class="verdict {look}">{_mark(finding.verdict)}</span>'


def _grid(header: Sequence[str], lines: Sequence[Sequence[str]], look: str = "words") -> str:
    """A table of cells that are HTML already."""
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    rows = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in lines)
    return f'<div class="wide"><table class="{look}"><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'


def _text(text: object) -> str:
    return html.escape(str(text)).replace(" ± ", "&nbsp;±&nbsp;")
