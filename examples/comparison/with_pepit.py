"""Two theorems on gradient descent in PEPit: the worst case over all functions, proved."""

from PEPit import PEP
from PEPit.functions import SmoothConvexFunction, SmoothStronglyConvexFunction


def theorem_1(steps: int = 5) -> float:
    """The largest f(x_N) - f_* after N steps 1/L, for L = 1 and |x_0 - x_*| <= 1."""
    problem = PEP()
    f = problem.declare_function(SmoothConvexFunction, L=1)
    best, x = f.stationary_point(), problem.set_initial_point()
    problem.set_initial_condition((x - best) ** 2 <= 1)
    for _ in range(steps):
        x = x - f.gradient(x)
    problem.set_performance_metric(f(x) - f(best))
    return float(problem.solve(verbose=0))


def theorem_2(mu: float = 0.1) -> float:
    """The largest |x_1 - x_*|^2 after one step 1/L, for L = 1 and |x_0 - x_*| <= 1."""
    problem = PEP()
    f = problem.declare_function(SmoothStronglyConvexFunction, mu=mu, L=1)
    best, x = f.stationary_point(), problem.set_initial_point()
    problem.set_initial_condition((x - best) ** 2 <= 1)
    problem.set_performance_metric((x - f.gradient(x) - best) ** 2)
    return float(problem.solve(verbose=0))


if __name__ == "__main__":
    print(f"theorem 1: worst case {theorem_1():.6f}, stated {1 / 22:.6f}, wrong {1 / 24:.6f}")
    print(f"theorem 2: worst case {theorem_2():.6f}, stated {0.9**2:.6f}")
