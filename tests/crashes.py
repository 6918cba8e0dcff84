"""A process of the tests that ends in the middle of one: the run goes on without that test.

With `--dist loadfile` pytest-xdist 3.8 tries it again, until nine processes have ended and it gives up.
Or it waits for ever: it hands out files that were done already, or a single test, which no process begins
before it knows of a next one. See #1371, #1378 and #1327 of pytest-dev/pytest-xdist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class FilesOnce(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests go to one process, each test once."""

    def remove_node(self, node: WorkerController) -> str | None:
        files: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        for tests in files.values():
            for test, is_done in tests.items():
                if not is_done:
                    tests[test] = True
                    self._hand_out(files)
                    return test
        return None

    def _hand_out(self, files: dict[str, dict[str, bool]]) -> None:
        self.workqueue.update((name, tests) for name, tests in files.items() if not all(tests.values()))
        for node in self.nodes:
            self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        if node not in self.registered_collections:
            return  # it is being started, and asks when it is ready
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)
        super()._reschedule(node)
