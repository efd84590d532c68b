"""docker-compose.yml: what it names is there, nothing has a default password, nothing listens to the world.

No Docker engine runs where the tests do: the file is read by an implementation of the Compose specification.
"""

import re
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from tests.cli.command_line import falseok
from tests.deployment.compose import FILE, ROOT, VARIABLE, resolved, uncommented

from falseok.service_settings import PREFIX, ServiceSettings, read_service_settings
from falseok_collector.settings import Settings, read_settings
from falseok_pipeline.schema_users import USERS
from falseok_pipeline.server_store import ServerAddress

TEXT = FILE.read_text(encoding="utf-8")
USUAL = {"kafka", "clickhouse", "prepare", "pipeline-1", "pipeline-2", "judge", "grafana", "alertmanager"}
GPU = {"router", "vllm-prefill", "vllm-decode"}
OWN = ("prepare", "pipeline-1", "pipeline-2", "judge")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """Every service, those of the profile included."""
    found: dict[str, Any] = resolved("--profile", "gpu")["services"]
    return found


def environment(service: Mapping[str, Any]) -> dict[str, str]:
    """As the process gets it, with the defaults of the file's own variables."""
    return {
        name: VARIABLE.sub(lambda m: m["default"] or "", str(value))
        for name, value in service["environment"].items()
    }


def test_the_file_has_the_services_of_a_small_fleet(services: dict[str, Any]) -> None:
    """And a prefill/decode pair only where it was asked for."""
    assert USUAL | GPU == set(services)
    assert USUAL == {name for name, service in services.items() if "profiles" not in service}
    assert all(service["profiles"] == ["gpu"] for name, service in services.items() if name in GPU)


def test_everything_is_explained() -> None:
    """Each service, variable, port, volume and build argument has a comment."""
    assert [] == uncommented(TEXT)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("  # The store.\n", "", "services.clickhouse"),
        (
            "      # It may make users.\n",
            "",
            "services.clickhouse.environment.CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT",
        ),
        ("      # The tables.\n", "", "services.clickhouse.volumes[0]"),
        ("  # The port of NIXL's handshake.\n", "", "x-engine-environment.VLLM_NIXL_SIDE_CHANNEL_PORT"),
        ("services:\n", "services:\n  extra:\n    image: x\n    environment: {A: b}\n\n", "services.extra"),
    ],
)
def test_what_nobody_explained_is_found(old: str, new: str, found: str) -> None:
    """The check above can fail."""
    assert old in TEXT
    assert found in uncommented(TEXT.replace(old, new, 1))


def test_variables_of_the_file_have_defaults_and_are_no_secrets(services: dict[str, Any]) -> None:
    """The file runs without an `.env`; nothing of it is a password."""
    found = {match["name"]: match["default"] for match in VARIABLE.finditer(TEXT)}
    assert len(found) >= 8
    assert all(found.values()), found
    assert not [name for name in found if re.search("PASSWORD|SECRET|TOKEN|SALT", name)]
    for service in services.values():
        for name, value in environment(service).items() if "environment" in service else ():
            if re.search("PASSWORD|SALT", name):
                assert name.endswith(("_FILE", "__FILE")), name
                assert str(value).startswith("/run/secrets/"), name


def test_every_mounted_path_is_there_and_what_it_should_be(services: dict[str, Any]) -> None:
    """Files of the repository are mounted read-only; named volumes are declared."""
    document = resolved()
    for name, service in services.items():
        for volume in service.get("volumes", ()):
            source, target, *mode = str(volume).split(":")
            assert target.startswith("/")
            if source.startswith("."):
                assert (ROOT / source).exists(), f"{name}: {source}"
                assert ["ro"] == mode
            else:
                assert source in document["volumes"], f"{name}: {source}"
    for build in (service["build"] for service in services.values() if "build" in service):
        assert (ROOT / build["context"] / build["dockerfile"]).is_file()


def test_ports_are_bound_to_loopback_and_none_twice(services: dict[str, Any]) -> None:
    """Whoever wants the network says so."""
    published = [
        VARIABLE.sub(lambda m: m["default"] or "", str(port))
        for s in services.values()
        for port in s.get("ports", ())
    ]
    assert all(port.startswith("127.0.0.1:") for port in published)
    hosts = [port.split(":")[1] for port in published]
    assert len(set(hosts)) == len(hosts)


def test_every_service_is_bounded_watched_and_started_in_order(services: dict[str, Any]) -> None:
    """Memory limits, health checks, and conditions that its dependencies can meet."""
    for name, service in services.items():
        assert service.get("mem_limit"), name
        assert service.get("restart"), name
        ends = service["restart"] == "no"
        assert ends or service.get("healthcheck", {}).get("test"), name
        for other, how in service.get("depends_on", {}).items():
            assert how["condition"] == (
                "service_completed_successfully" if services[other]["restart"] == "no" else "service_healthy"
            ), (name, other)
    assert "prepare" in services["pipeline-1"]["depends_on"]


def test_images_are_pinned(services: dict[str, Any]) -> None:
    """A version, never `latest`."""
    for name, service in services.items():
        version = VARIABLE.sub(lambda m: m["default"] or "", service["image"]).rpartition(":")[2]
        assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?|local", version), (name, version)


def test_secrets_are_declared_made_and_kept_out_of_git(services: dict[str, Any], tmp_path: Path) -> None:
    """The script makes exactly those that the file names, random ones, and leaves those that are there."""
    declared = resolved()["secrets"]
    used = {secret for service in services.values() for secret in service.get("secrets", ())}
    named = {path.rpartition("/")[2] for path in re.findall(r"/run/secrets/\w+", TEXT)}
    assert set(declared) == used
    assert named <= used
    script = tmp_path / "docker" / "make-secrets.sh"
    (tmp_path / "docker" / "secrets").mkdir(parents=True)
    script.write_bytes((ROOT / "docker" / "make-secrets.sh").read_bytes())
    for _ in range(2):
        subprocess.run(["sh", str(script)], check=True, capture_output=True)
        made = {path.name: path.read_text() for path in (tmp_path / "docker" / "secrets").iterdir()}
        assert set(declared) == set(made)
    assert len(set(made.values())) == len(made)
    assert all(re.fullmatch("[0-9a-f]{48}", text) for text in made.values())
    assert 0o700 == stat.S_IMODE((tmp_path / "docker" / "secrets").stat().st_mode)
    for secret in declared.values():
        path = ROOT / secret["file"]
        ignored = subprocess.run(["git", "check-ignore", "-q", str(path)], cwd=ROOT, check=False)
        assert 0 == ignored.returncode, path


def test_our_commands_and_settings_are_ours(services: dict[str, Any]) -> None:
    """Each command line parses, each FALSEOK_ variable is a setting, each user one that `prepare` makes."""
    ours = {
        f"{PREFIX}{field.upper()}"
        for struct in (Settings, ServiceSettings)
        for field in struct.__struct_fields__
    }
    for name in OWN:
        given = environment(services[name])
        settings = read_service_settings({k: v for k, v in given.items() if not k.endswith("_FILE")})
        assert "clickhouse" == ServerAddress.parse(settings.store_url).host
        user = settings.store_username.removeprefix("falseok_")
        assert user in {*USERS, "admin"}
        assert f"/run/secrets/clickhouse_{user}" == given["FALSEOK_STORE_PASSWORD_FILE"]
        assert f"clickhouse_{user}" in services[name]["secrets"]
        assert {k for k in given if k.startswith(PREFIX)} <= ours | {"FALSEOK_DATA"}
        commands = (
            [services[name]["command"]] if "entrypoint" not in services[name] else _shell(services[name])
        )
        for words in commands:
            # An option that is none is refused before --help is heeded.
            assert 0 == falseok(*words, "--help").exit_code, words
    for name in ("vllm-prefill", "vllm-decode"):
        given = environment(services[name])
        assert () == tuple(
            read_settings({k: v for k, v in given.items() if k != "FALSEOK_SALT_FILE"}).problems
        )
        assert "collector_salt" in services[name]["secrets"]


def _shell(service: Mapping[str, Any]) -> list[list[str]]:
    """The commands of ours in a shell script."""
    lines = service["command"][0].replace("\\\n", " ").splitlines()
    return [line.split()[1:] for line in lines if line.startswith("falseok ")]


def test_configuration_files_can_be_read() -> None:
    """By a parser of their format, and with the names that the rest of the file uses."""
    ET.parse(ROOT / "docker" / "clickhouse" / "falseok.xml")  # noqa: S314 - our own file
    (source,) = yaml.safe_load((ROOT / "docker/grafana/datasources/falseok.yml").read_text())["datasources"]
    assert ("grafana-clickhouse-datasource", "clickhouse", "falseok", "falseok_reader") == (
        source["type"],
        source["jsonData"]["host"],
        source["jsonData"]["defaultDatabase"],
        source["jsonData"]["username"],
    )
    assert "$__file{/run/secrets/clickhouse_reader}" == source["secureJsonData"]["password"]
    routes = yaml.safe_load((ROOT / "docker/alertmanager/alertmanager.yml").read_text())
    assert routes["route"]["receiver"] in {receiver["name"] for receiver in routes["receivers"]}


@pytest.mark.parametrize("image", ["service", "vllm"])
def test_images_copy_what_there_is_and_all_that_is_installed(image: str) -> None:
    """Every package that pyproject.toml builds is copied in, from a path that exists and is not ignored."""
    text = (ROOT / "docker" / f"{image}.Dockerfile").read_text(encoding="utf-8")
    copied = {word for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE) for word in line.split()}
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for path in copied:
        assert (ROOT / path).exists(), path
        assert path not in ignored
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packages = re.search(r"\[tool\.hatch\.build\.targets\.wheel\]\n(.*?)\n\[", project, re.DOTALL)
    assert packages is not None
    assert {path.split("/")[0] for path in re.findall(r'"(\w+/\w+)"', packages[1])} <= copied
    assert "://" not in text
