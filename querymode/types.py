"""Types of columns: what `dtypes()` prints, and their one wire form, shared by plans and QMCB.

The Python side of wasm/src/core/schema.zig, which says how values of each type are stored. A type is
a frozen value that can be compared, hashed and pickled. `str()` prints it, `parse_type` reads it back
and knows the usual SQL names as well. The wire form of a type is one byte of tag and its parameters:

    decimal       u8 precision, i8 scale        fixed_binary  u32 width
    f32vec f16vec u32 dimension                 time          u8 unit
    timestamp     u8 unit, u8 zone length, zone list          type
    structure     u16 count, count × (u16 name length, name, type)
    map           type of keys, type of values

Nothing here looks at values.
"""

from __future__ import annotations

from querymode._abi import TYPE_DEPTH_MAX, VALUE_SIZE_MAX, TimeUnit, TypeTag
from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    from querymode.errors import QueryModeError

    Buffer = bytes | bytearray | memoryview

DECIMAL_PRECISION_MAX = 38
#: The largest precision whose unscaled value always fits 8 bytes.
DECIMAL_PRECISION_NARROW = 18

_U8_MAX, _U16_MAX, _U32_MAX = 0xFF, 0xFFFF, 0xFFFF_FFFF

UNIT_NAMES = {
    TimeUnit.SECOND: "s",
    TimeUnit.MILLISECOND: "ms",
    TimeUnit.MICROSECOND: "us",
    TimeUnit.NANOSECOND: "ns",
}
_UNITS = {name: unit for unit, name in UNIT_NAMES.items()}

_INTEGERS = {
    TypeTag.I8: 1,
    TypeTag.I16: 2,
    TypeTag.I32: 4,
    TypeTag.I64: 8,
    TypeTag.I128: 16,
    TypeTag.U8: 1,
    TypeTag.U16: 2,
    TypeTag.U32: 4,
    TypeTag.U64: 8,
}
_UNSIGNED = (TypeTag.U8, TypeTag.U16, TypeTag.U32, TypeTag.U64)
_FLOATS = {TypeTag.F16: 2, TypeTag.F32: 4, TypeTag.F64: 8}
_TEMPORAL = {TypeTag.DATE: 4, TypeTag.TIME: 8, TypeTag.TIMESTAMP: 8, TypeTag.INTERVAL: 16}
_VECTORS = {TypeTag.F32VEC: 4, TypeTag.F16VEC: 2}
_NESTED = (TypeTag.LIST, TypeTag.STRUCTURE, TypeTag.MAP)
_WITH_WIDTH = (TypeTag.FIXED_BINARY, TypeTag.F32VEC, TypeTag.F16VEC)
_VALUE_SIZES = {**_INTEGERS, **_FLOATS, **_TEMPORAL}

#: Types that are their tag and nothing else, as they are printed.
_PLAIN_NAMES = {
    TypeTag.F64: "float64",
    TypeTag.I64: "int64",
    TypeTag.UTF8: "utf8",
    TypeTag.BOOL: "bool",
    TypeTag.NULL: "null",
    TypeTag.I32: "int32",
    TypeTag.F32: "float32",
    TypeTag.I8: "int8",
    TypeTag.I16: "int16",
    TypeTag.U8: "uint8",
    TypeTag.U16: "uint16",
    TypeTag.U32: "uint32",
    TypeTag.U64: "uint64",
    TypeTag.F16: "float16",
    TypeTag.I128: "int128",
    TypeTag.BINARY: "binary",
    TypeTag.DATE: "date",
    TypeTag.INTERVAL: "interval",
}


class DataType:
    """One type. Fields that a tag does not use keep their defaults, so equal types compare equal."""

    __slots__ = ("_depth", "_hash", "children", "precision", "scale", "tag", "unit", "width", "zone")

    tag: TypeTag
    precision: int
    scale: int
    unit: TimeUnit
    #: fixed_binary: bytes; vectors: dimension.
    width: int
    zone: str
    #: list: one, "item"; structure: its fields; map: "key" and "value".
    children: tuple[tuple[str, DataType], ...]
    _depth: int
    _hash: int

    def __init__(
        self,
        tag: int,
        *,
        precision: int = 0,
        scale: int = 0,
        unit: int = TimeUnit.SECOND,
        width: int = 0,
        zone: str = "",
        children: Iterable[tuple[str, DataType]] = (),
    ) -> None:
        put = object.__setattr__
        put(self, "tag", TypeTag(tag))
        put(self, "precision", precision)
        put(self, "scale", scale)
        put(self, "unit", TimeUnit(unit))
        put(self, "width", width)
        put(self, "zone", zone)
        put(self, "children", _named_children(self.tag, tuple(children)))
        put(self, "_depth", max((child._depth + 1 for _, child in self.children), default=0))
        put(self, "_hash", hash(self._key()))
        _check(self)

    def _key(self) -> tuple[object, ...]:
        return (self.tag, self.precision, self.scale, self.unit, self.width, self.zone, self.children)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a DataType cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a DataType cannot be changed: {name}")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, DataType):
            return NotImplemented
        return self._hash == other._hash and self._key() == other._key()

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (encode_type(self),)

    def __repr__(self) -> str:
        return f"<DataType {self}>"

    def __str__(self) -> str:
        plain = _PLAIN_NAMES.get(self.tag)
        return plain if plain is not None else _parametric_name(self)


def _unpickle(wire: bytes) -> DataType:
    return decode_type(wire, 0)[0]


def _named_children(
    tag: TypeTag, children: tuple[tuple[str, DataType], ...]
) -> tuple[tuple[str, DataType], ...]:
    # Other formats call the children of lists and maps by many names; here they have one.
    if tag == TypeTag.LIST and len(children) == 1:
        return (("item", children[0][1]),)
    if tag == TypeTag.MAP and len(children) == 2:
        return (("key", children[0][1]), ("value", children[1][1]))
    return children


def _check(data_type: DataType) -> None:
    """Refuses what the wire form cannot say, so that every DataType can be encoded."""
    tag = data_type.tag
    if tag == TypeTag.DECIMAL:
        if not 1 <= data_type.precision <= DECIMAL_PRECISION_MAX:
            raise _refused(data_type, f"the precision of a decimal is 1 to {DECIMAL_PRECISION_MAX}")
        if abs(data_type.scale) > DECIMAL_PRECISION_MAX:
            raise _refused(
                data_type, f"the scale of a decimal is -{DECIMAL_PRECISION_MAX} to {DECIMAL_PRECISION_MAX}"
            )
    elif data_type.precision or data_type.scale:
        raise _refused(data_type, "only decimals have precision and scale")
    if not 0 <= data_type.width <= _U32_MAX or (data_type.width and tag not in _WITH_WIDTH):
        raise _refused(data_type, "a width fits 32 bits and belongs to fixed_binary and vectors")
    if data_type.width * _VECTORS.get(tag, 1) > VALUE_SIZE_MAX:
        raise _refused(data_type, f"a value takes at most {VALUE_SIZE_MAX:,} bytes")
    if data_type.unit and tag not in (TypeTag.TIME, TypeTag.TIMESTAMP):
        raise _refused(data_type, "only time and timestamp have a unit")
    if data_type.zone and (tag != TypeTag.TIMESTAMP or len(_utf8(data_type.zone)) > _U8_MAX):
        raise _refused(data_type, "only timestamps have a zone, of at most 255 bytes")
    _check_children(data_type)


def _check_children(data_type: DataType) -> None:
    count = len(data_type.children)
    wanted = {TypeTag.LIST: 1, TypeTag.MAP: 2}.get(data_type.tag, 0)
    if data_type.tag != TypeTag.STRUCTURE and count != wanted:
        raise error("NOT_SUPPORTED", f"a {data_type.tag.name.lower()} has {wanted} types inside, not {count}")
    if count > _U16_MAX:
        raise error("NOT_SUPPORTED", f"a struct has at most {_U16_MAX} fields, not {count}")
    for name, _ in data_type.children:
        if len(_utf8(name)) > _U16_MAX:
            raise error("NOT_SUPPORTED", f"the name of a struct field has at most {_U16_MAX} bytes")
    if data_type._depth > TYPE_DEPTH_MAX:
        raise error("NOT_SUPPORTED", f"types may be nested {TYPE_DEPTH_MAX} deep, no deeper")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as cause:
        raise error("NOT_SUPPORTED", f"{text!r} in a type is not valid Unicode") from cause


def _refused(data_type: DataType, why: str) -> QueryModeError:
    return error("NOT_SUPPORTED", f"{data_type}: {why}")


# ---- the types there are ----

FLOAT64 = DataType(TypeTag.F64)
INT64 = DataType(TypeTag.I64)
UTF8 = DataType(TypeTag.UTF8)
BOOL = DataType(TypeTag.BOOL)
NULL = DataType(TypeTag.NULL)
INT32 = DataType(TypeTag.I32)
FLOAT32 = DataType(TypeTag.F32)
INT8 = DataType(TypeTag.I8)
INT16 = DataType(TypeTag.I16)
UINT8 = DataType(TypeTag.U8)
UINT16 = DataType(TypeTag.U16)
UINT32 = DataType(TypeTag.U32)
UINT64 = DataType(TypeTag.U64)
FLOAT16 = DataType(TypeTag.F16)
INT128 = DataType(TypeTag.I128)
BINARY = DataType(TypeTag.BINARY)
DATE = DataType(TypeTag.DATE)
INTERVAL = DataType(TypeTag.INTERVAL)

#: By tag, those without parameters.
PLAIN_TYPES = {
    data_type.tag: data_type
    for data_type in (
        *(FLOAT64, INT64, UTF8, BOOL, NULL, INT32, FLOAT32, INT8, INT16, UINT8, UINT16, UINT32, UINT64),
        *(FLOAT16, INT128, BINARY, DATE, INTERVAL),
    )
}


def decimal(precision: int, scale: int = 0) -> DataType:
    return DataType(TypeTag.DECIMAL, precision=precision, scale=scale)


def fixed_binary(width: int) -> DataType:
    return DataType(TypeTag.FIXED_BINARY, width=width)


def time(unit: int = TimeUnit.MICROSECOND) -> DataType:
    return DataType(TypeTag.TIME, unit=unit)


def timestamp(unit: int = TimeUnit.MICROSECOND, zone: str = "") -> DataType:
    return DataType(TypeTag.TIMESTAMP, unit=unit, zone=zone)


def vector(dimension: int, *, half: bool = False) -> DataType:
    return DataType(TypeTag.F16VEC if half else TypeTag.F32VEC, width=dimension)


def list_of(item: DataType) -> DataType:
    return DataType(TypeTag.LIST, children=(("item", item),))


def struct_of(fields: Iterable[tuple[str, DataType]]) -> DataType:
    return DataType(TypeTag.STRUCTURE, children=fields)


def map_of(key: DataType, value: DataType) -> DataType:
    return DataType(TypeTag.MAP, children=(("key", key), ("value", value)))


def map_entries(data_type: DataType) -> DataType:
    """What a map is a list of."""
    return struct_of(data_type.children)


# ---- questions ----


def is_integer(data_type: DataType) -> bool:
    return data_type.tag in _INTEGERS


def is_unsigned(data_type: DataType) -> bool:
    return data_type.tag in _UNSIGNED


def is_float(data_type: DataType) -> bool:
    return data_type.tag in _FLOATS


def is_decimal(data_type: DataType) -> bool:
    return data_type.tag == TypeTag.DECIMAL


def is_numeric(data_type: DataType) -> bool:
    return is_integer(data_type) or is_float(data_type) or is_decimal(data_type)


def is_temporal(data_type: DataType) -> bool:
    return data_type.tag in _TEMPORAL


def is_vector(data_type: DataType) -> bool:
    return data_type.tag in _VECTORS


def is_nested(data_type: DataType) -> bool:
    return data_type.tag in _NESTED


def has_offsets(data_type: DataType) -> bool:
    """utf8, binary, list, map: row count + 1 offsets say where each value lies."""
    return data_type.tag in (TypeTag.UTF8, TypeTag.BINARY, TypeTag.LIST, TypeTag.MAP)


def value_size(data_type: DataType) -> int:
    """Bytes of one value; 0 for types whose values have no fixed number of bytes."""
    tag = data_type.tag
    if tag in _VECTORS:
        return data_type.width * _VECTORS[tag]
    if tag == TypeTag.FIXED_BINARY:
        return data_type.width
    if tag == TypeTag.DECIMAL:
        return 8 if data_type.precision <= DECIMAL_PRECISION_NARROW else 16
    return _VALUE_SIZES.get(tag, 0)


# ---- the wire form ----


def encode_type(data_type: DataType) -> bytes:
    return bytes((data_type.tag,)) + encode_type_parameters(data_type)


def encode_type_parameters(data_type: DataType) -> bytes:
    """What follows the tag. QMCB keeps the tag in its header and this before the values."""
    tag = data_type.tag
    if tag == TypeTag.DECIMAL:
        return bytes((data_type.precision, data_type.scale & 0xFF))
    if tag in _WITH_WIDTH:
        return data_type.width.to_bytes(4, "little")
    if tag == TypeTag.TIME:
        return bytes((data_type.unit,))
    if tag == TypeTag.TIMESTAMP:
        zone = data_type.zone.encode()
        return bytes((data_type.unit, len(zone))) + zone
    if tag in (TypeTag.LIST, TypeTag.MAP):
        return b"".join(encode_type(child) for _, child in data_type.children)
    if tag == TypeTag.STRUCTURE:
        fields = (_encode_name(name) + encode_type(child) for name, child in data_type.children)
        return len(data_type.children).to_bytes(2, "little") + b"".join(fields)
    return b""


def _encode_name(name: str) -> bytes:
    raw = name.encode()
    return len(raw).to_bytes(2, "little") + raw


def decode_type(buffer: Buffer, position: int) -> tuple[DataType, int]:
    """The type at `position`, and where it ends. Anything else is INVALID_FORMAT."""
    return _decode_tagged(buffer, position, 0)


def _decode_tagged(buffer: Buffer, position: int, depth: int) -> tuple[DataType, int]:
    tag = decode_tag(_take(buffer, position, 1)[0], position)
    return decode_type_parameters(buffer, position + 1, tag, depth)


def decode_tag(value: int, position: int) -> TypeTag:
    try:
        return TypeTag(value)
    except ValueError:
        raise _invalid(f"there is no type with the tag {value}", position) from None


def decode_type_parameters(
    buffer: Buffer, position: int, tag: TypeTag, depth: int = 0
) -> tuple[DataType, int]:
    if depth > TYPE_DEPTH_MAX:
        raise _invalid(f"a type is nested deeper than {TYPE_DEPTH_MAX}", position)
    plain = PLAIN_TYPES.get(tag)
    if plain is not None:
        return plain, position
    if tag == TypeTag.DECIMAL:
        return _decode_decimal(buffer, position)
    if tag in _WITH_WIDTH:
        width = int.from_bytes(_take(buffer, position, 4), "little")
        if width * _VECTORS.get(tag, 1) > VALUE_SIZE_MAX:
            raise _invalid(f"a value of {tag.name.lower()} of {width:,} is too large", position)
        return DataType(tag, width=width), position + 4
    if tag == TypeTag.TIME:
        return DataType(tag, unit=_decode_unit(buffer, position)), position + 1
    if tag == TypeTag.TIMESTAMP:
        unit = _decode_unit(buffer, position)
        zone, end = _decode_text(buffer, position + 1, 1)
        return DataType(tag, unit=unit, zone=zone), end
    return _decode_nested(buffer, position, tag, depth)


def _decode_decimal(buffer: Buffer, position: int) -> tuple[DataType, int]:
    precision, scale = _take(buffer, position, 2)
    scale = scale - 256 if scale > 127 else scale
    if not 1 <= precision <= DECIMAL_PRECISION_MAX or abs(scale) > DECIMAL_PRECISION_MAX:
        raise _invalid(f"there is no decimal({precision},{scale})", position)
    return decimal(precision, scale), position + 2


def _decode_unit(buffer: Buffer, position: int) -> TimeUnit:
    value = _take(buffer, position, 1)[0]
    try:
        return TimeUnit(value)
    except ValueError:
        raise _invalid(f"there is no time unit {value}", position) from None


def _decode_text(buffer: Buffer, position: int, length_size: int) -> tuple[str, int]:
    size = int.from_bytes(_take(buffer, position, length_size), "little")
    raw = _take(buffer, position + length_size, size)
    try:
        return raw.decode(), position + length_size + size
    except UnicodeDecodeError as cause:
        raise _invalid("a name is not valid UTF-8", position + length_size + cause.start) from None


def decode_name(buffer: Buffer, position: int) -> tuple[str, int]:
    """A u16 length and that many bytes of UTF-8: names of columns and of struct fields."""
    return _decode_text(buffer, position, 2)


def _decode_nested(buffer: Buffer, position: int, tag: TypeTag, depth: int) -> tuple[DataType, int]:
    names = ("item",) if tag == TypeTag.LIST else ("key", "value")
    count = len(names)
    if tag == TypeTag.STRUCTURE:
        count = int.from_bytes(_take(buffer, position, 2), "little")
        position += 2
    fields = []
    for index in range(count):
        if tag == TypeTag.STRUCTURE:
            name, position = decode_name(buffer, position)
        else:
            name = names[index]
        child, position = _decode_tagged(buffer, position, depth + 1)
        fields.append((name, child))
    return DataType(tag, children=fields), position


def _take(buffer: Buffer, position: int, size: int) -> bytes:
    taken = bytes(buffer[position : position + size])
    if len(taken) != size:
        raise _invalid("the bytes end inside a type", position)
    return taken


def _invalid(message: str, offset: int) -> QueryModeError:
    return error("INVALID_FORMAT", f"{message} (at byte {offset})", offset=offset)


# ---- names ----


def _parametric_name(data_type: DataType) -> str:
    tag = data_type.tag
    unit = UNIT_NAMES[data_type.unit]
    children = [(_quoted(name), str(child)) for name, child in data_type.children]
    if tag == TypeTag.DECIMAL:
        return f"decimal({data_type.precision},{data_type.scale})"
    if tag == TypeTag.FIXED_BINARY:
        return f"fixed_binary({data_type.width})"
    if tag == TypeTag.TIME:
        return f"time({unit})"
    if tag == TypeTag.TIMESTAMP:
        zone = f", {_quoted(data_type.zone, '/+-:')}" if data_type.zone else ""
        return f"timestamp({unit}{zone})"
    if tag in _VECTORS:
        return f"vector({'f32' if tag == TypeTag.F32VEC else 'f16'}, {data_type.width})"
    if tag == TypeTag.STRUCTURE:
        return f"struct<{', '.join(f'{name}: {child}' for name, child in children)}>"
    return f"{tag.name.lower()}<{', '.join(child for _, child in children)}>"


def _quoted(name: str, also_plain: str = "") -> str:
    if name and all(character.isalnum() or character in "_" + also_plain for character in name):
        return name
    return '"' + name.replace('"', '""') + '"'


#: SQL names, as DuckDB means them, but for int8: there it is 8 bytes, here 8 bits, as `dtypes()` prints it.
_ALIASES = {
    **{name: PLAIN_TYPES[tag] for tag, name in _PLAIN_NAMES.items()},
    **dict.fromkeys(("bigint", "long"), INT64),
    **dict.fromkeys(("integer", "int", "int4", "signed"), INT32),
    **dict.fromkeys(("smallint", "short", "int2"), INT16),
    **dict.fromkeys(("tinyint", "int1"), INT8),
    **dict.fromkeys(("hugeint",), INT128),
    **dict.fromkeys(("ubigint",), UINT64),
    **dict.fromkeys(("uinteger", "uint"), UINT32),
    **dict.fromkeys(("usmallint",), UINT16),
    **dict.fromkeys(("utinyint",), UINT8),
    **dict.fromkeys(("double", "float8"), FLOAT64),
    **dict.fromkeys(("real", "float", "float4"), FLOAT32),
    **dict.fromkeys(("half", "halffloat"), FLOAT16),
    **dict.fromkeys(("varchar", "text", "string", "char", "bpchar", "character", "nvarchar"), UTF8),
    **dict.fromkeys(("boolean", "logical"), BOOL),
    **dict.fromkeys(("blob", "bytea", "varbinary"), BINARY),
    **dict.fromkeys(("decimal", "numeric", "dec"), decimal(18, 3)),
    **dict.fromkeys(("time",), time()),
    **dict.fromkeys(("timestamp", "datetime", "timestamp_us"), timestamp()),
    **dict.fromkeys(("timestamptz",), timestamp(zone="UTC")),
    "timestamp_s": timestamp(TimeUnit.SECOND),
    "timestamp_ms": timestamp(TimeUnit.MILLISECOND),
    "timestamp_ns": timestamp(TimeUnit.NANOSECOND),
}
#: Names whose second word adds nothing, and the word.
_SECOND_WORDS = {"double": "precision", "character": "varying", "char": "varying"}
_KNOWN_FORMS = (
    *_PLAIN_NAMES.values(),
    *("decimal(p,s)", "fixed_binary(n)", "time(unit)", "timestamp(unit, zone)", "vector(f32, n)"),
    *("vector(f16, n)", "list<T>", "struct<name: T, …>", "map<K, V>"),
)


def parse_type(text: str) -> DataType:
    """Reads what `str()` prints, and SQL: BIGINT, VARCHAR(10), DECIMAL(12, 2), INTEGER[], STRUCT(a INT).

    >>> str(parse_type("map<utf8, decimal(12,2)>"))
    'map<utf8, decimal(12,2)>'
    >>> str(parse_type("DOUBLE PRECISION[]"))
    'list<float64>'
    """
    parser = _Parser(text)
    data_type = parser.read_type(0)
    if parser.peek():
        raise parser.refuse("something follows the type")
    return data_type


class _Parser:
    """Recursive descent over one type; depth is bounded by the types themselves."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def refuse(self, why: str) -> QueryModeError:
        return error(
            "NOT_SUPPORTED",
            f"{self.text!r} is not a type we know: {why} (at character {self.position}). "
            f"Known are {', '.join(_KNOWN_FORMS)}, and SQL's names such as {', '.join(_SQL_NAMES)}",
        )

    def peek(self) -> str:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        return self.text[self.position : self.position + 1]

    def accept(self, character: str) -> bool:
        if self.peek() != character:
            return False
        self.position += 1
        return True

    def expect(self, character: str) -> None:
        if not self.accept(character):
            raise self.refuse(f"{character!r} is missing")

    def word(self, also_plain: str = "") -> str:
        self.peek()
        start = self.position
        while self.position < len(self.text):
            character = self.text[self.position]
            if not (character.isalnum() or character in "_" + also_plain):
                break
            self.position += 1
        return self.text[start : self.position]

    def accept_words(self, *words: str) -> bool:
        start = self.position
        for wanted in words:
            if self.word().casefold() != wanted:
                self.position = start
                return False
        return True

    def name(self, also_plain: str = "") -> str:
        if self.peek() != '"':
            return self.word(also_plain)
        parts = []
        while True:
            end = self.text.find('"', self.position + 1)
            if end < 0:
                raise self.refuse("a quote is not closed")
            parts.append(self.text[self.position + 1 : end])
            self.position = end + 1
            # A doubled quote inside stands for one.
            if self.text[end + 1 : end + 2] != '"':
                return '"'.join(parts)

    def number(self) -> int:
        self.peek()
        start = self.position
        if self.text[start : start + 1] in ("-", "+"):
            self.position += 1
        digits = self.word()
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
            self.position = start
            raise self.refuse("a number is missing")
        return int(self.text[start : self.position])

    def read_type(self, depth: int) -> DataType:
        if depth > TYPE_DEPTH_MAX:
            raise self.refuse(f"types may be nested {TYPE_DEPTH_MAX} deep, no deeper")
        start = self.position
        word = self.word().casefold()
        form = _FORMS.get(word)
        data_type = form(self, depth) if form is not None else self.plain(word, start)
        return self.arrays(data_type)

    def plain(self, word: str, start: int) -> DataType:
        data_type = _ALIASES.get(word)
        if data_type is None:
            self.position = start
            raise self.refuse(f"{word!r} is not a name of a type" if word else "a name is missing")
        if word in _SECOND_WORDS:
            self.accept_words(_SECOND_WORDS[word])
        # The length of a VARCHAR(n) is not kept, as in DuckDB.
        if data_type is UTF8 and self.accept("("):
            self.number()
            self.expect(")")
        return data_type

    def arrays(self, data_type: DataType) -> DataType:
        while self.accept("["):
            if self.accept("]"):
                data_type = list_of(data_type)
                continue
            if data_type not in (FLOAT32, FLOAT16):
                raise self.refuse("arrays of a fixed size are vectors of float32 or float16")
            data_type = vector(self.number(), half=data_type == FLOAT16)
            self.expect("]")
        return data_type

    def decimal(self, depth: int) -> DataType:
        if not self.accept("("):
            return _ALIASES["decimal"]
        precision = self.number()
        scale = self.number() if self.accept(",") else 0
        self.expect(")")
        return decimal(precision, scale)

    def fixed_binary(self, depth: int) -> DataType:
        self.expect("(")
        width = self.number()
        self.expect(")")
        return fixed_binary(width)

    def vector(self, depth: int) -> DataType:
        self.expect("(")
        kind = self.word().casefold()
        if kind not in ("f32", "float32", "f16", "float16"):
            raise self.refuse("a vector is of f32 or f16")
        self.expect(",")
        dimension = self.number()
        self.expect(")")
        return vector(dimension, half=kind in ("f16", "float16"))

    def unit(self) -> TimeUnit:
        word = self.word()
        if word.casefold() in _UNITS:
            return _UNITS[word.casefold()]
        # SQL counts the digits of the fraction.
        if word in tuple("0123456789"):
            return TimeUnit((int(word) + 2) // 3)
        raise self.refuse("a unit is s, ms, us or ns")

    def time(self, depth: int) -> DataType:
        unit = TimeUnit.MICROSECOND
        if self.accept("("):
            unit = self.unit()
            self.expect(")")
        self.accept_words("without", "time", "zone")
        return time(unit)

    def timestamp(self, depth: int) -> DataType:
        unit, zone = TimeUnit.MICROSECOND, ""
        if self.accept("("):
            unit = self.unit()
            if self.accept(","):
                zone = self.name("/+-:")
            self.expect(")")
        if self.accept_words("with", "time", "zone"):
            zone = zone or "UTC"
        else:
            self.accept_words("without", "time", "zone")
        return timestamp(unit, zone)

    def opening(self) -> str:
        """Consumes `<` or `(`; returns what closes it."""
        if self.accept("<"):
            return ">"
        self.expect("(")
        return ")"

    def list(self, depth: int) -> DataType:
        closing = self.opening()
        item = self.read_type(depth + 1)
        self.expect(closing)
        return list_of(item)

    def map(self, depth: int) -> DataType:
        closing = self.opening()
        key = self.read_type(depth + 1)
        self.expect(",")
        value = self.read_type(depth + 1)
        self.expect(closing)
        return map_of(key, value)

    def struct(self, depth: int) -> DataType:
        closing = self.opening()
        fields: list[tuple[str, DataType]] = []
        while not self.accept(closing):
            if fields:
                self.expect(",")
            name = self.name()
            self.accept(":")
            fields.append((name, self.read_type(depth + 1)))
        return struct_of(fields)


_FORMS = {
    **dict.fromkeys(("decimal", "numeric", "dec"), _Parser.decimal),
    "fixed_binary": _Parser.fixed_binary,
    "vector": _Parser.vector,
    "time": _Parser.time,
    **dict.fromkeys(("timestamp", "datetime"), _Parser.timestamp),
    "list": _Parser.list,
    "struct": _Parser.struct,
    "map": _Parser.map,
}
_SQL_NAMES = ("bigint", "integer", "smallint", "double", "real", "varchar", "boolean", "blob", "timestamptz")
