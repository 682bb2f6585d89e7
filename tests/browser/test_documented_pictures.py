"""The pictures of the documentation are those that tests take."""

from __future__ import annotations

from tests.browser.pictures import IMAGES, KEPT


def test_every_picture_of_the_documentation_comes_from_a_test() -> None:
    assert {path.stem for path in IMAGES.glob("*.png")} == set(KEPT), "make screenshots takes them"
