"""P-ShareLoRA: what comparisons say of parameters, in norms over comparisons and over users.

A mean over comparisons, trajectories or users is an inner product of vectors with that many
entries, each times the root of its weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.psharelora.theory.fitted import second_moment, shifted
from experiments.psharelora.theory.preference import log_logistic, reward, scores
from experiments.psharelora.theory.proof import lipschitz, spectral
from experiments.psharelora.theory.subspace import Adaptation, flat, frobenius, inner
from linsys.linalg import Numbers, lambda_max, lambda_min, logistic, norm, solve, squares, transpose
from ratecheck import gram as g


def _share(values: Numbers, axis: int = 1) -> Numbers:
    """Values times the root of one over their number along an axis."""
    return np.asarray(values / np.sqrt(values.shape[axis] + 0 * values))


# Appendices A and B.1.


def _covered(target: Numbers, reference: Numbers, r: Numbers) -> dict[str, Any]:
    """pi/mu - 1, and r less its mean, or 0 where the policy has no more of it, under mu."""
    root, excess = np.sqrt(reference), target / reference - 1
    centred = r - (reference * r).sum(axis=-1, keepdims=True)
    gains = (target * centred).sum(axis=-1)[..., None] > 0
    ratio, kept = root * excess, root * np.where(gains, centred, 0 * centred)
    return {"ratio": ratio, "kept": kept, "a": norm(root * centred), "b": norm(ratio)}


@g.theorem("psl.def_A3", at=_covered)
def def_A3(p: g.Problem) -> None:
    """E_pi r - E_mu r <= sqrt(chi^2 Var_mu r), where it is positive."""
    ratio, kept = p.vectors("ratio kept", "trajectories")
    a, b = p.parameters_named("a b")
    p.bounded(ratio, b, "chi^2(pi | mu)")
    p.bounded(kept, a, "the variance of r, or 0")
    p.cauchy_schwarz(ratio, kept, "Cauchy-Schwarz")
    p.show(ratio @ kept <= a * b)


def _decomposed(
    diamond: Numbers,
    hat: Numbers,
    W_diamond: Numbers,
    W_hat: Numbers,
    psi0: Numbers,
    psi1: Numbers,
) -> dict[str, Any]:
    """What the heads and the bases make of the rewards' differences."""
    x = psi0 - psi1

    def rewards(theta: Numbers) -> Numbers:
        return _share(inner(theta[:, None], x))

    return {
        "heads": rewards(hat @ (W_diamond - W_hat)),
        "bases": rewards((diamond - hat) @ W_diamond),
        "L": lipschitz(psi0, psi1),
        "apart": spectral(diamond - hat),
        "size": frobenius(W_diamond),
    }


@g.theorem("psl.eq_B5_corrected", at=_decomposed)
def eq_B5_corrected(p: g.Problem) -> None:
    """(B.5): |heads + bases|^2 <= 8 L1^2 ||B_diamond - B_hat||^2 ||W||_F^2 + 2 |heads|^2."""
    heads, bases = p.vectors("heads bases", "comparisons")
    L, apart, size = p.parameters_named("L apart size")
    why = "rewards are L1-Lipschitz, and ||(B_diamond - B_hat) W||_F"
    p.assume(bases.squared <= 4 * (L * apart * size) ** 2, why)
    p.show((heads + bases).squared <= 8 * (L * apart * size) ** 2 + 2 * heads.squared)


def _noise(
    truth: Numbers,
    diamond: Numbers,
    hat: Numbers,
    W_diamond: Numbers,
    psi0: Numbers,
    psi1: Numbers,
    shift: Numbers,
) -> dict[str, Any]:
    """The change of chances v and of rewards, and x'z with (Sigma + lambda I) z the mean of v x."""
    X = psi0 - psi1

    def rewards(theta: Numbers) -> Numbers:
        return inner(theta[:, None], X)

    v = logistic(rewards(truth)) - logistic(rewards(hat @ W_diamond))
    x = flat(transpose(hat)[:, None] @ X)
    mean = (v[..., None] * x).mean(axis=1)
    z = solve(shifted(second_moment(x), shift), mean)
    return {
        "v": _share(v),
        "u": _share((x * z[:, None]).sum(axis=-1)),
        "best": _share(rewards(truth - diamond @ W_diamond)),
        "bases": _share(rewards((diamond - hat) @ W_diamond)),
        "L": lipschitz(psi0, psi1),
        "error": frobenius(truth - diamond @ W_diamond),
        "apart": spectral(diamond - hat) * frobenius(W_diamond),
    }


@g.theorem("psl.eq_B13_display", at=_noise, power=2)
def eq_B13_display(p: g.Problem) -> None:
    """The length of the mean of v x is at most that of v, and 4 |v| that of the rewards."""
    v, u, best, bases = p.vectors("v u best bases", "comparisons")
    L, error, apart = p.parameters_named("L error apart")
    p.assume(u.squared <= v @ u, "Sigma <= Sigma + lambda I")
    p.assume(16 * v.squared <= (best + bases).squared, "Phi' <= 1/4")
    p.bounded(best, 2 * L * error, "rewards are L1-Lipschitz, of Theta* - B_diamond W")
    p.bounded(bases, 2 * L * apart, "the same of (B_diamond - B_hat) W")
    p.cauchy_schwarz(best, bases, "Cauchy-Schwarz")
    p.show(v @ u <= (L * (error + apart) / 2) ** 2)


def _fitted(user: Any, shift: Numbers) -> dict[str, Any]:
    """x'd, and the slope and d as vectors of the norm of Sigma + lambda I."""
    size = user.x.shape[1]
    root = np.sqrt((0 * shift + 1) / size)[:, None]

    def rewards(w: Numbers) -> Numbers:
        return np.asarray(root * (user.x @ w[..., None])[..., 0])

    def shown(w: Numbers) -> Numbers:
        return np.concatenate([rewards(w), np.sqrt(shift)[:, None] * w], axis=1)

    slope = shown(solve(shifted(user.Sigma, shift), user.gradient))
    step = shown(user.d)
    return {
        "u": rewards(user.d),
        "slope": slope,
        "step": step,
        "c": user.c2,
        "a": norm(slope),
        "b": norm(step),
    }


@g.theorem("psl.eq_B11_corrected", at=_fitted)
def eq_B11_corrected(p: g.Problem) -> None:
    """c_2 ||d||^2_Sigma <= grad f(w_diamond)'d, at most the product of dual norms."""
    u = p.vector("u", "comparisons")
    slope, step = p.vectors("slope step", "comparisons and parameters")
    c, a, b = p.parameters_named("c a b")
    p.assume(c * u.squared <= slope @ step, "psl.eq_B9_linear")
    p.bounded(slope, a, "the dual norm of grad f(w_diamond)")
    p.bounded(step, b, "the norm of d")
    p.cauchy_schwarz(slope, step, "Cauchy-Schwarz")
    p.show(c * u.squared <= a * b)


def _radii(x: Numbers, d: Numbers, more: Numbers, shift: Numbers) -> dict[str, Any]:
    """x'd and sqrt(lambda) d; c g where (B.11) is equality, and the norm of Sigma + lambda I."""
    seen, kept = _share((x * d[:, None]).sum(axis=-1)), np.sqrt(shift)[:, None] * d
    length = np.sqrt((seen**2).sum(axis=-1) + (kept**2).sum(axis=-1))
    cg = (seen**2).sum(axis=-1) / np.where(length > 0, length, 1 + length)
    return {
        "seen": seen,
        "kept": kept,
        "length": length,
        "cg": cg,
        "edge": more * norm(d) * np.sqrt(shift),
        "e": norm(kept),
    }


def _length(x: Numbers, d: Numbers, shift: Numbers) -> Numbers:
    length = _radii(x, d, shift, shift)["length"]
    return np.asarray(np.where(length > 0, length, 1 + length))  # for d = 0 both sides are 0


@g.theorem("psl.eq_B17_corrected", at=_radii, scale=_length)
def eq_B17_corrected(p: g.Problem) -> None:
    """s <= (c g)^2 + c g 2 B sqrt(lambda) for s = c g sqrt(s + lambda ||d||^2), times the root."""
    seen = p.vector("seen", "comparisons")
    kept = p.vector("kept", "parameters")
    length, cg, edge, e = p.parameters_named("length cg edge e")
    p.equal(seen.squared + kept.squared, length**2, "the norm of Sigma + lambda I")
    p.equal(kept.squared, e**2, "sqrt(lambda) ||d||")
    p.equal(seen.squared, cg * length, "(B.11), where it is equality")
    p.assume(e <= length, "||d||_Sigma^2 >= 0", factors=[cg * e])
    p.assume(e <= edge, "||d|| <= 2 B", factors=[cg * length])
    p.show(length * seen.squared <= length * cg**2 + length * cg * edge)


def _turned(system: Any, u: Numbers, w: Numbers, diamond: Numbers) -> dict[str, Any]:
    """u'(grad r(tau0) - grad r(tau1)) at both points, and their norms."""
    here, there = (_share((u[:, None] * system.steps(x)).sum(axis=-1)) for x in (w, diamond))
    return {
        "here": here,
        "there": there,
        "a": norm(here),
        "b": norm(there),
        "moved": 2 * system.smooth * norm(w - diamond) * norm(u),
    }


@g.theorem("psl.eq_B8_corrected", at=_turned, power=2)
def eq_B8_corrected(p: g.Problem) -> None:
    """(||u||_Sigma(w) - ||u||_Sigma_diamond)^2 <= (2 L2 ||w - w_diamond|| ||u||)^2."""
    here, there = p.vectors("here there", "comparisons")
    a, b, moved = p.parameters_named("a b moved")
    p.bounded(here, a, "||u|| in Sigma(w) or less")
    p.bounded(there, b, "||u|| in Sigma_diamond or less")
    p.equal(here.squared, a**2, "||u|| in Sigma(w)")
    p.equal(there.squared, b**2, "||u|| in Sigma_diamond")
    p.cauchy_schwarz(here, there, "Cauchy-Schwarz")
    p.assume((here - there).squared <= moved**2, "grad r is L2-Lipschitz")
    p.show((a - b) ** 2 <= moved**2)


# Appendix C and Lemmas 4 to 8.


def _other_users(users: Adaptation, fit: Adaptation, pairs: Any) -> dict[str, Any]:
    """The change of a chance, B (W - W') and (B - B') W' of a user, and the numbers of (C.1)."""
    gap = logistic(pairs.logits(users.best)) - logistic(pairs.logits(fit.best))
    B, other = users.B[..., None, :, :], fit.B[..., None, :, :]
    B2 = np.maximum(squares(users.W), squares(fit.W)).max(axis=-1)
    return {
        "gap": gap[..., None],
        "heads": flat(B @ (users.W - fit.W))[..., None, :],
        "bases": flat((B - other) @ fit.W)[..., None, :],
        "w": frobenius(users.W - fit.W)[..., None],
        "b": np.sqrt(squares(users.B - fit.B))[..., None, None],
        "B": np.sqrt(B2)[..., None, None],
        "L": pairs.L1[..., None, None],
    }


@g.theorem("psl.eq_C1_corrected", at=_other_users, power=2)
def eq_C1_corrected(p: g.Problem) -> None:
    """|f_i - f'_i| <= (L1/2) sqrt(1 + B^2) ||[dB; dW_i]||, squared."""
    gap = p.vector("gap", "R")
    heads, bases = p.vectors("heads bases", "parameters")
    w, b, B, L = p.parameters_named("w b B L")
    p.assume(4 * gap.squared <= L**2 * (heads + bases).squared, "Phi' <= 1/4 and ||X|| <= 2 L1")
    p.bounded(heads, w, "B has orthonormal columns")
    p.bounded(bases, B * b, "||W'_i|| <= B")
    p.cauchy_schwarz(heads, bases, "Cauchy-Schwarz")
    p.show(gap.squared <= L**2 * (1 + B**2) * (b**2 + w**2) / 4)


def _columns(users: Adaptation, fit: Adaptation) -> dict[str, Any]:
    """Bperp'B_diamond, its image by Lambda_k, and (Theta* - Theta) V_k less that."""
    B, best = fit.B, users.B
    sigma = np.sqrt(users.sigma2[..., : users.k] + 0 * users.b[..., :1])
    inverse = 1 / np.where(sigma > 0, sigma, 1 + sigma)
    rows = transpose(users.joint) @ best * inverse[..., None, :]
    change = users.joint - fit.joint
    away = best - B @ (transpose(B) @ best)
    moved = away * sigma[..., None, :]
    return {
        "away": flat(away),
        "moved": flat(moved),
        "rest": flat(change @ rows - moved),
        "error": flat(change),
        "least": sigma[..., -1],
    }


def _davis_kahan(p: g.Problem) -> None:
    """sigma_k^2 ||Bperp'B_diamond||^2 <= ||Bperp'(Theta* - Theta) V_k||^2, a part of the error."""
    away, moved, rest = p.vectors("away moved rest", "d1 k")
    error = p.vector("error", "parameters")
    least = p.parameter("least")
    p.assume(least**2 * away.squared <= moved.squared, "Theta* V_k = B_diamond Lambda_k")
    p.equal(moved @ rest, 0, "Bperp'Theta = 0, and what B leaves is orthogonal to B")
    p.assume((moved + rest).squared <= error.squared, "V_k has orthonormal columns")
    p.show(least**2 * away.squared <= error.squared)


lemma_5_corrected = g.theorem("psl.lemma_5_corrected", at=_columns)(_davis_kahan)
lemma_8_corrected = g.theorem("psl.lemma_8_corrected", at=_columns)(_davis_kahan)


def _log_chances(users: Adaptation, psi: Numbers, init: Numbers, R: Numbers) -> dict[str, Any]:
    """What log Phi changes by, of all users, for every pair of trajectories."""
    true, best = (
        reward(scores(init[..., None, :, :] + d, psi), R[..., None, None])
        for d in (users.delta, users.best)
    )
    logs = [log_logistic(r[..., :, None] - r[..., None, :]) for r in (true, best)]
    changes = np.moveaxis(np.abs(logs[0] - logs[1]), -3, -1)
    return {
        "changes": _share(changes, -1),
        "one": _share(1 + 0 * changes, -1),
        "L": np.sqrt(squares(psi).max(axis=-1))[..., None, None],
        "rest": np.sqrt(users.tail / users.users)[..., None, None],
    }


def _of_mean(p: g.Problem) -> None:
    """The mean of the users' changes is at most 2 L1 sqrt(Sigma_tail/N)."""
    changes, one = p.vectors("changes one", "R^N")
    L, rest = p.parameters_named("L rest")
    p.bounded(changes, 2 * L * rest, "log Phi is 1-Lipschitz, a reward L1-Lipschitz, twice")
    p.bounded(one, 1, "weights 1/N")
    p.cauchy_schwarz(changes, one, "Cauchy-Schwarz")
    p.show(changes @ one <= 2 * L * rest)


lemma_7_corrected = g.theorem("psl.lemma_7_corrected", at=_log_chances)(_of_mean)
lemma_4 = g.theorem(
    "psl.lemma_4", at=lambda users, psi, init, R: _log_chances(users, psi, 0 * init, R)
)(_of_mean)


def _divergence(users: Adaptation, pairs: Any) -> dict[str, Any]:
    """The mean divergence, the logits' changes over all comparisons, and Theta* - Theta_diamond."""
    logits = pairs.logits(users.delta) - pairs.logits(users.best)
    weighed = np.sqrt(pairs.weights)[..., None, :] * _share(logits, -2)
    count = len(users.delta)
    return {
        "kl": pairs.divergence(users.delta, users.best) / users.users,
        "u": weighed.reshape(count, -1),
        "d": _share(users.delta - users.best, -3).reshape(count, -1),
        "L": pairs.L1,
        "rest": users.tail / users.users,
    }


@g.theorem("psl.lemma_4_mean", at=_divergence)
def lemma_4_mean(p: g.Problem) -> None:
    """(1/N) sum_i E KL <= (1/8) E |u|^2 <= L1^2 Sigma_tail/(2N)."""
    kl, L, rest = p.value("kl"), p.parameter("L"), p.parameter("rest")
    u, d = p.vector("u", "comparisons"), p.vector("d", "parameters")
    p.assume(8 * kl <= u.squared, "the second derivative of log(1 + e^x) is at most 1/4")
    p.assume(u.squared <= 4 * L**2 * d.squared, "||X|| <= 2 L1")
    p.equal(d.squared, rest, "what Sigma_tail is")
    p.show(kl <= L**2 * rest / 2)


def _likely(users: Adaptation, fit: Adaptation, pairs: Any) -> dict[str, Any]:
    """B less its part in B_diamond, Theta - Theta*, the chances' changes, and both divergences."""
    change = logistic(pairs.logits(fit.delta)) - logistic(pairs.logits(users.delta))
    root, best = np.sqrt(pairs.weights)[..., None, :], users.B
    count = len(change)
    return {
        "away": flat(fit.B - best @ (transpose(best) @ fit.B)),
        "error": (fit.delta - users.delta).reshape(count, -1),
        "chances": (root * change).reshape(count, -1),
        "kl": pairs.divergence(users.delta, fit.delta),
        "best": pairs.divergence(users.delta, users.best),
        "m": pairs.steepness(users.delta, fit.delta),
        "least": np.maximum(lambda_min(pairs.moment), 0),
        "most": lambda_max(pairs.moment),
        "nu": users.nu * users.users,
        "tail": users.tail,
    }


@g.theorem("psl.theorem_4_1_corrected", at=_likely)
def theorem_4_1_corrected(p: g.Problem) -> None:
    """16 m^2 lambda_min N nu dist^2 <= 16 m^2 lambda_min ||Theta - Theta*||^2 <= 8 sum KL, at most
    lambda_max Sigma_tail.
    """
    away, error = p.vector("away", "d1 k"), p.vector("error", "parameters")
    chances, kl, best = p.vector("chances", "comparisons"), p.value("kl"), p.value("best")
    m, least, most, nu, tail = p.parameters_named("m least most nu tail")
    p.assume(nu * away.squared <= error.squared, "psl.lemma_5_corrected")
    p.assume(m**2 * least * error.squared <= chances.squared, "psl.lemma_5_coverage")
    p.assume(2 * chances.squared <= kl, "Pinsker: KL >= ||P - P'||_1^2/2")
    p.assume(kl <= best, "Theta is at least as likely as Theta_diamond, for all data")
    p.assume(8 * best <= most * tail, "KL <= (a - b)^2/8, and E <D, X>^2 <= lambda_max ||D||^2")
    p.show(16 * m**2 * least * nu * away.squared <= most * tail)


# Algorithms 2 to 4, and Corollaries 4.1 and B.1.


def _step(A: Numbers, B: Numbers, x: Numbers, o: Numbers, share: Numbers) -> dict[str, Any]:
    """grad_A f, the gain of the step along it, the step size and the curvature."""
    along = x @ transpose(B)
    curvature = squares(along) / 4
    size = 2 * share / curvature
    before = inner(A @ B, x)
    slope = (o - logistic(before))[:, None, None] * along
    after = inner((A + size[:, None, None] * slope) @ B, x)
    chances = [o * log_logistic(r) + (1 - o) * log_logistic(-r) for r in (before, after)]
    return {
        "slope": flat(slope),
        "gain": chances[1] - chances[0],
        "size": size,
        "curvature": curvature,
        "share": share,
    }


@g.theorem("psl.algorithm_2_corrected", at=_step)
def algorithm_2_corrected(p: g.Problem) -> None:
    """A step of eta = 2 share/curvature gains eta (1 - share) ||grad_A f||^2 or more."""
    slope, gain = p.vector("slope", "parameters"), p.value("gain")
    size, curvature, share = p.parameters_named("size curvature share")
    kept = size * slope.squared - curvature * size**2 * slope.squared / 2
    p.assume(gain >= kept, "f is ||x B'||_F^2/4-smooth in A")
    p.assume(size * curvature <= 2 * share, "the learning rate as a share of 8/||x B'||_F^2")
    p.show((1 - share) * size * slope.squared <= gain)


def _choices(users: Adaptation, fit: Adaptation, pairs: Any, v: Numbers) -> dict[str, Any]:
    """v_tar - v of the choices and Theta* - Theta_hat, of all users; changes of chances."""
    best = v @ transpose(flat(fit.delta))
    chosen = np.take_along_axis(v, best.argmax(axis=-2)[..., None], axis=-2)
    count = len(v)
    error = flat(users.delta - fit.delta)
    least = lambda_min(pairs.moment)
    return {
        "moved": _share(v[..., :1, :] - chosen, -2).reshape(count, -1),
        "error": _share(error, -2).reshape(count, -1),
        "V": norm(v).max(axis=-1),
        "slope": pairs.steepness(users.delta, fit.delta) * np.sqrt(np.maximum(least, 0 * least)),
        "spread": np.sqrt(pairs.apart(fit.delta, users.delta) / users.users),
        "gap": ((v[..., :1, :] - chosen) * flat(users.delta)).sum(axis=-1).mean(axis=-1),
    }


@g.theorem("psl.corollary_4_1_corrected", at=_choices)
def corollary_4_1_corrected(p: g.Problem) -> None:
    """m sqrt(lambda_min) mean gap <= V sqrt(eta)."""
    moved, error = p.vectors("moved error", "users' parameters")
    V, slope, spread, gap = *p.parameters_named("V slope spread"), p.value("gap")
    p.assume(gap <= moved @ error, "each choice is the best for Theta_hat_i")
    p.bounded(moved, 2 * V, "V is the longest v")
    p.bounded(slope * error, spread / 2, "psl.lemma_5_coverage")
    p.cauchy_schwarz(moved, slope * error, "Cauchy-Schwarz")
    p.show(slope * gap <= V * spread)
