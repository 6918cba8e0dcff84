"""Lance tables against pylance, two threads each; a large manifest; TPC-H against our own reading of Parquet.

    python -m benchmarks lance                                     five million rows, 3 GB of them
    python -m benchmarks.lance --rows 200000 --parts scans manifest --folder kept

The second form is for a quick look: fewer rows, some of the parts, data that is there already.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.dataset
import pyarrow.parquet

from benchmarks.harness import Table, race, seconds
from querymode import DataFrame, QueryMode, col
from querymode.format.footer_cache import default_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Action = Callable[[], Any]

pa: Any = pyarrow
ROWS = 5_000_000
THREAD_COUNT = 2
ROUNDS = 5
FRAGMENTS = 100_000
#: Ratios to pylance.
SCAN_MAX, FILTER_MAX, AGGREGATE_MAX, TAKE_MAX, OPEN_MAX = 1.0, 0.6, 0.5, 1.2, 0.3
#: To ourselves over Parquet.
TPCH_MEAN_MAX = 1.0
MANIFEST_SECONDS_MAX, MANIFEST_CACHED_SECONDS_MAX = 0.5, 0.020
ZONE_BYTES_MAX, LEARNED_BYTES_MAX = 0.01, 0.10
TPCH_TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

FLAT = ["id", "price", "score", "city", "user"]


def run(rows: int = ROWS, parts: list[str] | None = None, folder: Path | None = None) -> None:
    # Read when pylance starts its threads. It has as many cores as we.
    os.environ.setdefault("LANCE_CPU_THREADS", str(THREAD_COUNT))
    pyarrow.set_cpu_count(THREAD_COUNT)
    with tempfile.TemporaryDirectory() as name:
        for part in parts or PARTS:
            PARTS[part](folder or Path(name), rows)


def _session() -> QueryMode:
    return QueryMode.local(threads=THREAD_COUNT, memory="8GiB")


def _lance() -> Any:
    import lance

    return lance


# ---- data ----


def _batches(rows: int) -> Iterator[Any]:
    """Ids in order; floats; texts of few and of many values; a vector, a list."""
    random = np.random.default_rng(3)
    cities = pa.array([f"city number {number}" for number in range(50)])
    for start in range(0, rows, 100_000):
        count = min(100_000, rows - start)
        ids = np.arange(start, start + count)
        users = np.char.add("user-", (random.integers(0, 1 << 40, count)).astype(str))
        sizes = random.integers(0, 8, count)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        yield pa.record_batch(
            {
                "id": pa.array(ids),
                "price": pa.array(np.round(random.random(count) * 1000, 2)),
                "score": pa.array(random.random(count).astype(np.float32)),
                "city": cities.take(pa.array(random.integers(0, 50, count))),
                "user": pa.array(users),
                "vector": pa.FixedSizeListArray.from_arrays(
                    pa.array(random.random(count * 128, np.float32)), 128
                ),
                "list": pa.ListArray.from_arrays(
                    offsets, pa.array(random.integers(0, 1000, int(offsets[-1])))
                ),
            }
        )


def written(folder: Path, rows: int) -> str:
    path = folder / f"rows_{rows}.lance"
    if not path.exists():
        batches = _batches(rows)
        first = next(batches)
        reader = pa.RecordBatchReader.from_batches(first.schema, _with_first(first, batches))
        _lance().write_dataset(reader, str(path))
    return str(path)


def _with_first(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


# ---- scans ----


def scans(folder: Path, rows: int) -> None:
    path = written(folder, rows)
    size = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    table = Table(f"Lance, {rows:,} rows, {size / 1e9:.1f} GB, two threads: best of {ROUNDS}")
    ours = _session().table(path)
    theirs = _lance().dataset(path)
    flat = ours.select(*FLAT)
    one, half = col("price") < 10, col("price") < 500
    cases: dict[str, tuple[Action, dict[str, Action], float | None]] = {
        "all to Arrow": (ours.to_arrow, {"pylance": theirs.to_table}, SCAN_MAX),
        "all but the vector": (
            ours.select(*FLAT, "list").to_arrow,
            {"pylance": lambda: theirs.to_table(columns=[*FLAT, "list"])},
            None,
        ),
        **{
            f"{name} alone": (ours.select(name).to_arrow, {"pylance": _column(theirs, name)}, None)
            for name in (*FLAT, "vector", "list")
        },
        "filter, 1 % left": (
            flat.filter(one).to_arrow,
            {"pylance": lambda: theirs.to_table(columns=FLAT, filter="price < 10")},
            FILTER_MAX,
        ),
        "filter, 50 % left": (
            flat.filter(half).to_arrow,
            {"pylance": lambda: theirs.to_table(columns=FLAT, filter="price < 500")},
            FILTER_MAX,
        ),
        "filter, 1 % left, all columns": (
            ours.filter(one).to_arrow,
            {"pylance": lambda: theirs.to_table(filter="price < 10")},
            FILTER_MAX,
        ),
        "aggregate over two columns": (
            ours.agg(col("price").sum().alias("a"), col("score").max().alias("b")).to_arrow,
            {"pylance": _aggregate_by_sql(theirs), "pylance, pyarrow": _aggregate_by_arrow(theirs)},
            AGGREGATE_MAX,
        ),
        "open and count": (
            lambda: QueryMode.local().table(path).count(),
            {"pylance": lambda: _lance().dataset(path).count_rows()},
            OPEN_MAX,
        ),
    }
    for name, (action, peers, limit) in cases.items():
        _check(name, action(), next(iter(peers.values()))())
        _compare(table, name, action, peers, limit)
    _takes(table, ours, theirs, rows)


def _column(dataset: Any, name: str) -> Action:
    return lambda: dataset.to_table(columns=[name])


def _aggregate_by_sql(dataset: Any) -> Action:
    query = dataset.sql("select sum(price) as a, max(score) as b from dataset").build()
    return lambda: pa.Table.from_batches(query.to_batch_records())


def _aggregate_by_arrow(dataset: Any) -> Action:
    import pyarrow.compute as pc

    def run() -> object:
        table = dataset.to_table(columns=["price", "score"])
        return pc.sum(table["price"]), pc.max(table["score"])

    return run


def _takes(table: Table, ours: DataFrame, theirs: Any, rows: int) -> None:
    places = np.random.default_rng(4).choice(rows, 1_000, replace=False).tolist()
    take = getattr(ours, "take", None)
    if take is None:
        table.measure("take of 1,000 random rows", "there is none yet")
        return
    for name, columns in (("take of 1,000 random rows", None), ("  of ids and vectors", ["id", "vector"])):
        action = _taken(take, places, columns)
        peer = partial(theirs.take, places, columns=columns)
        _check(name, action(), peer())
        _compare(table, name, action, {"pylance": peer}, TAKE_MAX)


def _taken(take: Any, places: list[int], columns: list[str] | None) -> Action:
    return lambda: take(rows=places, columns=columns).to_arrow()


def _compare(table: Table, name: str, ours: Action, peers: dict[str, Action], limit: float | None) -> None:
    """Against the fastest way to have it of pylance."""
    best = race({"ours": ours, **peers}, rounds=ROUNDS)
    peer = min(peers, key=best.__getitem__)
    table.compare(name, best["ours"], best[peer], peer, ratio_max=limit)


def _check(name: str, ours: Any, theirs: Any) -> None:
    """Rows, their number, or sums that depend on their order."""
    if not isinstance(ours, pyarrow.Table):
        same = ours == theirs
    elif ours.num_rows == 1:
        first, second = (list(table.to_pylist()[0].values()) for table in (ours, theirs))
        same = np.allclose(first, second)
    else:
        same = ours.equals(theirs.cast(ours.schema))
    if not same:
        raise SystemExit(f"{name}: our answer is not pylance's")


# ---- a large manifest ----


def manifest(folder: Path, rows: int) -> None:
    """Its data files are not there: nothing but the manifest is read."""
    count = max(1_000, min(FRAGMENTS, rows // 50))
    path = folder / f"fragments_{count}.lance"
    if not path.exists():
        _write_manifest(path, count)
    table = Table(f"A manifest of {count:,} fragments, {_size_of(path) / 1e6:.1f} MB")
    QueryMode.local().table(str(_small(folder))).count()  # what is imported for any table is
    cold, cached = [], []
    for _ in range(3):
        with _cache_of_its_own():
            default_cache().clear()
            cold.append(_opened(path))
            default_cache().clear()
            cached.append(_opened(path))
    for name, best, limit in (
        ("opened and counted, cold", min(cold), MANIFEST_SECONDS_MAX),
        ("  from the disk cache", min(cached), MANIFEST_CACHED_SECONDS_MAX),
    ):
        table.measure(name, seconds(best), bar=f"≤ {seconds(limit)}", met=best <= limit)
    session = QueryMode.local()
    times = race(
        {
            "ours": lambda: session.table(str(path)).count(),
            "pylance": lambda: _lance().dataset(str(path)).count_rows(),
        },
        rounds=ROUNDS,
    )
    table.compare("  again in one process", times["ours"], times["pylance"], "pylance")


def _size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _small(folder: Path) -> Path:
    path = folder / "small.lance"
    if not path.exists():
        _lance().write_dataset(pa.table({"a": [1]}), str(path))
    return path


def _opened(path: Path) -> float:
    started = time.perf_counter()
    QueryMode.local().table(str(path)).count()
    return time.perf_counter() - started


@contextmanager
def _cache_of_its_own() -> Iterator[None]:
    before = os.environ.get("QUERYMODE_CACHE_DIR")
    try:
        with tempfile.TemporaryDirectory() as os.environ["QUERYMODE_CACHE_DIR"]:
            yield
    finally:
        del os.environ["QUERYMODE_CACHE_DIR"]
        if before is not None:
            os.environ["QUERYMODE_CACHE_DIR"] = before


def _write_manifest(path: Path, count: int) -> None:
    """Of one fragment that pylance wrote, many: with numbers and paths of their own."""
    from fixtures.settled import Manifest, changed, fields_of, message_of

    _lance().write_dataset(pa.table({"id": range(10), "v": [0.5] * 10}), str(path))
    (file,) = (path / "_versions").glob("*.manifest")
    found = Manifest(file.read_bytes())
    fields = fields_of(found.message)
    fragment = next(field for field in fields if field.number == 2)
    assert isinstance(fragment.value, bytes)
    fragments = []
    for number in range(count):
        name = f"{number:050}.lance".encode()
        value = changed(fragment.value, (2, 1), lambda _, name=name: name)  # type: ignore[misc]
        kept = [field for field in fields_of(value) if field.number != 1]
        fragments.append(
            fragment._replace(value=message_of([kept[0]._replace(number=1, value=number, wire=0), *kept]))
        )
    found.message = message_of([*(field for field in fields if field.number not in (2, 11)), *fragments])
    found.message += b"\x58" + _varint(count - 1)
    found.sections.clear()
    found.message = message_of([field for field in fields_of(found.message) if field.number not in (6, 23)])
    file.write_bytes(found.data())


def _varint(value: int) -> bytes:
    from fixtures.settled import varint_of

    return varint_of(value)


# ---- fewer bytes ----


def bytes_read(folder: Path, rows: int) -> None:
    """What a filter over a sorted column reads: with a zone map; and the second time without one."""
    count = 2 * rows
    random = np.random.default_rng(5)
    data = pa.table({"at": np.arange(count), "value": random.random(count)})
    table = Table(f"Bytes of a filter over {count:,} sorted rows")
    for name in ("zones", "learned"):
        path = folder / f"{name}_{count}.lance"
        if not path.exists():
            _lance().write_dataset(data, str(path), max_rows_per_file=count // 4)
            if name == "zones":
                _lance().dataset(str(path)).create_scalar_index("at", "ZONEMAP")
        frame = _session().table(str(path))
        whole = frame.collect().stats["bytes"]
        query = frame.filter(col("at").between(count // 3, count // 3 + 100))
        first, second = (query.collect() for _ in range(2))
        assert first.row_count == second.row_count == 101
        if name == "zones":
            _share(table, "with a zone map, of all", first.stats["bytes"], whole, ZONE_BYTES_MAX)
        else:
            _share(
                table,
                "the second time, of the first",
                second.stats["bytes"],
                first.stats["bytes"],
                LEARNED_BYTES_MAX,
            )


def _share(table: Table, name: str, some: int, whole: int, limit: float) -> None:
    share = some / max(1, whole)
    said = f"{share:.2%} ({some // 1024:,} KiB)"
    table.measure(name, said, bar=f"≤ {limit:.0%}", met=share <= limit)


# ---- TPC-H ----


def tpch(folder: Path, rows: int) -> None:
    """Scale factor 1; a tenth of it when a quick look is wanted."""
    scale = "1" if rows >= ROWS else "0.1"
    home = folder / f"tpch_{scale}"
    if not home.exists():
        program = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run(
            [str(program), "parquet", "-s", scale, "-o", str(home)], check=True, capture_output=True
        )
        for name in TPCH_TABLES:
            given = pyarrow.dataset.dataset(home / f"{name}.parquet").scanner(batch_size=100_000).to_reader()
            _lance().write_dataset(given, str(home / f"{name}.lance"))
    sessions = {}
    for kind in ("lance", "parquet"):
        sessions[kind] = _session()
        for name in TPCH_TABLES:
            sessions[kind].register(name, str(home / f"{name}.{kind}"))
    table = Table(f"TPC-H, scale factor {scale}, as Lance against Parquet, both ours: best of {ROUNDS}")
    ratios = []
    for path in sorted((Path(__file__).parent / "tpch").glob("*.sql")):
        text = path.read_text()
        actions = {kind: _asked(session, text) for kind, session in sessions.items()}
        if actions["lance"]() != actions["parquet"]():
            raise SystemExit(f"{path.stem}: Lance's answer is not Parquet's")
        best = race(actions, rounds=ROUNDS)
        ratios.append(table.compare(path.stem, best["lance"], best["parquet"], "parquet"))
    table.mean("geometric mean", ratios, ratio_max=TPCH_MEAN_MAX)


def _asked(session: QueryMode, text: str) -> Action:
    return lambda: [
        {name: f"{value:.3f}" if isinstance(value, float) else value for name, value in row.items()}
        for row in session.sql(text).collect().rows
    ]


PARTS: dict[str, Callable[[Path, int], None]] = {
    "scans": scans,
    "manifest": manifest,
    "bytes": bytes_read,
    "tpch": tpch,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lance", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--parts", nargs="*", choices=list(PARTS))
    parser.add_argument("--folder", type=Path, help="keeps the data there, and uses what is there")
    options = parser.parse_args()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    run(options.rows, options.parts, options.folder)
    print(f"\n{time.monotonic() - started:.0f} s in all")


if __name__ == "__main__":
    main()
