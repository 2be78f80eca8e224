import json
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from kernelforest.cli import main
from kernelforest.datasets import DatasetUnavailable, load_dataset
from kernelforest.paper import cells, columns, report, run
from kernelforest.paper.experiment import CORRECTED, FAILS, HOLDS, UNDECIDED, Claim, Experiment, Finding, Mean, mean
from kernelforest.paper.ledger import EXPERIMENTS, list_experiments

ROWS = np.random.default_rng(0).uniform(-1.0, 1.0, (160, 3))
SMALL = columns.numbers_only(ROWS[:120], (ROWS[:120, 0] * ROWS[:120, 1] > 0).astype(int), ROWS[120:], 7)
FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


def judge_mean(records):
    value = sum(record["value"] for record in records) / len(records)
    return Finding(HOLDS if value < 10 else FAILS, f"{value:.1f}", "a <note> | here")


def draw_values(records, figure):
    figure.subplots().plot([record["value"] for record in records])


def experiment(name="toy", one=lambda rep, quick: {"value": np.float64(rep)}, **settings):
    claim = Claim(f"{name}-mean", f"the mean of {name} is small", "Section 0", "3", "below 10", judge_mean)
    fields = {"claims": (claim,), "reps": 4, "quick_reps": 2, "minutes": 1.0, "one": one} | settings
    return Experiment(name, f"The figure {name}", "Figure 0", **fields)


def counted(calls):
    def one(rep, quick):
        calls.append(rep)
        return {"value": rep}

    return one


def test_a_second_run_does_only_the_repetitions_that_are_missing(tmp_path):
    calls = []
    toy = experiment(one=counted(calls))
    run.run_experiment(toy, 2, False, tmp_path)
    run.run_experiment(toy, None, False, tmp_path)
    run.run_experiment(toy, None, False, tmp_path)
    assert calls == [0, 1, 2, 3]
    assert [found["value"] for found in run.read_records(toy, tmp_path).found] == [0, 1, 2, 3]


def test_a_torn_last_line_is_ignored_and_its_repetition_run_again(tmp_path):
    calls = []
    toy = experiment(one=counted(calls))
    path = run.records_path(toy, False, tmp_path)
    whole = json.dumps({"rep": 0, "quick": False, "seconds": 0.1, "found": {"value": 7}})
    path.write_text(f'{whole}\n{{"rep": 1, "quick": fal')
    assert run.read_records(toy, tmp_path).found == [{"value": 7}]
    run.run_experiment(toy, None, False, tmp_path)
    assert calls == [1, 2, 3]
    assert [json.loads(line)["rep"] for line in path.read_text().splitlines()] == [0, 1, 2, 3]


def test_an_interruption_leaves_whole_lines_and_the_run_goes_on_from_there(tmp_path, monkeypatch, capsys):
    calls = []

    def one(rep, quick):
        calls.append(rep)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return {"value": rep}

    toy = experiment(one=one)
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    with pytest.raises(KeyboardInterrupt):
        run.run(["toy"], None, False, tmp_path, 1)
    assert "toy: interrupted: 2 of 4 repetitions are kept; the same command goes on\n" in capsys.readouterr().err
    assert len(run.read_records(toy, tmp_path).found) == 2
    run.run(["toy"], None, False, tmp_path, 1)
    assert calls == [0, 1, 2, 2, 3]


def test_records_do_not_depend_on_the_number_of_processes(tmp_path):
    toy = experiment()
    for workers in (1, 2):
        run.run_experiment(toy, None, False, tmp_path / str(workers), workers)
    alone, together = (run.read_records(toy, tmp_path / str(workers)).found for workers in (1, 2))
    assert alone == together == [{"value": float(rep)} for rep in range(4)]


def test_quick_runs_have_files_of_their_own_and_full_records_are_preferred(tmp_path):
    toy = experiment()
    run.run_experiment(toy, None, True, tmp_path)
    assert run.read_records(toy, tmp_path).quick
    assert len(run.read_records(toy, tmp_path).found) == 2
    run.run_experiment(toy, None, False, tmp_path)
    assert not run.read_records(toy, tmp_path).quick
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy-quick.jsonl", "toy.jsonl"]


def test_a_full_run_that_has_begun_does_not_hide_a_quick_one_that_says_more(tmp_path):
    toy = experiment()
    run.run_experiment(toy, None, True, tmp_path)
    run.run_experiment(toy, 1, False, tmp_path)
    found = run.read_records(toy, tmp_path)
    assert (found.quick, len(found.found), found.aside) == (True, 2, 1)
    assert "Of the full run there are 1 of 4 repetitions, which is less." in report.section(toy, tmp_path).how
    run.run_experiment(toy, 2, False, tmp_path)
    found = run.read_records(toy, tmp_path)
    assert (found.quick, len(found.found), found.aside) == (False, 2, 0)


def test_a_complete_run_of_one_repetition_is_preferred_to_any_quick_one(tmp_path):
    exact = experiment(reps=1, quick_reps=2)
    run.run_experiment(exact, None, True, tmp_path)
    run.run_experiment(exact, None, False, tmp_path)
    assert not run.read_records(exact, tmp_path).quick


def test_an_experiment_without_its_data_is_skipped_and_others_run(tmp_path, monkeypatch, capsys):
    def one(rep, quick):
        raise DatasetUnavailable("no data")

    monkeypatch.setitem(EXPERIMENTS, "poor", experiment("poor", one))
    monkeypatch.setitem(EXPERIMENTS, "toy", experiment())
    assert run.run(["poor", "toy"], 1, False, tmp_path, 1) == ["poor"]
    assert "poor: skipped, no data" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["toy.jsonl"]


def test_the_exit_code_says_whether_something_was_skipped(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "tic.csv").write_text("another,file\n")
    monkeypatch.setenv("KERNELFOREST_DATA", str(folder))
    for name, one in (("wrong", lambda rep, quick: load_dataset("tic")), ("toy", counted([]))):
        monkeypatch.setitem(EXPERIMENTS, name, experiment(name, one))
    command = ["paper", "run", "--threads", "1", "--out", str(tmp_path / "results")]
    assert main([*command, "wrong", "toy"]) == 1
    assert "wrong: skipped, tic.csv must have the sha256 checksum" in capsys.readouterr().err
    assert main([*command, "toy"]) == 0
    assert len(run.read_records(EXPERIMENTS["toy"], tmp_path / "results").found) == 4


def test_an_interrupted_command_ends_with_one_line_and_130(tmp_path, monkeypatch, capsys):
    def one(rep, quick):
        if rep == 3:
            raise KeyboardInterrupt
        return {"value": rep}

    monkeypatch.setitem(EXPERIMENTS, "toy", experiment(one=one))
    assert main(["paper", "run", "toy", "--threads", "1", "--out", str(tmp_path)]) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "toy: interrupted: 3 of 4 repetitions are kept; the same command goes on"


@pytest.mark.parametrize(
    "damage",
    [b"not json", b"\x00\xff\xfe", b"[1, 2]", b"7", b'{"rep": 1, "seconds": 0.1}', b'{"found": {}, "seconds": 0.1}'],
)
@pytest.mark.parametrize("command", [["run", "toy"], ["report"]])
def test_a_damaged_line_is_named_by_file_and_number(damage, command, tmp_path, monkeypatch, capsys):
    toy = experiment()
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    path = run.records_path(toy, False, tmp_path)
    whole = b'{"rep": 0, "quick": false, "seconds": 0.1, "found": {"value": 7}}'
    path.write_bytes(b"\n".join([whole, b"", damage, whole, b""]))
    assert main(["paper", *command, "--out", str(tmp_path)]) == 1
    what_to_do = "delete that line, or the file, and run it again"
    assert capsys.readouterr().err == f"kernelforest: error: {path}, line 3 is no record of a repetition: {what_to_do}\n"
    path.write_bytes(b"\n".join([whole, b"", b" ", whole, damage]))
    assert run.read_records(toy, tmp_path).found == [{"value": 7}]


@pytest.mark.parametrize("command", [["run", "toy"], ["report"]])
@pytest.mark.parametrize("below", ["", "folder"])
def test_results_that_cannot_be_kept_are_refused_at_once(below, command, tmp_path, monkeypatch, capsys):
    calls = []
    monkeypatch.setitem(EXPERIMENTS, "toy", experiment(one=counted(calls)))
    (tmp_path / "file").touch()
    out = tmp_path / "file" / below
    assert main(["paper", *command, "--out", str(out)]) == 1
    law = "with results of `paper run`" if command == ["report"] else "that can be made and written to"
    assert capsys.readouterr().err == f"kernelforest: error: out must be a folder {law}, got {str(out)!r}: name another\n"
    assert not calls


@pytest.mark.parametrize(("command", "name"), [(["run", "toy"], "toy.jsonl"), (["report"], "report.md")])
def test_a_file_that_cannot_be_written_is_named(command, name, tmp_path, monkeypatch, capsys):
    for other in list(EXPERIMENTS):
        monkeypatch.delitem(EXPERIMENTS, other)
    monkeypatch.setitem(EXPERIMENTS, "toy", experiment())
    (tmp_path / name).mkdir()
    assert main(["paper", *command, "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"kernelforest: error: {tmp_path / name} cannot be read or written: Is a directory\n"


def test_unknown_names_repetitions_below_one_and_no_workers_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"names must be 'all' or of .*; got 'tabel'"):
        run.run(["tabel"], None, True, tmp_path, 1)
    with pytest.raises(ValueError, match="reps must be an integer >= 1 or None, got 0"):
        run.run(["all"], 0, True, tmp_path, 1)
    with pytest.raises(ValueError, match=r"workers \(--threads\) must be an integer >= 1, or -1 .*, got 0"):
        run.run(["all"], None, True, tmp_path, 0)


@pytest.mark.parametrize("request_of", [["tabel"], ["toy", "--reps", "0"], ["toy", "--threads", "0"]])
def test_a_request_that_cannot_be_done_is_a_mistake_of_usage(request_of, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(EXPERIMENTS, "toy", experiment())
    with pytest.raises(SystemExit, match="2"):
        main(["paper", "run", *request_of, "--out", str(tmp_path / "results")])
    assert "usage: kernelforest" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_mistake_inside_an_experiment_is_not_one_of_usage(tmp_path, monkeypatch):
    def one(rep, quick):
        raise ValueError("of the experiment's own")

    monkeypatch.setitem(EXPERIMENTS, "toy", experiment(one=one))
    with pytest.raises(ValueError, match="of the experiment's own"):
        main(["paper", "run", "toy", "--threads", "1", "--out", str(tmp_path)])


def test_a_repetition_that_json_cannot_hold_is_refused(tmp_path):
    with pytest.raises(TypeError, match="must return numbers, text, lists and dictionaries, got set"):
        run.run_experiment(experiment(one=lambda rep, quick: {"value": {rep}}), 1, False, tmp_path)


def test_progress_shows_repetitions_and_the_time_left(tmp_path, capsys):
    run.run_experiment(experiment(), None, False, tmp_path)
    shown = capsys.readouterr().err
    assert "3/4, 0:00 left" in shown
    assert shown.rstrip().endswith("4/4")


def test_the_report_has_every_claim_with_records_and_marks_others_not_run(tmp_path):
    table = [("A table", ["name", "number"], [["a & b", "1"]])]
    toy = experiment(draw=draw_values, tables=lambda records: table)
    idle = experiment("idle")
    run.run_experiment(toy, None, False, tmp_path)
    markdown, page = report.write_report([toy, idle], tmp_path)
    for text in (markdown.read_text(), page.read_text()):
        assert "2 claims: 1 holds, 0 hold with correction, 0 fail, 1 not run." in text
        assert text.count("the mean of toy is small") == 2
        assert text.count("the mean of idle is small") == 1
        assert "✓ holds" in text
        assert "Not run." in text
        assert "Figure 0; 4 repetitions, " in text
    assert "(toy.png)" in markdown.read_text()
    assert (tmp_path / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_verdicts_of_an_incomplete_run_are_marked_and_counted_apart(tmp_path):
    toy, done = experiment(), experiment("done")
    run.run_experiment(toy, 3, False, tmp_path)
    run.run_experiment(done, None, False, tmp_path)
    markdown, page = (path.read_text() for path in report.write_report([toy, done], tmp_path))
    for text in (markdown, page):
        assert (
            "2 claims: 2 hold, 0 hold with correction, 0 fail, 0 not run. Verdicts from incomplete runs, which may" in text
        )
        assert "which may change: 1." in text
        assert "an incomplete run, verdicts may change: 3 of 4 repetitions" in text
        assert text.count("(incomplete: 3 of 4 repetitions)") == 2
    assert markdown.count("✓ holds (incomplete: 3 of 4 repetitions) |") == 1
    assert "**✓ holds** (incomplete: 3 of 4 repetitions): a <note>" in markdown


def test_one_repetition_of_several_gives_no_verdict(tmp_path):
    toy, exact = experiment(), experiment("exact", reps=1)
    for each in (toy, exact):
        run.run_experiment(each, 1, False, tmp_path)
    assert report.section(toy, tmp_path).findings[0][1].verdict == UNDECIDED
    assert report.section(exact, tmp_path).findings[0][1].verdict == HOLDS
    assert "Figure 0; 1 repetition, " in report.section(exact, tmp_path).how
    for path in report.write_report([toy, exact], tmp_path):
        text = path.read_text()
        assert "2 claims: 1 holds, 0 hold with correction, 0 fail, 1 undecided, 0 not run." in text
        assert "Verdicts from incomplete runs" not in text
        assert "? undecided" in text
        assert "one repetition has no standard error" in text


def test_more_repetitions_than_planned_are_counted_without_the_plan(tmp_path):
    toy = experiment()
    run.run_experiment(toy, 6, False, tmp_path)
    assert "; 6 repetitions, " in report.section(toy, tmp_path).how


def test_the_page_needs_nothing_from_outside_and_escapes_what_it_shows(tmp_path):
    toy = experiment(draw=draw_values)
    run.run_experiment(toy, None, True, tmp_path)
    markdown, page = report.write_report([toy], tmp_path)
    text = page.read_text()
    assert 'src="data:image/png;base64,' in text
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "a &lt;note&gt; | here" in text
    assert "a quick run, too small to judge by" in text
    assert "Verdicts from quick runs, too small to judge by: 1." in text
    assert "</span> (quick run)</td>" in text
    assert "a <note> \\| here" in markdown.read_text()


def test_every_name_in_the_ledger_is_listed_once():
    listed = list_experiments()
    claims = [claim.name for found in EXPERIMENTS.values() for claim in found.claims]
    assert len(set(claims)) == len(claims)
    assert all(listed.count(f"\n    {name}: ") == 1 for name in claims)
    assert all(f"{name}: " in listed for name in EXPERIMENTS)


def test_a_cell_is_compared_in_standard_errors_of_both_tables():
    records = [{"rmse": {"row": {"prox": value}}} for value in (0.1, 0.12, 0.14, 0.16)]
    (gap,) = cells.gaps(records, {"row": (110,)}, ("prox",), n_theirs=4)
    error = np.std([0.1, 0.12, 0.14, 0.16], ddof=1) / 2
    assert gap.ours.value == pytest.approx(0.13)
    assert gap.errors == pytest.approx(0.02 / np.sqrt(2 * error**2 + 0.0005**2 / 3))
    assert not cells.outside([gap])


@pytest.mark.parametrize("together", [False, True])
def test_the_cells_that_halves_of_a_table_differ_in_are_counted(together):
    """Two cells of their own go astray one by one, in 5 % of cuts each; two cells that are one only together."""
    draws = np.random.default_rng(0).normal(size=(200, 2))
    records = [{"rmse": {"row": {"prox": a, "random": a if together else b}}} for a, b in draws]
    far = cells.Gap("row", "prox", Mean(0.0, 1.0), 9.0, errors=9.0)
    both = [far, far._replace(column="random")]
    one = [far, far._replace(column="random", errors=0.0)]
    expected = {(False, 2): 0.0455**2, (False, 1): 1 - 0.9545**2, (True, 2): 0.0455, (True, 1): 0.0455}
    for found, n_far in ((both, 2), (one, 1)):
        share = cells.apart_by_chance(records, found, cuts=4000)
        assert share == pytest.approx(expected[together, n_far], abs=0.015)


def test_a_single_repetition_is_not_compared_in_standard_errors():
    records = [{"rmse": {"row": {"prox": 0.1}}}]
    with pytest.raises(ValueError, match="a standard error takes 2 repetitions or more, got 1"):
        cells.gaps(records, {"row": (110,)}, ("prox",), n_theirs=4)
    assert mean(np.array([0.1])).thousandths == "100"


@pytest.mark.parametrize(("printed", "verdict"), [(100, HOLDS), (200, FAILS)])
def test_a_table_holds_if_nine_of_ten_printed_cells_are_found(printed, verdict):
    records = [{"rmse": {"row": dict.fromkeys(columns.PAPER_COLUMNS, value)}} for value in (0.09, 0.1, 0.11)]
    assert cells.judge_print(records, {"row": (printed,) * 7}, "here", "why").verdict == verdict


@pytest.mark.parametrize(("rmse", "verdict"), [((0.22, 0.1), HOLDS), ((0.3, 0.1), CORRECTED), ((0.14, 0.1), FAILS)])
def test_the_price_of_a_small_mtry_is_that_of_the_print_or_large_or_none(rmse, verdict):
    (price,) = (claim for claim in EXPERIMENTS["splice"].claims if claim.name == "splice-price")
    records = [{"mtry": [4, 30], "rmse": dict.fromkeys(("factors", "dummies"), rmse)}] * 2
    assert price.judge(records).verdict == verdict


def stopped_share(tree, row, leaf_size):
    """Walk down to the first node that is a leaf or holds few draws."""
    node = 0
    while tree.children_left[node] >= 0 and tree.weighted_n_node_samples[node] > leaf_size:
        left = np.float32(row[tree.feature[node]]) <= tree.threshold[node]
        node = (tree.children_left if left else tree.children_right)[node]
    return tree.value[node, 0, 1]


@pytest.mark.parametrize("grower", [columns.own_trees, columns.r_trees, columns.scikit_trees])
def test_whoever_grows_all_columns_of_the_paper_are_probabilities(grower):
    found = columns.paper_columns(SMALL, 20, grower)
    assert sorted(found) == sorted(columns.PAPER_COLUMNS)
    assert all(p.shape == (40,) and (p >= 0).all() and (p <= 1).all() for p in found.values())
    assert np.abs(found["class √p"] - found["reg √p"]).max() > 0


@pytest.mark.parametrize(("leaf_size", "aggregate"), [(1, "vote"), (5, "mean")])
def test_trees_of_scikit_learn_stop_at_a_number_of_draws(leaf_size, aggregate):
    found = columns.scikit_trees(SMALL, 10, {"max_features": "sqrt"})(leaf_size, aggregate, "inbag")
    forest = RandomForestClassifier(10, max_features=2, random_state=SMALL.seed).fit(SMALL.X, SMALL.y)
    shares = [[stopped_share(tree.tree_, row, leaf_size) for row in SMALL.X_test] for tree in forest.estimators_]
    np.testing.assert_allclose(found, np.mean(np.rint(shares) if aggregate == "vote" else shares, axis=0))


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_claim_can_be_judged_from_a_quick_run(name, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELFOREST_DATA", str(FOLDER))  # never the network
    found = EXPERIMENTS[name]
    try:
        run.run_experiment(found, None, True, tmp_path)
    except DatasetUnavailable as error:
        pytest.skip(str(error))
    part = report.section(found, tmp_path)
    assert [claim for claim, _ in part.findings] == list(found.claims)
    for _, finding in part.findings:
        assert finding.verdict in (HOLDS, CORRECTED, FAILS)
        assert finding.ours
        assert "nan" not in finding.ours
    assert all(len(line) == len(header) for _, header, body in part.tables for line in body)
    assert part.picture or part.tables
