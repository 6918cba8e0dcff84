"""Plans that are right by construction and that no planner would write.

Grown from wasm/src/plan/plan.zig's own rules: any operator over any type it allows, casts between all
types, keys and aggregates over computed values, steps in any order. What the parser lets through, the
evaluator must be able to run; mutated plans rarely get that far.
"""

from __future__ import annotations

import struct
from random import Random

from querymode import _abi
from querymode._abi import (
    AggregateOp,
    AggregatePhase,
    ArithmeticOp,
    CompareOp,
    ExpressionTag,
    NodeTag,
    TypeTag,
)
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


class Grower:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.fields: Fields = []

    def plan(self, fields: Fields) -> bytes:
        self.fields = list(fields)
        steps = [self.merge()] if self.random.random() < 0.15 else []
        steps += [self.step() for _ in range(self.random.choice((1, 1, 2, 3)) - len(steps))]
        if self.random.random() < 0.1:
            steps.append(self.repeat())
        if self.random.random() < 0.15:
            steps.append(self.partition())
        head = struct.pack("<IIHH", _abi.PLAN_MAGIC, _abi.VERSION, 0, len(fields))
        named = b"".join(_name(name) + encode_type(data_type) for name, data_type in fields)
        return head + named + len(steps).to_bytes(2, "little") + b"".join(steps)

    # ---- steps ----

    def step(self) -> bytes:
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
            op, argument, data_type = self.call()
            calls += bytes((op,)) + _name(f"c{place}") + (b"\0" if argument is None else b"\1" + argument)
            fields.append((f"c{place}", data_type))
        self.fields = fields
        head = bytes((NodeTag.AGGREGATE, AggregatePhase.COMPLETE)) + key_count.to_bytes(2, "little")
        return head + keys + call_count.to_bytes(2, "little") + calls

    def call(self) -> tuple[AggregateOp, bytes | None, DataType]:
        op = self.random.choice(list(AggregateOp))
        if op == AggregateOp.COUNT_ROWS:
            return op, None, DataType(TypeTag.I64)
        if op == AggregateOp.COUNT:
            return op, self.expression(self.any_type(), 1), DataType(TypeTag.I64)
        if op in (AggregateOp.MIN, AggregateOp.MAX):
            data_type = self.some_type((*_UNORDERED, TypeTag.INTERVAL))
            return op, self.expression(data_type, 1), data_type
        given = self.random.choice([*_NUMBERS, DataType(TypeTag.F16), decimal(9, 2), decimal(38, 4)])
        argument = self.expression(given, 1)
        if op == AggregateOp.AVG or given.tag in (TypeTag.F16, TypeTag.F32, TypeTag.F64):
            return op, argument, DataType(TypeTag.F64)
        return (
            op,
            argument,
            decimal(38, given.scale) if given.tag == TypeTag.DECIMAL else DataType(TypeTag.I128),
        )

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
            return bytes((ExpressionTag.LITERAL,)) + self.value(wanted, random.random() < 0.2)
        if wanted == BOOL and random.random() < 0.8:
            return self.predicate(depth)
        if wanted.tag in _SIGNED and random.random() < 0.2:
            return bytes((ExpressionTag.NEGATE,)) + self.expression(wanted, depth + 1)
        if wanted in _NUMBERS and random.random() < 0.5:
            return self.arithmetic(wanted, depth)
        if wanted.tag == TypeTag.DECIMAL and random.random() < 0.5:
            return self.decimal_arithmetic(wanted, depth)
        source = self.any_type()
        mode = random.random() < 0.8
        return bytes((ExpressionTag.CAST, mode)) + encode_type(wanted) + self.expression(source, depth + 1)

    def predicate(self, depth: int) -> bytes:
        random = self.random
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
