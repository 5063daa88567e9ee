import assert from "node:assert/strict";
import { test } from "node:test";
import { pan, rangeFromQuery, zoomBy, zoomTo } from "./ranges.ts";

const ALL = [0, 1000] as const;

test("an address without a range means all steps", () => {
  assert.deepEqual(rangeFromQuery(new URLSearchParams("from=10&to=20")), [10, 20]);
  assert.equal(rangeFromQuery(new URLSearchParams("from=20&to=10")), null);
  assert.equal(rangeFromQuery(new URLSearchParams("")), null);
});

test("a selection becomes at least one whole step, and all steps are no range", () => {
  assert.deepEqual(zoomTo([10.4, 10.6], ALL), [10, 11]);
  assert.deepEqual(zoomTo([-5, 100.2], ALL), [0, 101]);
  assert.equal(zoomTo([-5, 2000], ALL), null);
});

test("zooming keeps the middle, and panning keeps the width", () => {
  assert.deepEqual(zoomBy([400, 600], 0.5, ALL), [450, 550]);
  assert.equal(zoomBy([100, 900], 2, ALL), null);
  assert.deepEqual(pan([400, 600], 1, ALL), [500, 700]);
  assert.deepEqual(pan([850, 950], 1, ALL), [900, 1000]);
  assert.deepEqual(pan([20, 120], -1, ALL), [0, 100]);
});
