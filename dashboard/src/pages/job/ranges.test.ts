import assert from "node:assert/strict";
import { test } from "node:test";
import { moved, rangeOf, scaled, zoomedTo } from "./ranges.ts";

const ALL = [0, 1000] as const;

test("an address names a range, or all of it", () => {
  assert.deepEqual(rangeOf(new URLSearchParams("from=10&to=20")), [10, 20]);
  assert.equal(rangeOf(new URLSearchParams("from=20&to=10")), null);
  assert.equal(rangeOf(new URLSearchParams("")), null);
});

test("a selection becomes whole steps, at least one, and all of them is no range", () => {
  assert.deepEqual(zoomedTo([10.4, 10.6], ALL), [10, 11]);
  assert.deepEqual(zoomedTo([-5, 100.2], ALL), [0, 101]);
  assert.equal(zoomedTo([-5, 2000], ALL), null);
});

test("zooming keeps the middle, and moving keeps the width", () => {
  assert.deepEqual(scaled([400, 600], 0.5, ALL), [450, 550]);
  assert.equal(scaled([100, 900], 2, ALL), null);
  assert.deepEqual(moved([400, 600], 1, ALL), [500, 700]);
  assert.deepEqual(moved([850, 950], 1, ALL), [900, 1000]);
  assert.deepEqual(moved([20, 120], -1, ALL), [0, 100]);
});
