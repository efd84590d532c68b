"""Captured configuration leaves the process without credentials and in a form JSON can hold."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falseok_collector.redaction import REDACTED, redact, relevant_environment


@pytest.mark.parametrize(
    "name",
    [
        "VLLM_API_KEY",
        "api_key",
        "apiKey",
        "api_keys",
        "S3_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "hf_token",
        "HF-TOKEN",
        "authToken",
        "token",
        "key",
        "encryption_key",
        "password",
        "db_passwd",
        "ssl_passphrase",
        "client_secret",
        "credentials",
        "private_key_path",
        "Cookie",
        "auth",
        "basic-auth",
        "Authorization",
        "url_signature",
    ],
)
def test_text_under_a_secret_name_is_dropped(name: str) -> None:
    """The name decides, in any spelling."""
    assert {name: REDACTED} == redact({name: "s3cr3t"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_key_value_heads", 8),
        ("num_kv_heads", 8),
        ("kv_keys", "all"),
        ("key_cache", "HND"),
        ("max_num_batched_tokens", 8192),
        ("max_num_batched_tokens", "8192"),
        ("num_experts_per_token", 2),
        ("bos_token_id", 1),
        ("use_pad_token", True),
        ("fp8_per_token_head", "yes"),
        ("tokenizer", "gpt2"),
        ("tokenizer_mode", "auto"),
        ("author", "someone"),
        ("VLLM_MULTI_STREAM_GEMM_TOKEN_THRESHOLD", "1024"),
        ("VLLM_USE_FASTOKENS", "1"),
        ("monkey", "banana"),
        ("keyed", "x"),
    ],
)
def test_configuration_that_only_sounds_secret_is_kept(name: str, value: Any) -> None:
    """Evidence is not lost to a careless pattern."""
    assert {name: value} == redact({name: value})


@pytest.mark.parametrize("nothing", [None, "", False, True])
def test_absent_and_boolean_values_are_kept_under_secret_names(nothing: Any) -> None:
    """Whether a credential is set is worth knowing and gives nothing away."""
    assert {"api_key": nothing} == redact({"api_key": nothing})


def test_numbers_under_a_credential_name_are_dropped() -> None:
    """A password may be a number."""
    assert {"password": REDACTED} == redact({"password": 1234})


def test_a_container_under_a_credential_name_is_dropped_whole() -> None:
    """Nothing below a secret name is looked through."""
    assert {"credentials": REDACTED} == redact({"credentials": {"user": "u", "pin": [1, 2]}})


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://user:pass@host:80/path", f"http://{REDACTED}@host:80/path"),
        ("redis://:p@ss@host", f"redis://{REDACTED}@host"),
        ("a http://u:p@h/ and http://v:q@i/", f"a http://{REDACTED}@h/ and http://{REDACTED}@i/"),
        ("http://host/path?mail=a@b.c", "http://host/path?mail=a@b.c"),
        ("http://host?mail=a@b.c", "http://host?mail=a@b.c"),
        ("s3://b/k?X-Amz-Signature=abc&part=1", f"s3://b/k?X-Amz-Signature={REDACTED}&part=1"),
        ("https://h/?token=abc#top", f"https://h/?token={REDACTED}#top"),
        ("tcp://10.0.0.1:5600", "tcp://10.0.0.1:5600"),
    ],
)
def test_credentials_are_cut_out_of_urls(url: str, expected: str) -> None:
    """User, password and signed parameters go; the address stays."""
    assert [expected] == redact([url])


def test_depth_is_bounded_and_text_at_the_bottom_is_kept() -> None:
    """Below eight levels a container is only named; plain values are not containers."""
    nested: Any = "leaf"
    for _ in range(8):
        nested = [nested]
    assert nested == redact(nested)
    too_deep = [nested]
    for _ in range(7):
        too_deep = redact(too_deep)[0]
    assert ["list"] == too_deep


def test_a_container_that_holds_itself_ends() -> None:
    """A cycle is cut at the same depth."""
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    assert "dict" in str(redact(cycle))


def test_items_and_text_are_bounded() -> None:
    """256 items, 2,000 characters."""
    assert 256 == len(redact(list(range(1_000))))
    assert 256 == len(redact({str(number): number for number in range(1_000)}))
    assert 2_000 == len(redact("x" * 5_000))


def test_equal_sets_read_the_same() -> None:
    """Sets have no order of their own: it differs from process to process."""
    assert ["a", "b", "c"] == redact({"c", "a", "b"})
    assert [1, 2] == redact(frozenset({2, 1}))


def test_undecodable_bytes_of_the_environment_do_not_spoil_the_event() -> None:
    """A lone surrogate, as `os.environ` holds it for a byte that is not UTF-8, is replaced."""
    assert {"VLLM_X": "a?b"} == relevant_environment({"VLLM_X": "a\udcffb"})


def test_only_engine_variables_are_kept() -> None:
    """VLLM, UCX and NIXL; sorted; redacted."""
    environment = {"UCX_TLS": "tcp", "HOME": "/h", "NIXL_X": "1", "VLLM_API_KEY": "k", "FALSEOK_SALT": "s"}
    expected = [("NIXL_X", "1"), ("UCX_TLS", "tcp"), ("VLLM_API_KEY", REDACTED)]
    assert expected == list(relevant_environment(environment).items())


class Strange:
    """An object of some other library."""

    def __str__(self) -> str:
        return "torch.bfloat16"


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(st.characters())
    | st.binary()
    | st.builds(Strange),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(st.characters()) | st.integers(), inner)
    ),
    max_leaves=12,
)


@given(ANYTHING)
def test_whatever_comes_in_json_can_hold_what_comes_out(value: Any) -> None:
    """The round trip through JSON changes nothing: no NaN, no surrogates, no numbers out of range."""
    plain = redact(value)
    assert plain == msgspec.json.decode(msgspec.json.encode(plain))
