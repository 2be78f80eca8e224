"""Work on 32 rows at once: the two steps of splitting a list that no compiler finds in a loop over rows.

    rows    7  9 12 15 18 ...                  32 rows of a list
    codes   3  8  2  2  9 ...                  what they have in the node's column, fetched one by one
    bits    1  0  1  1  0 ...    = codes <= 4  one comparison of two vectors
    packed  7 12 15 ...                        the marked rows side by side: one instruction of AVX-512

These are intrinsics: Numba puts the LLVM instructions they write in place of a call. Where the processor cannot pack
(`CAN_PACK`), or nothing is compiled, `route` has loops that do the same.
"""

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

LANES = 32
BIT, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
ROWS, MASK = ir.VectorType(I16, LANES), ir.VectorType(BIT, LANES)


def can_pack() -> bool:
    """Whether code is compiled, by an LLVM that knows how to pack, for a processor that has an instruction for it."""
    features = get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES
    return not config.DISABLE_JIT and llvm.llvm_version_info[0] >= 20 and "+avx512vbmi2" in features.split(",")


CAN_PACK = can_pack()


@intrinsic
def count(_: Any, bits: Any) -> Any:
    """How many bits are set."""
    return types.uint64(types.uint64), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


@intrinsic
def at_most(_: Any, column: Any, shift: Any, cut: Any, rows: Any, i: Any) -> Any:
    """Mark those of the rows i .. i+31 of a list whose code is at most the cut; both are shifted and may wrap around."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_data_type(signature.args[0].dtype)
        codes = join(builder, kind, fetch(context, builder, signature, arguments, 0, 3, arguments[4]))
        shift, cut = (fill(builder, codes.type, builder.trunc(arguments[k], kind)) for k in (1, 2))
        return as_bits(builder, builder.icmp_unsigned("<=", builder.add(codes, shift), builder.add(cut, shift)))

    return types.uint64(column, types.uint64, types.uint64, rows, types.uint64), write


@intrinsic
def listed(_: Any, column: Any, table: Any, rows: Any, i: Any) -> Any:
    """Mark those of the rows i .. i+31 of a list for whose code, or its lowest 16 bits, a table of bytes holds a one."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entries = []
        for code in fetch(context, builder, signature, arguments, 0, 2, arguments[3]):
            place = builder.and_(builder.zext(code, I64), I64(65535))
            entries.append(builder.load(pointer(context, builder, signature, arguments, 1, place)))
        found = join(builder, I8, entries)
        return as_bits(builder, builder.icmp_unsigned("!=", found, ir.Constant(found.type, [0] * LANES)))

    return types.uint64(column, table, rows, types.uint64), write


@intrinsic
def equal(_: Any, numbers: Any, i: Any, number: Any) -> Any:
    """Mark those of the numbers i .. i+31 that are a given one."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        numbers = load(context, builder, signature, arguments, 0, arguments[1])
        return as_bits(builder, builder.icmp_unsigned("==", numbers, fill(builder, ROWS, builder.trunc(arguments[2], I16))))

    return types.uint64(numbers, types.uint64, types.uint64), write


@intrinsic
def pack(_: Any, rows: Any, i: Any, bits: Any, target: Any, place: Any) -> Any:
    """Write those of the rows i .. i+31 that are marked to the target, side by side from a place on."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = arguments[2]
        rows = load(context, builder, signature, arguments, 0, arguments[1])
        packing = ir.FunctionType(ROWS, [ROWS, MASK, ROWS])
        mask = builder.bitcast(builder.trunc(bits, I32), MASK)
        packed = call(
            builder, "llvm.experimental.vector.compress.v32i16", packing, [rows, mask, ir.Constant(ROWS, ir.Undefined)]
        )
        first = builder.sub(builder.shl(I64(1), builder.ctpop(bits)), I64(1))  # as many bits as are set, from the lowest on
        target = builder.bitcast(pointer(context, builder, signature, arguments, 3, arguments[4]), ROWS.as_pointer())
        storing = ir.FunctionType(ir.VoidType(), [ROWS, ROWS.as_pointer(), I32, MASK])
        kept = builder.bitcast(builder.trunc(first, I32), MASK)
        call(builder, "llvm.masked.store.v32i16.p0", storing, [packed, target, I32(2), kept])
        return context.get_dummy_value()

    return types.void(rows, types.uint64, types.uint64, target, types.uint64), write


@intrinsic
def fetch_early(_: Any, array: Any, i: Any) -> Any:
    """Have an entry brought to fast memory while other work goes on; nothing where rows cannot be packed either."""

    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if CAN_PACK:
            place = builder.bitcast(pointer(context, builder, signature, arguments, 0, arguments[1]), I8.as_pointer())
            fetching = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
            call(builder, "llvm.prefetch.p0", fetching, [place, I32(0), I32(3), I32(1)])  # to read, to keep, it is data
        return context.get_dummy_value()

    return types.void(array, types.uint64), write


if config.DISABLE_JIT:

    def fetch_early(array, i):
        """Do nothing: an interpreter cannot be told."""


def pointer(context: Any, builder: Any, signature: Any, arguments: Any, k: int, i: Any) -> Any:
    """Where entry i of the array in argument k is."""
    array = context.make_array(signature.args[k])(context, builder, arguments[k])
    return builder.gep(array.data, [i])


def load(context: Any, builder: Any, signature: Any, arguments: Any, k: int, i: Any) -> Any:
    """The entries i .. i+31 of the array of rows in argument k."""
    return builder.load(builder.bitcast(pointer(context, builder, signature, arguments, k, i), ROWS.as_pointer()), align=2)


def fetch(context: Any, builder: Any, signature: Any, arguments: Any, column: int, rows: int, i: Any) -> list[Any]:
    """What the column in one argument has for the rows i .. i+31 of the list in another."""
    found = []
    for lane in range(LANES):
        row = builder.load(pointer(context, builder, signature, arguments, rows, builder.add(i, I64(lane))))
        found.append(builder.load(pointer(context, builder, signature, arguments, column, builder.zext(row, I64))))
    return found


def join(builder: Any, kind: Any, values: list[Any]) -> Any:
    """A vector of 32 values."""
    vector = ir.Constant(ir.VectorType(kind, LANES), ir.Undefined)
    for lane, value in enumerate(values):
        vector = builder.insert_element(vector, value, I32(lane))
    return vector


def as_bits(builder: Any, mask: Any) -> Any:
    """The 32 answers of a comparison as an integer."""
    return builder.zext(builder.bitcast(mask, I32), I64)


def fill(builder: Any, vector: Any, value: Any) -> Any:
    """A vector of one value."""
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, value, I32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def call(builder: Any, name: str, kind: Any, arguments: Any) -> Any:
    """Call an instruction that LLVM has as a function."""
    function = builder.module.globals.get(name)
    return builder.call(ir.Function(builder.module, kind, name) if function is None else function, arguments)
