"""The prompts of a drive."""

from falseok_lab.prompts import OPENING_CHARACTERS, prompt

FEWEST_TOKENS_OF_A_BLOCK = 16


def test_no_two_prompts_share_their_opening() -> None:
    """They differ within fewer characters than a block has tokens, so that no block is shared."""
    openings = {prompt(index, seed)[:OPENING_CHARACTERS] for seed in range(4) for index in range(200)}
    assert 800 == len(openings)


def test_prompts_of_one_seed_differ_within_the_smallest_block() -> None:
    """A token is at least one byte: what differs in the first 16 bytes differs in the first block."""
    openings = {prompt(index, 7).encode()[:FEWEST_TOKENS_OF_A_BLOCK] for index in range(1000)}
    assert 1000 == len(openings)


def test_the_same_number_and_seed_give_the_same_prompt() -> None:
    """Two runs, and decode alone, are asked the very same."""
    assert prompt(3, 1) == prompt(3, 1)
    assert prompt(3, 1) != prompt(3, 2)


def test_prompts_are_of_different_lengths_and_longer_than_a_block_of_128_bytes_a_token() -> None:
    """Transfers of several sizes, each of more than one block."""
    lengths = {len(prompt(index, 0)) for index in range(32)}
    assert 10 < len(lengths)
    assert 300 < min(lengths)
    assert 1500 > max(lengths)
