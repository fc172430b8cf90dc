"""P-ShareLoRA and its rivals as reward models on a language model: accuracy of every user's.

Problem and assumptions: users compare pairs of texts, and differ in how much of what they want is
their own (``_users``). A reward model with adapters of its own for every user is trained on
-log sigmoid(r(chosen) - r(rejected)), with a score head as ``_personal`` says.

Algorithms: those of :mod:`linsys.preference.sharelora`, on :class:`lora_bridge.oracles.Users`.

Claims (Section 5, Appendix D.3): P-ShareLoRA beats LoRA-global and LoRA-local, on average and for
most users; G and WU beat Share-Rep too; it is the up factor that should be shared. Added to these:
G and WU against SI, the users with the most and with the least of their own, the three score heads.

*Measured* along training: how far users' factors are apart as subspaces, over what unrelated ones
would be, see :func:`lora_bridge.measure.adapter_spread`, mean over modules without the head; 0 for
the same, 1 for unrelated ones. What is shared is 0 and not drawn. Of LoRA-local the up factors are
below 1; but the common model alone brings them together, whatever users want (down factors start
apart). So there are two controls, all users wanting the same and each something else: what the
paper assumes shows in the difference.

What the text leaves open, and the choices here: every method has its own first step size, the best
in test loss on draws for nothing else. The grid was moved down once, for no method had chosen its
largest step size, and two its smallest. ``own`` is that of the synthetic counterpart ``psl/fig2``.
The laptop profile is sized by its time on two cores: it adapts the last two layers of its model.
Accuracies are those of held-out answers, which are as random as the others: black lines say how
many the true rewards get right.

References: P-ShareLoRA, Section 5 and Appendix D.

The picture shows means over seeds with 90 % intervals; checks are paired within seeds, a count of
users goes from those for whom a claim is sure to those for whom it is possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values, threads
from experiments.bridge.readings import notes_on_runs
from experiments.psharelora._labelers import OURS, count
from experiments.psharelora.bridge._personal import train
from experiments.psharelora.bridge._users import HEADS, UserConfig, UserSetup
from linsys.preference.sharelora import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The method that is run with every head, and the reference in the figure.
PLAIN, BEST = "SI", "true rewards"
#: The value of a table's entry that is not known or has no meaning, as tables hold no NaN.
UNKNOWN = -1.0
LOCAL, GLOBAL = "LoRA-local", "LoRA-global"
MEAN, BY_USER, AT_HEADS = "mean over users", "by user", f"{PLAIN} by score head"
FAR = {"up": "distance of up factors", "down": "distance of down factors"}
#: Which properties of generated words users prefer: as configured; and in the controls, with their
#: line styles.
MIXED = "mixed"
CONTROLS = {"same": ((0.0,), ":"), "unrelated": ((1.0,), "--")}
#: The panels by row: accuracies above, and below them the quantities that explain these.
PLACES = [[MEAN, BY_USER, BY_USER], [FAR["up"], FAR["down"], AT_HEADS]]


@dataclass(frozen=True, kw_only=True)
class ShareConfig(UserConfig):
    """The set-up."""

    in_proportion: ClassVar[Mapping[str, Sequence[str]]] = {
        "rounds": ("epochs",),
        "draws": ("seeds",),
    }
    gammas: tuple[float, ...] = (0.0025, 0.006, 0.015, 0.04)
    tuning: int = 3
    seeds: int = rc.param(12, low=3)

    def __post_init__(self) -> None:
        super().__post_init__()


def blocks(config: ShareConfig) -> list[rc.Block]:
    """One method at a time, then the plain one with the other heads, and the controls."""
    others = [head for head in HEADS if head != config.head]
    arms = [*((name, config.head, MIXED) for name in METHODS)]
    arms += [(PLAIN, head, MIXED) for head in others]
    if config.data is None:
        arms += [(LOCAL, config.head, wishes) for wishes in CONTROLS]
    return [{"method": name, "head": head, "wishes": wishes} for name, head, wishes in arms]


def compute(config: ShareConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Choose a method's step size, then train it on all seeds."""
    if block["wishes"] != MIXED:
        config = replace(config, own=CONTROLS[block["wishes"]][0])
    with threads(context):
        return _compute(config, context, block["method"], block["head"])


def _compute(config: ShareConfig, context: rc.Context, name: str, head: str) -> rc.Columns:
    setup = UserSetup(config)

    def score(gamma: float, k: int) -> float:
        return train(setup, context, name, head, gamma, "tuning", k).loss

    gamma = config.best(score)
    runs = [train(setup, context, name, head, gamma, "test", k) for k in range(config.seeds)]
    first = runs[0]
    up, down = np.stack([run.far for run in runs], axis=1)[..., None]
    axes: dict[str, Any] = {
        "draw": np.arange(config.seeds),
        "epoch": first.epochs,
        "user": np.arange(config.users),
    }
    return rc.long_table(
        axes,
        name=np.array(first.draw.names),
        accuracy=np.array([[run.accuracy] for run in runs]),
        loss=np.array([[[run.loss]] for run in runs]),
        up=np.nan_to_num(up, nan=UNKNOWN),
        down=np.nan_to_num(down, nan=UNKNOWN),
        best=np.nan_to_num([[run.draw.best] for run in runs], nan=UNKNOWN),
        missing=np.array([[[run.missing]] for run in runs]),
        gamma=gamma,
        what=first.draw.what,
    )


def analyse(config: ShareConfig, table: rc.Table) -> rc.Analysis:
    """Accuracies by method, user and head, distances, and the claims."""
    accuracies = {name: _accuracy(table, name, config.head) for name in METHODS}
    users, epochs = np.arange(config.users), table.unique("epoch")
    series = []
    for place, (name, values) in enumerate(accuracies.items()):
        series.append(rc.Series(name, MEAN, [place], *rc.mean_band(values.mean(axis=1)[:, None])))
        series.append(rc.Series(name, BY_USER, users, *rc.mean_band(values)))
    best = _grid(table, "best", PLAIN, config.head)[:, -1]
    if (best != UNKNOWN).all():
        series.append(rc.Series(BEST, BY_USER, users, best.mean(axis=0)))
    for side, panel in FAR.items():
        for name in METHODS:
            far = _grid(table, side, name, config.head)[..., 0]
            if far.max() > 1e-3:
                series.append(_path(name, panel, epochs, far))
    if config.data is None:
        for wishes in CONTROLS:
            far = _grid(table, "up", LOCAL, config.head, wishes)[..., 0]
            series.append(_path(f"{LOCAL}, {wishes} wishes", FAR["up"], epochs, far))
    heads = np.stack([_accuracy(table, PLAIN, head).mean(axis=1) for head in HEADS], axis=1)
    series.append(rc.Series(PLAIN, AT_HEADS, np.arange(len(HEADS)), *rc.mean_band(heads)))
    return rc.Analysis(
        series, _claims(config, table, accuracies), _notes(config, table, accuracies)
    )


def _path(name: str, panel: str, epochs: Values, far: Values) -> rc.Series:
    """Distances (seeds, times) where they have a meaning."""
    known = (far != UNKNOWN).all(axis=0)
    return rc.Series(name, panel, epochs[known], *rc.mean_band(far[:, known]))


def _claims(
    config: ShareConfig, table: rc.Table, accuracies: Mapping[str, Values]
) -> list[rc.Check]:
    mean = {name: values.mean(axis=1) for name, values in accuracies.items()}
    pairs = [
        *((ours, theirs) for ours in OURS for theirs in (GLOBAL, LOCAL)),
        *(("G", "Share-Rep"), ("WU", "Share-Rep"), (PLAIN, "down"), ("G", PLAIN), ("WU", PLAIN)),
    ]
    checks = [
        rc.mean_above(f"accuracy over users, {one} − {other}", "above 0", mean[one], mean[other])
        for one, other in pairs
    ]
    most = f"most of {config.users} users"
    rivals = [*((ours, theirs) for ours in OURS for theirs in (GLOBAL, LOCAL)), (PLAIN, "down")]
    checks += [
        count(
            f"users for whom {ours} is above {theirs}", most, accuracies[ours] - accuracies[theirs]
        )
        for ours, theirs in rivals
    ]
    gain, owns = accuracies[PLAIN] - accuracies[GLOBAL], config.owns()
    if config.data is None and min(owns) < max(owns):
        least, largest = int(np.argmin(owns)), int(np.argmax(owns))
        name = f"{PLAIN} − {GLOBAL}, user with the most of its own − with the least"
        checks.append(rc.mean_above(name, "above 0", gain[:, largest], gain[:, least]))
    far = _grid(table, "up", LOCAL, config.head)[:, -1, 0]
    if (far != UNKNOWN).all():
        name = f"distance of {LOCAL}'s up factors, over unrelated ones"
        checks.append(rc.below(name, "below 1", rc.mean_interval(far)))
    if config.data is None:
        same, unrelated = (
            _grid(table, "up", LOCAL, config.head, wishes)[:, -1, 0] for wishes in CONTROLS
        )
        for wishes, values in (("the same", same), ("as configured", far)):
            name = f"distance of {LOCAL}'s up factors, unrelated wishes − {wishes}"
            checks.append(rc.mean_above(name, "above 0", unrelated, values))
    frozen, *trained = (_accuracy(table, PLAIN, head).mean(axis=1) for head in HEADS)
    return checks + [
        rc.mean_above(f"accuracy of {PLAIN}, {head} head − frozen head", "above 0", values, frozen)
        for head, values in zip(HEADS[1:], trained, strict=True)
    ]


def _notes(config: ShareConfig, table: rc.Table, accuracies: Mapping[str, Values]) -> list[str]:
    mixed = table.where(wishes=MIXED)
    names = mixed.where(method=PLAIN, head=config.head, draw=0, epoch=0.0)["name"]
    who = ", ".join(f"{i} {name}" for i, name in enumerate(names))
    best = mixed["best"]
    arms = {
        f"{method}, {head} head": mixed.where(method=method, head=head)
        for method, head in dict.fromkeys(zip(mixed["method"], mixed["head"], strict=True))
    }
    known = [f"the true rewards get {best.mean():.3f} of the held-out answers right"]
    by_user = (
        f"{n} {', '.join(f'{v:.3f}' for v in a.mean(axis=0))}" for n, a in accuracies.items()
    )
    return [
        f"score head: {config.head}; {config.tests} held-out pairs of each user",
        *([f"users: {who}"] if config.data is not None else []),
        f"accuracies, mean: {', '.join(f'{n} {v.mean():.3f}' for n, v in accuracies.items())}",
        f"accuracies by user: {'; '.join(by_user)}",
        *(known if (best != UNKNOWN).all() else []),
        *notes_on_runs(config, mixed, arms),
    ]


def _accuracy(table: rc.Table, name: str, head: str) -> Values:
    """The accuracies at the end of training, (seeds, users)."""
    return _grid(table, "accuracy", name, head)[:, -1]


def _grid(table: rc.Table, value: str, name: str, head: str, wishes: str = MIXED) -> Values:
    """A value (seeds, times, users)."""
    part = table.where(method=name, head=head, wishes=wishes)
    return np.asarray(part.grid(value, "draw", "epoch", "user"))


def draw(config: ShareConfig, analysis: rc.Analysis) -> Figure:
    """Accuracies as points with intervals, distances as curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.4, 5.4), layout="constrained")
    axes: dict[str, Axes] = figure.subplot_mosaic(PLACES)  # type: ignore[arg-type]
    for one in analysis.series:
        _draw_series(axes[one.panel], one)
    for panel, ax in axes.items():
        ax.set_title(panel)
    for panel in (MEAN, AT_HEADS):
        axes[panel].set_ylabel("accuracy")
    axes[MEAN].set_xticks(range(len(METHODS)), list(METHODS), rotation=35, ha="right")
    axes[AT_HEADS].set_xticks(range(len(HEADS)), list(HEADS))
    axes[AT_HEADS].set_xlim(-0.5, len(HEADS) - 0.5)
    own = config.owns() if config.data is None else None
    ticks = [f"{i}" if own is None else f"{i}\n{own[i]:g}" for i in range(config.users)]
    axes[BY_USER].set_xticks(range(config.users), ticks)
    axes[BY_USER].set_xlabel("user" if own is None else "user, and the share of its own")
    for panel in FAR.values():
        axes[panel].set_xlabel("epoch")
        axes[panel].set_ylim(-0.05, 1.1)
        axes[panel].set_xlim(-0.03 * config.epochs, 1.03 * config.epochs)
    rc.legend(figure, axes, columns=5)
    return figure


def _draw_series(ax: Axes, one: rc.Series) -> None:
    if one.name == BEST:
        x, y = np.asarray(one.x), np.asarray(one.y)
        ax.errorbar(x, y, xerr=0.35, fmt="none", ecolor="black", elinewidth=1.2, label=one.name)
        return
    name, _, wishes = one.name.partition(", ")
    position = list(METHODS).index(name)
    shape = rc.look(name, position)
    x, y, lo, hi = (np.asarray(v) for v in (one.x, one.y, one.lo, one.hi))
    options: dict[str, Any] = {"color": shape.colour, "label": one.name}
    if one.panel in FAR.values():
        ax.fill_between(x, lo, hi, color=shape.colour, alpha=0.18, linewidth=0)
        if wishes:
            ax.plot(x, y, linestyle=CONTROLS[wishes.split()[0]][1], linewidth=1.0, **options)
        else:  # some curves are nearly the same
            ax.plot(x, y, marker=shape.marker, markevery=(position % 2, 2), **options)
        return
    shift = 0.1 * (position - 3) * (one.panel == BY_USER)
    ends = np.stack([y - lo, hi - y])
    options["marker"] = shape.marker
    ax.errorbar(x + shift, y, yerr=ends, linestyle="none", elinewidth=0.9, **options)


EXPERIMENT = rc.Experiment(
    id="bridge/sharelora",
    title="Reward models of users who share a factor, on a language model",
    source="Figures 1 to 3, Section 5, Appendix D",
    kind="figure",
    profiles={
        "quick": ShareConfig(),
        "laptop": ShareConfig(
            layers=2,
            users=4,
            batch=8,
            pairs=48,
            tests=60,
            epochs=2.0,
            points=3,
            gammas=(1e-3, 3e-3),
            tuning=1,
            seeds=3,
        ),
        "paper": ShareConfig(
            targets=("q_proj", "k_proj"),
            rank=32,
            scaling=0.5,
            batch=128,
            pairs=5373,
            tests=1238,
            epochs=3.0,
            gammas=(2e-5, 5e-5, 1.25e-4),
            tuning=1,
            seeds=5,
            max_length=2048,
            chunk=1,
            dtype="bfloat16",
            device="cuda",
        ),
    },
    blocks=blocks,
    compute=compute,
    analyse=analyse,
    draw=draw,
    parallel="blocks",
)
