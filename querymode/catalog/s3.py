"""Objects below an s3:// folder, or matching a pattern. One listing tells name, size and ETag of all."""

from __future__ import annotations

from querymode.catalog.listing import (
    ICEBERG,
    Found,
    choose,
    claimed_folder,
    is_iceberg_metadata,
    nothing_found,
    nothing_matches,
    table_folder,
)
from querymode.catalog.pattern import has_wildcards, is_hidden, matches, split_pattern, wildcard_index
from querymode.errors import QueryModeError
from querymode.format import registry
from querymode.store.s3 import list_prefix, list_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from querymode.catalog.opening import Opening
    from querymode.catalog.pattern import Parts
    from querymode.format.format import Format
    from querymode.store.fetch import IoGate
    from querymode.store.options import StoreOptions
    from querymode.store.s3 import Listed


def find(url: str, options: StoreOptions, gate: IoGate, said: Format | None = None) -> list[Found]:
    """The objects of a URL: one object, a folder or a pattern. `gate`: through which pages are asked for."""
    path = url.partition("://")[2]
    key = path.partition("/")[2]
    name = key.rpartition("/")[2]
    if has_wildcards(key):
        return glob(path, options, gate)
    # Their names say what they are, and listing a whole table takes long.
    table = table_at(url, options, gate, said or registry.by_name(name or key.rstrip("/").rpartition("/")[2]))
    if table is not None:
        return [table]
    if not name:
        return folder(path, options, gate, said)
    if "." not in name:  # more probably a folder: S3 itself knows neither
        try:
            return folder(path, options, gate, said)
        except QueryModeError as failure:
            if failure.code != "TABLE_NOT_FOUND":
                raise
    return [Found(url, (), name, is_named=True)]


def folder(path: str, options: StoreOptions, gate: IoGate, said: Format | None = None) -> list[Found]:
    """`path`: bucket and key."""
    root = f"s3://{path.rstrip('/')}/"
    found: list[Found] = []
    top: set[str] = set()
    tables: dict[str, Format] = {}
    for listed in list_prefix(root, options, gate.ask):
        names = listed.url[len(root) :].split("/")
        if len(names) > 1:
            top.add(ICEBERG if is_iceberg_metadata(names) else names[0])
            if registry.of_folder({names[0]}):
                break  # what else there is makes no difference
        if names[-1] and not any(map(is_hidden, names)):
            found.append(Found(listed.url, tuple(names[:-1]), names[-1], listed))
        elif (table := _table_around(names)) is not None:
            tables.setdefault(*table)
    claimed = claimed_folder(root, top, said)
    if claimed:
        return claimed
    found = _with_tables(found, tables, root)
    if not found:
        raise nothing_found(root)
    return choose(found, root, said)


def table_at(url: str, options: StoreOptions, gate: IoGate, format: Format | None) -> Found | None:
    """The table of that format whose folder has that name, if there is one."""
    if format is None or format.folder_sign is None:
        return None
    root = f"s3://{url.partition('://')[2].rstrip('/')}/"
    listed, is_all = gate.ask(lambda patience: list_start(f"{root}{format.folder_sign}/", options, patience))
    if not listed:
        return None
    found = table_folder(root, (), format)
    found.inside = (listed, is_all)
    return found


def named_table(url: str, options: StoreOptions, gate: IoGate) -> Found | None:
    """The table that is known by its name: `events` lies in `events.lance/`."""
    for format in registry.FORMATS:
        found = table_at(f"{url}.{format.name}", options, gate, format)
        if found is not None:
            return found
    return None


def has_objects(prefix: str, options: StoreOptions, gate: IoGate) -> bool:
    return bool(gate.ask(lambda patience: list_start(prefix, options, patience))[0])


def _table_around(names: list[str]) -> tuple[str, Format] | None:
    """The folder below the root that an object shows to be a table, as `t/` of `t/_versions/1.manifest`."""
    for index, name in enumerate(names[:-1]):
        format = registry.of_folder({name}) if is_hidden(name) else None
        if format is not None:
            return "".join(f"{part}/" for part in names[:index]), format
    return None


def _with_tables(found: list[Found], tables: dict[str, Format], root: str) -> list[Found]:
    """Files of tables are not what these hold: the tables stand for them."""
    if not tables:
        return found
    kept = [file for file in found if not any(map(file.path[len(root) :].startswith, tables))]
    for path, format in tables.items():
        kept.append(table_folder(root + path, tuple(path.split("/")[:-2]), format))
    return kept


def _matching_tables(found: list[Found], tables: dict[str, Format], parts: Parts, root: str) -> list[Found]:
    """Of a pattern: tables whose folders match, and of others nothing that lies in them."""
    matching = {path: format for path, format in tables.items() if matches(parts, path.split("/")[:-1])}
    kept = [file for file in found if not any(map(file.path[len(root) :].startswith, tables))]
    return _with_tables(kept, matching, root)


def files_in(path: str, opening: Opening, listed: list[Listed] | None = None) -> Iterator[Found]:
    """The objects that lie directly in a folder, in the order of their names. `listed`: the first of them, if
    they are known; more are asked for when somebody wants more."""
    known = listed or []
    yield from files_of(known)
    for place, item in enumerate(list_prefix(f"{path}/", opening.options, opening.gate.ask)):
        if place >= len(known):
            yield from files_of([item])


def files_of(listed: list[Listed]) -> list[Found]:
    return [Found(item.url, (), item.url.rpartition("/")[2], item) for item in listed]


def glob(path: str, options: StoreOptions, gate: IoGate) -> list[Found]:
    base, parts = split_pattern(path)
    start = len(f"s3://{base}")
    found: list[Found] = []
    tables: dict[str, Format] = {}
    for listed in list_prefix(f"s3://{path[: wildcard_index(path)]}", options, gate.ask):
        names = listed.url[start:].split("/")
        if listed.url == f"s3://{path}":  # a name that looks like a pattern
            return [Found(listed.url, (), names[-1], listed)]
        if names[-1] and matches(parts, names):
            found.append(Found(listed.url, tuple(names[:-1]), names[-1], listed))
        table = _table_around(names)
        if table is not None:
            tables.setdefault(*table)
    found = _matching_tables(found, tables, parts, f"s3://{base}")
    if not found:
        raise nothing_matches(f"s3://{path}")
    return sorted(found, key=lambda file: file.path)
