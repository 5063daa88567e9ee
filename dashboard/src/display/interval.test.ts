import assert from "node:assert/strict";
import { test } from "node:test";
import { intervalScale } from "./interval.ts";

test("zero is in the middle, and everything lies inside of the plot", () => {
  const x = intervalScale([[-3, 1], [0, 2]], 1, 100);
  assert.equal(x(0), 50);
  assert.equal(x(-3) >= 0 && x(2) <= 100, true);
  assert.equal(Math.abs(x(3) + x(-3) - 2 * x(0)) < 1e-9, true);
});

test("without any differences the noise band fills the plot", () => {
  const x = intervalScale([], 0.5, 100);
  assert.equal(x(0.5) > 90 && x(0.5) <= 100, true);
});

test("results without noise and differences have a scale, too", () => {
  assert.equal(intervalScale([[0, 0]], 0, 100)(0), 50);
});
