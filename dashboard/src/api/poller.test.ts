import assert from "node:assert/strict";
import { test } from "node:test";
import { outage } from "./connection.ts";
import { retryDelayMs, Poller } from "./poller.ts";
import { ApiError } from "./request.ts";
import { appendNewer } from "./use-tail.ts";

test("an unchanged response is requested by its ETag and reported once", async () => {
  const reported: unknown[] = [];
  const etags: unknown[] = [];
  const poller = new Poller("/jobs", 60_000, { data: (body) => reported.push(body), error: () => undefined }, async (_, { etag }) => {
    etags.push(etag);
    return etag === null ? { body: 1, etag: "a" } : null;
  });
  await poller.pollNow();
  await poller.pollNow();
  poller.stop();
  assert.deepEqual(reported, [1]);
  assert.deepEqual(etags, [null, "a"]);
});

test("an outage is reported until the server is back", async () => {
  const errors: (string | undefined)[] = [];
  let isAway = true;
  const poller = new Poller("/jobs", 60_000, { data: () => undefined, error: (error) => errors.push(error?.code) }, async () => {
    if (isAway) throw new ApiError("The server is not responding.", 0, "unreachable");
    return { body: 1, etag: null };
  });
  await poller.pollNow();
  assert.equal(outage.get()?.message, "The server is not responding.");
  isAway = false;
  await poller.pollNow();
  poller.stop();
  assert.equal(outage.get(), null);
  assert.deepEqual(errors, ["unreachable", undefined]);
});

test("the delay grows with each failure and respects Retry-After", () => {
  assert.equal(retryDelayMs(2000, 0), 2000);
  assert.equal(retryDelayMs(2000, 1), 4000);
  assert.equal(retryDelayMs(2000, 9), 15_000);
  assert.equal(retryDelayMs(2000, 1, 30), 30_000);
});

test("a tail keeps the newest entries, each once", () => {
  const held = { items: [{ seq: 1 }, { seq: 2 }], hasOlder: false };
  assert.deepEqual(appendNewer(held, [{ seq: 2 }, { seq: 3 }], 5).items.map((item) => item.seq), [1, 2, 3]);
  assert.deepEqual(appendNewer(held, [{ seq: 3 }, { seq: 4 }], 3), { items: [{ seq: 2 }, { seq: 3 }, { seq: 4 }], hasOlder: true });
});

test("what is new while a request is under way is requested after it", async () => {
  const respond: (() => void)[] = [];
  const poller = new Poller("/jobs", 60_000, { data: () => undefined, error: () => undefined }, async () => {
    await new Promise<void>((resolve) => respond.push(resolve));
    return { body: 1, etag: null };
  });
  poller.pollSoon();
  poller.pollSoon();
  poller.pollSoon();
  assert.equal(respond.length, 1);
  respond[0]!();
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(respond.length, 2);
  respond[1]!();
  await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(respond.length, 2);
  poller.stop();
});
