import gzip
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from kernelforest import datasets
from kernelforest.datasets import NAMES, DatasetUnavailable, load_dataset

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
has_data = pytest.mark.skipif(not FOLDER.is_dir(), reason="the folder ../shared/data with the data sets is not here")
ROWS = {"spam": 4601, "splice": 3190, "splice_ei_n": 2422, "tic": 958, "parkinsons": 195, "australian": 690}
ROWS |= {"crx": 690, "ionosphere": 351, "voting": 435}


@has_data
@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_has_the_size_that_the_paper_or_the_source_states(name, monkeypatch):
    monkeypatch.setenv("KERNELFOREST_DATA", str(FOLDER))
    data = load_dataset(name)
    assert data.X.shape == (ROWS[name], len(data.feature_names))
    assert data.X.dtype == np.float64
    assert data.positive in data.y
    assert "doi:" in data.citation


@has_data
def test_levels_give_the_text_of_a_category_back(monkeypatch):
    monkeypatch.setenv("KERNELFOREST_DATA", str(FOLDER))
    tic = load_dataset("tic")
    assert tic.categorical == tuple(range(9))
    assert [tic.levels[j][int(tic.X[0, j])] for j in range(9)] == list("xxxxooxoo")


@has_data
def test_missing_cells_are_nan_in_numbers_and_in_categories(monkeypatch):
    monkeypatch.setenv("KERNELFOREST_DATA", str(FOLDER))
    assert np.isnan(load_dataset("crx").X).sum() == 67
    assert np.isnan(load_dataset("voting").X).sum() == 392


def test_an_unknown_name_is_refused_with_the_names_that_exist():
    with pytest.raises(ValueError, match=r"name must be one of spam, splice, .* got 'spma'"):
        load_dataset("spma")


def test_a_missing_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELFOREST_DATA", str(tmp_path))
    with pytest.raises(DatasetUnavailable, match=r"a folder with the file tic\.csv"):
        load_dataset("tic")


def test_another_file_of_the_same_name_is_refused(tmp_path, monkeypatch):
    (tmp_path / "tic.csv").write_text("a,y\nx,positive\n")
    monkeypatch.setenv("KERNELFOREST_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"tic\.csv must have the sha256 checksum 1589c8") as refused:
        load_dataset("tic")
    assert isinstance(refused.value, DatasetUnavailable)  # whoever can do without a data set can do without this one


def test_without_network_the_message_says_what_to_set(monkeypatch):
    def fetch_openml(**_):
        raise OSError("no network")

    monkeypatch.delenv("KERNELFOREST_DATA", raising=False)
    monkeypatch.setattr(datasets, "fetch_openml", fetch_openml)
    with pytest.raises(DatasetUnavailable, match=r"no network\. Without a network, set .* KERNELFOREST_DATA .* spam\.csv"):
        load_dataset("spam")


def test_what_openml_sends_is_checked_by_its_counts(monkeypatch):
    bunch = SimpleNamespace(
        data=np.array([[0.0, 1.5], [np.nan, np.nan]], dtype=object),
        target=np.array(["1", "2"], dtype=object),
        feature_names=["colour", "size"],
        categories={"colour": ["red"]},
    )
    monkeypatch.delenv("KERNELFOREST_DATA", raising=False)
    monkeypatch.setattr(datasets, "fetch_openml", lambda **_: bunch)
    with pytest.raises(ValueError, match=r"parkinsons must have 22 features .* got 2 features and \{'0': 1, '1': 1\}"):
        load_dataset("parkinsons")


def test_what_scikit_learn_keeps_of_openml_is_read_without_a_network(tmp_path, monkeypatch):
    cells = np.random.default_rng(0).choice(["x", "o", "b"], (958, 9))
    labels = np.repeat(["positive", "negative"], (626, 332))
    names = [f"square{j}" for j in range(9)]
    header = ["@relation tic", *(f"@attribute {name} {{b,o,x}}" for name in names), "@attribute Class {negative,positive}"]
    rows = [",".join([*row, label]) for row, label in zip(cells, labels, strict=True)]
    arff = "\n".join([*header, "@data", *rows]).encode()
    columns = [*((name, "false") for name in names), ("Class", "true")]
    unused = {"data_type": "nominal", "is_ignore": "false", "is_row_identifier": "false", "number_of_missing_values": "0"}
    features = [{"index": str(j), "name": name, "is_target": it} | unused for j, (name, it) in enumerate(columns)]
    about = {"id": "50", "name": "tic", "version": "1", "format": "ARFF", "status": "active", "description": ""}
    about |= {"url": "https://www.openml.org/data/v1/download/50/tic.arff", "md5_checksum": hashlib.md5(arff).hexdigest()}
    kept = {
        "api/v1/json/data/50": json.dumps({"data_set_description": about}).encode(),
        "api/v1/json/data/features/50": json.dumps({"data_features": {"feature": features}}).encode(),
        "api/v1/json/data/qualities/50": json.dumps(
            {"data_qualities": {"quality": [{"name": "NumberOfInstances", "value": "958"}]}}
        ).encode(),
        "data/v1/download/50/tic.arff": arff,
    }
    for name, content in kept.items():
        path = tmp_path / "openml" / "openml.org" / f"{name}.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content))
    monkeypatch.delenv("KERNELFOREST_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    tic = load_dataset("tic")
    assert [[tic.levels[j][int(place)] for j, place in enumerate(row)] for row in tic.X] == cells.tolist()
    assert tic.y.tolist() == labels.tolist()
