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
from pathlib import Path
from urllib.parse import unquote, urlparse

from falseok_lab.errors import LabError
from falseok_lab.installer import run, uv_command
from falseok_lab.report import Reporter

DISTRIBUTION = "falseok"
_HASHED_BESIDE = ("pyproject.toml",)
_NOT_PACKED = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"})


def checkout_of_this_installation() -> Path | None:
    """The checkout an editable installation of ours points to, or None when the files themselves are installed."""
    direct = _installed().read_text("direct_url.json")
    if direct is None:
        return None
    described = json.loads(direct)
    if not described.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlparse(described["url"]).path))


def fingerprint(checkout: Path | None) -> str:
    """Hash over what the collector is made of: it changes whenever an engine should get it anew.

    Raises:
        LabError: `checkout` holds no collector.
    """
    digest = hashlib.sha256()
    for name, content in _collector_files(checkout):
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def wheel(checkout: Path | None, destination: Path, reporter: Reporter) -> Path:
    """Make the wheel of a checkout (needs the package index for the build tool), or of what is installed.

    Raises:
        LabError: it cannot be built.
    """
    if checkout is None:
        return _pack(destination)
    command = uv_command("build", "--wheel", "--out-dir", str(destination), str(checkout))
    run(command, "building the collector's wheel", reporter)
    return next(destination.glob("*.whl"))


def _installed() -> importlib.metadata.Distribution:
    return importlib.metadata.distribution(DISTRIBUTION)


def _collector_files(checkout: Path | None) -> Iterator[tuple[str, bytes]]:
    if checkout is None:
        for name in sorted(_packed_files()):
            if name.startswith("falseok_collector/") or name.endswith(("METADATA", "entry_points.txt")):
                yield name, Path(str(_installed().locate_file(name))).read_bytes()
        return
    root = checkout / "collector"
    if not (root / "falseok_collector").is_dir():
        raise LabError(f"{checkout} is not a checkout of FalseOK: it has no collector folder.")
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(root)), path.read_bytes()
    for name in _HASHED_BESIDE:
        yield name, (checkout / name).read_bytes()


def _packed_files() -> list[str]:
    return [
        str(path)
        for path in _installed().files or []
        if ".." not in path.parts and "__pycache__" not in path.parts and path.name not in _NOT_PACKED
    ]


def _pack(destination: Path) -> Path:
    installed = _installed()
    packed = destination / f"{DISTRIBUTION}-{installed.version}-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in _packed_files():
            content = Path(str(installed.locate_file(name))).read_bytes()
            archive.writestr(name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        name = f"{DISTRIBUTION}-{installed.version}.dist-info/RECORD"
        archive.writestr(name, "".join([*record, f"{name},,\n"]))
    return packed
