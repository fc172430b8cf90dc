"""Classes of functions and operators, by the conditions that values at finitely many points meet.

For convex and for smooth functions, and for the operators here, the conditions are also sufficient:
values that meet them are those of some member of the class (Taylor, Hendrickx and Glineur, Smooth
strongly convex interpolation and exact worst-case performance of first-order methods, 2017; Ryu,
Taylor, Bergeling and Giselsson, Operator splitting performance estimation, 2020; Bousselmi,
Hendrickx and Glineur, Interpolation conditions for linear operators, 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from linsys.validate import InputError
from ratecheck._certify.gram.forms import Form, Vector
from ratecheck._certify.gram.problem import Assumption, Problem


def _inequality(name: str, form: Form) -> Assumption:
    return Assumption(name, ((form,),))


@dataclass
class Function:
    """A function of which gradients, or subgradients, and values are asked at points.

    Args:
        problem: to which it belongs.
        name: of the function, with which the names of its gradients and values begin.
        smooth: the Lipschitz constant of its gradient; None for functions without one.
        strongly: the constant of strong convexity; None for functions that need not be convex.
        space: of its points.

    >>> from ratecheck import gram
    >>> p = gram.Problem()
    >>> f = gram.Function(p, "f", smooth=1)
    >>> x, least = p.vector("x"), f.minimiser()
    >>> p.show(f(x - f.gradient(x)) - f(least) <= (x - least).squared)
    >>> round(gram.worst_case(p).value, 6)  # L / (4 N + 2)
    0.166667
    """

    problem: Problem
    name: str
    smooth: Any = None
    strongly: Any = 0
    space: str = "R^d"
    points: list[tuple[Vector, Vector, Form]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.strongly is None and self.smooth is None:
            raise InputError(
                "`smooth` must be given where a function need not be convex; found None"
            )
        self.problem.classes.append(self)

    def __call__(self, point: Vector) -> Form:
        """The value at a point."""
        return self._at(point)[2]

    def gradient(self, point: Vector) -> Vector:
        """The gradient at a point, or a subgradient, the same one whenever it is asked."""
        return self._at(point)[1]

    def known(self, point: Vector, gradient: Vector, value: Form) -> None:
        """Add a point whose gradient and value have names already."""
        self.points.append((point, gradient, value))

    def minimiser(self) -> Vector:
        """A point where the gradient is zero."""
        point = self.problem.fresh(f"{self.name}_least", self.space)
        self._add(point, self.problem.zero(self.space))
        return point

    def implicit(self, start: Vector, step: Any) -> Vector:
        """The proximal point x = start - step g, with g a subgradient at x itself."""
        gradient = self.problem.fresh(f"{self.name}_gradient", self.space)
        point: Vector = start - step * gradient
        self._add(point, gradient)
        return point

    def _at(self, point: Vector) -> tuple[Vector, Vector, Form]:
        for known in self.points:
            if known[0] == point:
                return known
        return self._add(point, self.problem.fresh(f"{self.name}_gradient", self.space))

    def _add(self, point: Vector, gradient: Vector) -> tuple[Vector, Vector, Form]:
        value = self.problem.value(f"{self.name}_{len(self.points)}")
        self.points.append((point, gradient, value))
        return self.points[-1]

    def conditions(self) -> list[Assumption]:
        """For every pair of points, what the class says of the value at one by the other's."""
        result = []
        for i, (x, g, f) in enumerate(self.points):
            for j, (y, h, e) in enumerate(self.points):
                if i != j:
                    name = f"{self.name} at {i} from {j}"
                    result.append(_inequality(name, self._condition(x - y, g - h, h, f - e)))
        return result

    def _condition(self, dx: Vector, dg: Vector, g: Vector, df: Form) -> Form:
        above = df - g @ dx
        if self.smooth is None:
            rise: Form = 2 * above - self.strongly * dx.squared
            return rise
        L = Form.of(self.smooth)
        m = -L if self.strongly is None else Form.of(self.strongly)
        # times 2 (L - m), so that no parameter is divided by
        between: Form = 2 * (L - m) * above - dg.squared - m * L * dx.squared + 2 * m * (dg @ dx)
        return between


@dataclass
class Operator:
    """An operator with images asked at points, by inequalities between every two of them.

    Args:
        problem: to which it belongs.
        name: with which the names of its images begin.
        monotone: mu with <Ax - Ay, x - y> >= mu |x - y|^2; None without.
        lipschitz: L with |Ax - Ay| <= L |x - y|; None without.
        cocoercive: c with <Ax - Ay, x - y> >= c |Ax - Ay|^2; None without.
        space: of its points and images.

    >>> from ratecheck import gram
    >>> p = gram.Problem()
    >>> A = gram.Operator(p, "A", monotone=1, lipschitz=2)
    >>> x, y = p.vectors("x y")
    >>> step = (x - A(x) / 4) - (y - A(y) / 4)
    >>> p.show(step.squared <= (x - y).squared)
    >>> round(gram.worst_case(p).value, 6)  # 1 - 2 mu a + L^2 a^2
    0.75
    """

    problem: Problem
    name: str
    monotone: Any = None
    lipschitz: Any = None
    cocoercive: Any = None
    space: str = "R^d"
    points: list[tuple[Vector, Vector]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.problem.classes.append(self)

    def __call__(self, point: Vector) -> Vector:
        """The image of a point."""
        for x, image in self.points:
            if x == point:
                return image
        self.points.append((point, self.problem.fresh(self.name, self.space)))
        return self.points[-1][1]

    def zero(self) -> Vector:
        """A point whose image is zero."""
        point = self.problem.fresh(f"{self.name}_zero", self.space)
        self.points.append((point, self.problem.zero(self.space)))
        return point

    def resolvent(self, start: Vector, step: Any = 1) -> Vector:
        """x = start - step Ax, closer by 1 + step mu (Bauschke and Combettes, chapter 23)."""
        image = self.problem.fresh(self.name, self.space)
        self.points.append((start - step * image, image))
        return self.points[-1][0]

    def conditions(self) -> list[Assumption]:
        """For every two points, what the class says of their difference."""
        result = []
        for i, (x, a) in enumerate(self.points):
            for j, (y, b) in enumerate(self.points[:i]):
                dx, da = x - y, a - b
                for word, constant, form in (
                    ("monotone", self.monotone, lambda m, u=dx, v=da: v @ u - m * u.squared),
                    ("Lipschitz", self.lipschitz, lambda L, u=dx, v=da: _lipschitz(L, u, v)),
                    ("cocoercive", self.cocoercive, lambda c, u=dx, v=da: v @ u - c * v.squared),
                ):
                    if constant is not None:
                        name = f"{self.name} {word} at {j} and {i}"
                        result.append(_inequality(name, form(constant)))
        return result


def _lipschitz(L: Any, dx: Vector, da: Vector) -> Form:
    slack: Form = Form.of(L) * Form.of(L) * dx.squared - da.squared
    return slack


@dataclass
class LinearMap:
    """A matrix of any shape with a largest singular value, and its transpose.

    Args:
        problem: to which it belongs.
        name: with which the names of images begin.
        norm: the largest singular value.
        domain: the space of its arguments.
        range: the space of its images.

    >>> from ratecheck import gram
    >>> p = gram.Problem()
    >>> A = gram.LinearMap(p, "A", norm=2)
    >>> x = p.vector("x")
    >>> p.show(A.transpose(A(x)).squared <= x.squared)
    >>> round(gram.worst_case(p).value, 4)
    16.0
    """

    problem: Problem
    name: str
    norm: Any = 1
    domain: str = "R^d"
    range: str = "R^m"
    images: list[tuple[Vector, Vector]] = field(default_factory=list)
    transposed: list[tuple[Vector, Vector]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.problem.classes.append(self)

    def __call__(self, point: Vector) -> Vector:
        """A x."""
        return _known(self.images, point) or self._add(self.images, point, self.name, self.range)

    def transpose(self, point: Vector) -> Vector:
        """A' x."""
        known = _known(self.transposed, point)
        return known or self._add(self.transposed, point, f"{self.name}t", self.domain)

    def _add(
        self, pairs: list[tuple[Vector, Vector]], point: Vector, name: str, space: str
    ) -> Vector:
        pairs.append((point, self.problem.fresh(name, space)))
        return pairs[-1][1]

    def conditions(self) -> list[Assumption]:
        """<Ax, u> = <x, A'u>, and the Gram matrices of images are at most norm^2 of the points'."""
        result = []
        for i, (x, y) in enumerate(self.images):
            for j, (u, v) in enumerate(self.transposed):
                name = f"{self.name} transposed at {i} and {j}"
                result.append(Assumption(name, ((y @ u - x @ v,),), equal=True))
        L = Form.of(self.norm) * Form.of(self.norm)
        for word, pairs in (("norm", self.images), ("norm of the transpose", self.transposed)):
            if pairs:
                matrix = tuple(tuple(L * (x @ z) - y @ w for z, w in pairs) for x, y in pairs)
                result.append(Assumption(f"{self.name} {word}", matrix))
        return result


@dataclass
class SymmetricMap:
    """A symmetric matrix with its eigenvalues in an interval.

    Args:
        problem: to which it belongs.
        name: with which the names of images begin.
        least: the lower end of the interval.
        largest: the upper end.
        space: of points and images.

    >>> from ratecheck import gram
    >>> p = gram.Problem()
    >>> H = gram.SymmetricMap(p, "H", least=1, largest=3)
    >>> x = p.vector("x")
    >>> p.show((x - H(x) / 2).squared <= x.squared)
    >>> round(gram.worst_case(p).value, 6)
    0.25
    """

    problem: Problem
    name: str
    least: Any = 0
    largest: Any = 1
    space: str = "R^d"
    images: list[tuple[Vector, Vector]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.problem.classes.append(self)

    def __call__(self, point: Vector) -> Vector:
        """H x."""
        known = _known(self.images, point)
        if known is None:
            known = self.problem.fresh(self.name, self.space)
            self.images.append((point, known))
        return known

    def conditions(self) -> list[Assumption]:
        """<Hx, y> = <x, Hy>, and (H - least)(largest - H) has no negative eigenvalue."""
        result = []
        for i, (x, y) in enumerate(self.images):
            for j, (z, w) in enumerate(self.images[:i]):
                name = f"{self.name} symmetric at {j} and {i}"
                result.append(Assumption(name, ((y @ z - x @ w,),), equal=True))
        if self.images:
            product = [
                [(y - self.least * x) @ (self.largest * z - w) for z, w in self.images]
                for x, y in self.images
            ]
            matrix = tuple(
                tuple((product[i][j] + product[j][i]) / 2 for j in range(len(product)))
                for i in range(len(product))
            )
            result.append(Assumption(f"{self.name} eigenvalues", matrix))
        return result


def _known(pairs: Sequence[tuple[Vector, Vector]], point: Vector) -> Vector | None:
    return next((image for x, image in pairs if x == point), None)
