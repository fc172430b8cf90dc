"""Readers of character images: a LEAF file made on the spot, the bundled digits, the extractor."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.affpcl.figures._images import (
    CHARACTERS,
    PIXELS,
    Characters,
    Extractor,
    handwritten_digits,
    pretrain,
    read_leaf,
)
from linsys import InputError

Content = dict[str, Any]


def leaf(counts: dict[str, int], seed: int = 0) -> Content:
    """FEMNIST in the LEAF format with random images."""
    rng = np.random.default_rng(seed)
    data = {
        name: {
            "x": rng.random((count, PIXELS)).round(2).tolist(),
            "y": rng.integers(0, 62, count).tolist(),
        }
        for name, count in counts.items()
    }
    return {"users": list(counts), "num_samples": list(counts.values()), "user_data": data}


def written(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_reads_images_and_labels_by_user(tmp_path: Path) -> None:
    content = leaf({"f01": 3, "f02": 5})
    users = read_leaf(written(tmp_path / "a.json", content), users=2)
    assert list(users) == ["f01", "f02"]
    for name, user in users.items():
        assert user.images.dtype == np.float64
        assert user.labels.dtype == np.int64
        np.testing.assert_array_equal(user.images, content["user_data"][name]["x"])
        np.testing.assert_array_equal(user.labels, content["user_data"][name]["y"])


def test_labels_are_digits_then_upper_then_lower_case() -> None:
    assert (len(CHARACTERS), CHARACTERS[9], CHARACTERS[10], CHARACTERS[36]) == (62, "9", "A", "a")


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    written(tmp_path / "b.json", leaf({"u3": 2, "u4": 4}, seed=1))
    written(tmp_path / "a.json", leaf({"u1": 4, "u2": 1}))
    written(tmp_path / "notes.txt", "not data")
    assert list(read_leaf(tmp_path)) == ["u1", "u2", "u3", "u4"]
    assert list(read_leaf(tmp_path, min_samples=2)) == ["u1", "u3", "u4"]
    # a file that is not needed any more is not opened
    written(tmp_path / "b.json", "broken")
    assert list(read_leaf(tmp_path, at_most=2)) == ["u1", "u2"]


def broken(change: Callable[[Content], Any]) -> Content:
    content = leaf({"f01": 3, "f02": 5})
    change(content)
    return content


def of(content: Content, key: str) -> list[Any]:
    return content["user_data"]["f01"][key]


BAD: dict[str, tuple[Any, str]] = {
    "not json": ("{", "LEAF file must be JSON; found .*json: Expecting"),
    "not text": ("\udcff", "LEAF file must be JSON"),
    "a list": ([1], "must have the key 'users'; found list"),
    "no users": (broken(lambda c: c.pop("users")), "key 'users'; found num_samples, user_data"),
    "no counts": (broken(lambda c: c.pop("num_samples")), "must have the key 'num_samples'"),
    "no data": (broken(lambda c: c.pop("user_data")), "must have the key 'user_data'"),
    "no user": (broken(lambda c: c["user_data"].pop("f02")), "must have the key 'f02'; found f01"),
    "no images": (broken(lambda c: c["user_data"]["f01"].pop("x")), "user 'f01' in .*key 'x'"),
    "no labels": (broken(lambda c: c["user_data"]["f01"].pop("y")), "user 'f01' in .*key 'y'"),
    "lengths": (broken(lambda c: c["num_samples"].pop()), "must be lists of equal length"),
    "no list": (broken(lambda c: c["user_data"]["f01"].update(x="")), "`x` and `y` of user 'f01'"),
    "count": (broken(lambda c: of(c, "y").pop()), "num_samples = 3 .*; found 3 and 2"),
    "short image": (
        broken(lambda c: of(c, "x")[1].pop()),
        "image 1 of user 'f01' .* must be 784 numbers; found 783 values",
    ),
    "no image": (broken(lambda c: of(c, "x").__setitem__(0, 7)), "image 0 .*; found int"),
    "text": (broken(lambda c: of(c, "x")[0].__setitem__(0, "a")), "must hold finite numbers"),
    "nested pixel": (
        broken(lambda c: of(c, "x")[1].__setitem__(3, [1])),
        "images of user 'f01' .* must hold finite numbers",
    ),
    "nested name": (
        broken(lambda c: c["users"].__setitem__(0, ["f01"])),
        r"`users` in .* must be names; found \['f01'\]",
    ),
    "too deep": ("[" * 100_000, "LEAF file must be JSON; found .*json: maximum recursion"),
    "nan": (broken(lambda c: of(c, "x")[0].__setitem__(0, float("nan"))), "must hold finite"),
    "label": (
        broken(lambda c: of(c, "y").__setitem__(2, 62)),
        r"label 2 of user 'f01' .* in \[0, 61\]; found 62",
    ),
    "negative": (broken(lambda c: of(c, "y").__setitem__(0, -1)), "found -1"),
    "boolean": (broken(lambda c: of(c, "y").__setitem__(0, True)), "found True"),
    "fraction": (broken(lambda c: of(c, "y").__setitem__(0, 1.0)), "found 1.0"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_file_is_one_clear_line(case: str, tmp_path: Path) -> None:
    content, text = BAD[case]
    path = tmp_path / "all.json"
    if content == "\udcff":
        path.write_bytes(b"\xff\xfe\xfd")
    else:
        written(path, content)
    with pytest.raises(InputError, match=text) as caught:
        read_leaf(path)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="LEAF file must exist; found no file"):
        read_leaf(tmp_path / "none.json")
    with pytest.raises(InputError, match=r"must hold \*.json files; found none"):
        read_leaf(tmp_path)


def test_too_few_users_or_samples(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", leaf({"f01": 3, "f02": 5}))
    with pytest.raises(
        InputError, match="at least 3 users with 1 samples or more; found 2 among 2"
    ):
        read_leaf(path, users=3)
    with pytest.raises(
        InputError, match="at least 1 users with 6 samples or more; found 0 among 2"
    ):
        read_leaf(path, min_samples=6)


def test_a_user_in_two_files(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        written(tmp_path / name, leaf({"f01": 2}))
    with pytest.raises(InputError, match="user 'f01' must be in one LEAF file"):
        read_leaf(tmp_path)


def test_the_bundled_digits() -> None:
    digits = handwritten_digits()
    assert digits.images.shape == (1797, 64)
    assert (digits.images.min(), digits.images.max()) == (0.0, 1.0)
    assert np.unique(digits.labels).tolist() == list(range(10))


def few() -> Characters:
    digits = handwritten_digits()
    return Characters(digits.images[:150], digits.labels[:150])


def test_features_have_the_stated_length_and_no_dead_coordinate() -> None:
    some = few()
    extract = pretrain(some, features=12, norm=10.0, seed=1, epochs=20)
    features = extract(some.images)
    assert features.shape == (150, 12)
    assert np.ptp(features[:, -1]) == 0.0  # the intercept
    np.testing.assert_allclose(np.sqrt((features**2).sum(1).mean()), 10.0, rtol=1e-12)
    assert np.linalg.eigvalsh(features.T @ features / 150)[0] > 1e-3


def test_wide_bright_images_do_not_saturate_the_units() -> None:
    """FEMNIST's images: 784 pixels, mostly 1."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, 400)
    shapes = np.where(rng.random((10, PIXELS)) < 0.2, 0.0, 1.0)
    images = np.clip(shapes[labels] + 0.1 * rng.standard_normal((400, PIXELS)), 0, 1)
    some = Characters(images, labels)
    features = pretrain(some, features=40, norm=np.sqrt(40), seed=0, epochs=20)(images)
    eigenvalues = np.linalg.eigvalsh(features.T @ features / 400)
    # saturated units are +-1 and equal to each other: the smallest eigenvalue is rounding, 1e-16
    assert eigenvalues[0] > 1e-9 * eigenvalues.sum()


def test_features_are_learnt() -> None:
    """A linear classifier sees more in them than in those of an untrained layer."""
    digits = handwritten_digits()
    trained = pretrain(few(), features=12, norm=1.0, seed=1)
    rng = np.random.default_rng(0)
    untrained = Extractor(rng.normal(size=(64, 11)), rng.normal(size=11), 1.0)
    onehot = np.eye(10)[digits.labels]

    def errors(extract: Extractor) -> float:
        features = extract(digits.images[150:])
        weights = np.linalg.lstsq(features, onehot[150:], rcond=None)[0]
        return float(((features @ weights).argmax(1) != digits.labels[150:]).mean())

    assert errors(trained) < 0.5 * errors(untrained)


PRINT = """
import hashlib, numpy as np
from experiments.affpcl.figures._images import Characters, pretrain
rng = np.random.default_rng(0)
some = Characters(rng.random((600, 784)), rng.integers(0, 62, 600))
e = pretrain(some, features=84, norm=10.0, seed=1, epochs=2)
print(hashlib.sha256(e.weights.tobytes() + e.offsets.tobytes()).hexdigest(), e.scale)
"""


@pytest.mark.slow
def test_features_do_not_depend_on_the_number_of_threads() -> None:
    digests = set()
    for threads in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", PRINT],
            env={"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(result.stdout)
    assert len(digests) == 1
