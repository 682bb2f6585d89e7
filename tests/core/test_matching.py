"""How well a name matches what somebody types into the search."""

from __future__ import annotations

import pytest

from aiosched.core.values.matching import Match, match, words_of


@pytest.mark.parametrize(
    ("typed", "name", "context", "expected"),
    [
        ("sales", "sales", "", Match.WHOLE),
        ("SALES", "Sales", "", Match.WHOLE),
        ("sal", "sales_daily", "", Match.BEGINNING),
        ("daily", "sales_daily", "", Match.WORD),
        ("ail", "sales_daily", "", Match.PART),
        ("aily", "daily-mail.aily", "", Match.WORD),
        ("sd", "sales_daily", "", Match.LETTERS),
        ("ds", "sales_daily", "", None),
        ("sales x", "sales_daily", "", None),
        ("daily sales", "sales_daily", "", Match.BEGINNING),
        ("sales load", "load", "sales", Match.WHOLE),
        ("sales", "load", "sales", None),  # else every task of the DAG would be found with it
        ("ld", "load", "sales", None),
        ("", "load", "", None),
    ],
)
def test_how_well_a_name_matches(typed: str, name: str, context: str, expected: Match | None) -> None:
    assert match(words_of(typed), name, context) == expected
