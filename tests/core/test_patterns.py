"""Regular expressions that people write: matched in linear time, or refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosched.core.values import patterns
from aiosched.core.values.automaton import Automaton, CannotCompile, TooLarge
from aiosched.core.values.patterns import PatternError, searcher


@pytest.fixture(params=["re2", "ours"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """RE2, and what takes its place where there is none."""
    monkeypatch.setattr(patterns, "has_re2", lambda: request.param == "re2")
    searcher.cache_clear()
    yield request.param
    searcher.cache_clear()


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^\d{4}-\d{2}$", "2026-01", True),
        (r"^\d{4}-\d{2}$", "2026-1", False),
        (r"ab|c", "xxc", True),
        (r"^[a-z]+\Z", "abc", True),
        (r"^[a-z]+\Z", "abc\n", False),
        (r"\\Z", r"a\Z", True),
        (r"(?i)ABC", "xabcx", True),
        (r"(?P<word>ä+)", "zää", True),
        (r"^$", "", True),
    ],
)
def test_a_pattern_is_searched(engine: str, pattern: str, text: str, found: bool) -> None:
    assert searcher(pattern)(text) is found


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"^(a+)+$", "a" * 50_000 + "b"), (r"^(.*?,){20}P", "1," * 10_000), (r"^(\w|\d)*$", "a1" * 50_000 + "!")],
)
def test_no_pattern_takes_more_than_linear_time(engine: str, pattern: str, text: str) -> None:
    assert searcher(pattern)(text) is False  # with backtracking this would not end


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "missing|unterminated"),
        ("a**", "bad repetition operator|multiple repeat"),
        (r"(?=a)b", "lookaround cannot be matched in linear time"),
        (r"a(?!b)", "lookaround cannot be matched in linear time"),
        (r"(a)\1", "backreferences cannot be matched in linear time"),
        ("(a{1000}){1000}", "invalid repetition size|too large"),
        ("a" * 1_001, "it has 1,001 characters, allowed are 1,000"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_what_cannot_be_matched_is_refused_with_the_reason(engine: str, pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        searcher(pattern)


PIECES = st.recursive(
    st.sampled_from(
        ["a", "b", ".", r"\d", r"\W", r"\s", "[ab]", "[^a]", "[0-9b]", "^", "$", r"\b", r"\B", r"\A", r"\Z"]
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,}", "*?", "+?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        ),
        inner.map(lambda one: f"(?i:{one})"),
    ),
    max_leaves=8,
)


@given(PIECES, st.text("abAB1_ \n!", max_size=8))
def test_our_automaton_answers_as_re2_does(pattern: str, text: str) -> None:
    assert (Automaton(pattern, most=2_000).search(text) is not None) is searcher(pattern)(text)


@pytest.mark.parametrize(
    "pattern", ["(a{1000}){1000}", "((){60000}){60000}", "(?:a?){5000}", "((((a{9}){9}){9}){9}){9}"]
)
def test_our_automaton_refuses_what_grows(pattern: str) -> None:
    with pytest.raises(TooLarge):
        Automaton(pattern, most=1_000)


@pytest.mark.parametrize("pattern", [r"a++", r"(?>a)", r"(a)(?(1)b|c)"])
def test_our_automaton_refuses_what_only_backtracking_does(pattern: str) -> None:
    with pytest.raises(CannotCompile):
        Automaton(pattern, most=1_000)


def test_without_re2_a_refusal_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "has_re2", lambda: False)
    searcher.cache_clear()

    with pytest.raises(PatternError, match=r"\(read without RE2, since the package google-re2 is not installed\)"):
        searcher(r"\p{Greek}")
    searcher.cache_clear()
