"""What `init` reads of a target's source: how it is built, opened and closed. Nothing of it is imported.

Reading is enough for a probe that runs, and an import would run code before
anybody asked for it. What cannot be read is left to be filled in, and said.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CLOSERS = ("aclose", "close", "stop", "shutdown", "disconnect", "quit", "__aexit__")
OPENERS = ("open", "connect", "start", "start_io", "initialize", "__aenter__")
_FILL = (
    (r"^(host(name)?|address|ip|server)$", "peer.host"),
    (r"^port$", "peer.port"),
    (r"^(url|uri|dsn|base_url|endpoint)$", 'f"tcp://{peer.address}"'),
    (r"^(cmd|command|program|executable|binary|path|cli_path|cli|exe)$", "child.path"),
    (r"^(argv|args|cmdline)$", "[child.path]"),
    (r".*timeout$", "1.0"),
)
_CHILD = re.compile(r"create_subprocess|\bPopen\b|open_process|subprocess_exec")
_PEER = re.compile(r"open_connection|create_connection|connect_tcp|\bhost(name)?\b.*\bport\b", re.DOTALL)


@dataclass(frozen=True)
class Call:
    """A call with its arguments as far as names tell them; `missing` are those that somebody has to fill in."""

    text: str
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Target:
    """What was read.

    release: `name==version` where it is an installed package, empty where it lies in the current directory.
    methods: every method that is seen, with whether it is async; whole says that no base class is out of sight.
    """

    file: Path
    release: str = ""
    build: Call = Call("")
    opener: str = ""
    open: Call = Call("")
    methods: dict[str, bool] = field(default_factory=dict)
    whole: bool = True
    child: bool = False
    peer: bool = False

    @property
    def closer(self) -> str:
        """The method that most likely ends it, async ones first; empty where there is none."""
        there = [name for name in CLOSERS if name in self.methods]
        return next((name for name in there if self.methods[name]), there[0] if there else "")


def read(module: str, name: str) -> Target | None:
    """The class or function `name` of a module, followed through re-exports; None where its source is not found."""
    for root, release in _roots(module):
        found = _follow(root, module, name, set())
        if found is not None:
            file, node, tree = found
            return (
                _class(file, node, tree, release) if isinstance(node, ast.ClassDef) else _function(file, node, release)
            )
    return None


def names_of(module: str) -> tuple[Path, frozenset[str]] | None:
    """A module's file and all names that its source binds; None where it is not found or may have others, too."""
    for root, _ in _roots(module):
        stem = root.joinpath(*module.split("."))
        file = stem / "__init__.py" if (stem / "__init__.py").is_file() else stem.with_suffix(".py")
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        nodes = list(ast.walk(tree))
        names = {node.name for node in nodes if isinstance(node, Node)}
        names |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        aliases = [alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
        names |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
        return None if names & {"*", "__getattr__", "globals"} else (file, frozenset(names))
    return None


def _roots(module: str) -> Iterator[tuple[Path, str]]:
    """Folders that the module may be imported from, and the release that is installed there."""
    top = module.partition(".")[0]
    for folder in (Path.cwd(), Path("src"), Path("lib")):
        if (folder / top).is_dir() or (folder / f"{top}.py").is_file():
            yield folder.resolve(), ""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return
    if spec is not None and spec.origin and Path(spec.origin).suffix == ".py":
        file = Path(spec.origin)
        root = file.parent.parent if file.name == "__init__.py" else file.parent
        names = importlib.metadata.packages_distributions().get(top, [])
        yield root, f"{names[0]}=={importlib.metadata.version(names[0])}" if names else ""


Node = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _follow(root: Path, module: str, name: str, seen: set[str]) -> tuple[Path, Node, ast.Module] | None:
    if f"{module}:{name}" in seen:
        return None
    seen.add(f"{module}:{name}")
    stem = root.joinpath(*module.split("."))
    file = stem / "__init__.py" if (stem / "__init__.py").is_file() else stem.with_suffix(".py")
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, Node) and node.name == name:
            return file, node, tree
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                if alias.name == "*" or (alias.asname or alias.name) == name:
                    found = _follow(root, source, name if alias.name == "*" else alias.name, seen)
                    if found is not None:
                        return found
    return None


def _function(file: Path, node: ast.FunctionDef | ast.AsyncFunctionDef, release: str) -> Target:
    call = _call(node.name, node)
    return Target(file, release, build=call, child="child." in call.text, peer="peer." in call.text)


def _class(file: Path, node: ast.ClassDef, tree: ast.Module, release: str) -> Target:
    parts = [node]
    local = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)}
    whole = True
    for base in (base for part in parts for base in part.bases):  # it grows while it is gone through
        name = base.id if isinstance(base, ast.Name) else ""
        if name in local and local[name] not in parts:
            parts.append(local[name])
        elif name not in ("object", "ABC", "Protocol"):
            whole = False
    methods: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for part in parts:
        for item in part.body:
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                methods.setdefault(item.name, item)
    build = _call(node.name, methods.get("__init__"))
    known = [name for name in OPENERS if isinstance(methods.get(name), ast.AsyncFunctionDef)]
    opener = known[0] if known else ""
    # Where to connect is said once: where it is built, if it can be said there.
    optional = not build.text.count("peer.") and not build.text.count("child.")
    opened = _call(f"subject.{opener}", methods[opener], optional=optional) if opener else Call("")
    text = "\n".join(ast.unparse(part) for part in parts)
    filled = build.text + opened.text
    return Target(
        file,
        release,
        build,
        opener,
        opened,
        {name: isinstance(item, ast.AsyncFunctionDef) for name, item in methods.items()},
        whole,
        child="child." in filled or bool(_CHILD.search(text)),
        peer="peer." in filled or ("child." not in filled and bool(_PEER.search(text))),
    )


def _call(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef | None, *, optional: bool = True) -> Call:
    """A call that gives what is required; with `optional` where to connect and what to start even if that is not."""
    if function is None:
        return Call(f"{name}()")
    given = function.args
    listed = [*given.posonlyargs, *given.args]
    needed = {one.arg for one in listed[: len(listed) - len(given.defaults)]}
    needed |= {one.arg for one, default in zip(given.kwonlyargs, given.kw_defaults) if default is None}
    words, missing = [], []
    for one in (*listed, *given.kwonlyargs):
        if one.arg in ("self", "cls"):
            continue
        value = next((value for pattern, value in _FILL if re.match(pattern, one.arg)), "")
        by_name = one.arg if one not in given.posonlyargs else ""
        if one.arg in needed or (optional and value.startswith(("peer.", "child.")) and one.arg != "path"):
            if not value:
                missing.append(one.arg)
            words.append(f"{by_name}={value or 'None'}" if by_name else value or "None")
    return Call(f"{name}({', '.join(words)})", tuple(missing))
