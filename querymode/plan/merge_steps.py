"""Plans for the merge of sorted runs range by range: see execute/ranges.py, which runs them."""

from __future__ import annotations

from querymode.engine.plan_bytes import UNLIMITED, column_at, encode_merge, encode_plan, encode_sort
from querymode.types import INT64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from querymode.types import DataType

    #: A value of every key, as plans have them.
    Bound = tuple[bytes, ...]


class MergeSteps:
    """A final plan that merges runs by some of their columns, and then looks at every row alone."""

    __slots__ = ("_fields", "_keys", "_rest", "key_columns", "key_types")

    def __init__(
        self,
        fields: Sequence[tuple[str, DataType]],
        keys: Sequence[tuple[int, bool, bool]],
        rest: Sequence[bytes],
    ) -> None:
        """Keys: column, whether it descends, whether NULLs come first. `rest`: the steps behind the merge."""
        self._fields = fields
        self._keys = keys
        self._rest = rest
        self.key_columns = [column for column, _, _ in keys]
        self.key_types = [fields[column][1] for column in self.key_columns]

    def plan(self, lower: Bound | None, upper: Bound | None) -> bytes:
        """The final plan for the rows from `lower` on and before `upper`."""
        keys = [(column_at(column), down, nulls_first) for column, down, nulls_first in self._keys]
        merge = encode_merge(keys, UNLIMITED, lower=lower, upper=upper)
        return encode_plan(self._fields, [merge, *self._rest])

    # ---- of samples: the keys, and a number for where each is from ----

    @property
    def _sample_fields(self) -> list[tuple[str, DataType]]:
        return [*((f"key {i}", key) for i, key in enumerate(self.key_types)), ("place", INT64)]

    @property
    def _sample_keys(self) -> list[tuple[bytes, bool, bool]]:
        return [(column_at(i), down, nulls_first) for i, (_, down, nulls_first) in enumerate(self._keys)]

    def sorted_samples(self) -> bytes:
        return encode_plan(self._sample_fields, [encode_sort(self._sample_keys, UNLIMITED)])

    def samples_between(self, lower: Bound | None, upper: Bound | None) -> bytes:
        """Of samples that come as runs: those that `plan` would take."""
        merge = encode_merge(self._sample_keys, UNLIMITED, lower=lower, upper=upper)
        return encode_plan(self._sample_fields, [merge])
