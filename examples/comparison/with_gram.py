"""Two theorems on gradient descent with ratecheck.gram: proved for all functions and dimensions."""

from ratecheck import gram


def theorem_1(over: int = 22) -> gram.Problem:
    """f(x_5) - f_* <= L |x_0 - x_*|^2 / (4 N + 2) after N = 5 steps 1/L, for L = 1."""
    p = gram.Problem()
    f = gram.Function(p, "f", smooth=1)
    x, best = p.vector("x"), f.minimiser()
    start = x
    for _ in range(5):
        x = x - f.gradient(x)
    p.show(f(x) - f(best) <= (start - best).squared / over)
    return p


def theorem_2() -> gram.Problem:
    """|x_1 - x_*|^2 <= (1 - mu / L)^2 |x_0 - x_*|^2 after a step 1/L, for mu = 0.1 and L = 1."""
    p = gram.Problem()
    f = gram.Function(p, "f", smooth=1, strongly="0.1")
    x, best = p.vector("x"), f.minimiser()
    p.show((x - f.gradient(x) - best).squared <= "0.81" * (x - best).squared)
    return p


if __name__ == "__main__":
    for name, problem in {"theorem 1": theorem_1(), "theorem 2": theorem_2()}.items():
        proof = gram.prove(problem)
        proof.check()  # by exact arithmetic alone
        print(f"{name}: proved, with {1 + proof.excess} times the bound")
    print(f"with 4 N + 4: {gram.worst_case(theorem_1(24)).value:.6f} times the bound is attained")
