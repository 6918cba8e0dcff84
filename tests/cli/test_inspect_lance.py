"""`querymode inspect`, `head` and `count` of a Lance table: its schema, rows and files."""

from __future__ import annotations

import json

import pytest

from fixtures.by_pylance import LANCE
from querymode.cli import main

TABLE = str(LANCE / "deletions_arrow.lance")


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", TABLE]) == 0
    count = int(capsys.readouterr().out.strip().replace(",", ""))
    assert main(["inspect", TABLE]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["format", "Lance"] in lines and ["rows", f"{count:,}"] in lines
    assert any(line[:1] == ["deleted"] for line in lines)
    assert ["files"] in lines
    assert main(["head", TABLE, "-n", "2"]) == 0
    assert "text 1" in capsys.readouterr().out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--json", TABLE]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["fragment_count"] == len({file["fragment"] for file in report["files"]})
    assert report["deleted_row_count"] > 0 and report["row_count"] > 0
    assert all(file["name"].endswith(".lance") for file in report["files"])


def test_row_groups(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "--row-group", "0", TABLE]) == 1
    assert "no row groups" in capsys.readouterr().err
