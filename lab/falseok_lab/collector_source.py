"""Where the collector that goes into the engines comes from, as a wheel.

From a checkout the wheel is built; from an installed distribution it is packed again from its own files. Either
way the engine's environment gets it as a user would give it.
"""

import base64
import hashlib
import importlib.metadata
import json
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

from falseok_lab.errors import LabError
from falseok_lab.installer import run, uv_command
from falseok_lab.report import Reporter

DISTRIBUTION = "falseok"
_HASHED_BESIDE = ("pyproject.toml",)
_NOT_PACKED = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"})


def checkout_of(installed: Distribution) -> Path | None:
    """The checkout an editable installation points to, or None when the files themselves are installed."""
    direct = installed.read_text("direct_url.json")
    if direct is None:
        return None
    described = json.loads(direct)
    if not described.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlparse(described["url"]).path))


def running_distribution() -> Distribution:
    """The FalseOK that runs this.

    Raises:
        LabError: it is not installed, only imported.
    """
    try:
        return importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise LabError("FalseOK is not installed here; install it, or name a checkout.") from None


def fingerprint(source: Path | Distribution) -> str:
    """Hash over what the collector is made of: it changes whenever an engine should get it anew.

    Raises:
        LabError: a checkout holds no collector.
    """
    digest = hashlib.sha256()
    files = _checkout_files(source) if isinstance(source, Path) else _collector_files(source)
    for name, content in files:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def wheel(source: Path | Distribution, destination: Path, reporter: Reporter) -> Path:
    """Make the wheel of a checkout (needs the package index for the build tool), or of what is installed.

    Raises:
        LabError: it cannot be built.
    """
    if not isinstance(source, Path):
        return _pack(source, destination)
    command = uv_command("build", "--wheel", "--out-dir", str(destination), str(source))
    run(command, "building the collector's wheel", reporter)
    return next(destination.glob("*.whl"))


def _checkout_files(checkout: Path) -> Iterator[tuple[str, bytes]]:
    root = checkout / "collector"
    if not (root / "falseok_collector").is_dir():
        raise LabError(f"{checkout} is not a checkout of FalseOK: it has no collector folder.")
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(root)), path.read_bytes()
    for name in _HASHED_BESIDE:
        yield name, (checkout / name).read_bytes()


def _collector_files(installed: Distribution) -> Iterator[tuple[str, bytes]]:
    for name in sorted(_packed_files(installed)):
        if name.startswith("falseok_collector/") or name.endswith(("METADATA", "entry_points.txt")):
            yield name, _content(installed, name)


def _packed_files(installed: Distribution) -> list[str]:
    return [
        str(path)
        for path in installed.files or []
        if ".." not in path.parts and "__pycache__" not in path.parts and path.name not in _NOT_PACKED
    ]


def _content(installed: Distribution, name: str) -> bytes:
    return Path(str(installed.locate_file(name))).read_bytes()


def _pack(installed: Distribution, destination: Path) -> Path:
    packed = destination / f"{DISTRIBUTION}-{installed.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _packed_files(installed):
            content = _content(installed, name)
            archive.writestr(name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        name = f"{DISTRIBUTION}-{installed.version}.dist-info/RECORD"
        archive.writestr(name, "".join([*record, f"{name},,\n"]))
    return packed
