"""Images of characters, by default scikit-learn's bundled digits, or FEMNIST in the LEAF format.

LEAF (Caldas et al., 2018) stores a federated data set as JSON files with the keys ``users``
(names), ``num_samples`` (one count per user) and ``user_data``, which maps a name to ``x`` (for
FEMNIST a list of flat 28 x 28 images) and ``y`` (labels: 0-9 digits, 10-35 upper-case letters,
36-61 lower-case letters).
"""

from __future__ import annotations

import json
import string
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from linsys import InputError

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

#: Pixels of a FEMNIST image, 28 x 28.
PIXELS = 784
#: The characters that FEMNIST labels stand for, in the order of the labels.
CHARACTERS = string.digits + string.ascii_uppercase + string.ascii_lowercase


@dataclass(frozen=True, eq=False)
class Characters:
    """Images (N, pixels) of characters and their labels (N,)."""

    images: Array
    labels: Labels


def handwritten_digits() -> Characters:
    """The 1,797 digits that come with scikit-learn: 8 x 8 pixels in [0, 1], labels 0-9."""
    rc.check_installed("images", "sklearn")
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return Characters(bunch.data / 16.0, bunch.target.astype(np.int64))


def read_leaf(
    path: Path | str, *, users: int = 1, min_samples: int = 1, at_most: int | None = None
) -> dict[str, Characters]:
    """Read FEMNIST users from one LEAF file, or from all ``*.json`` files of a folder by name.

    Args:
        path: file or folder.
        users: how many users with enough samples there must be.
        min_samples: how many samples a user must have; the others are left out.
        at_most: stop after this many users, before further files are opened; None for all.

    Returns:
        Users by name, in the order of the files.

    Raises:
        InputError: a missing or unreadable file, text that is not JSON, a missing key, counts that
            disagree, an image of another length or with values that are no numbers, a label outside
            0-61, a user in two files, too few users.
    """
    by_user: dict[str, Characters] = {}
    users_read = 0
    for file in _files(Path(path)):
        for name, user in _users(file):
            users_read += 1
            if name in by_user:
                raise InputError(
                    f"user {name!r} must be in one LEAF file; found it again in {file}"
                )
            if len(user.labels) >= min_samples:
                by_user[name] = user
            if at_most is not None and len(by_user) >= at_most:
                return by_user
    if len(by_user) < users:
        raise InputError(
            f"LEAF data in {path} must have at least {users} users with {min_samples} samples "
            f"or more; found {len(by_user)} among {users_read} users"
        )
    return by_user


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise InputError(f"LEAF folder must hold *.json files; found none in {path}")
        return files
    if not path.is_file():
        raise InputError(f"LEAF file must exist; found no file {path}")
    return [path]


def _users(file: Path) -> Iterator[tuple[str, Characters]]:
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise InputError(f"LEAF file must be readable; found {file}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"LEAF file must be JSON; found {file}: {error}") from None
    names, counts, data = (
        _key(content, key, file) for key in ("users", "num_samples", "user_data")
    )
    if not isinstance(names, list) or not isinstance(counts, list) or len(names) != len(counts):
        raise InputError(f"`users` and `num_samples` in {file} must be lists of equal length")
    for name, count in zip(names, counts, strict=True):
        if not isinstance(name, str):
            raise InputError(f"`users` in {file} must be names; found {name!r:.40}")
        where = f"user {name!r} in {file}"
        own = _key(data, name, file)
        images, labels = (_key(own, key, where) for key in ("x", "y"))
        if not (isinstance(images, list) and isinstance(labels, list)):
            raise InputError(f"`x` and `y` of {where} must be lists")
        if not len(images) == len(labels) == count:
            raise InputError(
                f"{where} must have num_samples = {count} images and labels; "
                f"found {len(images)} and {len(labels)}"
            )
        if count:
            yield name, Characters(_images(images, where), _labels(labels, where))


def _key(content: Any, key: Any, where: Path | str) -> Any:
    if not isinstance(content, dict) or key not in content:
        present = (
            ", ".join(list(content)[:5]) if isinstance(content, dict) else type(content).__name__
        )
        raise InputError(f"{where} must have the key {key!r}; found {present or 'none'}")
    return content[key]


def _images(rows: list[Any], where: str) -> Array:
    for k, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != PIXELS:
            actual = f"{len(row)} values" if isinstance(row, list) else type(row).__name__
            raise InputError(f"image {k} of {where} must be {PIXELS} numbers; found {actual}")
    try:
        array = np.asarray(rows)
    except ValueError:  # a pixel that is a list
        array = np.asarray(None)
    if array.dtype.kind not in "iuf" or not np.isfinite(array).all():
        raise InputError(f"images of {where} must hold finite numbers; found {array.dtype} values")
    return array.astype(np.float64)


def _labels(values: list[Any], where: str) -> Labels:
    for k, value in enumerate(values):
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or not 0 <= value < len(CHARACTERS):
            raise InputError(
                f"label {k} of {where} must be a whole number in [0, {len(CHARACTERS) - 1}]; found "
                f"{value!r}"
            )
    return np.array(values, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Extractor:
    """Features phi(z) = scale * (tanh(W'z + w), 1): a network's hidden layer and a constant.

    The constant is the intercept of a regression on the features.

    Args:
        weights: W, shape (pixels, d - 1).
        offsets: w, shape (d - 1,).
        scale: one number for all features.
    """

    weights: Array
    offsets: Array
    scale: float

    def __call__(self, images: Array) -> Array:
        """Features of images (N, pixels), shape (N, d)."""
        hidden = np.tanh(images @ self.weights + self.offsets)
        return self.scale * np.column_stack([hidden, np.ones(len(hidden))])


def pretrain(
    characters: Characters, *, features: int, norm: float, seed: int, epochs: int = 60
) -> Extractor:
    """Train a network with one hidden layer to tell the characters apart, and keep its hidden
    layer.

    Tangents rather than rectified units, since a rectified unit that no image activates is a
    feature that is always zero and makes E[phi phi'] singular. One thread, so that the features do
    not depend on how many there are.

    Args:
        characters: what to train on.
        features: d >= 2, one more than the size of the hidden layer.
        norm: root mean square length that a feature vector shall have on these images.
        seed: of the initial weights and the order of the images.
        epochs: passes over the images.
    """
    rc.check_installed("images", "sklearn")
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    images = characters.images
    # Images are centred by their mean image and scaled by one number: raw pixels would drive all
    # units of a wide input to +-1.
    mean = images.mean(axis=0)
    spread = np.sqrt(((images - mean) ** 2).mean()) or 1.0
    network = MLPClassifier(
        (features - 1,),
        activation="tanh",
        alpha=1e-3,
        learning_rate_init=1e-3,
        batch_size=min(64, len(characters.labels)),
        max_iter=epochs,
        random_state=seed % 2**32,
    )
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of passes is the plan
        network.fit((images - mean) / spread, characters.labels)
        weights = network.coefs_[0] / spread
        raw = Extractor(weights, network.intercepts_[0] - mean @ weights, 1.0)
        length = np.sqrt((raw(images) ** 2).sum(axis=1).mean())
    return Extractor(raw.weights, raw.offsets, float(norm / length))
