"""Writes a model that is as small as vLLM takes it: a Qwen3 of two layers without weights (vLLM is started with
--load-format dummy and draws them) and a byte-level BPE tokenizer of 8,000 tokens, trained on Python's library.

usage: tiny_model.py FOLDER
"""

import json
import pathlib
import sys
import sysconfig

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CONTEXT = 4096
VOCABULARY = 8000
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]

# The template of the Qwen models, without what it says about tools.
CHAT_TEMPLATE = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "torch_dtype": "float32",
    "vocab_size": VOCABULARY + 64,
    "max_position_embeddings": CONTEXT,
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "attention_bias": False,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "tie_word_embeddings": True,
    "bos_token_id": SPECIAL.index("<|endoftext|>"),
    "eos_token_id": SPECIAL.index("<|im_end|>"),
}

TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "model_max_length": CONTEXT,
    "eos_token": "<|im_end|>",
    "pad_token": "<|endoftext|>",
    "clean_up_tokenization_spaces": False,
    "chat_template": CHAT_TEMPLATE,
}

GENERATION_CONFIG = {
    "bos_token_id": CONFIG["bos_token_id"],
    "eos_token_id": CONFIG["eos_token_id"],
    "pad_token_id": SPECIAL.index("<|endoftext|>"),
}


def corpus(files=800):
    """Yields the sources of the standard library, the same ones each time."""
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    sources = (path for path in sorted(library.glob("*/*.py")) if "test" not in str(path.relative_to(library)))
    for path, _ in zip(sources, range(files)):
        yield path.read_text(encoding="utf-8", errors="replace")


def train():
    """Returns a tokenizer that can spell any text, byte by byte if need be."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    train().save(str(folder / "tokenizer.json"))
    for name, value in {
        "config.json": CONFIG,
        "generation_config.json": GENERATION_CONFIG,
        "tokenizer_config.json": TOKENIZER_CONFIG,
    }.items():
        (folder / name).write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
