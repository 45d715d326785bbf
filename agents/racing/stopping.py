"""When a race is over: the paper's stop, one that knows no scale, and a fixed number of samples.

Letters: K arms, d draws so far in a race, delta error probability.

The self-normalised stop ends a race in one of two ways.

It is *clear*: the leader L is compared with every other arm j through the increments
D = v_L - v_j, which are at least -b for b = max(e^eps_L, e^eps_j) max w. Fan's inequality
exp(r x - psi(r) x^2) <= 1 + r x for x >= -1, psi(r) = -log(1 - r) - r, makes
exp(r S - psi(r) V), S = sum D / b, V = sum D^2 / b^2, a supermartingale wherever E[D] <= 0, for
each r in (0, 1). By Ville's inequality and a union over n values of r and K - 1 arms the largest of
r S - psi(r) V exceeds log(n (K - 1) / delta) for all j of a wrong leader, at any d, with
probability at most delta. Neither the scale of the weights nor e^eps enters, no tail is assumed
subgaussian and the bound is not asymptotic. One thing is taken on trust: max w is the largest
weight *seen*, or that of HEAVIEST effective samples if this is more. So the promise is delta if no
weight is larger; arms whose expectation rests on weights too rare to have been seen are beyond it,
as they are beyond every rule that knows no bound on the weights (Bahadur and Savage 1956).

Or it has *enough*: certainty about the leader is more than Thompson sampling asks for. The arm that
leads after a number of samples that was fixed before is a draw from the self-normalised importance
weights, whose law is within 12 / (effective sample size) of the target in any event's probability
(Agapiou et al. 2017, Theorem 2.1), and in practice far closer. So the race also stops once samples
enough are drawn for a chosen effective size, by the *share* of it that a sample is worth. That
share is known before the race, from draws that decide nothing (`agents.racing.vetting`): to stop
*when* the weights of the race itself reach the size prefers races that have not yet met their
largest weights (a table in `docs/racing-thompson.md` says how far that errs). Being clear takes an
effective sample size above log(n (K - 1) / delta) too: no leader is believed on fewer.

References:
    Fan, Grama and Liu (2015), "Exponential inequalities for martingales with applications".
    Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic
    confidence sequences".
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from bandit_gym.checks import check_choice, check_integer, check_keys, check_real, message
from bandit_gym.numerics.compiled import inner

TILTS = np.array([(r, -math.log1p(-r) - r) for r in (0.05, 0.1, 0.2, 0.4, 0.8)])
"""(n, 2) r and psi(r). Small r tell close arms apart after many draws, large r far ones soon."""

THRESHOLDS = ("printed", "shortened")
SCALES = ("value", "weight", "supremum")

MAX_SAMPLES = 100_000
MOST_SAMPLES = 10**7
"""In a race; the paper's threshold is kept for each of them."""

NO_GAP = np.array([np.inf])
"""The gaps of stops that do not ask for one."""

HEAVIEST = 2.0
"""Effective samples that one weight may stand for in a race, where its leader is to be clear."""

TINY = 1e-300
"""The least share that is divided by."""


class Bars(NamedTuple):
    """A stop, in the form that compiled loops read.

    Attributes:
        gaps: (max_samples + 1,) what the gap between the two best averages has to exceed after d
            draws, line 12; the last one stands for those after it.
        level: log(n / delta); with log(K - 1) what the leader's evidence has to exceed.
        by_value: whether v is divided by the largest v seen, and not by the largest w.
        max_samples: draws that end any race.
        peak: the largest weight there may be, over the sum of those of a race of full length.
        is_fixed: whether nothing else ends a race.
    """

    gaps: np.ndarray
    level: float
    by_value: bool
    max_samples: int
    peak: float = 0.0
    is_fixed: bool = False


class Sums(NamedTuple):
    """What the samples of one race add up to; see `Races`.

    Attributes:
        totals: (K,) of v.
        squares: (K,) of v^2.
        weight_sums: (2,) of w and of w^2.
        factors: (K,) e^{eps}.
    """

    totals: np.ndarray
    squares: np.ndarray
    weight_sums: np.ndarray
    factors: np.ndarray


class NamedStop:
    """What stops share: a name, and a dict that stands for them."""

    name: ClassVar[str]
    max_samples: int

    def to_dict(self) -> dict[str, Any]:
        """Return the dict from which `make_stop` makes an equal one."""
        return {"name": self.name, **vars(self)}

    def lengths(self, shares: np.ndarray) -> np.ndarray:
        """Return the (N,) samples that are enough, where one is worth (N,) effective ones."""
        return np.full(shares.shape, self.max_samples)


@dataclass(frozen=True)
class Paper(NamedStop):
    """Line 12 of Algorithm 2: f_1 - f_2 > 2 beta(m, delta) - sigma.

    Arguments:
        delta: error probability in (0, 1) that the threshold is made for.
        sigma: slack > 0: a winner whose expectation is below the best by less than this will do, in
            units of v after scaling.
        threshold: "printed" or "shortened"; see `threshold_function`.
        scale: what v is divided by, for sigma and beta mean something only for v in a known range.
            "value": the largest e^{eps_i} w(mu) seen in the race, which keeps v in [0, 1] so far.
            "weight": the largest w(mu) seen, e^{eps_i} left as it is, so that v may exceed 1.
            "supremum": the true largest value of e^{eps_i} w over all i and mu, under which
            Theorem 1 holds to the letter, at a cost that makes it an instrument and no agent; for
            built-in independent priors only.
        max_samples: a race ends here in any case; 10 million at most.
    """

    delta: float = 0.1
    sigma: float = 0.1
    threshold: str = "printed"
    scale: str = "value"
    max_samples: int = MAX_SAMPLES
    name = "paper"

    def __post_init__(self) -> None:
        check_real("delta", self.delta, above=0.0, below=1.0)
        check_real("sigma", self.sigma, above=0.0)
        check_choice("threshold", self.threshold, THRESHOLDS)
        check_choice("scale", self.scale, SCALES)
        _check_samples("max_samples", self.max_samples)

    def bars(self) -> Bars:
        """Return the threshold for each number of draws."""
        m = np.arange(1, self.max_samples + 1) + 1.0  # line 6: m is 1 before the first draw
        gaps = 2 * threshold_function(self.threshold, m, self.delta) - self.sigma
        gaps = np.append(np.inf, gaps)
        return Bars(gaps, math.inf, self.scale != "weight", self.max_samples)


@dataclass(frozen=True)
class SelfNormalised(NamedStop):
    """Knows no scale: over when the leader is clear, or has samples enough; see the module.

    Arguments:
        delta: error probability in (0, 1) with which a clear leader may be wrong.
        effective_samples: effective sample size > 0, finite, that is enough.
        max_samples: a race ends here in any case; 10 million at most.
    """

    delta: float = 0.1
    effective_samples: float = 12.0
    max_samples: int = MAX_SAMPLES
    name = "self-normalised"

    def __post_init__(self) -> None:
        check_real("delta", self.delta, above=0.0, below=1.0)
        check_real("effective_samples", self.effective_samples, above=0.0)
        _check_samples("max_samples", self.max_samples)

    def bars(self) -> Bars:
        """Return the evidence that makes a leader clear."""
        level = math.log(len(TILTS) / self.delta)
        return Bars(NO_GAP, level, False, self.max_samples, HEAVIEST / self.effective_samples)

    def lengths(self, shares: np.ndarray) -> np.ndarray:
        """Return the (N,) samples that are enough, where one is worth (N,) effective ones."""
        wanted = np.ceil(self.effective_samples / np.maximum(shares, TINY))
        return np.minimum(wanted, self.max_samples).astype(np.int64)


@dataclass(frozen=True)
class Fixed(NamedStop):
    """Over after a fixed number of samples: 1 is TS under q_0, ever more TS under the prior.

    Arguments:
        num_samples: from 1 to 10 million.
    """

    num_samples: int
    name = "fixed"

    def __post_init__(self) -> None:
        _check_samples("num_samples", self.num_samples)

    @property
    def max_samples(self) -> int:  # type: ignore[override]  # there is one number to tell
        """The samples of every race."""
        return self.num_samples

    def bars(self) -> Bars:
        """Return bars that are never met."""
        return Bars(NO_GAP, math.inf, True, self.num_samples, is_fixed=True)


Stop = Paper | SelfNormalised | Fixed
STOPS: Mapping[str, Any] = {kind.name: kind for kind in (SelfNormalised, Paper, Fixed)}
OPTIONS = sorted({field.name for kind in STOPS.values() for field in fields(kind)})

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_options(*kinds: type) -> Callable[[Function], Function]:
    """Let the signature of a function that takes `**options` name those of some stops."""

    def name_options(function: Function) -> Function:
        own = inspect.signature(function)
        named = {field.name: field for kind in reversed(kinds) for field in fields(kind)}
        rest = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        rest += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default)
            for name, field in named.items()
        ]
        function.__signature__ = own.replace(parameters=rest)  # type: ignore[attr-defined]
        return function

    return name_options


def make_stop(stopping: Stop | str | int | Mapping[str, Any], options: Mapping[str, Any]) -> Stop:
    """Return the stop that the argument of `RacingThompson` names.

    Args:
        stopping: a stop, its name, a dict of its name and options, or a number of samples.
        options: of a stop that is named.

    Raises:
        TypeError: if it is of another kind.
        ValueError: if the name is unknown, or an option is out of range or never read.
    """
    if isinstance(stopping, Mapping):
        options = {**stopping, **options}
        stopping = options.pop("name", "")
    kind = STOPS[check_choice("stopping", stopping, STOPS)] if isinstance(stopping, str) else None
    known = [field.name for field in fields(kind)] if kind else []
    for name in options.keys() - known:
        check_choice("an option of stopping", name, OPTIONS)
        condition = f"be left out with stopping={stopping!r}, which never reads it"
        raise ValueError(message(name, condition, options[name]))
    if isinstance(stopping, Stop):
        return stopping
    if kind is None:
        if not isinstance(stopping, Integral):
            condition = "be a stop, its name, a dict of its name and options, or a positive integer"
            raise TypeError(message("stopping", condition, stopping))
        return Fixed(_check_samples("stopping", stopping))
    check_keys(
        "stopping", options, required=["num_samples"] if kind is Fixed else [], optional=known
    )
    stop: Stop = kind(**options)
    return stop


def _check_samples(name: str, number: Any) -> int:
    return check_integer(name, number, minimum=1, maximum=MOST_SAMPLES)


def threshold_function(name: str, m: np.ndarray, delta: float) -> np.ndarray:
    """Return the threshold function beta(m, delta) of the paper at each m >= 1.

    "printed" is sqrt((log(1/delta) + 3 log log(1/delta) + 1.5 log log(em/2)) / 2m). Its second
    term is negative for delta > 1/e and the radicand is clamped at 0, so that at large delta the
    race stops at once. "shortened" leaves that term out; the paper's own sample counts (Table 2)
    come closer to it.
    """
    level = math.log(1 / delta)
    constant = level + 3 * math.log(level) if name == "printed" else level
    radicand = (constant + 1.5 * np.log(np.log(math.e * m / 2))) / (2 * m)
    return np.sqrt(np.maximum(radicand, 0.0))


@inner
def is_clear(level: float, sums: Sums, leader: int, largest: float) -> bool:
    """Say whether the evidence against all others exceeds the level.

    Args:
        level: what the evidence has to exceed.
        sums: per largest w seen.
        leader: whose evidence it is.
        largest: w there may be, >= 1 in that unit.
    """
    total, squares, factors = sums.totals, sums.squares, sums.factors
    for i in range(total.size):
        if i != leader:
            bound = largest * max(factors[leader], factors[i])
            gap = (total[leader] - total[i]) / bound
            variance = (squares[leader] + squares[i]) / (bound * bound)
            best = 0.0
            for k in range(TILTS.shape[0]):
                best = max(best, TILTS[k, 0] * gap - TILTS[k, 1] * variance)
            if best <= level:
                return False
    return True
