"""The pages that are made of what lies elsewhere: papers, gallery and the reference of packages.

They are written below ``papers``, ``gallery`` and ``api`` when the site is built, and belong to no
commit.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gallery_pages import figures, gallery  # beside this file
from signatures import hidden_bases
from sphinx.pycode import ModuleAnalyzer

ROOT = Path(__file__).parents[1]
#: Titles of the packages' references.
PACKAGES = {
    "linsys": "linear systems, sketches and preferences",
    "mgda": "objectives in conflict",
    "lora_bridge": "the same algorithms on language models",
}


def write_pages(docs: Path) -> None:
    """Write all of them anew."""
    made = {"papers": _papers(), "gallery": gallery(), "api": _api()}
    for name, pages in made.items():
        folder = docs / name
        shutil.rmtree(folder, ignore_errors=True)
        for place, text in pages:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(text, encoding="utf-8")
    for figure in figures():
        shutil.copy(figure, docs / "gallery")


def _papers() -> Iterator[tuple[str, str]]:
    """The page for each paper's authors, the verdicts on its claims, and the counterexamples."""
    listed = []
    for file in sorted(ROOT.glob("experiments/*/results/authors.md")):
        folder, name = file.parent, file.parents[1].name
        parts = {part: f"{name}-{part}" for part in ("findings", "verdicts")}
        text = file.read_text(encoding="utf-8")
        for part, page in parts.items():
            text = text.replace(f"({part}.md)", f"({page}.md)")
        title = text.partition("\n")[0].removeprefix("# ")
        more = "".join(f"{page}\n" for page in parts.values())
        yield f"{name}.md", f"{text}\n```{{toctree}}\n:hidden:\n\n{more}```\n"
        verdicts = (folder / "verdicts.md").read_text(encoding="utf-8")
        yield f"{parts['verdicts']}.md", f"# All claims: {title}\n\n{verdicts}"
        findings = (folder / "findings.md").read_text(encoding="utf-8")
        yield f"{parts['findings']}.md", findings
        listed.append(name)
    about = (
        "Every numbered statement of five papers was checked. Each page says what holds, what does "
        "not and where its proof breaks, an instance to check by hand, and what is true instead."
    )
    yield "index.md", _contents("The five papers", about, listed)


def _api() -> Iterator[tuple[str, str]]:
    """What `import ratecheck as rc` has, by topic, and the public modules of the packages."""
    yield "ratecheck.md", _public_names()
    listed = ["ratecheck"]
    for package, title in PACKAGES.items():
        modules = dict(_modules(package))
        for module, elsewhere in modules.items():
            options = "   :members:\n"
            if elsewhere:
                options += f"   :exclude-members: {', '.join(sorted(elsewhere))}\n"
            described = f".. automodule:: {module}\n{options}"
            for name, place in sorted(elsewhere.items()):
                described += (
                    f"\n:py:obj:`{name} <{place}.{name}>` is described in :py:mod:`{place}`.\n"
                )
            yield f"{module}.md", f"# {module}\n\n```{{eval-rst}}\n{described}```\n"
        yield f"{package}-index.md", _contents(f"{package}: {title}", "", list(modules))
        listed.append(f"{package}-index")
    about = "What every public name does, from its docstring, with an example where one helps."
    yield "index.md", _contents("Reference", about, listed)


def _public_names() -> str:
    """A section for each module that the public face takes names from."""
    import ratecheck

    stub = ast.parse((ROOT / "ratecheck" / "__init__.pyi").read_text(encoding="utf-8"))
    parts = ["# ratecheck", "Everything is a name of `import ratecheck as rc`."]
    groups = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    # claims come first, and proofs of them last
    for group in sorted(groups, key=lambda node: "_certify" in (node.module or "")):
        topic = (group.module or "").rpartition(".")[2].lstrip("_").replace("_", " ")
        lines = []
        for alias in group.names:
            thing, name = getattr(ratecheck, alias.name), f"ratecheck.{alias.name}"
            if getattr(thing, "__module__", "").startswith("linsys"):
                defined = f"{thing.__module__}.{thing.__name__}"
                lines += [f"``rc.{alias.name}`` is :py:obj:`{defined}`.", ""]
            elif not inspect.ismodule(thing):
                lines += _described(name, thing, f"ratecheck.{group.module}")
            elif thing.__name__.startswith("ratecheck."):
                lines += [inspect.getdoc(thing) or "", ""]
                for member in thing.__all__:
                    value = getattr(thing, member)
                    if not getattr(value, "__module__", "").startswith(("linsys", "numpy")):
                        lines += _described(f"{name}.{member}", value, thing.__name__)
            else:
                lines += [f"``rc.{alias.name}`` is :py:mod:`{thing.__name__}`.", ""]
        body = "\n".join(lines)
        parts.append(f"## {topic.capitalize()}\n\n```{{eval-rst}}\n{body}\n```")
    return "\n\n".join(parts) + "\n"


def _described(name: str, thing: Any, module: str) -> list[str]:
    """The lines that describe a public name of a module; of a constant, its comment there."""
    if inspect.isclass(thing):
        lines = [f".. autoclass:: {name}", "   :members:"]
        if hidden := hidden_bases(thing):  # whose methods are described nowhere else
            others = [base.__name__ for base in thing.__mro__[1:] if base not in hidden]
            lines.append(f"   :inherited-members: {', '.join(others)}")
        return [*lines, ""]
    if inspect.isroutine(thing):
        return [f".. autofunction:: {name}", ""]
    comments = ModuleAnalyzer.for_module(module).find_attr_docs()
    said = comments["", name.rpartition(".")[2]]
    value = [f"   :value: {thing}"] if isinstance(thing, int | float) else []
    return [f".. py:data:: {name}", *value, "", *(f"   {line}" for line in said), ""]


def _modules(package: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The public modules of a package; names that a package around them offers too, by which."""
    offered: dict[str, dict[str, str]] = {}
    for file in sorted((ROOT / package).glob("**/*.py")):
        names = file.relative_to(ROOT).with_suffix("").parts
        if any(re.match("_(?!_init__)", name) for name in names):
            continue
        module = ".".join(names).removesuffix(".__init__")
        own = offered[module] = _offered(file, module)
        around = [m for m in offered if module.startswith(f"{m}.")]
        elsewhere = {
            name: place
            for name in own
            for place in reversed(around)  # the outermost one is where it is described
            if _defined(name, place, offered) == _defined(name, module, offered)
        }
        if len(elsewhere) < len(own):
            yield module, elsewhere


def _defined(name: str, module: str, offered: dict[str, dict[str, str]]) -> str:
    """The module that a name comes from, as far as it is known; empty where it is not offered."""
    source = offered[module].get(name, "")
    return (
        source
        if source in ("", module) or source not in offered
        else _defined(name, source, offered)
    )


def _offered(file: Path, module: str) -> dict[str, str]:
    """The names in a module's ``__all__``, each with the module that it is imported from."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    imported = {
        alias.asname or alias.name: node.module or ""
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {name: imported.get(name, module) for name in ast.literal_eval(node.value)}
    return {}


def _contents(title: str, about: str, pages: list[str]) -> str:
    listed = "\n".join(pages)
    return f"# {title}\n\n{about}\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n"
