"""The list of jobs, the workers and the tokens."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ampclient import Client

pytestmark = pytest.mark.xdist_group("dashboard")


def test_the_filters_of_the_list_are_kept_in_the_address(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    page = open_signed_in()
    names = page.locator("[data-name=Name] a.name")
    page.get_by_label("Search").fill("skipp")
    expect(names).to_have_text(["skipping"])
    page.get_by_label("Policy").select_option("mixed_float16")
    page.get_by_label("succeeded", exact=True).check()
    page.get_by_label("Label", exact=True).fill("team=vision")
    page.get_by_label("Label", exact=True).press("Enter")
    expect(page.get_by_role("button", name="Remove label team=vision")).to_be_visible()
    page.reload()
    expect(names).to_have_text(["skipping"])
    page.get_by_label("Policy").select_option("float16")
    expect(page.get_by_role("heading", name="No matching jobs")).to_be_visible()
    page.get_by_role("link", name="Clear filters").click()
    # The oldest jobs may be on another page.
    expect(names.filter(has_not_text="skipping").first).to_be_visible()
    expect(page.get_by_label("Search")).to_have_value("")


def test_the_list_is_sorted_and_filtered_by_a_metric(
    open_signed_in: Any, finished_jobs: Any
) -> None:
    best, other = sorted(finished_jobs, key=lambda job: job.metrics["val_loss"])
    page = open_signed_in("#/jobs?state=succeeded")
    page.get_by_label("Sort").select_option("-val_accuracy")
    expect(page.get_by_role("columnheader", name="Validation accuracy")).to_be_visible()
    expect(page.locator("[data-name='Validation accuracy']").first).to_contain_text("%")
    page.get_by_label("Sort").select_option("val_loss")
    expect(page.get_by_role("columnheader", name="Validation loss")).to_be_visible()
    condition = f"val_loss>{best.metrics['val_loss']}"
    page.get_by_label("Metric", exact=True).fill(condition)
    page.get_by_label("Metric", exact=True).press("Enter")
    expect(page.locator(f"[href='#/jobs/{best.id}']")).to_be_hidden()
    expect(page.locator(f"[href='#/jobs/{other.id}']")).to_be_visible()
    page.reload()
    page.get_by_role("button", name=f"Remove condition {condition}").click()
    expect(page.locator(f"[href='#/jobs/{best.id}']")).to_be_visible()
    ids = [
        str(row.get_attribute("href")).rpartition("/")[2] for row in page.locator("a.name").all()
    ]
    assert ids.index(best.id) < ids.index(other.id)


def test_a_list_of_many_jobs_has_pages(user: Any, stack: Any, finished_jobs: Any) -> None:
    made = stack.client.tokens.create("crowd", role="member", project="crowded")
    with Client(stack.client.url, made.secret) as crowd:
        for number in range(51):
            crowd.jobs.submit(
                {**finished_jobs[0].spec, "name": f"one of many {number:02}"}
            ).cancel()
    page = user.open_signed_in(made.secret, "#/jobs?sort=name")
    names = page.locator("[data-name=Name] a.name")
    expect(names).to_have_count(50)
    heights = page.locator("table.jobs tbody tr").evaluate_all(
        "rows => rows.map(r => r.offsetHeight)"
    )
    assert max(heights) <= 40
    assert page.locator("table.jobs").evaluate("table => table.offsetHeight") <= 2000
    pages = page.get_by_role("navigation", name="Pages of the list")
    expect(pages).to_contain_text("Page 1")
    pages.get_by_role("link", name="Next page").click()
    expect(names).to_have_text(["one of many 50"])
    expect(pages).to_contain_text("Page 2")
    pages.get_by_role("link", name="Previous page").click()
    expect(names).to_have_count(50)
    page.keyboard.press("n")
    expect(names).to_have_text(["one of many 50"])
    page.reload()
    expect(names).to_have_text(["one of many 50"])
    pages.get_by_role("link", name="First page").click()
    expect(names).to_have_count(50)


def test_workers_show_their_hardware_and_jobs(open_signed_in: Any, stack: Any) -> None:
    page = open_signed_in("#/workers")
    [worker] = stack.client.workers.list()
    card = page.get_by_role("region", name=f"Worker {worker.id}")
    expect(card).to_contain_text("online")
    expect(card).to_contain_text(re.compile(r"\d of 1 in use"))
    expect(card).to_contain_text("default")
    expect(card).to_contain_text("ago")
    card.get_by_role("button", name=f"Drain {worker.id}").click()
    page.get_by_role("button", name="Cancel").click()
    expect(card).not_to_contain_text("draining")


def test_an_admin_creates_a_token_sees_it_once_and_revokes_it(
    open_signed_in: Any, user: Any
) -> None:
    page = open_signed_in("#/tokens")
    page.get_by_label("Name (person or program)").fill("alice")
    page.get_by_label("Role").select_option("viewer")
    page.get_by_label("Expires after (days)").fill("7")
    page.get_by_role("button", name="Create token").click()
    shown = page.get_by_role("region", name="New token")
    secret = shown.locator("code.secret").inner_text()
    other = user.open_signed_in(secret)
    expect(other.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_role("row", name=re.compile("^alice"))).to_contain_text("viewer")
    assert secret not in page.content()
    page.get_by_role("button", name="Rotate alice").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    assert shown.locator("code.secret").inner_text().startswith("amp_")
    assert shown.locator("code.secret").inner_text() != secret
    page.get_by_role("button", name="Revoke alice").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row", name=re.compile("^alice"))).to_contain_text("revoked")
    expect(other.get_by_label("Token")).to_be_visible()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Projects").click()
    expect(page.get_by_role("row", name=re.compile("^default"))).to_contain_text(" B")


def test_a_double_click_creates_one_token(open_signed_in: Any, stack: Any) -> None:
    page = open_signed_in("#/tokens")
    page.get_by_label("Name (person or program)").fill("bob")
    page.get_by_role("button", name="Create token").dblclick()
    expect(page.get_by_role("row", name=re.compile("^bob"))).to_have_count(1)
    assert [token.name for token in stack.client.tokens.list()].count("bob") == 1


DELAY_THE_SEARCH = """() => {
  const setTimeout = window.setTimeout;
  window.setTimeout = (call, delay, ...others) => {
    if (delay !== 250) return setTimeout(call, delay, ...others);
    window.applySearch = call;
    return 0;
  };
}"""
# A function: the page's content policy forbids to evaluate an expression again.
SEARCH_IS_DELAYED = "() => window.applySearch !== undefined"
LEAVE_AND_SEARCH = {
    "before the event of the new address": "place => { location.hash = place; applySearch(); }",
    # The timers of the list of jobs are cleared only after the next page has been painted.
    "before the list's effects are cleaned up": """place => {
      window.addEventListener("hashchange", () => applySearch(), {once: true});
      location.hash = place;
    }""",
}
TYPE_WHILE_THE_SEARCH_APPLIES = """async input => {
  applySearch();
  input.value = "skippi";
  input.dispatchEvent(new Event("input", {bubbles: true}));
  const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  await painted(); // effects have run
  await painted();
}"""


@pytest.fixture
def delayed_search(open_signed_in: Any, finished_jobs: Any) -> Page:
    """The list of jobs with a text in its search that is not applied yet."""
    page: Page = open_signed_in("#/jobs")
    page.evaluate(DELAY_THE_SEARCH)
    page.get_by_label("Search").fill("skip")
    page.wait_for_function(SEARCH_IS_DELAYED)
    return page


@pytest.mark.parametrize("when", LEAVE_AND_SEARCH)
def test_a_search_that_applies_late_does_not_undo_a_click(
    delayed_search: Page, finished_jobs: Any, when: str
) -> None:
    delayed_search.evaluate(LEAVE_AND_SEARCH[when], f"#/jobs/{finished_jobs[0].id}")
    expect(delayed_search.get_by_role("heading", name="healthy")).to_be_visible()
    delayed_search.wait_for_url(f"**/#/jobs/{finished_jobs[0].id}")


def test_a_search_keeps_the_filter_that_was_set_before_it_applied(delayed_search: Page) -> None:
    delayed_search.get_by_label("succeeded", exact=True).check()
    delayed_search.wait_for_url("**/#/jobs?state=succeeded")
    delayed_search.evaluate("() => applySearch()")
    delayed_search.wait_for_url("**/#/jobs?state=succeeded&q=skip")


def test_what_is_typed_while_a_search_applies_is_kept(delayed_search: Page) -> None:
    delayed_search.get_by_label("Search").evaluate(TYPE_WHILE_THE_SEARCH_APPLIES)
    delayed_search.wait_for_url("**/#/jobs?q=skip")
    expect(delayed_search.get_by_label("Search")).to_have_value("skippi")
