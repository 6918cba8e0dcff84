"""Arrow arrays made plain: dictionaries and runs become their values, views their bytes and items, extensions
what they are stored as. `plain_type` says what comes of a type.

A few bytes can stand for any number of rows: a run of two billion, a dictionary's entry in every row, views
of one buffer. So an array is a `Part` that knows what it would take before it is made plain; that is claimed
first, and it is made in pieces, with a look at the clock between them. Pieces become chunks of the column,
so that only a row that is larger than a piece is made as a whole.

Arrays are believed here: arrow/checks.py has been over them.
"""

from __future__ import annotations

from querymode import types
from querymode._call import check, claim
from querymode.arrow.checks import identity, view_lengths, view_sizes
from querymode.arrow.to_arrow import OFFSET_MAX, owned_buffer
from querymode.errors import error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    import numpy as np
    import pyarrow as pa

    # The stubs spell every kind of array and type; what is done here goes across all of them.
    Array = Any
    ArrowType = Any
    Numbers: TypeAlias = np.ndarray[Any, Any]

#: Rows that are measured and made at once: a morsel of eight bytes a row. Larger pieces leave the caches,
#: which makes dictionaries of text five times slower.
_PIECE_ROWS = 1 << 20
#: What a piece may come to; a row that is larger is one.
_PIECE_SIZE = 16 << 20
#: What is joined at once while nobody looks at the clock.
_CONCATENATED_MAX = 128 << 20
_POLL_SECONDS = 0.02
#: What the arrays of a piece take beside their values.
_PIECE_OVERHEAD = 2048
#: Dictionaries that are kept while the chunks of a column come by, which mostly share one.
_KEPT_MAX = 8


def plain_column(name: str, chunks: Any, target: ArrowType) -> Any:
    """A chunked array as one of `plain_type`; `target` is that of its type."""
    import pyarrow as pa

    given = chunks.type
    what = f"column {name!r} of {_shortened(given)}, as plain values,"
    try:
        try:
            measured = _measured(chunks, what)
            claim(int(sum(size or 0 for _, size in measured)), what)
            return pa.chunked_array(list(_made(measured, what)), target)
        except (pa.ArrowInvalid, pa.ArrowCapacityError):
            # A row that took little room may need offsets of 8 bytes.
            wide = _measured(chunks, what, large=True)
            return pa.chunked_array(list(_made(wide, what)), plain_type(given, large=True))
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as cause:
        raise error(
            "INVALID_FORMAT", f"column {name!r} of {given}: {cause}; cast it before", column=name
        ) from cause


def cast_array(name: str, given: Array, target: ArrowType) -> Array:
    """An array or a chunked one that has been checked, as one array of a plain type."""
    import pyarrow as pa

    if _stands_for_more(given.type):
        chunks = given if isinstance(given, pa.ChunkedArray) else pa.chunked_array([given])
        given = plain_column(name, chunks, plain_type(given.type))
    if isinstance(given, pa.ChunkedArray):
        if given.num_chunks > 1:
            claim(given.nbytes, f"joining the chunks of {name!r}")
        given = given.combine_chunks()
    if given.type == target:
        return given
    claim(int(len(given) * fixed_size(target)), f"{name!r} as {target}")
    return given.cast(target)


def _stands_for_more(kind: ArrowType) -> bool:
    """Whether the values may take more than the array does."""
    from pyarrow import types as kinds

    return (
        kinds.is_dictionary(kind)
        or kinds.is_run_end_encoded(kind)
        or kinds.is_string_view(kind)
        or kinds.is_binary_view(kind)
        or (kinds.is_nested(kind) and not kinds.is_union(kind) and plain_type(kind) != kind)
    )


def _shortened(kind: ArrowType) -> str:
    text = str(kind)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _measured(chunks: Any, what: str, *, large: bool = False) -> list[tuple[Part, float | None]]:
    """Pieces by rows, and the bytes that each will take.

    None: to be asked when it is made. To measure views is to read all of them, which costs less then.
    """
    count = sum(-(-len(chunk) // _PIECE_ROWS) for chunk in chunks.chunks)
    claim(_PIECE_OVERHEAD * count, what)
    parts = _Parts(large)
    found: list[tuple[Part, float | None]] = []
    for chunk in chunks.chunks:
        check()
        part = parts.of(chunk)
        for start in range(0, len(chunk), _PIECE_ROWS):
            check()
            piece = part.cut(start, min(_PIECE_ROWS, len(chunk) - start))
            found.append((piece, None if isinstance(piece, _Views) else piece.size()))
    return found


def _made(measured: list[tuple[Part, float | None]], what: str) -> Iterator[Array]:
    for part, size in measured:
        if size is None:
            size = part.size()
            claim(int(size), what)
        yield from _fitting(part, size)


def _fitting(part: Part, size: float) -> Iterator[Array]:
    """In pieces that are not too large."""
    check()
    if size <= _PIECE_SIZE or part.count <= 1:
        yield part.plain()
        return
    half = part.count // 2
    for start, count in ((0, half), (half, part.count - half)):
        cut = part.cut(start, count)
        yield from _fitting(cut, cut.size())


# ---- types ----


def plain_type(given: ArrowType, large: bool = False) -> ArrowType:
    """The type that arrays of this one get; itself where there is nothing to do."""
    import pyarrow as pa
    from pyarrow import types as kinds

    if isinstance(given, pa.BaseExtensionType):
        return plain_type(given.storage_type, large)
    if kinds.is_dictionary(given) or kinds.is_run_end_encoded(given):
        return _widened(plain_type(given.value_type, large), large)
    if kinds.is_string_view(given):
        return pa.large_string() if large else pa.string()
    if kinds.is_binary_view(given):
        return pa.large_binary() if large else pa.binary()
    if kinds.is_decimal256(given) and given.precision <= types.DECIMAL_PRECISION_MAX:
        return pa.decimal128(given.precision, given.scale)
    if kinds.is_date64(given):
        return pa.date32()
    if kinds.is_duration(given):
        return pa.month_day_nano_interval()
    return _plain_nested_type(given, large) if kinds.is_nested(given) else given


def _widened(plain: ArrowType, large: bool) -> ArrowType:
    import pyarrow as pa

    wide = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    return wide.get(plain, plain) if large else plain


def _plain_nested_type(given: ArrowType, large: bool) -> ArrowType:
    import pyarrow as pa
    from pyarrow import types as kinds

    if kinds.is_union(given):
        return given
    old = [given.field(index).type for index in range(given.num_fields)]
    if kinds.is_map(given):
        old = [given.key_type, given.item_type]
    new = [plain_type(child, large) for child in old]
    is_vector = kinds.is_fixed_size_list(given) and new[0] in (pa.float32(), pa.float16())
    is_kept = is_vector or any(
        is_kind(given) for is_kind in (kinds.is_struct, kinds.is_map, kinds.is_list, kinds.is_large_list)
    )
    if is_kept and all(a is b for a, b in zip(old, new, strict=True)):
        return given
    if kinds.is_struct(given):
        return pa.struct([field.with_type(child) for field, child in zip(given, new, strict=True)])
    if kinds.is_map(given):
        return pa.map_(*new)
    if is_vector:
        return pa.list_(new[0], given.list_size)
    if kinds.is_large_list(given) or kinds.is_large_list_view(given) or (large and not kinds.is_list(given)):
        return pa.large_list(new[0])
    return pa.list_(new[0])


def fixed_size(kind: ArrowType) -> float:
    """The bytes that a row of a plain type takes if it is NULL or empty."""
    from pyarrow import types as kinds

    if kinds.is_null(kind):
        return 0
    if kinds.is_struct(kind):
        return 1 / 8 + sum(fixed_size(field.type) for field in kind)
    if kinds.is_fixed_size_list(kind):
        return 1 / 8 + float(kind.list_size) * fixed_size(kind.value_type)
    if kinds.is_nested(kind) or not _has_width(kind):
        return 1 / 8 + (8 if _is_large(kind) else 4)
    return float(1 + kind.bit_width) / 8


def _is_large(kind: ArrowType) -> bool:
    from pyarrow import types as kinds

    return kinds.is_large_list(kind) or kinds.is_large_string(kind) or kinds.is_large_binary(kind)


def _has_width(kind: ArrowType) -> bool:
    try:
        return int(kind.bit_width) >= 0
    except ValueError:
        return False


# ---- parts ----


class Part:
    """Rows of an array, and how they are made plain."""

    #: The bytes of every row, where all are alike.
    row_size: float | None = None

    def __init__(self, array: Array, target: ArrowType) -> None:
        self.array = array
        self.target = target
        self.count = len(array)
        self.is_plain = target is array.type

    def cut(self, start: int, count: int) -> Part:
        """Some of the rows."""
        if count == self.count:
            return self
        cut = object.__new__(type(self))
        cut.__dict__.update(self.__dict__)
        cut.array = self.array.slice(start, count)
        cut.count = count
        cut._narrow(start, count)
        return cut

    def _narrow(self, start: int, count: int) -> None:
        """Whatever else depends on which rows there are."""

    def size(self, *, copied: bool = False) -> float:
        """The bytes that these rows take plain; where they are so already, none, unless they are copied."""
        if self.is_plain and not copied:
            return 0
        return self.count * self.row_size if self.row_size is not None else self._size(copied)

    def _size(self, copied: bool) -> float:
        raise NotImplementedError

    def row_sizes(self) -> Numbers:
        """… of each row that is copied."""
        import numpy as np

        claim(8 * self.count, "measuring Arrow data")
        if self.count <= _PIECE_ROWS:
            return self._row_sizes() if self.row_size is None else np.full(self.count, self.row_size)
        found = np.empty(self.count)
        for start, piece in self.pieces():
            found[start : start + piece.count] = piece.row_sizes()
        return found

    def pieces(self) -> Iterator[tuple[int, Part]]:
        """With the row that each begins at."""
        for start in range(0, self.count, _PIECE_ROWS):
            check()
            yield start, self.cut(start, min(_PIECE_ROWS, self.count - start))

    def _row_sizes(self) -> Numbers:
        raise NotImplementedError

    def plain(self) -> Array:
        import pyarrow as pa

        if self.is_plain:
            return self.array
        # Of which there may be any number in no bytes at all.
        return pa.nulls(self.count) if self.target == pa.null() else self._plain()

    def _plain(self) -> Array:
        raise NotImplementedError

    def _in_pieces(self, make: Callable[[Part], Array]) -> Array:
        """One array of what `make` makes of a piece."""

        size = int(self.size(copied=True))
        if self.count <= _PIECE_ROWS and size <= _PIECE_SIZE:
            return make(self)
        rows = max(1, min(_PIECE_ROWS, self.count * _PIECE_SIZE // max(size, 1)))
        # The pieces stand beside what they are joined to.
        claim(size + _PIECE_OVERHEAD * (self.count // rows), "joining Arrow data")
        made = []
        for start in range(0, self.count, rows):
            check()
            made.append(make(self.cut(start, min(rows, self.count - start))))
        return _concatenated(made, size)


class _Parts:
    """Makes parts of arrays; `large`: with offsets of 8 bytes where they are made."""

    def __init__(self, large: bool) -> None:
        self.large = large
        self._kept: dict[object, _Whole] = {}

    def of(self, array: Array) -> Part:
        import pyarrow as pa
        from pyarrow import types as kinds

        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            return self.of(array.storage)
        target = plain_type(kind, self.large)
        if kinds.is_dictionary(kind):
            return _Dictionary(array, target, self._whole(array.dictionary, target))
        if kinds.is_run_end_encoded(kind):
            return _Runs(array, target, self.of(array.values))
        if kinds.is_struct(kind):
            fields = [self.of(array.field(index)) for index in range(kind.num_fields)]
            return _Struct(array, target, fields)
        if kinds.is_list_view(kind) or kinds.is_large_list_view(kind):
            first, last = _used_items(array)
            items = self.of(array.values.slice(first, last - first))
            return _ListViews(array, target, _Whole(items, items.target), first)
        if kinds.is_fixed_size_list(kind):
            return _FixedLists(array, target, self.of(array.values))
        if kinds.is_nested(kind):
            return _Lists(array, target, self.of(array.values))
        if kinds.is_string_view(kind) or kinds.is_binary_view(kind):
            return _Views(array, target)
        return _Flat(array, target) if kinds.is_null(kind) or _has_width(kind) else _Texts(array, target)

    def _whole(self, array: Array, target: ArrowType) -> _Whole:
        key = identity(array)
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            found = self._kept[key] = _Whole(self.of(array), target)
        return found


class _Whole:
    """A part that others take rows of, in any order: it is made plain once."""

    def __init__(self, part: Part, target: ArrowType) -> None:
        self.part = part
        self._target = target
        self._plain: Array | None = None
        self._sizes: Array | None = None
        self._sums: Numbers | None = None

    def plain(self) -> Array:
        if self._plain is None:
            is_cast = self.part.target != self._target
            claim(int(self.part.size(copied=is_cast)), "Arrow data that rows refer to")
            self._plain = self.part.plain().cast(self._target) if is_cast else self.part.plain()
        return self._plain

    def sizes(self) -> Array:
        """Of each row, as an array of Arrow's."""
        import pyarrow as pa

        if self._sizes is None:
            self._sizes = pa.array(self.part.row_sizes())
        return self._sizes

    def sums(self) -> Numbers:
        """The bytes before each row, and of all."""
        import numpy as np

        if self._sums is None:
            claim(8 * self.part.count, "measuring Arrow data")
            sums = np.zeros(self.part.count + 1)
            for start, piece in self.part.pieces():
                sums[start + 1 : start + 1 + piece.count] = sums[start] + np.cumsum(piece.row_sizes())
            self._sums = sums
        return self._sums


class _Flat(Part):
    """Values of one width."""

    def __init__(self, array: Array, target: ArrowType) -> None:
        super().__init__(array, target)
        self.row_size = fixed_size(target)

    def _plain(self) -> Array:
        from pyarrow import types as kinds

        if kinds.is_duration(self.array.type):
            return self._in_pieces(lambda part: _plain_duration(part.array))
        return self._in_pieces(lambda part: part.array.cast(self.target))


class _Texts(Part):
    def _size(self, copied: bool) -> float:
        offsets = _offsets(self.array)
        return float(offsets[-1] - offsets[0]) + self.count * fixed_size(self.target)

    def _row_sizes(self) -> Numbers:
        import numpy as np

        sizes: Numbers = np.diff(_offsets(self.array)) + fixed_size(self.target)
        return sizes


class _Views(Part):
    #: Of the text alone, once it is known.
    _text_size: int | None = None

    def _narrow(self, start: int, count: int) -> None:
        self._text_size = None

    def _size(self, copied: bool) -> float:
        self._text_size = view_sizes(self.array)
        return self._text_size + self.count * fixed_size(self.target)

    def _row_sizes(self) -> Numbers:
        return view_lengths(self.array) + fixed_size(self.target)

    def _plain(self) -> Array:
        import pyarrow as pa

        size = view_sizes(self.array) if self._text_size is None else self._text_size
        # pyarrow's own cast does not notice when 4-byte offsets overflow.
        if size > OFFSET_MAX and not _is_large(self.target):
            raise pa.ArrowCapacityError(f"{size} bytes of text in one array")
        return self._in_pieces(lambda part: part.array.cast(self.target))


class _Struct(Part):
    def __init__(self, array: Array, target: ArrowType, fields: list[Part]) -> None:
        super().__init__(array, target)
        self.fields = fields
        sizes = [field.row_size for field in fields]
        if None not in sizes:
            self.row_size = 1 / 8 + sum(size for size in sizes if size is not None)

    def _narrow(self, start: int, count: int) -> None:
        self.fields = [field.cut(start, count) for field in self.fields]

    def size(self, *, copied: bool = False) -> float:
        # Fields that are plain already are not copied, whatever the others are.
        if copied or self.is_plain:
            return super().size(copied=copied)
        return self._size(copied)

    def _size(self, copied: bool) -> float:
        return self.count / 8 + sum(field.size(copied=copied) for field in self.fields)

    def _row_sizes(self) -> Numbers:
        import numpy as np

        found = np.full(self.count, 1 / 8)
        for field in self.fields:
            found += field.row_sizes()
        return found

    def _plain(self) -> Array:
        return _from_parts(self.target, self.array, [], [field.plain() for field in self.fields])


class _Lists(Part):
    """Also large ones and maps, whose items are structures."""

    def __init__(self, array: Array, target: ArrowType, items: Part) -> None:
        super().__init__(array, target)
        self.items = items

    def _used(self) -> tuple[Numbers, Part]:
        """Offsets, and the items between the first and the last."""
        offsets = _offsets(self.array)
        return offsets, self.items.cut(int(offsets[0]), int(offsets[-1] - offsets[0]))

    def _size(self, copied: bool) -> float:
        return self.count * fixed_size(self.target) + self._used()[1].size(copied=copied)

    def _row_sizes(self) -> Numbers:
        import numpy as np

        offsets, items = self._used()
        sizes: Numbers = np.diff(_sums(items.row_sizes())[offsets - offsets[0]])
        return sizes + fixed_size(self.target)

    def _plain(self) -> Array:
        offsets, items = self._used()
        return _plain_list(self, offsets - offsets[0], items)


class _FixedLists(Part):
    def __init__(self, array: Array, target: ArrowType, items: Part) -> None:
        super().__init__(array, target)
        self.items = items
        self.length = array.type.list_size
        from pyarrow import types as kinds

        #: Of a row itself: vectors have no offsets.
        self._own = 1 / 8 if kinds.is_fixed_size_list(target) else fixed_size(target)
        if items.row_size is not None:
            self.row_size = self._own + self.length * items.row_size

    def _used(self) -> Part:
        return self.items.cut(self.array.offset * self.length, self.count * self.length)

    def size(self, *, copied: bool = False) -> float:
        # Items that are plain already are not copied.
        if copied or self.is_plain:
            return super().size(copied=copied)
        return self._size(copied)

    def _size(self, copied: bool) -> float:
        return self.count * self._own + self._used().size(copied=copied)

    def _row_sizes(self) -> Numbers:
        sizes: Numbers = self._used().row_sizes().reshape(self.count, self.length).sum(axis=1)
        return sizes + self._own

    def _plain(self) -> Array:
        import numpy as np
        from pyarrow import types as kinds

        if kinds.is_fixed_size_list(self.target):
            return _from_parts(self.target, self.array, [], [self._used().plain()])
        offsets = np.arange(self.count + 1, dtype=np.int64) * self.length
        return _plain_list(self, offsets, self._used())


class _ListViews(Part):
    """Views may overlap and lie in any order; plain lists have their items in the order of rows."""

    def __init__(self, array: Array, target: ArrowType, items: _Whole, first: int) -> None:
        super().__init__(array, target)
        self._items = items
        #: Where the items begin among those of the array.
        self._first = first

    def _begins(self) -> tuple[Numbers, Numbers]:
        """Among the items, and how many each row has."""
        starts, sizes = _spans(self.array)
        return starts - self._first, sizes

    def _size(self, copied: bool) -> float:
        # An item takes a byte at least: what takes none has to be counted as well.
        own = self.count * fixed_size(self.target)
        width = self._items.part.row_size
        if width is not None:
            _, sizes = self._begins()
            return own + float(sizes.sum(dtype=float)) * max(width, 1)
        return own + float(self._item_sizes().sum())

    def _item_sizes(self) -> Numbers:
        import numpy as np

        begins, sizes = self._begins()
        sums = self._items.sums()
        begins = np.where(sizes > 0, begins, 0)
        found: Numbers = np.maximum(sums[begins + sizes] - sums[begins], sizes)
        return found

    def _row_sizes(self) -> Numbers:
        return self._item_sizes() + fixed_size(self.target)

    def _plain(self) -> Array:
        import numpy as np

        begins, sizes = self._begins()
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        _check_capacity(self.target, offsets)
        # Views of text cannot be taken from, so the items are made plain before.
        items = self._items.plain()
        total = int(offsets[-1])
        size = int(self.size(copied=True))
        rows = max(1, min(_PIECE_ROWS, total * _PIECE_SIZE // max(size, 1)))
        if total > rows:
            claim(size + _PIECE_OVERHEAD * (total // rows), "joining Arrow data")
        found = []
        for start in range(0, max(total, 1), rows):
            check()
            found.append(items.take(_places(begins, offsets, start, min(start + rows, total))))
        return _list_of(self, offsets, found[0] if len(found) == 1 else _concatenated(found, size))


def _concatenated(pieces: list[Array], size: int) -> Array:
    """Of so many bytes. That cannot be interrupted, so whoever waits for much of it can leave it behind."""
    import pyarrow as pa

    if size <= _CONCATENATED_MAX:
        return pa.concat_arrays(pieces)
    from threading import Thread

    made: list[Array | BaseException] = []

    def concatenate() -> None:
        try:
            made.append(pa.concat_arrays(pieces))
        except BaseException as failure:
            made.append(failure)

    worker = Thread(target=concatenate, name="querymode-arrow", daemon=True)
    worker.start()
    while worker.is_alive():
        check()
        worker.join(_POLL_SECONDS)
    (found,) = made
    if isinstance(found, BaseException):
        raise found
    return found


def _places(begins: Numbers, offsets: Numbers, start: int, end: int) -> Numbers:
    """Which items the rows have, of all of theirs from one up to another."""
    import numpy as np

    first = max(int(np.searchsorted(offsets, start, "right")) - 1, 0)
    last = int(np.searchsorted(offsets, end, "left"))
    sizes = np.diff(np.clip(offsets[first : last + 1], start, end))
    places: Numbers = np.repeat(begins[first:last] - offsets[first:last], sizes) + np.arange(start, end)
    return places


class _Dictionary(Part):
    def __init__(self, array: Array, target: ArrowType, entries: _Whole) -> None:
        super().__init__(array, target)
        self._entries = entries
        part = entries.part
        self._null_size = fixed_size(target)
        if not part.count:
            self.row_size = self._null_size
        elif part.row_size is not None:
            self.row_size = max(part.row_size, self._null_size)

    def _size(self, copied: bool) -> float:
        import pyarrow.compute as pc

        indices = self.array.indices
        taken = pc.sum(self._entries.sizes().take(indices)).as_py() or 0
        return float(taken) + float(indices.null_count * self._null_size)

    def _row_sizes(self) -> Numbers:
        import numpy as np

        taken = self._entries.sizes().take(self.array.indices).fill_null(self._null_size)
        sizes: Numbers = np.asarray(taken)
        return sizes

    def _plain(self) -> Array:
        return self._in_pieces(self._taken)

    def _taken(self, part: Part) -> Array:
        import pyarrow as pa

        if not self._entries.part.count:
            # Below a NULL struct pyarrow writes indices all the same.
            return pa.nulls(part.count, self.target)
        return self._entries.plain().take(part.array.indices)


class _Runs(Part):
    def __init__(self, array: Array, target: ArrowType, values: Part) -> None:
        super().__init__(array, target)
        self._values = values
        self.row_size = values.row_size

    def _used(self) -> tuple[Numbers, Part]:
        """How often each value of these rows stands, and those values."""
        import numpy as np

        # Ends are rows of the array before it was sliced.
        ends = np.asarray(self.array.run_ends)
        start = self.array.offset
        first = int(np.searchsorted(ends, start, "right"))
        last = min(int(np.searchsorted(ends, start + self.count, "left")) + 1, len(ends))
        if not self.count:
            last = first
        found = np.clip(ends[first:last].astype(np.int64) - start, 0, self.count)
        return np.diff(found, prepend=0), self._values.cut(first, last - first)

    def _size(self, copied: bool) -> float:
        counts, values = self._used()
        return float(counts.astype(float) @ values.row_sizes())

    def _row_sizes(self) -> Numbers:
        import numpy as np

        counts, values = self._used()
        return np.repeat(values.row_sizes(), counts)

    def _plain(self) -> Array:
        return self._in_pieces(_repeated)


def _repeated(part: Part) -> Array:
    import numpy as np

    assert isinstance(part, _Runs)
    counts, values = part._used()
    places = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return values.plain().cast(part.target).take(places)


# ---- arrays of buffers ----


def _from_parts(target: ArrowType, array: Array, buffers: list[Any], children: list[Array]) -> Array:
    """An array with the NULLs of another one, whose slice is not seen any more."""
    import pyarrow as pa

    return pa.Array.from_buffers(target, len(array), [_validity(array), *buffers], -1, 0, children)


def _validity(array: Array) -> pa.Buffer | None:
    import pyarrow.compute as pc

    if array.null_count == 0:
        return None
    # Computed, so it begins with a byte, wherever the array began.
    valid: Array = pc.invert(pc.is_null(array))
    assert valid.offset == 0
    bits: pa.Buffer = valid.buffers()[1]
    return bits


def _plain_duration(array: Array) -> Array:
    import numpy as np
    import pyarrow as pa

    exact = array.cast(pa.duration("ns"))
    values = np.zeros((len(exact), 2), np.int64)
    if len(exact):
        values[:, 1] = _numbers(exact.buffers()[1], np.int64, exact.offset, len(exact))
    return _from_parts(pa.month_day_nano_interval(), exact, [owned_buffer(values)], [])


def _plain_list(part: Part, offsets: Numbers, items: Part) -> Array:
    """Lists of every kind, and maps, in order and without gaps."""
    import pyarrow as pa
    from pyarrow import types as kinds

    _check_capacity(part.target, offsets)
    if not kinds.is_map(part.target):
        return _list_of(part, offsets, items.plain())
    assert isinstance(items, _Struct)
    entry = pa.struct([part.target.key_field, part.target.item_field])
    fields = [field.plain() for field in items.fields]
    return _list_of(part, offsets, pa.Array.from_buffers(entry, items.count, [None], 0, 0, fields))


def _list_of(part: Part, offsets: Numbers, child: Array) -> Array:
    import numpy as np

    width = np.int64 if _is_large(part.target) else np.int32
    return _from_parts(part.target, part.array, [owned_buffer(offsets.astype(width))], [child])


def _check_capacity(target: ArrowType, offsets: Numbers) -> None:
    import pyarrow as pa

    if not _is_large(target) and offsets[-1] > OFFSET_MAX:
        raise pa.ArrowCapacityError(f"{offsets[-1]} items in one list array")


def _offsets(array: Array) -> Numbers:
    """Of texts, lists and maps."""
    import numpy as np

    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None or buffer.size == 0:
        return np.zeros(len(array) + 1, np.int64)
    width = np.int64 if _is_large(array.type) else np.int32
    found: Numbers = _numbers(buffer, width, array.offset, len(array) + 1).astype(np.int64)
    return found


def _used_items(array: Array) -> tuple[int, int]:
    """The items of list views: from the first that a row has to behind the last."""
    first: int | None = None
    last = 0
    for start in range(0, len(array), _PIECE_ROWS):
        check()
        starts, sizes = _spans(array.slice(start, _PIECE_ROWS))
        used = sizes > 0
        if used.any():
            least = int(starts[used].min())
            first = least if first is None else min(first, least)
            last = max(last, int((starts + sizes)[used].max()))
    return first or 0, last


def _spans(array: Array) -> tuple[Numbers, Numbers]:
    """Where list views begin, and their sizes; a NULL has no items."""
    import numpy as np

    starts = np.asarray(array.offsets).astype(np.int64)
    sizes = np.asarray(array.sizes).astype(np.int64)
    if array.null_count:
        sizes = np.where(np.asarray(array.is_valid()), sizes, 0)
    return starts, sizes


def _sums(sizes: Numbers) -> Numbers:
    import numpy as np

    found: Numbers = np.concatenate((np.zeros(1), np.cumsum(sizes)))
    return found


def _numbers(buffer: Any, kind: Any, start: int, count: int) -> Any:
    """Some of a buffer's; it may end in the middle of another one."""
    import numpy as np

    return np.frombuffer(buffer, kind, count, start * np.dtype(kind).itemsize)
