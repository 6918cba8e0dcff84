"""`python -m tests.corrupt.lance_child …`: reads mutated Lance tables, and watches.

    --failures FOLDER   inputs that did what they may not are left there
    --seed S --first I --count N
    --wasm FILE         another build of the engine
    --emit FOLDER       instead of reading them, leaves the changed files there

Input I of a seed is made from the two numbers alone: a dataset of fixtures/lance, one of its files, and what
is changed in it; or a file that is gone, or another one in its place. Then it is read in one of several ways.
Rows or an error of ours are what may come of it. Before an input is read its number is written to
FOLDER/next, which says where a process died. The last line is a summary in JSON.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from fixtures.by_pylance import LANCE
from querymode import DataFrame, QueryMode, QueryModeError, col
from querymode.engine import program
from querymode.types import is_nested
from tests.corrupt.lance_files import mutate_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MEMORY = 256 << 20
TIMEOUT = 10
#: Longer than this none of these tables takes, whatever it says.
SECONDS_MAX = 5.0
HANG_SECONDS = 60
#: What is not an answer to any bytes.
FORBIDDEN = frozenset({"INTERNAL", "QUERY_TIMEOUT"})


class Inputs:
    """Datasets that are copied once; of each the files whose bytes count, more often those that say more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.datasets = sorted(path.name for path in LANCE.iterdir() if path.suffix == ".lance")
        self.files: dict[str, list[str]] = {}
        for name in self.datasets:
            source = LANCE / name
            if source.is_file():
                shutil.copyfile(source, folder / name)
                self.files[name] = [name]
                continue
            shutil.copytree(source, folder / name)
            found = sorted(path for path in source.rglob("*") if path.is_file())
            weighed = [path for path in found for _ in range(_weight(path))]
            self.files[name] = [str(path.relative_to(LANCE)) for path in weighed]

    def original(self, file: str) -> bytes:
        return (LANCE / file).read_bytes()

    def make(self, seed: int, index: int) -> Input:
        random = Random(f"{seed}:{index}")
        dataset = random.choice(self.datasets)
        file = random.choice(self.files[dataset])
        others = [self.original(random.choice(self.files[random.choice(self.datasets)]))]
        data = mutate_file(file, self.original(file), others, random)
        chance = random.random()
        if chance < 0.01:
            return Input(dataset, file, None, random)
        return Input(dataset, file, others[0] if chance < 0.02 else data, random)


def _weight(path: Path) -> int:
    return 1 if "hint" in path.name or path.parent.name == "tags" else 4


class Input:
    def __init__(self, dataset: str, file: str, data: bytes | None, random: Random) -> None:
        self.dataset = dataset
        self.file = file
        #: None where the file is gone.
        self.data = data
        self.random = random

    def put(self, folder: Path) -> None:
        self._replace(folder / self.file, self.data)

    def put_back(self, folder: Path) -> None:
        self._replace(folder / self.file, (LANCE / self.file).read_bytes())

    def _replace(self, path: Path, data: bytes | None) -> None:
        """Another file, not another content: so writers of tables do, and caches go by it."""
        if data is None:
            path.unlink()
            return
        new = path.with_name(path.name + ".new")
        new.write_bytes(data)
        new.replace(path)


# ---- read ----


def _numbers(frame: DataFrame) -> DataFrame:
    name = frame.schema.names[0]
    kind = str(frame.schema.type_of(name))
    return frame.filter(col(name) >= 2 if kind in ("int32", "int64", "float64") else col(name).is_not_null())


def _last_of(frame: DataFrame) -> DataFrame:
    name = frame.schema.names[-1]
    if is_nested(frame.schema.type_of(name)):
        return frame.select(name).limit(3)
    return frame.sort(name).limit(3).select(name)


WAYS: dict[str, Callable[[DataFrame], object]] = {
    "everything": lambda frame: frame.to_arrow(),
    "a filter": lambda frame: _numbers(frame).to_arrow(),
    "the last column": lambda frame: _last_of(frame).to_arrow(),
    "how many": lambda frame: frame.count(),
    "plan": lambda frame: frame.explain(),
}


def ending(session: QueryMode, path: Path, way: str, version: int | None = None) -> str:
    try:
        frame = session.table(path, version=version) if version else session.table(path)
        if frame.schema.names or way == "how many":
            WAYS[way](frame)
    except QueryModeError as error:
        if error.code == "INVALID_FORMAT" and path.name not in str(error):
            return f"INVALID_FORMAT without a name: {error}"
        return error.code
    return "OK"


def one(session: QueryMode, inputs: Inputs, made: Input) -> str:
    """What came of it: a code, or what may not be."""
    way = made.random.choice([*list(WAYS)[:4], "everything", "a filter"])
    version = made.random.choice((None, None, None, 1, 2))
    started = time.monotonic()
    try:
        code = ending(session, inputs.folder / made.dataset, way, version)
    except Exception as error:
        return f"RAISED {type(error).__name__}: {error}"
    took = time.monotonic() - started
    return f"TOOK {took:.1f} s for {code}" if took > SECONDS_MAX else code


def run(inputs: Inputs, options: argparse.Namespace) -> None:
    options.failures.mkdir(parents=True, exist_ok=True)
    session = QueryMode(memory=MEMORY, threads=1, timeout=TIMEOUT)
    session.from_json([{"a": 1}]).count()  # the engine is compiled by then
    session.from_json([{"a": 1}]).filter("a", "eq", 1).to_arrow()
    counts: Counter[str] = Counter()
    failed = 0
    with (options.failures / "next").open("wb", buffering=0) as progress:
        for index in range(options.first, options.first + options.count):
            os.pwrite(progress.fileno(), f"{options.seed}:{index}\n".ljust(40).encode(), 0)
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            made = inputs.make(options.seed, index)
            made.put(inputs.folder)
            outcome = one(session, inputs, made)
            made.put_back(inputs.folder)
            is_failure = " " in outcome or outcome in FORBIDDEN
            counts["FAILED" if is_failure else outcome] += 1
            if is_failure:
                failed += 1
                print(f"{options.seed}:{index}, {made.file}: {outcome[:500]}", flush=True)
                _keep(made, options.failures / f"{options.seed}-{index}")
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"count": options.count, "failed": failed, "counts": counts}))


def _keep(made: Input, folder: Path) -> None:
    if folder.exists():
        return
    folder.mkdir()
    source = LANCE / made.dataset
    if source.is_dir():
        shutil.copytree(source, folder / made.dataset)
    made.put(folder)


def emit(inputs: Inputs, options: argparse.Namespace) -> None:
    options.emit.mkdir(parents=True, exist_ok=True)
    for index in range(options.first, options.first + options.count):
        made = inputs.make(options.seed, index)
        print(f"{options.seed}:{index}, {made.file}")
        if made.data is not None:
            (options.emit / str(index)).write_bytes(made.data)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.corrupt.lance_child", description=__doc__)
    for name in ("seed", "first", "count"):
        parser.add_argument(f"--{name}", type=int, default={"count": 1}.get(name, 0))
    for name in ("failures", "wasm", "emit"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args()
    if options.wasm:
        program._default_program = program.Program.from_file(options.wasm)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERYMODE_CACHE_DIR"] = f"{folder}/cache"
        (Path(folder) / "tables").mkdir()
        inputs = Inputs(Path(folder) / "tables")
        if options.emit:
            emit(inputs, options)
        else:
            run(inputs, options)


if __name__ == "__main__":
    main()
