"""Arrow tables that have to be the same to the last bit, however deep their columns are."""

from __future__ import annotations

from typing import Any

import pyarrow
import pyarrow.compute

# The stubs spell every kind of array; what is done here goes across all of them.
pa: Any = pyarrow
pc: Any = pyarrow.compute


def assert_same_tables(found: pyarrow.Table, wanted: pyarrow.Table) -> None:
    assert found.column_names == wanted.column_names, f"columns {found.column_names}"
    assert found.num_rows == wanted.num_rows, f"{found.num_rows:,} rows, not {wanted.num_rows:,}"
    for name in wanted.column_names:
        assert_same_columns(found.column(name), wanted.column(name), name)


def assert_same_columns(found: Any, wanted: Any, name: str) -> None:
    """Two chunked arrays of one type, of equal length."""
    assert found.type == wanted.type, f"{name} is {found.type}, not {wanted.type}"
    found, wanted = (_one_array(array) for array in (found, wanted))
    found.validate(full=True)
    assert_same_arrays(found, wanted, name)


def assert_same_arrays(found: Any, wanted: Any, where: str) -> None:
    """Where they differ is said by the place in the type, and the number of the value there."""
    assert len(found) == len(wanted), f"{where}: {len(found):,} values, not {len(wanted):,}"
    kind = wanted.type
    valid = wanted.is_valid()
    if not found.is_valid().equals(valid):
        _fail(found.is_valid(), valid, f"{where}, whether there is a value")
    if pa.types.is_struct(kind):
        for field, ours, theirs in zip(kind, found.flatten(), wanted.flatten(), strict=True):
            assert_same_arrays(ours, theirs, f"{where}.{field.name}")
    elif pa.types.is_fixed_size_list(kind):
        assert_same_arrays(_items_of_vectors(found), _items_of_vectors(wanted), f"{where}[]")
    elif pa.types.is_map(kind):
        ours, theirs = (_lists_of(array) for array in (found, wanted))
        assert_same_arrays(ours, theirs, where)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        sizes = pc.list_value_length(wanted)
        if not pc.list_value_length(found).equals(sizes):
            _fail(pc.list_value_length(found), sizes, f"{where}, how many items")
        assert_same_arrays(found.flatten(), wanted.flatten(), f"{where}[]")
    elif not _bits(found).equals(_bits(wanted)):
        _fail(found, wanted, where, _bits)


def _one_array(chunks: Any) -> Any:
    joined = chunks.combine_chunks()
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def _bits(array: Any) -> Any:
    """Floats as integers: every bit of a NaN counts, and the sign of zero. Not what lies under a NULL."""
    if not pa.types.is_floating(array.type):
        return array
    whole = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[array.type.bit_width]
    return array.view(whole)


def _items_of_vectors(array: Any) -> Any:
    """Of the rows that are not NULL."""
    return array.filter(array.is_valid()).flatten()


def _lists_of(maps: Any) -> Any:
    kind = maps.type
    entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    return maps.cast(pa.list_(entry))


def _fail(found: Any, wanted: Any, where: str, key: Any = lambda array: array) -> None:
    bits = (key(array).to_pylist() for array in (found, wanted))
    number = next(number for number, (a, b) in enumerate(zip(*bits, strict=True)) if a != b)
    ours, theirs = (str(array[number].as_py())[:200] for array in (found, wanted))
    raise AssertionError(f"{where}, value {number:,}: {ours}, not {theirs}")
