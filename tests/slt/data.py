"""The tables that tests/slt is about: small ones with NULLs and extremes, and one of several thousand rows."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa

_NAMES = ["Ada", "Bob", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ida", "Jo", "Käthe", "Łukasz", None]
_CITIES = ["Berlin", "Lima", "Oslo", "Pune", None]


def tables() -> dict[str, pa.Table]:
    """Name → table; the same every time."""
    return {
        "people": _people(),
        "cities": _cities(),
        "orders": _orders(),
        "numbers": _numbers(),
        "texts": _texts(),
        "days": _days(),
        "tri": pa.table({"x": pa.array([1, 2, 3, None], pa.int32()), "y": pa.array([1, None, 5, None], pa.int32())}),
        "pairs": pa.table(
            {"a": pa.array([1, 1, 2, 2, None, 3], pa.int32()), "b": pa.array([1, 2, 2, None, 1, 3], pa.int32())}
        ),
        "nothing": pa.table({"a": pa.array([], pa.int32()), "b": pa.array([], pa.string())}),
        "one": pa.table({"v": pa.array([42], pa.int64())}),
        "many": _many(),
    }


def _people() -> pa.Table:
    source = random.Random(1)
    count = 40
    return pa.table(
        {
            "id": pa.array(range(1, count + 1), pa.int32()),
            "name": pa.array([_NAMES[i % len(_NAMES)] for i in range(count)], pa.string()),
            "city": pa.array([source.choice(_CITIES) for _ in range(count)], pa.string()),
            "age": pa.array([source.choice([None, *range(18, 70)]) for _ in range(count)], pa.int32()),
            "salary": pa.array(
                [source.choice([None, Decimal(source.randrange(100_000, 900_000)) / 100]) for _ in range(count)],
                pa.decimal128(10, 2),
            ),
            "boss": pa.array([None if i < 3 else source.randrange(1, 8) for i in range(count)], pa.int32()),
            "hired": pa.array(
                [dt.date(2015, 1, 1) + dt.timedelta(source.randrange(3000)) for _ in range(count)], pa.date32()
            ),
            "active": pa.array([source.choice([True, False, None]) for _ in range(count)], pa.bool_()),
        }
    )


def _cities() -> pa.Table:
    return pa.table(
        {
            "city": ["Berlin", "Lima", "Oslo", "Quito", None],
            "country": ["Germany", "Peru", "Norway", "Ecuador", "nowhere"],
            "population": pa.array([3_700_000, 10_900_000, 700_000, None, 0], pa.int64()),
        }
    )


def _orders() -> pa.Table:
    source = random.Random(2)
    count = 120
    return pa.table(
        {
            "order_id": pa.array(range(1000, 1000 + count), pa.int64()),
            "person": pa.array([source.choice([None, *range(1, 50)]) for _ in range(count)], pa.int32()),
            "amount": pa.array([Decimal(source.randrange(-500, 50_000)) / 100 for _ in range(count)], pa.decimal128(9, 2)),
            "quantity": pa.array([source.randrange(1, 6) for _ in range(count)], pa.int16()),
            "day": pa.array(
                [dt.date(2023, 1, 1) + dt.timedelta(source.randrange(400)) for _ in range(count)], pa.date32()
            ),
            "status": pa.array([source.choice(["new", "paid", "sent", None]) for _ in range(count)], pa.string()),
        }
    )


def _numbers() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5, 6], pa.int32()),
            "i8": pa.array([0, 1, -1, 127, -128, None], pa.int8()),
            "i16": pa.array([0, 1, -1, 32767, -32768, None], pa.int16()),
            "i32": pa.array([0, 1, -7, 2**31 - 1, -(2**31), None], pa.int32()),
            "i64": pa.array([0, 1, -1, 2**63 - 1, -(2**63), None], pa.int64()),
            "u8": pa.array([0, 1, 2, 255, 7, None], pa.uint8()),
            "f32": pa.array([0.0, 1.5, -2.25, 1e30, -0.0, None], pa.float32()),
            "f64": pa.array([0.0, 0.1, -2.5, 1e300, float("nan"), None], pa.float64()),
            "dec": pa.array(
                [Decimal(text) if text else None for text in ("0.00", "1.25", "-7.10", "9999999.99", "0.01", "")],
                pa.decimal128(9, 2),
            ),
            "flag": pa.array([True, False, None, True, False, None], pa.bool_()),
        }
    )


def _texts() -> pa.Table:
    values = ["", "a", "abc", "ABC", "aBc def", "  pad  ", "ünïcödé", "日本語", "a%b_c", "x,y,z", "ﬀ", None, "abc"]
    return pa.table({"id": pa.array(range(1, len(values) + 1), pa.int32()), "t": pa.array(values, pa.string())})


def _days() -> pa.Table:
    moments = [
        dt.datetime(2020, 2, 29, 12, 30, 45, 123456),
        dt.datetime(1999, 12, 31, 23, 59, 59),
        dt.datetime(2000, 1, 1),
        dt.datetime(1969, 7, 20, 20, 17, 40),
        dt.datetime(2024, 12, 30, 1, 2, 3),
        None,
    ]
    return pa.table(
        {
            "id": pa.array(range(1, len(moments) + 1), pa.int32()),
            "d": pa.array([None if one is None else one.date() for one in moments], pa.date32()),
            "ts": pa.array(moments, pa.timestamp("us")),
            "tm": pa.array([None if one is None else one.time() for one in moments], pa.time64("us")),
        }
    )


def _many() -> pa.Table:
    """Several lanes' worth of rows once it is cut into small row groups."""
    source = random.Random(3)
    count = 5_000
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "k": pa.array([source.choice([None, *range(200)]) for _ in range(count)], pa.int32()),
            "g": pa.array([source.randrange(7) for _ in range(count)], pa.int8()),
            "v": pa.array([source.randrange(-1000, 1000) / 8 for _ in range(count)], pa.float64()),
            "s": pa.array([f"s{source.randrange(50)}" for _ in range(count)], pa.string()),
        }
    )
