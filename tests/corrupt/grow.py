"""Plans that are right by construction and that no planner would write.

Grown from wasm/src/plan/plan.zig's own rules: any operator over any type it allows, casts between all
types, calls of all functions, keys and aggregates over computed values, joins, steps in any order. What the
parser lets through, the evaluator must be able to run; mutated plans rarely get that far.
"""

from __future__ import annotations

import struct
from random import Random
from typing import NamedTuple

from querymode import _abi
from querymode._abi import (
    AggregateOp,
    AggregatePhase,
    ArithmeticOp,
    CompareOp,
    ExpressionTag,
    JoinKind,
    JoinSide,
    NodeTag,
    TypeTag,
)
from querymode.engine.plan_bytes import encode_build, encode_in_build, encode_join
from querymode.plan.bind import castable
from querymode.types import (
    BOOL,
    DataType,
    decimal,
    encode_type,
    fixed_binary,
    is_nested,
    time,
    timestamp,
    value_size,
)
from tests.corrupt.grow_calls import CallGrower

_PLAIN = [DataType(tag) for tag in (
    TypeTag.F64, TypeTag.I64, TypeTag.UTF8, TypeTag.BOOL, TypeTag.I32, TypeTag.F32, TypeTag.I8, TypeTag.I16,
    TypeTag.U8, TypeTag.U16, TypeTag.U32, TypeTag.U64, TypeTag.F16, TypeTag.I128, TypeTag.BINARY,
    TypeTag.DATE, TypeTag.INTERVAL,
)]  # fmt: skip
_NUMBERS = [DataType(tag) for tag in (
    TypeTag.I8, TypeTag.I16, TypeTag.I32, TypeTag.I64, TypeTag.I128, TypeTag.U8, TypeTag.U16, TypeTag.U32,
    TypeTag.U64, TypeTag.F32, TypeTag.F64,
)]  # fmt: skip
_UNORDERED = (TypeTag.NULL, TypeTag.LIST, TypeTag.STRUCTURE, TypeTag.MAP, TypeTag.F32VEC, TypeTag.F16VEC)
_NOT_IN_SETS = (*_UNORDERED, TypeTag.BOOL, TypeTag.INTERVAL, TypeTag.FIXED_BINARY)
_SIGNED = (
    TypeTag.I8,
    TypeTag.I16,
    TypeTag.I32,
    TypeTag.I64,
    TypeTag.I128,
    TypeTag.F32,
    TypeTag.F64,
    TypeTag.DECIMAL,
)
_TEXTS = (
    "", "a", "größe", "-1", "1.5e10", "2024-02-29", "2024-02-29 12:30:15.5", "true", "nan", "-0", "12:00:00",
    "99999999999999999999999", "1e400", "x" * 40, "%_\\",
)  # fmt: skip

Fields = list[tuple[str, DataType]]


class Built(NamedTuple):
    """What a plan may look into: the columns of a finished build, and its keys."""

    fields: Fields
    keys: list[DataType]


class Grower:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.fields: Fields = []
        self.builds: list[tuple[int, Built]] = []
        self.calls = CallGrower(random, lambda data_type: self.expression(data_type, self.depth + 1))
        #: Of the expression that is being grown.
        self.depth = 0
        #: A single row that cannot be cast ends a query: most plans try.
        self.strict_casts = random.choice((0.0, 0.0, 0.05, 0.3))
        #: One call of the wrong types is enough for a plan to be refused; most plans have none.
        self.raw_calls = 0.05 if random.random() < 0.15 else 0.0

    def plan(self, fields: Fields, builds: list[tuple[int, Built]] | None = None) -> bytes:
        """Over these columns; builds have handles."""
        self.fields = list(fields)
        self.builds = builds or []
        steps = [self.merge()] if self.random.random() < 0.15 else []
        steps += [self.step() for _ in range(self.random.choice((1, 1, 2, 3)) - len(steps))]
        if self.random.random() < 0.1:
            steps.append(self.repeat())
        if self.random.random() < 0.15:
            steps.append(self.partition())
        return self.assembled(fields, steps)

    def build_plan(self, fields: Fields) -> tuple[bytes, Built]:
        """One that ends in a build."""
        self.fields = list(fields)
        steps = [self.step() for _ in range(self.random.choice((0, 0, 1, 2)))]
        types = [self.some_type(_UNORDERED[1:]) for _ in range(self.random.choice((0, 1, 1, 1, 2, 3)))]
        keys = [self.expression(data_type, 1) for data_type in types]
        nulls_equal = self.random.random() < 0.3
        # Keys may be equal in all rows, and joins follow each other: products of large sides never end.
        few = struct.pack("<BQQ", NodeTag.LIMIT, 0, self.random.choice((0, 1, 20, 20, 100)))
        steps += [few, encode_build(keys, nulls_equal=nulls_equal)]
        return self.assembled(fields, steps), Built(self.fields, types)

    def assembled(self, fields: Fields, steps: list[bytes]) -> bytes:
        head = struct.pack("<IIH", _abi.PLAN_MAGIC, _abi.VERSION, len(self.builds))
        handles = b"".join(handle.to_bytes(4, "little") for handle, _ in self.builds)
        named = b"".join(_name(name) + encode_type(data_type) for name, data_type in fields)
        counts = len(fields).to_bytes(2, "little"), len(steps).to_bytes(2, "little")
        return head + handles + counts[0] + named + counts[1] + b"".join(steps)

    # ---- steps ----

    def step(self) -> bytes:
        if self.builds and self.random.random() < 0.5:
            return self.join()
        return self.random.choice(
            (self.filter, self.project, self.project, self.aggregate, self.sort, self.limit)
        )()

    def filter(self) -> bytes:
        return bytes((NodeTag.FILTER,)) + self.expression(BOOL, 0)

    def project(self) -> bytes:
        items = [(f"p{place}", self.any_type()) for place in range(self.random.randrange(1, 4))]
        wire = b"".join(_name(name) + self.expression(data_type, 0) for name, data_type in items)
        self.fields = items
        return bytes((NodeTag.PROJECT,)) + len(items).to_bytes(2, "little") + wire

    def sort(self) -> bytes:
        return bytes((NodeTag.SORT,)) + self.order()[0]

    def order(self) -> tuple[bytes, list[DataType]]:
        """Keys and limit of a sort or a merge, and the keys' types."""
        types = [self.some_type(_UNORDERED) for _ in range(self.random.choice((1, 1, 2)))]
        keys = b""
        for data_type in types:
            flags = bytes((self.random.randrange(2), self.random.randrange(2)))
            keys += flags + self.expression(data_type, 1)
        limit = self.random.choice((0, 1, 3, 1000, 0x3FFF_FFFE, 0xFFFF_FFFF, (1 << 64) - 1))
        return len(types).to_bytes(2, "little") + keys + limit.to_bytes(8, "little"), types

    def merge(self) -> bytes:
        bounds = self.random.randrange(4)
        order, types = self.order()
        values = [
            self.value(data_type, self.random.random() < 0.2) for data_type in types * bounds.bit_count()
        ]
        return bytes((NodeTag.MERGE, bounds)) + order + b"".join(values)

    def partition(self) -> bytes:
        count = self.random.choice((1, 2, 3, 64, 1000, 65_535))
        keys = [self.expression(self.any_type(), 1) for _ in range(self.random.randrange(3))]
        head = bytes((NodeTag.PARTITION,)) + struct.pack("<HH", count, len(keys))
        return head + b"".join(keys)

    def repeat(self) -> bytes:
        """Up to a hundred times: more would end at the limit of memory, or not for a long time."""
        number = DataType(TypeTag.I64)
        head = bytes((NodeTag.REPEAT, ExpressionTag.ARITHMETIC, ArithmeticOp.MODULO)) + encode_type(number)
        hundred = bytes((ExpressionTag.LITERAL,)) + encode_type(number) + b"\0" + (100).to_bytes(8, "little")
        return head + self.expression(number, 1) + hundred

    def limit(self) -> bytes:
        numbers = (0, 1, 5, 1 << 32, (1 << 64) - 1)
        return struct.pack("<BQQ", NodeTag.LIMIT, self.random.choice(numbers), self.random.choice(numbers))

    def aggregate(self) -> bytes:
        keys = b""
        fields: Fields = []
        key_count = self.random.choice((0, 1, 1, 2))
        for place in range(key_count):
            data_type = self.some_type(_UNORDERED[1:])
            keys += _name(f"k{place}") + self.expression(data_type, 1)
            fields.append((f"k{place}", data_type))
        calls = b""
        call_count = self.random.randrange(1, 4)
        for place in range(call_count):
            call, data_type = self.call(f"c{place}")
            calls += call
            fields.append((f"c{place}", data_type))
        self.fields = fields
        head = struct.pack("<BBIH", NodeTag.AGGREGATE, AggregatePhase.COMPLETE, 0, key_count)
        return head + keys + call_count.to_bytes(2, "little") + calls

    def call(self, name: str) -> tuple[bytes, DataType]:
        """An aggregate's wire form, and what it gives."""
        op = self.random.choice(list(AggregateOp))
        given, result = self.call_types(op)
        arguments = [] if given is None else [self.expression(given, 1)]
        if op == AggregateOp.STRING_AGG:
            arguments.append(self.literal(DataType(TypeTag.UTF8)))
        elif op in (AggregateOp.PERCENTILE_CONT, AggregateOp.PERCENTILE_DISC):
            arguments.append(self.fraction())
        filtered = self.random.random() < 0.2
        distinct = op != AggregateOp.COUNT_ROWS and self.random.random() < 0.2
        flags = distinct * _abi.AGGREGATE_DISTINCT | filtered * _abi.AGGREGATE_FILTERED
        wire = bytes((op, flags)) + _name(name) + bytes((len(arguments),)) + b"".join(arguments)
        return wire + (self.expression(BOOL, 1) if filtered else b""), result

    def call_types(self, op: AggregateOp) -> tuple[DataType | None, DataType]:
        """What an aggregate takes and what it gives."""
        real = DataType(TypeTag.F64)
        if op in (AggregateOp.COUNT_ROWS, AggregateOp.COUNT):
            return None if op == AggregateOp.COUNT_ROWS else self.any_type(), DataType(TypeTag.I64)
        if op in (AggregateOp.SUM, AggregateOp.AVG):
            given = self.random.choice([*_NUMBERS, DataType(TypeTag.F16), decimal(9, 2), decimal(38, 4)])
            if op == AggregateOp.AVG or given.tag in (TypeTag.F16, TypeTag.F32, TypeTag.F64):
                return given, real
            is_decimal = given.tag == TypeTag.DECIMAL
            return given, decimal(38, given.scale) if is_decimal else DataType(TypeTag.I128)
        if op.name.startswith(("STDDEV", "VAR")):
            return real, real
        if op.name.startswith("BOOL"):
            return BOOL, BOOL
        if op == AggregateOp.STRING_AGG:
            given = DataType(TypeTag.UTF8)
        elif op in (AggregateOp.MEDIAN, AggregateOp.PERCENTILE_CONT):
            given = self.random.choice((real, DataType(TypeTag.F32), decimal(9, 2), time(2), timestamp(3)))
        elif op in (AggregateOp.FIRST, AggregateOp.LAST, AggregateOp.ANY_VALUE):
            given = self.any_type()
        else:
            given = self.some_type(_UNORDERED)
        return given, given

    def fraction(self) -> bytes:
        value = self.random.choice((0.0, 0.5, 1.0, -0.25, -1.0, 0.999))
        if self.random.random() < 0.5:
            return bytes((ExpressionTag.LITERAL, TypeTag.F64, 0)) + struct.pack("<d", value)
        head = bytes((ExpressionTag.LITERAL,)) + encode_type(decimal(4, 3))
        return head + b"\0" + struct.pack("<q", round(value * 1000))

    def join(self) -> bytes:
        """With any of the builds; which columns come out, and in which order, is chance too."""
        place = self.random.randrange(len(self.builds))
        built = self.builds[place][1]
        kind = self.random.choice(list(JoinKind))
        keys = [self.expression(data_type, 1) for data_type in built.keys]
        choices = [(JoinSide.INPUT, at, data_type) for at, (_, data_type) in enumerate(self.fields)]
        if kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SINGLE):
            choices += [(JoinSide.BUILD, at, data_type) for at, (_, data_type) in enumerate(built.fields)]
        elif kind == JoinKind.MARK:
            choices.append((JoinSide.MARK, 0, BOOL))
        picks = [self.random.choice(choices) for _ in range(self.random.randrange(5))] if choices else []
        residual = None
        if self.random.random() < 0.3:
            before, self.fields = self.fields, [*self.fields, *built.fields]
            residual = self.expression(BOOL, 2)
            self.fields = before
        outputs = [(f"j{number}", side, column) for number, (side, column, _) in enumerate(picks)]
        self.fields = [(f"j{number}", data_type) for number, (_, _, data_type) in enumerate(picks)]
        return encode_join(place, kind, keys, outputs, residual)

    # ---- types ----

    def any_type(self) -> DataType:
        if self.fields and self.random.random() < 0.6:
            return self.random.choice(self.fields)[1]
        if self.random.random() < 0.7:
            return self.random.choice(_PLAIN)
        return self.random.choice((
            decimal(self.random.choice((1, 9, 18)), self.random.choice((0, 2, -3))),
            decimal(self.random.choice((19, 38)), self.random.choice((0, 10, 38, -38))),
            fixed_binary(self.random.choice((0, 1, 5, 16, 1000))),
            time(self.random.randrange(4)),
            timestamp(self.random.randrange(4)),
            timestamp(self.random.randrange(4), "Europe/Berlin"),
        ))  # fmt: skip

    def some_type(self, without: tuple[TypeTag, ...]) -> DataType:
        for _ in range(20):
            found = self.any_type()
            if found.tag not in without:
                return found
        return DataType(TypeTag.I64)

    # ---- expressions ----

    def expression(self, wanted: DataType, depth: int) -> bytes:
        """Any expression of that type."""
        random = self.random
        columns = [place for place, (_, data_type) in enumerate(self.fields) if data_type == wanted]
        leaf = depth > 4 or random.random() < 0.2
        if columns and (leaf or random.random() < 0.4):
            return bytes((ExpressionTag.COLUMN,)) + random.choice(columns).to_bytes(2, "little")
        if is_nested(wanted) and columns:
            return bytes((ExpressionTag.COLUMN,)) + random.choice(columns).to_bytes(2, "little")
        if leaf and not is_nested(wanted):
            return self.literal(wanted)
        if random.random() < 0.25:
            return self.function(wanted, depth)
        if random.random() < 0.1:
            return self.choice(wanted, depth)
        if wanted == BOOL and random.random() < 0.8:
            return self.predicate(depth)
        if wanted.tag in _SIGNED and random.random() < 0.2:
            return bytes((ExpressionTag.NEGATE,)) + self.expression(wanted, depth + 1)
        if wanted in _NUMBERS and random.random() < 0.5:
            return self.arithmetic(wanted, depth)
        if wanted.tag == TypeTag.DECIMAL and random.random() < 0.5:
            return self.decimal_arithmetic(wanted, depth)
        source = self.any_type()
        return self.cast(wanted, source, self.expression(source, depth + 1))

    def cast(self, wanted: DataType, source: DataType, value: bytes) -> bytes:
        """Where there is no such cast, mostly by way of a text; nothing behind a refusal would be tested."""
        text = DataType(TypeTag.UTF8)
        if not castable(source, wanted) and self.random.random() < 0.97:
            if not castable(source, text) or not castable(text, wanted):
                return value if is_nested(wanted) else self.literal(wanted)
            value = self.cast(text, source, value)
        attempt = self.random.random() >= self.strict_casts
        return bytes((ExpressionTag.CAST, attempt)) + encode_type(wanted) + value

    def literal(self, wanted: DataType) -> bytes:
        return bytes((ExpressionTag.LITERAL,)) + self.value(wanted, self.random.random() < 0.2)

    def function(self, wanted: DataType, depth: int) -> bytes:
        """A call, cast to what is wanted if it gives something else."""
        before, self.depth = self.depth, depth
        try:
            if self.random.random() < self.raw_calls:
                return self.calls.raw(wanted)
            call = self.calls.call()
        finally:
            self.depth = before
        return call.wire if call.type == wanted else self.cast(wanted, call.type, call.wire)

    def choice(self, wanted: DataType, depth: int) -> bytes:
        """CASE or COALESCE."""
        count = self.random.randrange(1, 4)
        if self.random.random() < 0.5:
            values = b"".join(self.expression(wanted, depth + 1) for _ in range(count))
            return bytes((ExpressionTag.COALESCE,)) + count.to_bytes(2, "little") + values
        branches = b"".join(
            self.expression(BOOL, depth + 1) + self.expression(wanted, depth + 1) for _ in range(count)
        )
        otherwise = b"\1" + self.expression(wanted, depth + 1) if self.random.random() < 0.5 else b"\0"
        return bytes((ExpressionTag.CASE,)) + count.to_bytes(2, "little") + branches + otherwise

    def predicate(self, depth: int) -> bytes:
        random = self.random
        if self.builds and random.random() < 0.2:
            return self.in_build(depth)
        kind = random.choice(("compare", "compare", "between", "in", "like", "null", "and", "or", "not"))
        if kind in ("and", "or"):
            tag = ExpressionTag.LOGICAL_AND if kind == "and" else ExpressionTag.LOGICAL_OR
            count = random.randrange(1, 4)
            terms = b"".join(self.expression(BOOL, depth + 1) for _ in range(count))
            return bytes((tag,)) + count.to_bytes(2, "little") + terms
        if kind == "not":
            return bytes((ExpressionTag.LOGICAL_NOT,)) + self.expression(BOOL, depth + 1)
        if kind == "null":
            flags = bytes((ExpressionTag.IS_NULL, random.randrange(2)))
            return flags + self.expression(self.any_type(), depth + 1)
        if kind == "like":
            pattern = random.choice(("%", "a%", "%r%", "_", "", "%ö_e", "100\\%", "%a%b%c%")).encode()
            flags = bytes((ExpressionTag.LIKE, random.randrange(2), random.choice((0, 0, 0x5C))))
            value = self.expression(DataType(TypeTag.UTF8), depth + 1)
            return flags + value + len(pattern).to_bytes(4, "little") + pattern
        if kind == "compare":
            both = self.some_type(_UNORDERED)
            head = bytes((ExpressionTag.COMPARE, random.choice(list(CompareOp))))
            return head + self.expression(both, depth + 1) + self.expression(both, depth + 1)
        both = self.some_type(_NOT_IN_SETS)
        if kind == "between":
            value = self.expression(both, depth + 1)
            return bytes((ExpressionTag.BETWEEN,)) + value + self.value(both) + self.value(both)
        count = random.choice((0, 1, 3, 40))
        head = bytes((ExpressionTag.IN_LIST, random.randrange(2))) + self.expression(both, depth + 1)
        return head + count.to_bytes(4, "little") + b"".join(self.value(both) for _ in range(count))

    def in_build(self, depth: int) -> bytes:
        place = self.random.randrange(len(self.builds))
        keys = [self.expression(data_type, depth + 1) for data_type in self.builds[place][1].keys]
        return encode_in_build(place, keys)

    def arithmetic(self, both: DataType, depth: int) -> bytes:
        op = self.random.choice(list(ArithmeticOp))
        if op == ArithmeticOp.DIVIDE and both.tag not in (TypeTag.F32, TypeTag.F64):
            op = ArithmeticOp.DIVIDE_INTEGER
        head = bytes((ExpressionTag.ARITHMETIC, op)) + encode_type(both)
        return head + self.expression(both, depth + 1) + self.expression(both, depth + 1)

    def decimal_arithmetic(self, wanted: DataType, depth: int) -> bytes:
        op = self.random.choice((ArithmeticOp.ADD, ArithmeticOp.SUBTRACT, ArithmeticOp.MODULO))
        left = right = wanted
        if self.random.random() < 0.4 and abs(wanted.scale) < 30:
            op = ArithmeticOp.MULTIPLY
            scale = self.random.randrange(-5, 6)
            left, right = decimal(wanted.precision, scale), decimal(wanted.precision, wanted.scale - scale)
        head = bytes((ExpressionTag.ARITHMETIC, op)) + encode_type(wanted)
        return head + self.expression(left, depth + 1) + self.expression(right, depth + 1)

    def value(self, data_type: DataType, is_null: bool = False) -> bytes:
        head = encode_type(data_type)
        if is_null or data_type.tag == TypeTag.NULL:
            return head + b"\1"
        return head + b"\0" + self.plain_value(data_type)

    def plain_value(self, data_type: DataType) -> bytes:
        random = self.random
        if data_type.tag == TypeTag.BOOL:
            return bytes((random.randrange(2),))
        if data_type.tag in (TypeTag.UTF8, TypeTag.BINARY):
            text = random.choice(_TEXTS).encode()
            return len(text).to_bytes(4, "little") + text
        size = value_size(data_type)
        edge = random.randrange(6)
        if edge == 0:
            return bytes(size)
        if edge == 1:
            return b"\xff" * size
        if edge == 2 and size:  # the least of a signed integer, −0.0 of a float
            return bytes(size - 1) + b"\x80"
        if edge == 3 and size:
            return b"\xff" * (size - 1) + b"\x7f"
        if edge == 4 and size:
            return bytes((random.randrange(8),)) + bytes(size - 1)
        return random.randbytes(size)


def _name(name: str) -> bytes:
    raw = name.encode()
    return len(raw).to_bytes(2, "little") + raw
