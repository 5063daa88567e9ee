import assert from "node:assert/strict";
import { test } from "node:test";
import type { Event } from "../api/types.ts";
import { groupEvents, stepsOf } from "./event-groups.ts";

function overflow(step: number, data: object = {}, type = "overflow"): Event {
  const created_at = "2026-01-01T00:00:00Z";
  return { seq: step, type, step, attempt: 1, created_at, data: { scale_before: 2 ** step, scale_after: 1, ...data } } as Event;
}

const sizes = (events: Event[]) => groupEvents(events).map((group) => group.events.length);

test("200 overflows in a row are one group with their steps", () => {
  const [group, ...others] = groupEvents(Array.from({ length: 200 }, (_, step) => overflow(step)));
  assert.equal(group!.events.length, 200);
  assert.deepEqual(stepsOf(group!), [0, 199]);
  assert.equal(others.length, 0);
});

test("an event with another cause, layer, code or attempt is never hidden in a group", () => {
  const same = [0, 1, 2].map((step) => overflow(step, { origin: "gradients", layer: "dense" }));
  const other = overflow(3, { origin: "gradients", layer: "dense_1x" });
  assert.deepEqual(sizes([...same, other, ...same]), [3, 1, 3]);
  const warnings = ["a", "a", "a", "b", "a"].map((code, step) => overflow(step, { code, message: `Step ${step}.` }, "warning"));
  assert.deepEqual(sizes(warnings), [3, 1, 1]);
  assert.deepEqual(sizes([...same, { ...same[0]!, attempt: 2 }]), [3, 1]);
});

test("allocations that end the same way again and again are one group", () => {
  const ended = (n: number, state: string) =>
    overflow(0, { message: `Slurm job ${4710 + n} has ended before a worker ran it: ${state}.`, name: `ampcore-0a1-1-${n}` }, "allocation");
  assert.deepEqual(sizes([1, 2, 10].map((n) => ended(n, "NODE_FAIL"))), [3]);
  assert.deepEqual(sizes([...[1, 2, 3].map((n) => ended(n, "NODE_FAIL")), ended(4, "TIMEOUT")]), [3, 1]);
});

test("two events are shown one by one, and so are all evaluations", () => {
  assert.deepEqual(sizes([overflow(0), overflow(1)]), [1, 1]);
  assert.deepEqual(sizes([0, 1, 2, 3].map((step) => overflow(step, {}, "evaluation"))), [1, 1, 1, 1]);
  assert.deepEqual(sizes([]), []);
});

test("a value that is not finite is a number like any other", () => {
  assert.deepEqual(sizes([1, "NaN", "Infinity"].map((loss, step) => overflow(step, { loss }))), [3]);
});
