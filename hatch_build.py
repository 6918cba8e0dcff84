"""Compiles the engine before hatchling collects files: for wheels and editable installs, not sdists."""

import os
import subprocess
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ZigBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":  # an editable install counts as a wheel
            return
        command = [sys.executable, "-m", "ziglang", "build", "wasm", f"-Dpython={sys.executable}"]
        # Without this Zig first compiles its build runner with full optimisation, for two minutes.
        environment = {"ZIG_DEBUG_CMD": "1", **os.environ}
        subprocess.run(command, cwd=self.root, check=True, env=environment)
