"""Vectors of eight lanes as numba values: a lane is a replicate, an operation one instruction.

numba's own loops over a lane axis spill every intermediate to memory.  Here a vector is an LLVM
value (``<8 x double>``, ``<8 x i64>``, ``<8 x i1>``) that lives in a register; on a processor with
narrower units LLVM splits it, with the same numbers.  Fused multiply-adds are explicit and nothing
is reassociated, so that a result depends on neither the processor's width nor the compiler's
choices.

Memory is addressed by integers, the ``ctypes.data`` of arrays that the caller keeps alive: numba
would count references at every call that is handed an array, which costs more than the arithmetic.
``load(p, k)`` reads row k of a C-contiguous float64 (or uint64) array of shape (rows, LANES) at
address p; no bounds are checked.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import intrinsic, lower_builtin, models, register_model
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature

__all__ = [
    "LANES",
    "bits_to_float",
    "float_to_bits",
    "fma",
    "fnma",
    "gather",
    "load",
    "load_bits",
    "lookup",
    "maximum",
    "rows_from",
    "scalar",
    "select",
    "splat",
    "splat_bits",
    "sqrt",
    "store",
    "store_bits",
    "to_float",
    "to_int",
]

LANES = 8

_F64, _I64, _I1, _I32 = ir.DoubleType(), ir.IntType(64), ir.IntType(1), ir.IntType(32)


class _Lanes(types.Type):
    """A vector type; ``element`` is its LLVM element."""

    def __init__(self, name: str, element: Any) -> None:
        self.element = element
        super().__init__(name=name)


F = _Lanes("f64lanes", _F64)
U = _Lanes("u64lanes", _I64)
M = _Lanes("masklanes", _I1)


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(fe_type.element, LANES))


def _vector(element: Any) -> Any:
    return ir.VectorType(element, LANES)


def _broadcast(builder: Any, scalar: Any) -> Any:
    vector = _vector(scalar.type)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)


def _binary(op: Any, kind: _Lanes, result: _Lanes, emit: Any) -> None:
    """Type and lower ``kind op kind``; a float scalar beside float lanes is broadcast."""
    pairs = [(kind, kind)]
    if kind is F:
        pairs += [(F, types.float64), (types.float64, F)]
    template = type(
        f"Lanes_{op.__name__}_{kind.name}",
        (ConcreteTemplate,),
        {
            "cases": [signature(result, *pair) for pair in pairs],
            "key": op,
        },
    )
    infer_global(op)(template)
    for pair in pairs:

        def lower(context: Any, builder: Any, sig: Any, args: Any, emit: Any = emit) -> Any:
            left, right = (
                value if isinstance(given, _Lanes) else _broadcast(builder, value)
                for value, given in zip(args, sig.args, strict=True)
            )
            return emit(builder, left, right)

        lower_builtin(op, *pair)(lower)


_binary(operator.add, F, F, lambda b, x, y: b.fadd(x, y))
_binary(operator.sub, F, F, lambda b, x, y: b.fsub(x, y))
_binary(operator.mul, F, F, lambda b, x, y: b.fmul(x, y))
_binary(operator.truediv, F, F, lambda b, x, y: b.fdiv(x, y))
_binary(operator.lt, F, M, lambda b, x, y: b.fcmp_ordered("<", x, y))
_binary(operator.eq, F, M, lambda b, x, y: b.fcmp_ordered("==", x, y))
_binary(operator.add, U, U, lambda b, x, y: b.add(x, y))
_binary(operator.sub, U, U, lambda b, x, y: b.sub(x, y))
_binary(operator.mul, U, U, lambda b, x, y: b.mul(x, y))
_binary(operator.xor, U, U, lambda b, x, y: b.xor(x, y))
_binary(operator.or_, U, U, lambda b, x, y: b.or_(x, y))
_binary(operator.and_, U, U, lambda b, x, y: b.and_(x, y))
_binary(operator.lshift, U, U, lambda b, x, y: b.shl(x, y))
_binary(operator.rshift, U, U, lambda b, x, y: b.lshr(x, y))


def _unary(name: str, source: _Lanes, result: _Lanes, emit: Any, doc: str) -> Any:
    def typed(typingctx: Any, v: Any) -> Any:
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return emit(builder, args[0])

        return signature(result, source), lower

    typed.__name__ = name
    typed.__doc__ = doc
    return intrinsic(typed)


def _call(name: str, arity: int) -> Any:
    """Emit a call of an elementwise LLVM intrinsic on float lanes."""

    def emit(builder: Any, *args: Any) -> Any:
        vector = _vector(_F64)
        # llvmlite cannot mangle vector types, so the overloaded name is spelled out.
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * arity), f"llvm.{name}.v{LANES}f64"
        )
        return builder.call(function, args)

    return emit


sqrt = _unary("sqrt", F, F, _call("sqrt", 1), "Square root of each lane.")
float_to_bits = _unary(
    "float_to_bits", F, U, lambda b, v: b.bitcast(v, _vector(_I64)), "IEEE bits of each lane."
)
bits_to_float = _unary(
    "bits_to_float", U, F, lambda b, v: b.bitcast(v, _vector(_F64)), "The double with these bits."
)
to_int = _unary(
    "to_int", F, U, lambda b, v: b.fptosi(v, _vector(_I64)), "Truncate towards zero; |v| < 2^63."
)
to_float = _unary(
    "to_float", U, F, lambda b, v: b.uitofp(v, _vector(_F64)), "Unsigned integer to double."
)


def _fused(name: str, negate: bool, doc: str) -> Any:
    """A multiply-add with one rounding; scalars are broadcast."""

    def typed(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            left, right, addend = (
                v if isinstance(t, _Lanes) else _broadcast(builder, v)
                for v, t in zip(args, sig.args, strict=True)
            )
            left = builder.fneg(left) if negate else left
            return _call("fma", 3)(builder, left, right, addend)

        as_lanes = [t if isinstance(t, _Lanes) else types.float64 for t in (a, b, c)]
        return signature(F, *as_lanes), lower

    typed.__name__, typed.__doc__ = name, doc
    return intrinsic(typed)


fma = _fused("fma", False, "a * b + c with one rounding; scalars are broadcast.")
fnma = _fused("fnma", True, "c - a * b with one rounding; scalars are broadcast.")


@intrinsic
def maximum(typingctx: Any, a: Any, b: Any) -> Any:
    """The larger of two lanes, ``b`` where ``a`` is NaN: what one hardware instruction computes."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return signature(F, F, F), lower


@intrinsic
def select(typingctx: Any, mask: Any, a: Any, b: Any) -> Any:
    """``a`` where the mask holds, else ``b``."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(*args)

    return signature(a, M, a, a), lower


@intrinsic
def splat(typingctx: Any, value: Any) -> Any:
    """A float in every lane."""
    return signature(F, types.float64), lambda context, b, sig, args: _broadcast(b, args[0])


@intrinsic
def splat_bits(typingctx: Any, value: Any) -> Any:
    """An unsigned 64-bit integer in every lane."""
    return signature(U, types.uint64), lambda context, b, sig, args: _broadcast(b, args[0])


def _pointer(builder: Any, address: Any, index: Any, kind: Any) -> Any:
    """A pointer to item ``index`` of an array of ``kind`` at ``address``."""
    size = LANES * 8 if isinstance(kind, ir.VectorType) else 8
    offset = builder.mul(index, ir.Constant(_I64, size))
    return builder.inttoptr(builder.add(address, offset), kind.as_pointer())


def _memory(name: str, result: Any, kind: Any, doc: str) -> tuple[Any, Any]:
    def load_typed(typingctx: Any, address: Any, index: Any) -> Any:
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.load(_pointer(builder, args[0], args[1], kind), align=8)

        return signature(result, types.intp, types.intp), lower

    def store_typed(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            builder.store(args[2], _pointer(builder, args[0], args[1], kind), align=8)
            return context.get_dummy_value()

        return signature(types.void, types.intp, types.intp, result), lower

    load_typed.__name__, store_typed.__name__ = f"load{name}", f"store{name}"
    load_typed.__doc__, store_typed.__doc__ = f"Read {doc}.", f"Write {doc}."
    return intrinsic(load_typed), intrinsic(store_typed)


@intrinsic
def rows_from(typingctx: Any, address: Any, index: Any) -> Any:
    """The address of row ``index``."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.add(args[0], builder.mul(args[1], ir.Constant(_I64, LANES * 8)))

    return signature(types.intp, types.intp, types.intp), lower


load, store = _memory("", F, _vector(_F64), "row ``index`` of lanes of doubles")
load_bits, store_bits = _memory(
    "_bits", U, _vector(_I64), "row ``index`` of lanes of 64-bit integers"
)
scalar, _ = _memory("_scalar", types.float64, _F64, "one double, item ``index``")


@intrinsic
def gather(typingctx: Any, address: Any, index: Any) -> Any:
    """Item ``index`` of an array of doubles, another one for each lane; indices are not checked."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        result = ir.Constant(_vector(_F64), ir.Undefined)
        for lane in range(LANES):
            at = ir.Constant(_I32, lane)
            item = builder.extract_element(args[1], at)
            one = builder.load(_pointer(builder, args[0], item, _F64), align=8)
            result = builder.insert_element(result, one, at)
        return result

    return signature(F, types.intp, U), lower


def _permuted(builder: Any, table: Any, index: Any) -> Any:
    """Items of a constant of 16 doubles that two registers hold, by AVX-512's permutation."""
    halves = builder.bitcast(table, _vector(_F64).as_pointer())
    low, high = (
        builder.load(builder.gep(halves, [ir.Constant(_I32, half)]), align=8) for half in (0, 1)
    )
    kind = ir.FunctionType(low.type, [low.type, index.type, low.type])
    name = f"llvm.x86.avx512.vpermi2var.pd.{LANES * 64}"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    return builder.call(function, [low, index, high])


def lookup(name: str, table: Sequence[int]) -> Any:
    """A function of ``index``, lanes of integers: the item ``index`` modulo 16 of ``table``.

    Args:
        name: of the function.
        table: the IEEE bits of 16 doubles.
    """
    values = ir.Constant(ir.ArrayType(_I64, 16), list(table))

    def typed(typingctx: Any, index: Any) -> Any:
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            held = cgutils.global_constant(builder.module, name, values)
            start = builder.bitcast(held, _F64.as_pointer())
            if "+avx512f" in context.codegen().magic_tuple()[-1]:
                return _permuted(builder, start, args[0])
            result = ir.Constant(_vector(_F64), ir.Undefined)
            for lane in range(LANES):
                at = ir.Constant(_I32, lane)
                item = builder.and_(builder.extract_element(args[0], at), ir.Constant(_I64, 15))
                result = builder.insert_element(
                    result, builder.load(builder.gep(start, [item])), at
                )
            return result

        return signature(F, U), lower

    typed.__name__ = name
    typed.__doc__ = f"Item ``index`` modulo 16 of the table {name}."
    return intrinsic(typed)
