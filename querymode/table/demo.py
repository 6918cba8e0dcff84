"""The built-in data and the five queries of `querymode demo`."""

from __future__ import annotations

from querymode.expr.nodes import col

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy
    import pyarrow

    from querymode.frame.frame import DataFrame

ORDER_COUNT = 300_000
_SEED = 0x51554552_594D4F44

REGIONS = ("us", "eu", "apac", "latam", "mea")
PRODUCTS = ("anvil", "bolt", "crate", "drill", "engine", "flange", "gasket", "hinge", "inverter", "jack")


def _random(count: int, stream: int) -> numpy.ndarray[tuple[int], numpy.dtype[numpy.uint64]]:
    """Mixed counters (splitmix64): the same numbers with every version of numpy."""
    import numpy as np

    with np.errstate(over="ignore"):
        start = np.uint64(_SEED) + np.uint64(stream) * np.uint64(0xD1342543DE82EF95)
        state = start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))


def orders(count: int = ORDER_COUNT) -> pyarrow.Table:
    """Orders of two years: skewed regions and products, prices with cents, some without a discount."""
    import numpy as np
    import pyarrow as pa

    def below(stream: int, limit: int) -> numpy.ndarray[tuple[int], numpy.dtype[numpy.int64]]:
        return (_random(count, stream) % np.uint64(limit)).astype(np.int64)

    region = np.minimum(below(1, 9), below(2, 5)) % 5
    product = np.minimum(below(3, 14), below(4, 10)) % 10
    quantity = (1 + np.minimum(below(5, 40), below(6, 40))).astype(np.int32)
    cents = (199 + below(7, 20_000) + product * 1_550) * quantity
    seconds = np.sort(below(8, 2 * 365 * 86_400)) + 1_704_067_200  # from 2024-01-01
    discount = below(9, 30) / 100
    return pa.table(
        {
            "order_id": pa.array(np.arange(1, count + 1, dtype=np.int64)),
            "ordered_at": pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp("us")),
            "customer": pa.array([f"customer-{number:05d}" for number in below(10, 20_000).tolist()]),
            "region": pa.array(REGIONS).take(pa.array(region)),
            "product": pa.array(PRODUCTS).take(pa.array(product)),
            "quantity": pa.array(quantity),
            "amount": pa.array(cents / 100),
            "discount": pa.array(discount, mask=below(11, 4) != 0),
        }
    )


QUERIES: tuple[tuple[str, Callable[[DataFrame], DataFrame]], ...] = (
    (
        'group_by("region").agg(col("amount").sum(), …).sort("revenue", "desc")',
        lambda frame: (
            frame.group_by("region")
            .agg(
                col("order_id").count().alias("orders"),
                col("amount").sum().alias("revenue"),
                col("amount").avg().alias("average"),
                col("discount").max().alias("best_discount"),
            )
            .sort("revenue", "desc")
        ),
    ),
    (
        'filter((col("region") == "eu") & (col("quantity") >= 35)).sort("amount", "desc").limit(5)',
        lambda frame: (
            frame.filter((col("region") == "eu") & (col("quantity") >= 35))
            .select("order_id", "ordered_at", "product", "quantity", "amount")
            .sort("amount", "desc")
            .limit(5)
        ),
    ),
    (
        'where_or([("region", "eq", "us"), ("amount", "gt", 10_000)], [("product", "eq", "jack")])',
        lambda frame: frame.where_or(
            [("region", "eq", "us"), ("amount", "gt", 10_000)], [("product", "eq", "jack")]
        ).agg(col("order_id").count().alias("orders"), col("amount").sum().alias("revenue")),
    ),
    (
        'filter("customer", "like", "customer-000%").group_by("product").aggregate("sum", "quantity")',
        lambda frame: (
            frame.filter("customer", "like", "customer-000%")
            .group_by("product")
            .aggregate("sum", "quantity", "quantity")
            .sort("quantity", "desc")
            .limit(5)
        ),
    ),
    (
        'filter("discount", "is_null").filter("ordered_at", "gte", "2025-12-30").select(amount × 1.19)',
        lambda frame: (
            frame.filter("discount", "is_null")
            .filter("ordered_at", "gte", "2025-12-30")
            .select("order_id", "ordered_at", (col("amount") * 1.19).alias("with_tax"))
            .sort("ordered_at", "desc")
            .limit(3)
        ),
    ),
)
