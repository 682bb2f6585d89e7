"""Dialogs of pools, variables and connections in Chromium, on the real service: what they create, change and refuse."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.conftest import Service, Tab
from tests.patience import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def open_dialog(place: Page | Locator, button: str) -> Locator:
    await place.get_by_role("button", name=button).click()
    page = place if isinstance(place, Page) else place.page
    return page.get_by_role("dialog")


async def save(dialog: Locator) -> None:
    await dialog.get_by_role("button", name="Save").click()


async def test_a_pool_gets_a_rate_and_loses_it_in_its_dialog(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/api", json={"slots": 3})
    page = await tab.open("/pools")
    pool = page.get_by_role("region", name="Pool api")
    dialog = await open_dialog(pool, "Edit …")
    await dialog.get_by_label("Rate", exact=True).fill("120 / 2min")
    await expect(dialog.locator("code")).to_have_text("aiosched pools set api 3 '--rate=120 / 2min'")
    await save(dialog)
    await expect(pool).to_contain_text("at most 120/2min")

    dialog = await open_dialog(pool, "Edit …")
    await dialog.get_by_label("Rate", exact=True).fill("")
    await expect(dialog.locator("code")).to_have_text("aiosched pools set api 3 --rate=")
    await save(dialog)

    await expect(pool).not_to_contain_text("at most")
    await service.api("DELETE", "pools/api")


async def test_what_tasks_wait_for_in_vain_stands_at_its_pool_or_above_them(tab: Tab) -> None:
    here = {"kind": "pool", "name": "default_pool", "exists": True, "words": "needs 900 slots; 1 task waits"}
    gone = {"kind": "pool", "name": "gone", "exists": False, "words": "pool <b>gone</b> does not exist; 2 tasks wait"}

    async def starving(route: Route) -> None:
        response = await route.fetch()
        pools = await response.json()
        await route.fulfill(response=response, json=pools | {"starving": [here, gone]})

    page = await tab.open("/")
    await page.route("**/api/v1/pools?*", starving)
    await page.goto(f"{page.url}pools")

    await expect(page.get_by_role("region", name="Pool default_pool")).to_contain_text(here["words"])
    await expect(page.locator(".notice")).to_have_text(gone["words"])
    await tab.check_access()


async def test_the_command_of_a_dialog_clears_what_the_dialog_clears(service: Service, tab: Tab) -> None:
    """The commands leave alone what is not given."""
    await service.api("PUT", "pools/api", json={"slots": 3, "description": "old", "include_deferred": True})
    await service.api("PUT", "variables/region", json={"value": "a", "description": "old"})
    page = await tab.open("/pools")
    dialog = await open_dialog(page.get_by_role("region", name="Pool api"), "Edit …")
    await dialog.get_by_label("Description").fill("")
    await dialog.get_by_role("checkbox").uncheck()
    await expect(dialog.locator("code")).to_have_text("aiosched pools set api 3 '' --no-include-deferred")

    dialog = await open_dialog(await tab.open("/secrets"), "Edit region")
    await dialog.get_by_label("Description").fill("")
    await expect(dialog.locator("code").last).to_have_text("aiosched variables set region - --description '' < file")
    await service.api("DELETE", "pools/api")
    await service.api("DELETE", "variables/region")


@pytest.mark.parametrize(
    ("place", "body", "page", "button", "fields"),
    [
        ("pools/taken", {"slots": 64}, "/pools", "New pool …", {"Name": "taken"}),
        ("variables/taken", {"value": "a"}, "/secrets", "New variable …", {"Key": "taken", "Value": "b"}),
        (
            "connections/taken",
            {"conn_type": "http"},
            "/secrets?tab=connections",
            "New connection …",
            {"Id": "taken", "Type": "ftp"},
        ),
        (
            "alert-rules/taken",
            {"kind": "run_failed", "notifier": "ops"},
            "/alerts?tab=rules",
            "New rule …",
            {"Name": "taken"},
        ),
    ],
)
async def test_new_does_not_overwrite_what_exists(
    service: Service, tab: Tab, place: str, body: Any, page: str, button: str, fields: dict[str, str]
) -> None:
    await service.api("PUT", place, json=body)
    dialog = await open_dialog(await tab.open(page), button)
    for label, text in fields.items():
        await dialog.get_by_label(label, exact=True).fill(text)

    await save(dialog)

    await expect(dialog.get_by_text("'taken' exists already")).to_be_visible()
    tab.expected.append("409")
    await service.api("DELETE", place)


async def test_a_description_alone_does_not_take_a_secrets_value(service: Service, tab: Tab) -> None:
    await service.api("PUT", "variables/api_key", json={"value": "a", "description": "old"})
    page = await tab.open("/secrets")
    dialog = await open_dialog(page, "Replace api_key")
    await dialog.get_by_label("Description").fill("new")
    await expect(dialog.get_by_role("button", name="Save")).to_be_disabled()

    await dialog.get_by_label("Value").fill("b")
    await expect(dialog.locator("code").last).to_have_text("aiosched variables set api_key - --description new < file")
    await dialog.get_by_label("Description").fill("")
    await save(dialog)

    await expect(page.get_by_role("row").filter(has_text="api_key")).not_to_contain_text("old")
    dialog = await open_dialog(page, "Replace api_key")
    await dialog.get_by_label("Value").fill("c")
    await service.api("DELETE", "variables/api_key")
    await save(dialog)
    await expect(dialog.get_by_text("There is no variable 'api_key' to change")).to_be_visible()
    tab.expected.append("404")


async def test_a_variable_is_edited_with_its_changes_in_view_and_hidden_when_it_is_a_secret(
    service: Service, tab: Tab
) -> None:
    await service.api("PUT", "variables/plan", json={"value": "one\ntwo\nthree", "description": "old"})
    page = await tab.open("/secrets")
    row = page.get_by_role("row").filter(has_text="plan")
    await expect(row).to_contain_text("one two three")
    dialog = await open_dialog(page, "Edit plan")
    await expect(dialog.get_by_label("Value", exact=True)).to_have_value("one\ntwo\nthree")
    await dialog.get_by_label("Value", exact=True).fill("one\n2\nthree")
    changes = dialog.get_by_role("group", name="Changes")
    await expect(changes.locator("tr.minus")).to_have_text(["2-two"])
    await expect(changes.locator("tr.plus")).to_have_text(["2+2"])
    await tab.looks_well("variable-edited")
    await save(dialog)
    await expect(row).to_contain_text("one 2 three")

    dialog = await open_dialog(page, "Edit plan")
    await dialog.get_by_label("A secret").check()
    await save(dialog)
    await expect(row).to_contain_text("••••••")
    assert (await service.api("GET", "variables/plan"))["value"] is None

    await row.get_by_role("link", name="History of plan").click()
    await expect(page.get_by_role("row").filter(has_text="request.set_variable")).to_have_count(3)
    await expect(page.get_by_role("button", name="About is changes of variables: change")).to_be_visible()
    await tab.picture("audit-of-a-variable")
    await service.api("DELETE", "variables/plan")


async def test_a_description_alone_does_not_take_the_fields_of_a_connection(service: Service, tab: Tab) -> None:
    await service.api("PUT", "connections/kept", json={"conn_type": "http", "host": "shop"})
    dialog = await open_dialog(await tab.open("/secrets?tab=connections"), "Replace kept")
    await dialog.get_by_label("Description").fill("new")
    await expect(dialog.get_by_role("button", name="Save")).to_be_disabled()

    await dialog.get_by_label("Host").fill("shop")
    await expect(dialog.get_by_role("button", name="Save")).to_be_enabled()
    await service.api("DELETE", "connections/kept")


async def test_a_pool_without_a_number_of_slots_is_not_saved(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/open", json={"slots": 3})
    page = await tab.open("/pools")
    dialog = await open_dialog(page.get_by_role("region", name="Pool open"), "Edit …")
    await dialog.get_by_role("spinbutton", name="Slots").fill("")

    await expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
    await expect(dialog.locator("code")).to_have_text("aiosched pools set open SLOTS")
    await service.api("DELETE", "pools/open")


async def test_the_command_of_a_connection_has_every_field(tab: Tab) -> None:
    dialog = await open_dialog(await tab.open("/secrets?tab=connections"), "New connection …")
    fields = {"Id": "shop", "Type": "http", "Extra": '{"a": 1}', "Description": "orders"}
    for label, text in fields.items():
        await dialog.get_by_label(label, exact=True).fill(text)

    line = """aiosched connections add shop --type http --description orders --extra '{"a":1}'"""
    await expect(dialog.locator("code")).to_have_text(line)


async def test_the_command_that_replaces_a_connection_takes_away_what_the_dialog_takes_away(
    service: Service, tab: Tab
) -> None:
    await service.api("PUT", "connections/kept", json={"conn_type": "http", "host": "shop", "port": 80, "schema": "s"})
    dialog = await open_dialog(await tab.open("/secrets?tab=connections"), "Replace kept")
    await dialog.get_by_label("Login").fill("me")
    await dialog.get_by_label("Password").fill("secret")

    line = """aiosched connections set kept --json '{"conn_type":"http","login":"me"}' --password -"""
    await expect(dialog.locator("code")).to_have_text(line)
    await service.api("DELETE", "connections/kept")


async def test_a_dialog_stays_when_the_pools_cannot_be_read_or_its_pool_is_deleted(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/open", json={"slots": 3})
    page = await tab.open("/pools")
    dialog = await open_dialog(page.get_by_role("region", name="Pool open"), "Edit …")
    await dialog.get_by_label("Description").fill("for the night")

    tab.expected += ["503", "404"]
    await page.route("**/api/v1/pools?*", lambda route: route.fulfill(status=503, json={"detail": "no database"}))
    await service.api("DELETE", "pools/open")
    await expect(page.get_by_text("no database")).to_be_attached()
    await page.unroute("**/api/v1/pools?*")
    await service.api("PUT", "pools/other", json={"slots": 3})
    await expect(page.get_by_role("region", name="Pool other", include_hidden=True)).to_be_visible()
    await expect(page.get_by_role("region", name="Pool open", include_hidden=True)).to_have_count(0)

    await expect(dialog.get_by_label("Description")).to_have_value("for the night")
    await save(dialog)
    await expect(dialog.get_by_text("There is no pool 'open' to change")).to_be_visible()
    await service.api("DELETE", "pools/other")


async def test_slots_are_set_in_place(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/open", json={"slots": 3})
    page = await tab.open("/pools")
    pool = page.get_by_role("region", name="Pool open")
    await pool.get_by_role("spinbutton", name="Slots").fill("5")
    dialog = await open_dialog(pool, "Set")
    await dialog.get_by_role("button", name="Set 5").click()
    await expect(pool).to_contain_text("5 open")

    await service.api("PUT", "pools/open", json={"slots": 4})
    await expect(pool.get_by_role("spinbutton", name="Slots")).to_have_value("4")
    await service.api("DELETE", "pools/open")


async def test_what_has_a_slash_in_its_name_is_changed_and_deleted(tab: Tab) -> None:
    page = await tab.open("/pools")
    dialog = await open_dialog(page, "New pool …")
    await dialog.get_by_label("Name").fill("raw/eu")
    await save(dialog)
    pool = page.get_by_role("region", name="Pool raw/eu")
    await pool.get_by_role("button", name="Slot holders, queue and history").click()
    await expect(pool.get_by_text("No task is waiting.")).to_be_visible()
    dialog = await open_dialog(pool, "Delete …")
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(pool).to_have_count(0)

    page = await tab.open("/secrets")
    dialog = await open_dialog(page, "New variable …")
    await dialog.get_by_label("Key").fill("raw/eu")
    await dialog.get_by_label("Value").fill("a")
    await save(dialog)
    dialog = await open_dialog(page, "Delete raw/eu")
    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.get_by_role("button", name="Delete raw/eu")).to_have_count(0)


POOL = ("/pools", "New pool …", {"Name": ""})
VARIABLE = ("/secrets", "New variable …", {"Key": "", "Value": "a"})
CONNECTION = ("/secrets?tab=connections", "New connection …", {"Id": "", "Type": "http"})
RULE = ("/alerts?tab=rules", "New rule …", {"Name": ""})


@pytest.mark.parametrize(
    ("dialog_of", "name", "message"),
    [
        (POOL, "..", "The name '..' is a step in a path, so no address could name it: choose another."),
        (POOL, ".", "The name '.' is a step in a path, so no address could name it: choose another."),
        (VARIABLE, "..", "The name '..' is a step in a path, so no address could name it: choose another."),
        (CONNECTION, "..", "The name '..' is a step in a path, so no address could name it: choose another."),
        (RULE, "..", "The name '..' is a step in a path, so no address could name it: choose another."),
        (CONNECTION, "raw/eu", "'raw/eu' cannot be the name of a connection: use letters, digits"),
        (CONNECTION, "a/../b", "'a/../b' cannot be the name of a connection: use letters, digits"),
    ],
)
async def test_a_name_that_cannot_be_is_refused_in_words(
    tab: Tab, dialog_of: tuple[str, str, dict[str, str]], name: str, message: str
) -> None:
    tab.expected.append("422")
    path, button, fields = dialog_of
    dialog = await open_dialog(await tab.open(path), button)
    for label, text in fields.items():
        await dialog.get_by_label(label, exact=True).fill(text or name)

    await save(dialog)

    await expect(dialog.get_by_text(message)).to_be_visible()


async def test_a_pool_that_is_being_deleted_is_not_read_again(service: Service, tab: Tab) -> None:
    await service.api("PUT", "pools/gone", json={"slots": 3})
    page = await tab.open("/pools?pool=gone")
    pool = page.get_by_role("region", name="Pool gone")
    await expect(pool.get_by_text("No task is waiting.")).to_be_visible()
    read: list[str] = []

    async def another_changes_meanwhile(route: Route) -> None:
        page.on("request", lambda request: read.append(request.url))
        response = await route.fetch()
        async with page.expect_response("**/api/v1/pools?*"):
            await service.api("PUT", "pools/other", json={"slots": 4})
        await route.fulfill(response=response)

    await page.route("**/api/v1/pools/gone", another_changes_meanwhile)
    dialog = await open_dialog(pool, "Delete …")
    await dialog.get_by_role("button", name="Delete", exact=True).click()

    await expect(page.get_by_text("Pool gone deleted.")).to_be_visible()
    assert not [url for url in read if "/gone/" in url]
    assert page.url == tab.url + "/pools"
    await service.api("DELETE", "pools/other")


@pytest.mark.parametrize(
    ("place", "page", "button", "field", "bodies"),
    [
        ("variables/both", "/secrets", "Edit both", "Value", [{"value": text} for text in ("a", "theirs", "mine")]),
        (
            "connections/both",
            "/secrets?tab=connections",
            "Replace both",
            "Description",
            [{"conn_type": "http", "host": "h", "description": text} for text in ("a", "theirs", "mine")],
        ),
        (
            "pools/both",
            "/pools",
            "Edit …",
            "Description",
            [{"slots": 3, "description": text} for text in ("a", "theirs", "mine")],
        ),
        (
            "alert-rules/both",
            "/alerts?tab=rules",
            "Change both",
            "DAGs",
            [{"kind": "run_failed", "notifier": "ops", "dags": [text]} for text in ("a", "theirs", "mine")],
        ),
    ],
)
async def test_what_somebody_else_has_stored_meanwhile_is_shown_beside_what_was_typed(
    service: Service, tab: Tab, place: str, page: str, button: str, field: str, bodies: list[dict[str, Any]]
) -> None:
    await service.api("PUT", place, json=bodies[0])
    shown = await tab.open(page)
    at = shown.get_by_role("region", name="Pool both") if "pools" in place else shown
    dialog = await open_dialog(at, button)
    await dialog.get_by_label(field, exact=True).fill("mine")
    if "connections" in place:
        await dialog.get_by_label("Host").fill("h")
    await service.api("PUT", place, json=bodies[1])

    await save(dialog)

    beside = dialog.get_by_role("group", name="Stored meanwhile")
    await expect(beside.get_by_role("cell")).to_have_text(["theirs", "mine"])
    await expect(dialog.get_by_text("both' was changed by ")).to_be_visible()
    await expect(dialog.get_by_label(field, exact=True)).to_have_value("mine")
    await tab.looks_well(f"meanwhile-{place.split('/')[0]}")
    await beside.get_by_role("button", name="Take what is stored").click()
    await expect(dialog.get_by_label(field, exact=True)).to_have_value("theirs")
    await expect(beside).to_be_hidden()
    await dialog.get_by_label(field, exact=True).fill("mine")
    await save(dialog)
    await expect(dialog).to_be_hidden()
    name = {"Value": "value", "Description": "description", "DAGs": "dags"}[field]
    assert (await service.api("GET", place))[name] == bodies[2][name]
    tab.expected.append("412")
    await service.api("DELETE", place)


@pytest.mark.parametrize(
    ("place", "page", "bodies"),
    [
        ("variables/both", "/secrets", [{"value": "a"}, {"value": "theirs"}]),
        ("connections/both", "/secrets?tab=connections", [{"conn_type": "http"}, {"conn_type": "ftp"}]),
        ("alert-rules/both", "/alerts?tab=rules", [{"kind": "run_failed", "notifier": name} for name in ("a", "ops")]),
        ("pools/both", "/pools", [{"slots": 3}, {"slots": 4}]),
    ],
)
async def test_what_somebody_else_has_changed_meanwhile_is_not_deleted_unseen(
    service: Service, tab: Tab, place: str, page: str, bodies: list[dict[str, Any]]
) -> None:
    await service.api("PUT", place, json=bodies[0])
    shown = await tab.open(page)
    at = shown.get_by_role("region", name="Pool both") if "pools" in place else shown
    dialog = await open_dialog(at, "Delete …" if "pools" in place else "Delete both")
    await service.api("PUT", place, json=bodies[1])

    await dialog.get_by_role("button", name="Delete", exact=True).click()
    await expect(dialog.get_by_text("both' was changed by ")).to_be_visible()
    assert await service.api("GET", place)
    await dialog.get_by_role("button", name="Delete", exact=True).click()

    await expect(dialog).to_be_hidden()
    async with httpx2.AsyncClient(base_url=f"{service.url}/api/v1/", timeout=PATIENCE) as client:
        assert (await client.get(place)).status_code == 404
    tab.expected.append("412")


async def test_a_role_that_was_changed_meanwhile_is_not_changed_unseen(service: Service, tab: Tab) -> None:
    await service.api("POST", "users", json={"name": "both", "role": "viewer", "password": "long enough"})
    dialog = await open_dialog(await tab.open("/users"), "Change both")
    await dialog.get_by_label("Role").select_option("operator")
    await service.api("PATCH", "users/both", json={"role": "editor"})

    await save(dialog)
    await expect(dialog.get_by_role("group", name="Stored meanwhile").get_by_role("cell")).to_have_text(
        ["editor", "operator"]
    )
    await save(dialog)

    await expect(dialog).to_be_hidden()
    assert (await service.api("GET", "users/both"))["role"] == "operator"
    tab.expected.append("412")
    await service.api("DELETE", "users/both")
