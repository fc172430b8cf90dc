"""Inequalities between quadratic forms of vectors, proved for all dimensions at once.

A theorem is a :class:`Problem`: vectors, values of functions and parameters, what is assumed of
them, and what is shown. Its proof is an identity that is checked by exact arithmetic; what finds
it is a semidefinite program in the Gram matrix, which does not depend on the dimension.
"""

from ratecheck._certify.gram.classes import Function, LinearMap, Operator, SymmetricMap
from ratecheck._certify.gram.declared import Theorem, theorem
from ratecheck._certify.gram.forms import Form, Statement, Vector
from ratecheck._certify.gram.problem import Problem
from ratecheck._certify.gram.proof import Proof, prove
from ratecheck._certify.gram.solve import Unproved, WorstCase, worst_case
from ratecheck._certify.gram.verify import positive_semidefinite

__all__ = [
    "Form",
    "Function",
    "LinearMap",
    "Operator",
    "Problem",
    "Proof",
    "Statement",
    "SymmetricMap",
    "Theorem",
    "Unproved",
    "Vector",
    "WorstCase",
    "positive_semidefinite",
    "prove",
    "theorem",
    "worst_case",
]
