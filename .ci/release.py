"""Builds what a release consists of, and proves in fresh environments that it works: `make release-check`.

Packages from elsewhere are downloaded once, into `out/release/wheelhouse`. Everything after that needs no net.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "release"
DIST, WHEELHOUSE, TOOLS, SBOM = OUT / "dist", OUT / "wheelhouse", OUT / "tools", OUT / "sbom"
# Each has a wheel and a source distribution.
PROJECTS = ROOT, ROOT / "python" / "incast-requests"
# Where links of pages that others show have to lead.
HOME = "https://github.com/incast-net/incast/blob/main/"
PICTURES = "https://raw.githubusercontent.com/incast-net/incast/main/"
# What package indexes show.
SHOWN = ("README.md", "python/incast-requests/README.md")
# Links to the system's C library as of this version, which Debian 10, RHEL 8 and Ubuntu 20.04 have.
PLATFORM = "manylinux_2_28"
# The other machines that wheels are built for: `rustup target add` makes this one buildable here.
OTHER = "aarch64-unknown-linux-gnu"
ZIG = "ziglang==0.14.1"
# Its quick run is a matter of seconds.
PAPER, FIGURE = "rdtcp", "1a"


class Failed(Exception):  # noqa: N818
    """A check found something wrong; the text says what."""


class Skipped(Exception):  # noqa: N818
    """A check cannot be made here; the text says why."""


def versions(root: Path) -> dict[str, str]:
    """Return the version of this program by the place that states it."""

    def toml(path: str) -> dict[str, object]:
        return tomllib.loads((root / path).read_text(encoding="utf-8"))

    cargo, host = toml("Cargo.toml"), toml("crates/host/Cargo.toml")
    workspace = cargo["workspace"]
    found = {"Cargo.toml": workspace["package"]["version"], "crates/host/Cargo.toml": host["package"]["version"]}  # type: ignore[index]
    for name, what in workspace["dependencies"].items():  # type: ignore[index]
        if isinstance(what, dict) and "path" in what and "version" in what:
            found[f"Cargo.toml, dependency {name}"] = what["version"]
    for path in ("pyproject.toml", "python/incast-requests/pyproject.toml"):
        project = toml(path)["project"]
        found[path] = project["version"]  # type: ignore[index]
        for requirement in project["dependencies"]:  # type: ignore[index]
            if own := re.fullmatch(r"(incast-requests)==(.+)", requirement):
                found[f"{path}, dependency {own[1]}"] = own[2]
    for lock in ("Cargo.lock", "crates/host/Cargo.lock", "uv.lock"):
        for package in toml(lock)["package"]:  # type: ignore[attr-defined]
            if package["name"].startswith("incast") and "registry" not in str(package.get("source", "")):
                found[f"{lock}, package {package['name']}"] = package["version"]
    cited = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    found["CITATION.cff"] = cited[1] if cited else "none"
    return found


def set_version(root: Path, version: str) -> list[str]:
    """State another version in every place that `versions` reads; return the files that changed.

    Raises:
        Failed: it is no version, places disagree before, or a place still has the old one afterwards.

    """
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", version):
        raise Failed(f"{version!r} is no version such as 1.2.3")
    before = versions(root)
    if len(set(before.values())) != 1:
        raise Failed(f"places disagree: {', '.join(f'{place} has {one}' for place, one in before.items())}")
    old = re.escape(before["Cargo.toml"])
    changed = []
    for name in dict.fromkeys(place.split(",")[0] for place in before):
        text = (root / name).read_text(encoding="utf-8")
        if name.endswith(".lock"):
            new = re.sub(rf'^(name = "incast[\w-]*"\nversion = "){old}"', rf'\g<1>{version}"', text, flags=re.MULTILINE)
        else:
            # Of the project itself, of dependencies with a path, and of requirements.
            new = re.sub(rf'^(version(?: =|:) "?){old}', rf"\g<1>{version}", text, flags=re.MULTILINE)
            new = re.sub(rf'(\bpath = "[^"]*", version = "){old}"', rf'\g<1>{version}"', new)
            new = re.sub(rf'("incast-requests==){old}"', rf'\g<1>{version}"', new)
        if new != text:
            (root / name).write_text(new, encoding="utf-8")
            changed.append(name)
    if left := [place for place, one in versions(root).items() if one != version]:
        raise Failed(f"still of another version: {', '.join(left)}")
    return changed


def releases(changelog: str) -> dict[str, date]:
    """Return the releases that a changelog has, the newest first, with their dates.

    Raises:
        Failed: its headings are not as Keep a Changelog has them.

    """
    first, *rest = re.findall(r"^## (.*)$", changelog, re.MULTILINE) or [""]
    if first != "[Unreleased]":
        raise Failed(f"CHANGELOG.md: the first heading is {first!r}, not '[Unreleased]'")
    found: dict[str, date] = {}
    for heading in rest:
        told = re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", heading)
        if not told:
            raise Failed(f"CHANGELOG.md: the heading {heading!r} is not like '[1.2.3] - 2026-01-31'")
        try:
            found[told[1]] = date.fromisoformat(told[2])
        except ValueError as error:
            raise Failed(f"CHANGELOG.md: the heading {heading!r}: {error}") from error
    numbers, days = [[int(part) for part in version.split(".")] for version in found], [*found.values()]
    if numbers != sorted(numbers, reverse=True) or days != sorted(days, reverse=True) or len(found) < len(rest):
        raise Failed(f"CHANGELOG.md: releases are not in order, the newest first: {', '.join(rest)}")
    return found


def dated(changelog: str, version: str, day: date) -> str:
    """Return a changelog in which what is under `Unreleased` is what this release brings.

    Raises:
        Failed: it has this release, or there is nothing to release.

    """
    if version in releases(changelog):
        raise Failed(f"CHANGELOG.md has {version} already")
    head, rest = changelog.split("## [Unreleased]\n", 1)
    if not rest.partition("\n## ")[0].strip():
        raise Failed("CHANGELOG.md has nothing under Unreleased")
    changed = f"{head}## [Unreleased]\n\n## [{version}] - {day}\n{rest}"
    releases(changed)
    return changed


def links(page: str) -> list[str]:
    """Return the targets of the links and pictures of a page in Markdown."""
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL))


def broken(page: str, root: Path) -> list[str]:
    """Return the links that lead nowhere once a page is shown elsewhere: relative ones, and those to files not here."""
    wrong = []
    for link in links(page):
        start = next((start for start in (HOME, PICTURES) if link.startswith(start)), None)
        if not link.startswith("https://"):
            wrong.append(f"{link} is not absolute")
        elif start and not (root / link.removeprefix(start).partition("#")[0]).exists():
            wrong.append(f"{link}: there is no such file here")
    return wrong


def check_versions() -> str:
    """Require the same version everywhere, and that the newest release of the changelog is this one."""
    found = versions(ROOT)
    expected = found["Cargo.toml"]
    if wrong := [f"{place} has {version}" for place, version in found.items() if version != expected]:
        raise Failed(f"Cargo.toml has {expected}; {'; '.join(wrong)}")
    said = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest, day = next(iter(releases(said).items()), ("none", None))
    if newest != expected:
        raise Failed(f"Cargo.toml has {expected}; the newest release in CHANGELOG.md is {newest}")
    return f"{expected} in {len(found)} places; in CHANGELOG.md it is of {day}"


def check_links() -> str:
    """Require links of the pages that package indexes show to lead somewhere from there too."""
    pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in SHOWN}
    if wrong := [f"{name}: {one}" for name, page in pages.items() for one in broken(page, ROOT)]:
        raise Failed("; ".join(wrong))
    return f"{sum(len(links(page)) for page in pages.values())} links in {', '.join(SHOWN)}"


def check_build() -> str:
    """Build wheels and source distributions."""
    shutil.rmtree(DIST, ignore_errors=True)
    zig = _zig()
    how = ["--locked", *(["--zig", "--compatibility", PLATFORM] if zig else ["--compatibility", "linux"])]
    path = {"PATH": f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"} if zig else {}
    also_other = zig and Path(_run("rustc", "--print", "sysroot").strip(), "lib/rustlib", OTHER).is_dir()
    _run(sys.executable, ROOT / "packaging" / "backend.py")
    for project in PROJECTS:
        _run(_maturin(), "build", *how, "--out", DIST, at=project, also=path)
        if also_other:
            _run(_maturin(), "build", *how, "--target", OTHER, "--out", DIST, at=project, also=path)
        _run(_maturin(), "sdist", "--out", DIST, at=project)
    built = ", ".join(f"{file.name} ({file.stat().st_size / 1e6:.1f} MB)" for file in sorted(DIST.iterdir()))
    if not zig:
        raise Skipped(f"no {ZIG} can be had here, so these wheels run on this machine's C library or later: {built}")
    return built if also_other else f"{built}; none for {OTHER}: that target of Rust is not installed here"


def check_wheel() -> str:
    """Require the wheel to be for every Python from 3.11 on, and to hold the scenarios and studies in its package."""
    wheel = _wheel("incast")
    if "-cp311-abi3-" not in wheel.name:
        raise Failed(f"{wheel.name} is not for the stable ABI of Python 3.11")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    if strays := sorted({name.split("/")[0] for name in names} - {"incast", f"{_stem('incast')}.dist-info"}):
        raise Failed(f"beside the package: {', '.join(strays)}")
    tracked = _run("git", "ls-files", "scenarios", "studies").split()
    if absent := [name for name in tracked if f"incast/data/{name}" not in names]:
        raise Failed(f"missing: {', '.join(absent)}")
    return f"{len(names)} files, of which {len(tracked)} are scenarios and studies"


def check_sbom() -> str:
    """Put the lists of all dependencies beside what is published: those of the crates are in the wheels."""
    shutil.rmtree(SBOM, ignore_errors=True)
    SBOM.mkdir(parents=True)
    listed = {f"{project}.cyclonedx.json": _crates_of(_wheel(project)) for project in ("incast", "incast-requests")}
    listed["python.cyclonedx.json"] = _run(
        *(Path(sys.executable).parent / "uv", "export", "--quiet", "--frozen", "--no-dev", "--all-extras"),
        *("--format", "cyclonedx1.5", "--preview-features", "sbom-export"),
    )
    for name, text in listed.items():
        (SBOM / name).write_text(text, encoding="utf-8")
    return ", ".join(f"{name}: {components(text, name)} components" for name, text in listed.items())


def components(text: str, name: str) -> int:
    """Return how many components an SBOM in CycloneDX's form lists, each with its version."""
    listed = json.loads(text)
    found = listed.get("components", [])
    if listed.get("bomFormat") != "CycloneDX" or not found or not all(one.get("version") for one in found):
        raise Failed(f"{name} is no list of components with versions")
    return len(found)


def _crates_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        inside = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/sboms/[^/]+\.json", name)]
        if len(inside) != 1:
            raise Failed(f"{wheel.name} has {len(inside)} lists of its crates")
        return archive.read(inside[0]).decode()


def check_install() -> str:
    """Use the installed program in an empty folder: the demo, an example, a figure of a paper."""
    with _installed(_wheel("incast")) as (home, site):
        before = _contents(site)
        incast = home / "venv" / "bin" / "incast"
        empty = home / "empty"
        empty.mkdir()

        def run(*arguments: str) -> str:
            return _run(incast, *arguments, at=empty, also={"MPLBACKEND": "Agg"})

        where = _run(home / "venv/bin/python", "-c", "import incast; print(incast.__file__)", at=empty).strip()
        if not Path(where).is_relative_to(site):
            raise Failed(f"incast comes from {where}")
        run("demo", "--out", "demo")
        examples = [line.split()[0] for line in run("list", "examples").splitlines() if line]
        if "incast" not in examples:
            raise Failed(f"incast list examples prints {examples}")
        summary = json.loads(run("run", "incast", "--json"))
        said = run("reproduce", PAPER, "--figure", FIGURE, "--quick")
        for file in ("demo/index.html", "out/incast/flows.parquet", f"out/{PAPER}/report.html"):
            if not (empty / file).stat().st_size:
                raise Failed(f"{file} is empty")
        refused = subprocess.run(
            [incast, "reproduce", PAPER, "--update"], cwd=empty, capture_output=True, text=True, check=False
        )
        if refused.returncode != 2 or "belongs to the installed program" not in refused.stderr:
            raise Failed(f"--update is not refused: {refused.stderr}")
        if changed := before ^ _contents(site):
            raise Failed(f"changed in the installed program: {', '.join(sorted(name for name, _ in changed))}")
        count = re.search(r"^\d+ claims", said, re.MULTILINE)
        if not count:
            raise Failed(f"incast reproduce {PAPER} judges no claims: {said}")
    return (
        f"demo; run incast ({summary['outcome']}); {len(examples)} examples; "
        f"reproduce {PAPER} --figure {FIGURE} --quick ({count[0]}); "
        "nothing is written into the program"
    )


def check_requests() -> str:
    """Install the scheduler for programs, which needs nothing else, and use it."""
    with _installed(_wheel("incast-requests")) as (home, site):
        program = (
            "import asyncio, incast_requests\n"
            "async def ask(n):\n    return n\n"
            "async def main():\n"
            "    async with incast_requests.open() as scheduler:\n"
            "        return await scheduler.gather(*(ask(n) for n in range(3)), expect_bytes=1000)\n"
            "print(asyncio.run(main()))\n"
        )
        answer = _run(home / "venv/bin/python", "-c", program, at=home).strip()
        if answer != "[0, 1, 2]":
            raise Failed(f"it answers {answer}")
        # What Python puts into every new environment is not ours.
        own = ("incast_requests-", "pip-", "setuptools-")
        others = sorted(path.name for path in site.glob("*.dist-info") if not path.name.startswith(own))
        if others:
            raise Failed(f"installed beside it: {', '.join(others)}")
    return "alone in its environment"


def check_sdist() -> str:
    """Build a wheel from the source distribution, outside the tree, and compare its files."""
    (sdist,) = DIST.glob(f"{_stem('incast')}.tar.gz")
    with tempfile.TemporaryDirectory(prefix="incast-") as directory, tarfile.open(sdist) as archive:
        archive.extractall(directory, filter="data")
        if links_out := [one.name for one in archive if one.issym() or one.islnk()]:
            raise Failed(f"links: {', '.join(links_out)}")
        _run(
            sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--find-links", WHEELHOUSE,
            "--wheel-dir", Path(directory, "built"), Path(directory, _stem("incast")),
            # What others wrote is not compiled again.
            at=Path(directory), also={"CARGO_TARGET_DIR": str(ROOT / "target")},
        )  # fmt: skip
        (built,) = Path(directory, "built").iterdir()
        with zipfile.ZipFile(built) as one, zipfile.ZipFile(_wheel("incast")) as other:
            differing = set(one.namelist()) ^ set(other.namelist())
    if differing:
        raise Failed(f"only in one of both wheels: {', '.join(sorted(differing))}")
    return f"{sdist.name} builds {built.name}"


def check_packages() -> str:
    """Package the crates."""
    about = json.loads(_run("cargo", "metadata", "--no-deps", "--format-version", "1"))["packages"]
    names = [package["name"] for package in about if package["publish"] is None]
    _package(names, "--no-verify")
    return f"{len(names)} crates"


def check_sources() -> str:
    """Read the manifests of the source distributions, which may name nothing that is not there."""
    with tempfile.TemporaryDirectory(prefix="incast-") as directory:
        for project in PROJECTS:
            _run(_maturin(), "sdist", "--out", directory, at=project)
        made = sorted(Path(directory).glob("*.tar.gz"))
        for file in made:
            with tarfile.open(file) as archive:
                archive.extractall(directory, filter="data")
            root = Path(directory, file.name.removesuffix(".tar.gz"))
            _run("cargo", "metadata", "--offline", "--format-version", "1", at=root)
        return f"{' and '.join(file.name for file in made)} are whole"


def check_crates() -> str:
    """Compile the crates that other programs use from their packages."""
    # Before those that need them.
    names = ["incast-units", "incast-protocols", "incast-requests"]
    _package(names)
    return f"{', '.join(names)} compile"


def _package(names: list[str], *how: str) -> None:
    chosen = [word for name in names for word in ("--package", name)]
    _run("cargo", "package", "--quiet", "--offline", "--allow-dirty", "--locked", *chosen, *how)


def check_container() -> str:
    """Build the container, if there is something to build it with."""
    for builder in ("podman", "docker"):
        if (
            shutil.which(builder)
            and subprocess.run([builder, "info"], capture_output=True, check=False).returncode == 0
        ):
            _run(builder, "build", "--file", "packaging/Containerfile", "--tag", "incast", ".")
            return f"{_run(builder, 'run', '--rm', 'incast', '--version').strip()} by {builder}"
    raise Skipped("packaging/Containerfile was not built: neither podman nor docker runs here")


CHECKS: Mapping[str, Callable[[], str]] = {
    "versions": check_versions,
    "links": check_links,
    "packages": check_packages,
    "sources": check_sources,
    "build": check_build,
    "wheel": check_wheel,
    "sbom": check_sbom,
    "install": check_install,
    "incast-requests": check_requests,
    "sdist": check_sdist,
    "crates": check_crates,
    "container": check_container,
}


def main(names: list[str]) -> int:
    """Make the checks and print what came of each; return 1 if one failed.

    `--set 1.2.3` sets the version, and dates what has changed.
    """
    if names[:1] == ["--set"]:
        try:
            version, changelog = names[1] if len(names) == 2 else "", ROOT / "CHANGELOG.md"
            changed = dated(changelog.read_text(encoding="utf-8"), version, date.today())  # noqa: DTZ011
            print("\n".join([*set_version(ROOT, version), changelog.name]))
            changelog.write_text(changed, encoding="utf-8")
        except Failed as why:
            print(f"make version VERSION=1.2.3: {why}", file=sys.stderr)
            return 2
        return 0
    if unknown := [name for name in names if name not in CHECKS]:
        print(f"no check {', '.join(unknown)}; there are: {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    failed = False
    for name in names or CHECKS:
        started = time.monotonic()
        try:
            result, said = "pass", CHECKS[name]()
        except Skipped as why:
            result, said = "skip", str(why)
        except Failed as why:
            result, said, failed = "FAIL", str(why), True
        except (OSError, ValueError, KeyError) as error:
            result, said, failed = "FAIL", repr(error), True
        print(f"{result}  {name:<16}{said}  [{time.monotonic() - started:.0f} s]", flush=True)
    return int(failed)


@contextmanager
def _installed(wheel: Path) -> Iterator[tuple[Path, Path]]:
    """Install a wheel into an environment of its own; yield a directory with it, and where packages are there."""
    _fill_wheelhouse()
    with tempfile.TemporaryDirectory(prefix="incast-") as directory:
        home = Path(directory).resolve()
        venv.create(home / "venv", with_pip=True)
        _run(
            home / "venv/bin/python", "-m", "pip", "install", "--quiet", "--no-index",
            "--find-links", WHEELHOUSE, "--find-links", DIST, wheel, at=home,
        )  # fmt: skip
        yield home, next((home / "venv/lib").glob("python*/site-packages"))


def _fill_wheelhouse() -> None:
    """Download the dependencies of what was built, in the versions of the lock file, unless they are there already."""
    pins = OUT / "pins.txt"
    exported = _run(Path(sys.executable).with_name("uv"), "export", "--quiet", "--frozen", "--no-dev", "--no-hashes",
                    "--no-emit-workspace", "--no-annotate", "--output-file", pins)  # fmt: skip
    _run(Path(sys.executable).with_name("uv"), "export", "--quiet", "--frozen", "--only-group", "dev", "--no-hashes",
         "--no-emit-workspace", "--no-annotate", "--output-file", OUT / "tools.txt")  # fmt: skip
    maturin = re.search(r"^maturin==\S+", (OUT / "tools.txt").read_text(encoding="utf-8"), re.MULTILINE)
    wanted = hashlib.sha256(
        (pins.read_text(encoding="utf-8") + str(maturin and maturin[0]) + exported).encode()
    ).hexdigest()
    mark = WHEELHOUSE / f".{wanted}"
    if mark.exists():
        return
    # What earlier lock files pinned must not stand in for what this one lacks.
    shutil.rmtree(WHEELHOUSE, ignore_errors=True)
    WHEELHOUSE.mkdir(parents=True)
    _run(sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", WHEELHOUSE,
         "--requirement", pins, *([maturin[0]] if maturin else []))  # fmt: skip
    mark.touch()


def _zig() -> bool:
    """Install the compiler that links to an old C library, unless it is there; return whether it is there now."""
    if not (TOOLS / "bin" / "python").exists():
        venv.create(TOOLS, with_pip=True)
    asked: list[str | Path] = [TOOLS / "bin/python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", ZIG]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def _maturin() -> Path:
    return Path(sys.executable).with_name("maturin")


def _stem(project: str) -> str:
    return f"{project.replace('-', '_')}-{versions(ROOT)['Cargo.toml']}"


def _wheel(project: str) -> Path:
    found = list(DIST.glob(f"{_stem(project)}-*_{platform.machine()}.whl"))
    if len(found) != 1:
        raise Failed(f"{DIST} has {len(found)} wheels of {project}; the check build makes one")
    return found[0]


def _contents(folder: Path) -> set[tuple[str, str]]:
    """Return the files of a folder and their checksums, without what Python compiles on the way."""
    return {
        (str(path.relative_to(folder)), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _run(*command: str | Path, at: Path = ROOT, also: Mapping[str, str] | None = None) -> str:
    """Run a command with no sign of this tree in its environment; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        command, cwd=at, env={**environment, **(also or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: {(done.stderr.strip() or done.stdout.strip())[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
