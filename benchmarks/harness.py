"""Interleaved rounds, best times, and the table they end up in.

Neighbours make a shared machine slow for seconds at a time. So contestants take turns, and the best of many
turns counts: it is the one that was disturbed least.
"""

from __future__ import annotations

import math
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Action = Callable[[], object]

HEADERS = ("name", "ours", "peer", "ratio", "bar")
#: What is shorter than this is repeated until it is not: a clock and a closure cost half a microsecond.
TURN_SECONDS_MIN = 0.0002


def race(contestants: Mapping[str, Action], *, rounds: int) -> dict[str, float]:
    """The best seconds of every contestant. A first turn of each, not timed, warms it up."""
    repeats = {name: _repeats(action) for name, action in contestants.items()}
    best = dict.fromkeys(contestants, math.inf)
    for _ in range(rounds):
        for name, action in contestants.items():
            best[name] = min(best[name], _turn(action, repeats[name]))
    return best


def _repeats(action: Action) -> int:
    action()
    once = _turn(action, 1)
    return max(1, round(TURN_SECONDS_MIN / max(once, 1e-7)))


def _turn(action: Action, repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        action()
    return (time.perf_counter() - started) / repeats


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(math.fsum(logarithms) / len(logarithms))


def faster(times: Mapping[str, float], *names: str) -> str:
    return min(names, key=times.__getitem__)


class Table:
    """Lines that are printed as they come: a long run shows that it lives."""

    def __init__(self, title: str, name_width: int = 34) -> None:
        self._widths = (name_width, 12, 22, 7, 16)
        print(f"\n{title}")
        self._print(HEADERS)
        print("-+-".join("-" * width for width in self._widths))

    def _print(self, cells: Iterable[str]) -> None:
        name, *others = zip(cells, self._widths, strict=True)
        print(
            " | ".join([name[0].ljust(name[1]), *(cell.rjust(width) for cell, width in others)]), flush=True
        )

    def measure(self, name: str, ours: str, *, bar: str = "", met: bool | None = None) -> None:
        """A number that has a bar and no peer."""
        self._print((name, ours, "", "", _verdict(bar, met)))

    def compare(
        self, name: str, ours: float, peer: float, peer_name: str, *, ratio_max: float | None = None
    ) -> float:
        """Our seconds beside the peer's."""
        ratio = ours / peer
        bar = _ratio_bar(ratio, ratio_max)
        self._print((name, seconds(ours), f"{peer_name} {seconds(peer)}", f"{ratio:.2f}", bar))
        return ratio

    def mean(self, name: str, ratios: Iterable[float], *, ratio_max: float | None = None) -> None:
        ratio = geometric_mean(ratios)
        self._print((name, "", "", f"{ratio:.2f}", _ratio_bar(ratio, ratio_max)))


def _ratio_bar(ratio: float, ratio_max: float | None) -> str:
    return "" if ratio_max is None else _verdict(f"≤ {ratio_max:.3g}", ratio <= ratio_max)


def _verdict(bar: str, met: bool | None) -> str:
    return bar if met is None else f"{bar} {'met' if met else 'MISSED'}"


def seconds(value: float) -> str:
    """In the unit that reads best."""
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.2f} s"
