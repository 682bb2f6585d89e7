"""Regular expressions that people write: matched in linear time, or refused."""

from __future__ import annotations

import pytest

from aiosched.core.values.patterns import PatternError, searcher


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
def test_a_pattern_is_searched(pattern: str, text: str, found: bool) -> None:
    assert searcher(pattern)(text) is found


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"^(a+)+$", "a" * 50_000 + "b"), (r"^(.*?,){20}P", "1," * 50_000), (r"^(\w|\d)*$", "a1" * 50_000 + "!")],
)
def test_no_pattern_takes_more_than_linear_time(pattern: str, text: str) -> None:
    assert searcher(pattern)(text) is False  # with backtracking this would not end


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a", "missing"),
        ("a**", "bad repetition operator"),
        (r"(?=a)b", "lookaround cannot be matched in linear time"),
        (r"a(?!b)", "lookaround cannot be matched in linear time"),
        (r"(a)\1", "backreferences cannot be matched in linear time"),
        ("(a{1000}){1000}", "invalid repetition size"),
        ("a" * 1_001, "it has 1,001 characters, allowed are 1,000"),
        ("\ud800", "surrogates not allowed"),
    ],
)
def test_what_cannot_be_matched_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError, match=reason):
        searcher(pattern)
