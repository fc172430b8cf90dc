"""What a claim is: a statement of a paper, the instances it is about, and its two sides."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, partial, wraps
from numbers import Real
from types import ModuleType
from typing import Any, Literal, Self, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import InputError, check_integer, shown
from ratecheck._claims.fields import Field
from ratecheck._claims.made import made_by, noted
from ratecheck._claims.space import Fields, Instance, Predicate, Space

#: What a measure returns: (measured, bound), numbers or arrays.
Sides = tuple[Any, Any]
Kind = Literal[
    "upper", "lower", "identity", "distributional", "count", "qualitative", "rate", "statistical"
]
Relation = Literal["<=", ">=", "=="]
_RELATION: dict[str, Relation] = {
    "upper": "<=",
    "lower": ">=",
    "identity": "==",
    "count": "==",
    "distributional": ">=",
    "qualitative": "<=",
}
#: How a statement may relate to another one, whose id it names.
RELATIONS = ("corrected", "sharpens", "reading_of")
#: What of a statement the paper prints: the statement itself, an assumption, a line of a proof,
#: something that is evidently not what is meant, or nothing: then it is ours.
PrintedAs = Literal["statement", "assumption", "proof step", "misprint", "ours"]
#: Arguments of a statement that its decorator gives it.
GIVEN = {"id", "kind", "latex", "measure", "paper_name", "regimes", "source", "space", "text"}
VERDICTS = (
    "holds",
    "violated",
    "vacuous",
    "unreachable",
    "consistent",
    "not decided",
    "faster than stated",
    "not checked",
    "error",
)


class Known(TypedDict, total=False):
    """What may be known of a statement; see :class:`ratecheck.Claim`."""

    expect: str
    note: str
    corrected: str
    sharpens: str
    reading_of: str
    reading: str
    printed_as: PrintedAs
    uses: Sequence[str]
    derivation: str
    main: bool


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What every entry of a catalogue has: where it is from and what it says.

    Args:
        id: "paper.name".
        source: paper and number, such as "AffPCL, Lemma D.3".
        text: the statement in plain text.
        latex: the same as LaTeX.
        expect: the verdict known for it. A claim whose verdict is another one makes the audit fail.
        note: where a claim is false or loose: the step of the proof that breaks, in a few lines.
        corrected: id of the claim that replaces a false one.
        sharpens: id of the claim of the paper that this one implies with a smaller bound.
        reading_of: id of the claim that is the paper's statement, of which this is another reading,
            a weaker or stronger form, or a case.
        reading: of another reading, which one it is and why a reader may take it.
        printed_as: what the paper prints of it: the "statement"; an "assumption", which is false
            where nothing that the paper is about meets it; a "proof step", which no statement
            repeats; a "misprint", evidently not what is meant; or nothing, so that it is "ours",
            as a correction and a sharper form are without saying so.
        uses: ids of the claims that its proof rests on. A bound is also tried on their ``family``.
        derivation: of a corrected claim, why it is true.
        main: whether it is a main result of its paper, or a step that main results rest on; where
            such a statement is false, a reader is told so first.
        paper_name: what ``source`` calls the paper, of a statement that a
            :class:`ratecheck.Paper` made.
    """

    id: str
    source: str
    text: str
    latex: str = ""
    expect: str = "holds"
    note: str = ""
    corrected: str | None = None
    sharpens: str | None = None
    reading_of: str | None = None
    reading: str = ""
    printed_as: PrintedAs = "statement"
    uses: Sequence[str] = ()
    derivation: str = ""
    main: bool = False
    paper_name: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+\.[A-Za-z0-9_]+", self.id):
            raise InputError(f"`id` must look like paper.name; found {self.id!r}")
        if self.expect not in VERDICTS:
            raise InputError(
                f"`expect` of {self.id} must be one of {', '.join(VERDICTS)}; found {self.expect!r}"
            )
        if self.printed_as not in get_args(PrintedAs):
            raise InputError(
                f"`printed_as` of {self.id} must be one of {', '.join(get_args(PrintedAs))}; "
                f"found {self.printed_as!r}"
            )
        if isinstance(self.uses, str):
            raise InputError(f"`uses` of {self.id} must be a list of ids; found {self.uses!r}")

    @property
    def paper(self) -> str:
        """The paper's short name, the first half of the id."""
        return self.id.partition(".")[0]

    def changed(
        self,
        name: str,
        values: Mapping[str, Any],
        /,
        *,
        text: str,
        ref: str = "",
        tex: str = "",
        **options: Unpack[Known],
    ) -> Self:
        """This statement with other constants: a claim of its own about the same instances.

        The constants are parameters of the function that have a default. Unless ``options`` say
        otherwise, the new claim is a wrong one of ours, such as shows that a constant is needed:
        ``expect`` is "violated", ``printed_as`` "ours", and ``corrected`` this claim. Nothing else
        that is known of this one is taken over.

        Args:
            name: second half of the new claim's id.
            values: of parameters, by name.
            text: the new statement.
            ref: where it is in the paper; this claim's place and the values if not given. Of a
                claim that no :class:`ratecheck.Paper` made it is the whole source.
            tex: the new statement as LaTeX.
            options: ``expect``, ``note``, ``corrected``, ``sharpens``, ``reading_of``, ``reading``,
                ``printed_as``, ``uses``, ``derivation`` and ``main``, as of
                :class:`ratecheck.Claim`. Other claims of the paper are named without the paper's
                id. ``relation`` and ``trivial`` stay those of this claim, and counterexamples to
                another constant are none to this one: these two and ``family`` are refused.

        Raises:
            InputError: a name that is no parameter with a default; no text; an option that is not
                among these; what a claim refuses.

        >>> import ratecheck as rc
        >>> @rc.Paper("mine", "My paper").upper("mass", ref="Lemma 1", on={"p": rc.simplex("k")})
        ... def mass(p, most=1):
        ...     'No probability exceeds one.'
        ...     return p, most
        >>> half = mass.changed("mass_half", {"most": 0.5}, text="None exceeds one half.")
        >>> half.id, half.source, half.corrected
        ('mine.mass_half', 'My paper, Lemma 1, with most = 0.5', 'mine.mass')
        >>> rc.judge(half).verdict
        'violated'
        """
        id = f"{self.paper}.{name}"
        check_options(id, options, {*Known.__annotations__, "ref", "tex", "text"})
        function = getattr(self, "function", None) or getattr(self, "regimes", None)
        if function is None:
            raise InputError(f"`changed` must be of a claim with a function; found {self.id}")
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"`text` of {id} must hold the statement; found {shown(text)}")
        other = _with_values(id, function, values)
        is_wrong = options.get("expect", "violated") == "violated" != self.expect
        told: dict[str, Any] = {
            field.name: field.default
            for field in dataclasses.fields(self)
            if field.name in Known.__annotations__ or field.name == "family"
        }
        told |= {"expect": "violated", "printed_as": "ours"}
        if is_wrong and not isinstance(self, RateClaim):
            told["corrected"] = self.id
        source = f"{self.source}, with " + ", ".join(f"{n} = {v}" for n, v in values.items())
        if ref:
            source = f"{self.paper_name}, {ref}" if self.paper_name else ref
        claim = dataclasses.replace(
            self,
            **{**told, **resolved(self.paper, options)},
            **{"regimes" if isinstance(self, RateClaim) else "measure": other},
            id=id,
            source=source,
            text=text,
            latex=tex,
        )
        return noted(claim)


def _with_values(id: str, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The function with other defaults of some parameters that have one."""
    signature = inspect.signature(function)
    constants = [n for n, p in signature.parameters.items() if p.default is not p.empty]
    if not values or not set(values) <= set(constants):
        raise InputError(
            f"values of {id} must be of parameters that have a default, which are "
            f"{', '.join(constants) or 'none'}; found {', '.join(values) or 'none'}"
        )

    @wraps(function)
    def changed(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **{**values, **named})

    changed.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            p.replace(default=values.get(n, p.default)) for n, p in signature.parameters.items()
        ]
    )
    return changed


@dataclass(frozen=True)
class OfInstance:
    """A function of an instance's attributes as one of the instance.

    A parameter without a default is the name of an attribute. A single parameter that is no
    attribute stands for the instance itself.

    >>> from types import SimpleNamespace
    >>> OfInstance(lambda p, q: p - q)(SimpleNamespace(p=3, q=1))
    2
    """

    function: Callable[..., Any]

    def __call__(self, instance: Any) -> Any:
        """The function's value at an instance."""
        names = self._names
        if names is None or (len(names) == 1 and not _has(instance, names[0])):
            return self.function(instance)
        for name in names:
            if not _has(instance, name):
                known = sorted(n for n in vars(instance) if not n.startswith("_"))
                raise InputError(
                    f"parameter `{name}` must be a field of the instance or have a default; "
                    f"found the fields {', '.join(known)}"
                )
        return self.function(*[getattr(instance, name) for name in names])

    @cached_property
    def _names(self) -> list[str] | None:
        """Read once: a measure is called for every instance."""
        return _required(self.function)


def _required(function: Callable[..., Any]) -> list[str] | None:
    """Names of the parameters that have no default; None where they have no names."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # a built-in function
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    needed = [p for p in parameters if p.default is inspect.Parameter.empty]
    return [p.name for p in needed] if all(p.kind in named for p in needed) else None


def _check_parameters(id: str, function: Callable[..., Any], space: Space) -> None:
    """Refuse a parameter that no instance has; a single one may stand for the whole instance."""
    names = _required(function) or ()
    if len(names) < 2 or space.view is not Instance or space.repair is not None:
        return  # the last two may give instances other attributes
    for name in names:
        if name not in space.fields:
            near = get_close_matches(name, list(space.fields), n=1)
            meant = f" (did you mean `{near[0]}`?)" if near else ""
            raise InputError(
                f"parameter `{name}` of {id} must be a field of the instance or have a default; "
                f"found the fields {', '.join(sorted(space.fields))}{meant}"
            )


def _has(instance: Any, name: str) -> bool:
    """Whether an instance has an attribute, without computing what its class computes."""
    if name in getattr(instance, "__dict__", ()) or hasattr(type(instance), name):
        return True
    return hasattr(type(instance), "__getattr__") and hasattr(instance, name)


@dataclass(frozen=True, kw_only=True)
class Claim(Statement):
    """A statement about instances: ``measure(instance)`` gives its two sides.

    Args:
        kind: what sort of statement it is; decides the relation unless ``relation`` does.
        space: the instances.
        measure: instance to (measured, bound). Its parameters are names of the instance's fields,
            or one parameter of another name that is the instance. Either side may be an array: over
            the B instances first if the space is batched, then over anything else (agents, states);
            every entry must satisfy the relation. For an identity of vectors, return the vectors.
            It must depend on the instance alone: where two calls differ, the verdict is "error".
        relation: "<=", ">=" or "==" between measured and bound.
        trivial: instance to a bound that is known without the claim, shaped like ``bound``. A true
            claim whose bound is never below ten times that is "unreachable".
        family: of a false claim, counterexamples from mild to extreme, arrays by name of the field.
            Every claim that names this one in ``uses`` is tried on those that are instances of its
            own space.

    Raises:
        InputError: an id, a kind, a relation or a family that cannot be used.

    >>> import ratecheck as rc
    >>> half = rc.Claim(
    ...     id="mine.half", source="my paper, Lemma 2", text="x (1 - x) <= 1 / 4", kind="upper",
    ...     space=rc.Space({"x": rc.interval()}), measure=lambda x: (x * (1 - x), 1 / 4),
    ... )
    >>> rc.judge(half).verdict
    'holds'
    """

    kind: Kind
    space: Space
    measure: Callable[..., tuple[Any, Any]]
    relation: Relation = ""  # type: ignore[assignment]
    trivial: Callable[..., Any] | None = None
    family: Sequence[Mapping[str, ArrayLike]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in _RELATION:
            raise InputError(
                f"`kind` of {self.id} must be {', '.join(_RELATION)}; found {self.kind!r}"
            )
        if not self.relation:
            object.__setattr__(self, "relation", _RELATION[self.kind])
        if self.relation not in ("<=", ">=", "=="):
            raise InputError(
                f"`relation` of {self.id} must be <=, >= or ==; found {self.relation!r}"
            )
        for name in ("measure", "trivial"):
            function = getattr(self, name)
            if function is not None and not isinstance(function, OfInstance):
                object.__setattr__(self, name, OfInstance(function))
                _check_parameters(self.id, function, self.space)

    @property
    def function(self) -> Callable[..., tuple[Any, Any]]:
        """The function that was declared, of the fields that it names."""
        function: Callable[..., tuple[Any, Any]] = getattr(self.measure, "function", self.measure)
        return function

    def __call__(self, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        """Both sides from the function's own arguments, as if it were no claim."""
        return self.function(*arguments, **options)


@dataclass(frozen=True)
class Regime:
    """One measured exponent: where, of what, and the interval that surely contains it.

    ``lo`` and ``hi`` are the ends of the interval (equal values for an exact slope without a
    remainder). A rate bound of exponent p is *violated* if the interval lies above p + slack,
    *faster than stated* if it lies below p - slack, and *consistent* if it meets what is between
    them; *not decided* if it then reaches so far above p that it could hold a competing exponent:
    see :func:`ratecheck.rate_check`. ``systems`` says how many systems it was fitted on.

    Raises:
        InputError: an exponent that is no finite number, or ends that are not in order.

    >>> import ratecheck as rc
    >>> rc.Regime("large t", "t", predicted=-1.0, measured=-1.01, lo=-1.05, hi=-0.97).systems
    1
    """

    name: str
    variable: str
    predicted: float
    measured: float
    lo: float
    hi: float
    slack: float = 0.05
    systems: int = 1


@dataclass(frozen=True, kw_only=True)
class RateClaim(Statement):
    """A statement about exponents: ``regimes()`` measures one or several.

    It must return the same each time, so that whatever is random in it has a fixed seed; it is
    called twice, and a difference is an error.

    Args:
        regimes: to the exponents, each a :class:`ratecheck.Regime`.

    >>> import ratecheck as rc
    >>> def regimes():
    ...     x = [10.0, 100.0, 1000.0]
    ...     slope = rc.exact_slope(x, [1 / v for v in x]).value
    ...     return [rc.Regime("large x", "x", -1.0, slope, slope, slope)]
    >>> claim = rc.RateClaim(id="mine.rate", source="Theorem 1", text="O(1/x)", regimes=regimes)
    >>> rc.judge(claim).verdict
    'consistent'
    """

    regimes: Callable[[], Sequence[Regime]]
    kind: Kind = "rate"
    expect: str = "consistent"

    def __call__(self) -> Sequence[Regime]:
        """What it measures, as if it were no claim."""
        return self.regimes()


@dataclass(frozen=True, kw_only=True)
class StatisticalClaim(Statement):
    """A statement about means that only samples tell: ``measure`` draws them.

    Args:
        space: the instances.
        measure: instance and generator to independent samples of measured - bound, an array, or of
            both sides, a pair of arrays. Its parameters are names of the instance's fields and
            ``rng``, a seeded :class:`numpy.random.Generator`, from which alone samples come. It is
            called until they decide.
        between: two numbers between which every sample of measured - bound lies.
        within: how large a mean of measured - bound counts as none.
        alpha: probability that the verdict is wrong: that a true statement counts as violated, or
            one that is exceeded by more than ``within``, on an instance sampled, as holding.
        relation: "<=", ">=" or "==" between the means of measured and bound.
        most: samples that one instance may take.

    Raises:
        InputError: numbers that no test can be made of, such as ``within`` of zero.

    >>> import ratecheck as rc
    >>> mean = rc.StatisticalClaim(
    ...     id="mine.mean", source="Lemma 3", text="E x = 1/2 of uniform x", between=(-0.5, 0.5),
    ...     space=rc.Space({"shift": rc.interval()}), relation="==", within=0.02,
    ...     measure=lambda shift, rng: (rng.uniform(size=1000) + shift) % 1 - 0.5,
    ... )
    >>> rc.judge(mean).verdict
    'holds'
    """

    space: Space
    measure: Callable[..., Any]
    between: tuple[float, float]
    within: float
    alpha: float = 1e-6
    relation: Relation = "<="
    most: int = 100_000
    kind: Kind = "statistical"

    def __post_init__(self) -> None:
        super().__post_init__()
        ends = self.between if isinstance(self.between, Sequence) else ()
        numbers = len(ends) == 2 and all(isinstance(end, Real) for end in ends)
        low, high = ends if numbers else (0, 0)
        if not -math.inf < low < high < math.inf:
            raise InputError(
                f"`between` of {self.id} must be two numbers, the smaller one first; "
                f"found {shown(self.between)}"
            )
        for name in ("within", "alpha"):
            if not isinstance(found := getattr(self, name), Real):
                raise InputError(f"`{name}` of {self.id} must be a number; found {shown(found)}")
        check_integer(f"most` of `{self.id}", self.most, low=1)
        if not 0 < self.within < high - low:
            raise InputError(
                f"`within` of {self.id} must be positive and less than {high - low:g}; "
                f"found {self.within}"
            )
        if not 0 < self.alpha < 1:
            raise InputError(f"`alpha` of {self.id} must be between 0 and 1; found {self.alpha}")
        if self.relation not in ("<=", ">=", "=="):
            raise InputError(
                f"`relation` of {self.id} must be <=, >= or ==; found {self.relation!r}"
            )

    @property
    def function(self) -> Callable[..., Any]:
        """The function that was declared, of the fields that it names and ``rng``."""
        return self.measure

    def sampler(self, rng: np.random.Generator) -> Callable[[Any], Any]:
        """The measure as a function of the instance alone, which draws from this generator."""
        return OfInstance(partial(self.measure, rng=rng))

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Samples from the function's own arguments, as if it were no claim."""
        return self.measure(*arguments, **options)


@dataclass(frozen=True, kw_only=True)
class NotChecked(Statement):
    """A statement that no machine checks here, with the reason in ``note``.

    Raises:
        InputError: no reason.

    >>> import ratecheck as rc
    >>> rc.NotChecked(id="mine.rem1", source="Remark 1", text="...", note="about practice").expect
    'not checked'
    """

    kind: Kind = "qualitative"
    expect: str = "not checked"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.note:
            raise InputError(f"`note` of {self.id} must say why it is not checked; found nothing")


Entry = Claim | RateClaim | StatisticalClaim | NotChecked


def claims_of(module: ModuleType) -> list[Entry]:
    """The claims of a module, each once: those with a name, as they follow in it, then the others.

    A decorator in a loop or a function makes some without a name at the top level.

    Raises:
        InputError: two of one id; says where they are.
    """
    made = made_by(module)
    found = [one for one in [*vars(module).values(), *made] if isinstance(one, Entry)]
    claims = list({id(one): one for one in found}.values())
    by_id: dict[str, Entry] = {}
    for claim in claims:
        other = by_id.setdefault(claim.id, claim)
        if other is not claim:
            # of one file, the lower line first, though its name stands for the last one
            places = sorted(map(place_of, (other, claim)), key=lambda place: (len(place), place))
            # one place may also be that of a file that was imported by two names
            if places[0] != places[1] or {id(other), id(claim)} <= set(map(id, made)):
                raise two_of_one_id(claim.id, *places)
    return claims


def two_of_one_id(id: str, one: str, other: str) -> InputError:
    """The error that says where two claims of one id are."""
    if one == other:
        where = f"{id} twice in {one}: a loop or a function must give each an id of its own"
    else:
        where = f"{id} in {one} and in {other}"
    return InputError(f"ids of claims must be distinct; found {where}")


def place_of(entry: Statement, otherwise: str = "this module") -> str:
    """The file and line of a claim's function, "FILE:LINE"; another text where it has none."""
    function: Any = getattr(entry, "function", None) or getattr(entry, "regimes", None)
    code = getattr(inspect.unwrap(function), "__code__", None) if function else None
    return otherwise if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def check_options(id: str, options: Iterable[str], known: set[str]) -> None:
    """Refuse options that a claim does not have, and say which one was meant."""
    if unknown := sorted(set(options) - known):
        near = get_close_matches(unknown[0], sorted(known), n=1)
        meant = f" (did you mean `{near[0]}`?)" if near else ""
        raise InputError(
            f"options of {id} must be among {', '.join(sorted(known))}; found {unknown}{meant}"
        )


def resolved(paper: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a paper's claim, with the full ids of the claims that they name.

    Such a claim may be named without its paper.
    """

    def full(name: str) -> str:
        return name if "." in name else f"{paper}.{name}"

    known = dict(options)
    for key in RELATIONS:
        if key in known:
            known[key] = full(known[key])
    if known.get("sharpens"):  # the paper does not print it
        known.setdefault("printed_as", "ours")
    if not isinstance(uses := known.get("uses", ()), str):
        known["uses"] = tuple(map(full, uses))
    return known


def claim(
    *,
    id: str,
    source: str,
    text: str,
    kind: Kind,
    fields: Mapping[str, Field] | None = None,
    sizes: Mapping[str, tuple[int, int]] | None = None,
    repair: Callable[[Fields], Fields] | None = None,
    assumes: Mapping[str, Predicate] | None = None,
    given: Mapping[str, Predicate] | None = None,
    corners: Sequence[Mapping[str, ArrayLike]] = (),
    space: Space | None = None,
    **options: Any,
) -> Callable[[Callable[..., tuple[Any, Any]]], Claim]:
    """Declare a claim: decorates its measure, which returns (measured, bound).

    Give either a ``space`` or the parts of one; named axes without a range in ``sizes`` run from 1
    to 4. All other arguments are those of :class:`Claim`.

    >>> from ratecheck import claim, simplex
    >>> @claim(
    ...     id="mine.mass", source="my paper, Lemma 1", kind="upper", fields={"p": simplex("k")},
    ...     text="no probability exceeds the sum of squares",
    ... )
    ... def mass(p):
    ...     return p.max(), (p**2).sum()
    >>> mass.relation
    '<='
    """
    known = {option.name for option in dataclasses.fields(Claim)} - {"measure"}
    known |= set(inspect.signature(claim).parameters) - {"options"}
    check_options(id, options, known)
    if space is None:
        space = Space(
            fields=dict(fields or {}),
            sizes=dict(sorted((sizes or {}).items())),
            repair=repair,
            assumes=assumes or {},
            given=given or {},
            corners=corners,
        )
    where = space

    def declare(measure: Callable[..., tuple[Any, Any]]) -> Claim:
        return noted(
            Claim(
                id=id, source=source, text=text, kind=kind, space=where, measure=measure, **options
            )
        )

    return declare
