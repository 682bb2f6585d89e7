"""Which names mark a secret, and that no registered secret is left in a text."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.values.masking import SHORTEST, Redactor, is_sensitive


@pytest.mark.parametrize(
    "name",
    [
        "password", "DB_PASSWORD", "db-passwd", "passphrase", "client_secret", "accessToken", "api_key",
        "stripe-api-key", "apikey", "private_key", "aws_secret_access_key", "authorization", "keyfile_dict", "pwd",
        "credentials", "keys.ssh_key",
    ],
)  # fmt: skip
def test_the_words_of_a_name_say_that_it_is_a_secret(name: str) -> None:
    assert is_sensitive(name)


@pytest.mark.parametrize(
    "name", ["", "region", "keyboard", "monkey", "partition_key", "key", "author", "compass", "pass_rate"]
)
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_sensitive(name)


def test_nothing_registered_gives_the_same_object_back() -> None:
    redactor, text, data = Redactor(), "the password is hunter2", b"\xff"

    assert not redactor
    assert redactor.redact(text) is text
    assert redactor.redact_bytes(data) is data


@pytest.mark.parametrize(
    ("secret", "text", "shown"),
    [
        ("hunter2", "a hunter2, and hunter2!", "a ***, and ***!"),
        ("p@ss/word", "postgres://u:p%40ss%2Fword@db", "postgres://u:***@db"),
        ("a b+c d", "?q=a+b%2Bc+d", "?q=***"),
        ('say "x"', json.dumps({"k": 'say "x"'}), '{"k": "***"}'),
        ("größe1", json.dumps("größe1"), '"***"'),
        ('größe "1"', json.dumps('größe "1"', ensure_ascii=False), '"***"'),
        ("tab\there", repr("tab\there"), "'***'"),
        ("-----BEGIN\nMIIabc\nend-----", "got MIIabc", "got ***"),
        (12345678, "pin 12345678", "pin ***"),
        ({"a": ["deep1", {"b": "deep2"}]}, "deep1 deep2", "*** ***"),
        ('{"token": "inside"}', "it is inside", "it is ***"),
        (b"bytes1", "bytes1", "***"),
    ],
)  # fmt: skip
def test_a_secret_is_hidden_as_it_may_be_spelled(secret: object, text: str, shown: str) -> None:
    redactor = Redactor()

    redactor.register(secret)

    assert redactor.redact(text) == shown


@pytest.mark.parametrize("value", ["", "abc", "true", "None", "localhost", "admin", "****", None, True, []])
def test_short_and_common_values_are_no_secrets(value: object) -> None:
    redactor = Redactor()

    redactor.register(value)

    assert not redactor


def test_longer_secrets_go_first() -> None:
    redactor = Redactor()

    redactor.register(["secret", "secret-and-more"])

    assert redactor.redact("secret-and-more secret") == "*** ***"


def test_a_mask_that_completes_another_secret_is_masked_again() -> None:
    redactor = Redactor()

    redactor.register(["inner", "x***y"])

    assert redactor.redact("xinnery") == "***"


@given(
    st.lists(st.text(min_size=1), min_size=1, max_size=5),
    st.lists(st.one_of(st.text(), st.integers(0, 4)), max_size=20),
)
def test_no_registered_secret_is_left_in_a_text(values: list[str], parts: list[str | int]) -> None:
    redactor = Redactor()
    for value in values:
        redactor.register(value)
    text = "".join(part if isinstance(part, str) else values[part % len(values)] for part in parts)

    shown = redactor.redact(text)

    registered = [word for word in redactor._words if len(word) >= SHORTEST]
    assert [word for word in registered if word in shown] == []
    assert redactor.redact(shown) == shown
    assert redactor.redact_bytes(text.encode("utf-8", "surrogatepass")) or not text


def test_a_named_value_is_registered_when_its_name_says_so() -> None:
    redactor = Redactor()

    redactor.register_named("region", "eu-west-1")
    redactor.register_named("api_key", "sk-12345")
    redactor.register_named(
        "config", '{"host": "example.com", "login": {"password": "opensesame"}, "all": [{"token": "tok-9"}]}'
    )

    assert redactor.redact("eu-west-1 sk-12345 example.com opensesame tok-9") == "eu-west-1 *** example.com *** ***"


def test_data_is_masked_by_its_names_and_in_its_texts() -> None:
    redactor = Redactor()
    redactor.register("sk-12345")
    data = {
        "bash": "curl -H sk-12345",
        "env": {"API_KEY": "other", "PORT": 80},
        "args": ("sk-12345", None),
        "token": None,
    }

    assert redactor.redact_value(data) == {
        "bash": "curl -H ***", "env": {"API_KEY": "***", "PORT": 80}, "args": ["***", None], "token": None,
    }  # fmt: skip


def test_whoever_listens_is_given_all_words_before_they_are_known_here() -> None:
    redactor, heard = Redactor(), list[set[str]]()
    redactor.register("hunter2")

    def listen(words: Sequence[str]) -> None:
        heard.append(set(words))
        assert not redactor.redact("größe1").startswith("*")

    redactor.listener = listen
    redactor.register(["größe1", "hunter2"])
    redactor.register("größe1")

    assert len(heard) == 1
    assert heard[0] > {"hunter2", "größe1"}


def test_secrets_that_two_threads_register_at_the_same_time_are_both_known() -> None:
    redactor, at_a_time = Redactor(), list[threading.Thread]()

    def listen(_words: Sequence[str]) -> None:
        if not at_a_time:  # the first registration has worked out what it will know
            at_a_time.append(threading.Thread(target=redactor.register, args=("the second one",)))
            at_a_time[0].start()
            at_a_time[0].join()

    redactor.listener = listen
    redactor.register("the first one")

    assert redactor.redact("the first one, the second one") == "***, ***"
