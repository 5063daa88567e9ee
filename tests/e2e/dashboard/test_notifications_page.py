"""Notifications: create one, see what was sent, send it again; be told when a job ends."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.waiting import wait_until
from tests.webhook_receiver import Receiver, answer_with, webhook_receiver

pytestmark = pytest.mark.xdist_group("dashboard")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver on this machine, which the stack may send to."""
    with webhook_receiver() as receiver:
        yield receiver


def test_a_receiver_is_named_tested_and_sent_to_again(
    open_signed_in: Any, receiver: Receiver
) -> None:
    page = open_signed_in("#/notifications")
    page.get_by_label("Target").fill(receiver.url)
    page.get_by_label("Name").fill("the build")
    page.get_by_role("button", name="Create", exact=True).click()
    secret = page.get_by_role("region", name="New secret").locator("code")
    expect(secret).to_have_text(re.compile("^whsec_"))
    shown = secret.inner_text()
    page.get_by_role("button", name="Done").click()
    expect(page.get_by_text(shown)).to_have_count(0)

    receiver.answer = answer_with(500)
    page.get_by_role("button", name="Test the build").click()
    [request] = wait_until(lambda: list(receiver.received), "the test message arrives")
    assert request.verify(shown)["type"] == "notification.test"
    page.get_by_role("link", name="the build").click()
    row = page.get_by_role("table", name="Messages").get_by_role("row").nth(1)
    expect(row).to_contain_text("received 500")
    receiver.answer = answer_with(204)
    expect(row).to_contain_text("delivered")  # the second try, after five seconds
    row.get_by_role("button", name=re.compile("again")).click()
    wait_until(lambda: len(receiver.received) == 3, "it is sent again")
    assert len({request.headers["webhook-id"] for request in receiver.received}) == 1


def test_a_mistake_in_a_target_is_said(open_signed_in: Any) -> None:
    page = open_signed_in("#/notifications")
    page.get_by_label("Target").fill("ftp://example.com")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_text("one of the schemes")).to_be_visible()
    expect(page.get_by_label("Target")).to_have_value("ftp://example.com")


def test_a_job_tells_when_it_ends(
    open_signed_in: Any, stack: Any, endless_job: Any, receiver: Receiver
) -> None:
    page = open_signed_in(f"#/jobs/{endless_job.id}")
    page.get_by_role("button", name="Tell me when it ends").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Target").fill(receiver.url)
    dialog.get_by_role("button", name="Tell me", exact=True).click()
    expect(dialog.locator("code")).to_have_text(re.compile("^whsec_"))
    dialog.get_by_role("button", name="Done").click()
    [subscription] = stack.client.notifications.list(job=endless_job.id)
    assert subscription.types == ["job.succeeded", "job.failed", "job.cancelled"]
    stack.client.notifications.delete(subscription.id)
