"""The public names of ratecheck and where each is defined."""

from ._certify import gram as gram
from ._certify.prove import Proof as Proof, certify as certify
from ._claims.claim import (
    Claim as Claim,
    NotChecked as NotChecked,
    RateClaim as RateClaim,
    Regime as Regime,
    Sides as Sides,
    StatisticalClaim as StatisticalClaim,
    claim as claim,
)
from ._claims.fields import (
    Axis as Axis,
    Field as Field,
    Numbers as Numbers,
    ball as ball,
    contraction as contraction,
    interval as interval,
    positive as positive,
    reals as reals,
    simplex as simplex,
    sphere as sphere,
    whole_numbers as whole_numbers,
)
from ._claims.paper import Paper as Paper
from ._claims.space import Fields as Fields, Space as Space
from ._claims.unit_cube import key_of as key_of, random_coordinates as random_coordinates
from ._conformance.algorithms import AlgorithmSuite as AlgorithmSuite
from ._conformance.claims import (
    Known as Known,
    Options as Options,
    check_claim as check_claim,
)
from ._conformance.experiments import ExperimentSuite as ExperimentSuite
from ._discover.catalogue import find_claims as find_claims
from ._discover.registry import find_experiment as find_experiment
from ._experiment.model import (
    Analysis as Analysis,
    BenchRow as BenchRow,
    Block as Block,
    Check as Check,
    Columns as Columns,
    Config as Config,
    Context as Context,
    Experiment as Experiment,
    Grid as Grid,
    Series as Series,
)
from ._experiment.panels import (
    Guide as Guide,
    Layout as Layout,
    Look as Look,
    Panel as Panel,
)
from ._experiment.parameters import param as param
from ._experiment.plots import (
    LOOKS as LOOKS,
    curve as curve,
    curves as curves,
    draw_panels as draw_panels,
    guide as guide,
    legend as legend,
    loglog as loglog,
    look as look,
    panels as panels,
    style as style,
)
from ._experiment.table import Column as Column, Table as Table, long_table as long_table
from ._foundations import (
    InputError as InputError,
    Quadratics as Quadratics,
    linalg as linalg,
    rounds as rounds,
)
from ._names import check_installed as check_installed, check_name as check_name
from ._processes.cluster import on_cluster as on_cluster
from ._processes.pool import (
    call_in_processes as call_in_processes,
    python_command as python_command,
)
from ._rates.intervals import (
    Ratio as Ratio,
    exponential as exponential,
    largest_mean as largest_mean,
    mean_above as mean_above,
    mean_interval as mean_interval,
    paired_ratio as paired_ratio,
)
from ._rates.laws import Law as Law
from ._rates.rates import (
    MIN_REPLICATES as MIN_REPLICATES,
    RESOLUTION as RESOLUTION,
    Interval as Interval,
    Slope as Slope,
    above as above,
    at_least as at_least,
    at_most as at_most,
    below as below,
    every as every,
    exact as exact,
    exact_slope as exact_slope,
    mean_band as mean_band,
    our_own as our_own,
    rate_check as rate_check,
    ratio as ratio,
    slope_error as slope_error,
    slope_interval as slope_interval,
    slope_shift as slope_shift,
    within as within,
)
from ._recursions import LinearRecursion as LinearRecursion
from ._run.runner import run as run
from ._store.machine import cores as cores, machine as machine, versions as versions
from ._store.store import Store as Store
from ._sweep.phase import phase_map as phase_map
from ._sweep.sweep import Sweep as Sweep, sweep as sweep
from ._verdicts.constant import Constant as Constant, tightest as tightest
from ._verdicts.testing import assert_holds as assert_holds
from ._verdicts.verdict import Verdict as Verdict, judge as judge, replay as replay
