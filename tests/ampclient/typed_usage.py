"""The types of the client. `make check` runs mypy on this file; nothing executes it."""

from typing import assert_type

from ampclient import AsyncClient, AsyncJob, Client, Job, RawResponse, Study, Summary, Worker
from ampclient._http.paging import PagedIterator
from tests.waiting import DEADLINE_S


def sync_code(client: Client) -> None:
    """Results of operations in sync code."""
    assert_type(client.jobs.get("a", timeout_s=DEADLINE_S, headers={"X-Trace": "7"}), Job)
    assert_type(client.jobs.get("a").summary, Summary | None)
    assert_type(client.jobs.get("a").cancel(), Job)
    assert_type(client.jobs.extend("a", epochs=2), Job)
    assert_type(client.jobs.get("a").evaluations()[0]["val_loss"], int | float | None)
    assert_type(client.workers.list(), PagedIterator[Worker])
    assert_type(client.with_raw_response.jobs.get("a"), RawResponse[Job])
    assert_type(
        client.jobs.submit(model=object(), data={"kind": "digits"}, timeout_s=DEADLINE_S), Job
    )
    client.jobs.submit(modle={"kind": "mlp"})  # type: ignore[call-arg]
    client.jobs.get("a", timeot=3)  # type: ignore[call-arg]
    assert_type(client.with_raw_response.jobs.list(), RawResponse[list[Job]])
    assert_type(client.jobs.cancel("a"), Job)
    assert_type(client.jobs.delete("a"), None)
    assert_type(client.with_options(max_retries=0), Client)
    assert_type(client.jobs.get("a").with_raw_response.cancel(), RawResponse[Job])
    assert_type(client.jobs.list(limit=3)[0], Job)
    assert_type(client.studies.precision("job.yaml", seeds=5), Study)
    client.studies.precision("job.yaml", seed=5)  # type: ignore[call-arg]
    client.studies.search("job.yaml", {"train.seed": [1, 2]}, method="grid")
    for job in client.jobs.list():
        assert_type(job, Job)
        assert_type(job.model_copy(update={"step": 1}), Job)
    Job.from_json({})  # type: ignore[misc]
    Job.model_validate({})  # type: ignore[misc]


async def async_code(client: AsyncClient) -> None:
    """The same results, awaited."""
    assert_type(await client.jobs.get("a", timeout_s=DEADLINE_S), AsyncJob)
    assert_type(await client.with_raw_response.workers.list(), RawResponse[list[Worker]])
    assert_type(await client.jobs.cancel("a"), AsyncJob)
    assert_type((await client.jobs.list(limit=3))[0], AsyncJob)
    assert_type(await client.studies.wait("s"), Study)
    async for job in client.jobs.list():
        assert_type(job, AsyncJob)
