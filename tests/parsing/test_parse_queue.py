"""What is parsed next.

Source: docs/architecture.md, "From a file to a version"; the semantics reference, section 30.2.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from aiosched.db.statements.dags import StoredFile
from aiosched.parsing.discovery import Listing
from aiosched.parsing.parse_queue import ParseQueue, Rank, order_of
from aiosched.parsing.result import ParsedFile
from tests.parsing.builders import a_listing, a_result


def updated(
    parse_queue: ParseQueue, listing: Listing, *, now: float = 0.0, adopted: dict[str, str] | None = None
) -> frozenset[str]:
    rows = {name: StoredFile(name, digest, (), False) for name, digest in (adopted or {}).items()}
    return parse_queue.update(listing, owned=lambda _: True, adopted=rows, now=now)


def taken(parse_queue: ParseQueue, now: float = 0.0) -> list[str]:
    """Take whatever is due."""
    names = []
    while (found := parse_queue.take(now)) is not None:
        names.append(found[0].name)
    return names


def parsed(parse_queue: ParseQueue, listing: Listing, *, now: float = 0.0) -> None:
    """Take in `listing` and parse all that it asks for."""
    updated(parse_queue, listing, now=now)
    for name in taken(parse_queue, now):
        parse_queue.finish(a_result(name, digest=listing.files[name].digest), now)


def importing(result: ParsedFile, *names: str, digest: str = "h1") -> ParsedFile:
    return msgspec.structs.replace(result, sources={result.name: result.digest} | dict.fromkeys(names, digest))


def test_a_cold_start_begins_with_the_newest_file() -> None:
    parse_queue = ParseQueue(reparse_every=300)

    updated(parse_queue, a_listing("old.py", "newer.py", "newest.py"))

    assert taken(parse_queue) == ["newest.py", "newer.py", "old.py"]


def test_a_cold_start_may_go_by_name_or_by_chance() -> None:
    names = [f"{letter}.py" for letter in "qwertyuiop"]

    def started(mode: str, host: str = "one") -> list[str]:
        parse_queue = ParseQueue(reparse_every=300, order=order_of(mode, host))
        updated(parse_queue, a_listing(*names))
        return taken(parse_queue)

    assert started("modified_time") == names[::-1]
    assert started("alphabetical") == sorted(names)
    by_chance = started("random_seeded_by_host")
    assert sorted(by_chance) == sorted(names)
    assert by_chance == started("random_seeded_by_host")
    assert by_chance != started("random_seeded_by_host", "two")


def test_an_unchanged_file_is_not_parsed_again() -> None:
    parse_queue = ParseQueue(reparse_every=300)
    parsed(parse_queue, a_listing("a.py"))

    updated(parse_queue, a_listing("a.py"))

    assert taken(parse_queue, now=299.0) == []


def test_a_changed_file_goes_before_a_dependant_and_that_before_routine() -> None:
    parse_queue = ParseQueue(reparse_every=10)
    before = a_listing("routine.py", "changed.py", "dependant.py", modules={"helper.py": "h1"})
    updated(parse_queue, before)
    for name in taken(parse_queue):
        result = a_result(name)
        parse_queue.finish(importing(result, "helper.py") if name == "dependant.py" else result, 0.0)

    updated(
        parse_queue,
        a_listing("routine.py", "changed.py", "dependant.py", modules={"helper.py": "h2"}, changed="d2"),
        now=11.0,
    )

    found = [parse_queue.take(11.0) for _ in range(3)]
    assert [(f.name, rank) for f, rank in found if f] == [  # type: ignore[misc]
        ("changed.py", Rank.CHANGED),
        ("dependant.py", Rank.DEPENDANT),
        ("routine.py", Rank.ROUTINE),
    ]


def test_a_new_module_parses_broken_files_again() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("broken.py", "fine.py"))
    taken(parse_queue)
    parse_queue.finish(a_result("broken.py", error="No module named 'helper'"), 0.0)
    parse_queue.finish(a_result("fine.py"), 0.0)

    updated(parse_queue, a_listing("broken.py", "fine.py", modules={"helper.py": "h1"}))

    assert taken(parse_queue) == ["broken.py"]


def test_a_file_is_never_parsed_twice_at_a_time() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("a.py"))
    assert taken(parse_queue) == ["a.py"]

    updated(parse_queue, a_listing("a.py", a="d2"))
    assert taken(parse_queue) == []

    parse_queue.finish(a_result("a.py"), 0.0)
    assert taken(parse_queue) == ["a.py"]


def test_a_parse_that_read_the_newest_content_already_is_not_repeated() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("a.py"))
    taken(parse_queue)
    parse_queue.finish(a_result("a.py", digest="d2"), 0.0)  # changed between listing and reading

    updated(parse_queue, a_listing("a.py", a="d2"))

    assert taken(parse_queue) == []


def test_a_file_that_changed_back_is_parsed_again() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("a.py"))
    taken(parse_queue)
    parse_queue.finish(a_result("a.py", digest="d2"), 0.0)

    updated(parse_queue, a_listing("a.py", a="d1"))

    assert taken(parse_queue) == ["a.py"]


def test_a_file_that_is_gone_is_named_and_its_late_result_means_nothing() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("a.py", "b.py"))
    taken(parse_queue)

    gone = updated(parse_queue, a_listing("b.py"))

    assert gone == {"a.py"}
    assert parse_queue.finish(a_result("a.py"), 0.0) is False
    assert parse_queue.finish(a_result("b.py"), 0.0) is True


def test_files_of_other_schedulers_are_not_parsed_and_not_gone() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    parsed(parse_queue, a_listing("mine.py", "theirs.py"))

    gone = parse_queue.update(a_listing("mine.py", "theirs.py"), owned=lambda n: n == "mine.py", adopted={}, now=0.0)

    assert gone == frozenset()
    assert "theirs.py" not in parse_queue
    assert len(parse_queue) == 1


def test_a_file_that_another_scheduler_parsed_with_this_content_is_adopted() -> None:
    parse_queue = ParseQueue(reparse_every=300)

    updated(parse_queue, a_listing("same.py", "other.py", other="d2"), adopted={"same.py": "d1", "other.py": "d1"})

    assert taken(parse_queue) == ["other.py"]


def test_an_adopted_file_follows_every_module_because_its_imports_are_unknown() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("a.py"), adopted={"a.py": "d1"})

    updated(parse_queue, a_listing("a.py", modules={"helper.py": "h1"}))

    assert taken(parse_queue) == ["a.py"]


def test_an_adopted_file_whose_imports_have_changed_is_parsed_again() -> None:
    adopted = {name: StoredFile(name, "d1", (), False, {name: "d1", "helper.py": "h1"}) for name in ("a.py", "b.py")}
    parse_queue, listing = ParseQueue(reparse_every=0), a_listing("a.py", modules={"helper.py": "h1"})
    parse_queue.update(listing, owned=lambda _: True, adopted=adopted, now=0.0)
    assert taken(parse_queue) == []

    other, changed = ParseQueue(reparse_every=0), a_listing("a.py", "b.py", modules={"helper.py": "h2"})
    other.update(changed, owned=lambda _: True, adopted=adopted, now=0.0)

    assert sorted(taken(other)) == ["a.py", "b.py"]


def test_a_module_that_changed_between_listing_and_import_is_no_news() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("a.py", modules={"helper.py": "h1"}))
    taken(parse_queue)
    parse_queue.finish(importing(a_result("a.py"), "helper.py", digest="h2"), 0.0)

    updated(parse_queue, a_listing("a.py", modules={"helper.py": "h2"}))
    news = taken(parse_queue)

    assert news == ["a.py"]  # the listing has changed: parsed once more, to be sure
    parse_queue.finish(importing(a_result("a.py"), "helper.py", digest="h2"), 0.0)
    updated(parse_queue, a_listing("a.py", modules={"helper.py": "h2"}))
    assert taken(parse_queue) == []


def test_a_module_that_changed_after_its_import_is_news_although_two_listings_are_equal() -> None:
    parse_queue, listing = ParseQueue(reparse_every=0), a_listing("a.py", modules={"helper.py": "h2"})
    updated(parse_queue, listing)
    taken(parse_queue)
    parse_queue.finish(importing(a_result("a.py"), "helper.py", digest="h1"), 0.0)

    updated(parse_queue, listing)

    assert taken(parse_queue) == ["a.py"]


def test_what_a_parse_read_is_held_against_the_listing() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("a.py", modules={"helper.py": "h1"}))
    taken(parse_queue)
    same = importing(a_result("a.py"), "helper.py", "ignored/helper.py")
    own, helper = importing(a_result("a.py", digest="d2")), importing(a_result("a.py"), "helper.py", digest="h2")

    assert [parse_queue.is_as_listed(result) for result in (same, own, helper)] == [True, False, False]
    assert parse_queue.is_as_listed(a_result("a.py", digest="")), "it could not be read: no listing helps"
    assert parse_queue.is_as_listed(a_result("gone.py"))


def test_imported_files_that_no_listing_has_are_asked_for() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    updated(parse_queue, a_listing("a.py"))
    taken(parse_queue)

    parse_queue.finish(importing(a_result("a.py"), "ignored/helper.py"), 0.0)

    assert parse_queue.unlisted == {"ignored/helper.py"}


def test_routine_comes_when_its_time_has_come() -> None:
    parse_queue = ParseQueue(reparse_every=300)
    parsed(parse_queue, a_listing("a.py"), now=100.0)

    assert parse_queue.seconds_to_routine(150.0) == 250.0
    assert taken(parse_queue, now=399.0) == []
    assert taken(parse_queue, now=400.0) == ["a.py"]


def test_routine_never_comes_when_it_is_off() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    parsed(parse_queue, a_listing("a.py"))

    assert parse_queue.seconds_to_routine(0.0) is None
    assert taken(parse_queue, now=1e9) == []


def test_routine_takes_one_file_at_a_time_and_one_per_cent_of_a_core() -> None:
    parse_queue = ParseQueue(reparse_every=300)
    parsed(parse_queue, a_listing("a.py", "b.py"))

    (first,) = taken(parse_queue, now=300.0)
    assert parse_queue.seconds_to_routine(300.0) is None

    parse_queue.finish(msgspec.structs.replace(a_result(first), seconds=2.0), 302.0)
    assert taken(parse_queue, now=501.0) == []
    assert len(taken(parse_queue, now=502.0)) == 1


def test_a_request_parses_an_unchanged_file() -> None:
    parse_queue = ParseQueue(reparse_every=0)
    parsed(parse_queue, a_listing("a.py", "b.py"))

    parse_queue.request(["a.py", "unknown.py"])

    assert taken(parse_queue) == ["a.py"]


def slow(parse_queue: ParseQueue, listing: Listing, *names: str) -> None:
    """Parse a listing in which these files take long."""
    updated(parse_queue, listing)
    for name in taken(parse_queue):
        seconds = 25.0 if name in names else 0.1
        result = a_result(name, digest=listing.files[name].digest)
        parse_queue.finish(msgspec.structs.replace(result, seconds=seconds), 0.0)


def test_files_that_took_long_never_occupy_all_processes() -> None:
    names = ["slow1.py", "slow2.py", "slow3.py", "quick.py"]
    parse_queue, listing = ParseQueue(reparse_every=0, processes=3), a_listing(*names)
    slow(parse_queue, listing, *names[:3])

    parse_queue.request(names)

    assert taken(parse_queue) == ["quick.py", "slow3.py", "slow2.py"]
    parse_queue.finish(msgspec.structs.replace(a_result("slow3.py", digest="h1"), seconds=25.0), 1.0)
    assert taken(parse_queue) == ["slow1.py"]


def test_a_slow_file_that_has_to_wait_does_not_hold_up_others_of_a_lower_rank() -> None:
    names, parse_queue = ("slow1.py", "slow2.py", "quick.py"), ParseQueue(reparse_every=0, processes=2)
    listing = a_listing(*names, modules={"helper.py": "h1"})
    slow(parse_queue, listing, "slow1.py", "slow2.py")
    parse_queue.request(["quick.py"])
    assert taken(parse_queue) == ["quick.py"]
    parse_queue.finish(importing(a_result("quick.py", digest="d1"), "helper.py"), 0.0)

    parse_queue.request(["slow1.py", "slow2.py"])
    updated(parse_queue, a_listing(*names, modules={"helper.py": "h2"}))

    assert taken(parse_queue) == ["slow2.py", "quick.py"]


def test_a_file_that_became_quick_is_no_longer_slow() -> None:
    parse_queue, listing = ParseQueue(reparse_every=0, processes=2), a_listing("a.py", "b.py")
    slow(parse_queue, listing, "a.py", "b.py")
    parse_queue.request(["a.py"])
    assert taken(parse_queue) == ["a.py"]
    parse_queue.finish(msgspec.structs.replace(a_result("a.py", digest="h1"), seconds=0.2), 1.0)

    parse_queue.request(["a.py", "b.py"])

    assert taken(parse_queue) == ["a.py", "b.py"]


def test_a_single_process_parses_slow_files_too() -> None:
    parse_queue, listing = ParseQueue(reparse_every=0, processes=1), a_listing("a.py")
    slow(parse_queue, listing, "a.py")

    parse_queue.request(["a.py"])

    assert taken(parse_queue) == ["a.py"]


def reading(result: ParsedFile, *names: str, digest: str = "h1") -> ParsedFile:
    return msgspec.structs.replace(result, data=dict.fromkeys(names, digest))


def with_data(*names: str, digest: str = "h1") -> Listing:
    listing = a_listing("a.py", "b.py")
    return replace(listing, modules=listing.modules | dict.fromkeys(names, digest))


def test_a_file_whose_data_has_changed_is_parsed_again() -> None:
    parse_queue = ParseQueue(reparse_every=300, readers_every=30)
    updated(parse_queue, a_listing("a.py", "b.py"))
    for name in taken(parse_queue):
        result = a_result(name, digest=a_listing("a.py", "b.py").files[name].digest)
        parse_queue.finish(reading(result, "words.yaml", "conf") if name == "a.py" else result, 0.0)
    assert parse_queue.unlisted == {"words.yaml", "conf"}

    updated(parse_queue, with_data("words.yaml", "conf"), now=40.0)
    assert taken(parse_queue, 40.0) == []
    updated(parse_queue, with_data("words.yaml", "conf", digest="h2"), now=50.0)

    assert taken(parse_queue, 50.0) == ["a.py"]


def test_a_file_whose_data_is_gone_is_parsed_again() -> None:
    parse_queue = ParseQueue(reparse_every=300, readers_every=0)
    updated(parse_queue, a_listing("a.py"))
    parse_queue.take(0.0)
    parse_queue.finish(reading(a_result("a.py", digest=a_listing("a.py").files["a.py"].digest), "words.yaml"), 0.0)
    listing = a_listing("a.py")

    updated(parse_queue, replace(listing, modules=listing.modules | {"words.yaml": "h1"}), now=1.0)
    assert taken(parse_queue, 0.5) == []
    updated(parse_queue, listing, now=1.0)

    assert taken(parse_queue, 0.5) == ["a.py"]


def test_data_that_changes_all_the_time_has_a_file_parsed_now_and_then() -> None:
    parse_queue = ParseQueue(reparse_every=300, readers_every=30)
    updated(parse_queue, a_listing("a.py"))
    parse_queue.take(0.0)
    parse_queue.finish(reading(a_result("a.py", digest=a_listing("a.py").files["a.py"].digest), "state.json"), 0.0)

    for second in range(1, 30):
        updated(parse_queue, with_data("state.json", digest=f"h{second + 1}"), now=float(second))
        assert "a.py" not in taken(parse_queue, float(second))
    updated(parse_queue, with_data("state.json", digest="h99"), now=30.0)

    assert "a.py" in taken(parse_queue, 30.0)
