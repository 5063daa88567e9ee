import assert from "node:assert/strict";
import { test } from "node:test";
import { outage } from "./connection.ts";
import { delayOf, Poller } from "./poller.ts";
import { ApiError } from "./request.ts";
import { withNewer } from "./tail.ts";

test("what has not changed is asked for by its etag, and told once", async () => {
  const told: unknown[] = [];
  const etags: unknown[] = [];
  const poller = new Poller("/jobs", 60_000, { data: (body) => told.push(body), error: () => undefined }, async (_, { etag }) => {
    etags.push(etag);
    return etag === null ? { body: 1, etag: "a" } : null;
  });
  await poller.now();
  await poller.now();
  poller.stop();
  assert.deepEqual(told, [1]);
  assert.deepEqual(etags, [null, "a"]);
});

test("an outage is told until the server is back", async () => {
  const errors: (string | undefined)[] = [];
  let isAway = true;
  const poller = new Poller("/jobs", 60_000, { data: () => undefined, error: (error) => errors.push(error?.code) }, async () => {
    if (isAway) throw new ApiError("The server does not answer.", 0, "unreachable");
    return { body: 1, etag: null };
  });
  await poller.now();
  assert.equal(outage.get()?.message, "The server does not answer.");
  isAway = false;
  await poller.now();
  poller.stop();
  assert.equal(outage.get(), null);
  assert.deepEqual(errors, ["unreachable", undefined]);
});

test("failures are waited out longer and longer, and as long as the server says", () => {
  assert.equal(delayOf(2000, 0), 2000);
  assert.equal(delayOf(2000, 1), 4000);
  assert.equal(delayOf(2000, 9), 15_000);
  assert.equal(delayOf(2000, 1, 30), 30_000);
});

test("a tail keeps the newest entries, each once", () => {
  const held = { items: [{ seq: 1 }, { seq: 2 }], hasOlder: false };
  assert.deepEqual(withNewer(held, [{ seq: 2 }, { seq: 3 }], 5).items.map((item) => item.seq), [1, 2, 3]);
  assert.deepEqual(withNewer(held, [{ seq: 3 }, { seq: 4 }], 3), { items: [{ seq: 2 }, { seq: 3 }, { seq: 4 }], hasOlder: true });
});
