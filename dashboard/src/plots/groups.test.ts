import assert from "node:assert/strict";
import { test } from "node:test";
import type { Curve } from "./curves.ts";
import { groupPanel } from "./groups.ts";
import { MAX_X, nearestIndex, resample, thinned } from "./resample.ts";

const curve = (name: string, mean: Curve["mean"]): Curve => ({ name, mean, low: null, high: null, nonFinite: new Map() });

test("a line is straight between its points, ends with them, and keeps its gaps", () => {
  assert.deepEqual(resample([0, 2, 4, 6], [0, 4, null, 1], [-1, 0, 1, 2, 3, 6, 7]), [undefined, 0, 2, 4, null, 1, undefined]);
});

test("an axis of very many x becomes a grid of few", () => {
  const many = Array.from({ length: MAX_X + 1 }, (_, index) => index);
  const grid = thinned(many);
  assert.deepEqual([grid.length, grid[0], grid.at(-1)], [500, 0, MAX_X]);
  assert.deepEqual(thinned([1, 5]), [1, 5]);
  assert.deepEqual([nearestIndex([0, 10, 20], 14), nearestIndex([0, 10, 20], 16)], [1, 2]);
});

test("a group has the mean of its curves and a band, also where one of them has no point", () => {
  const panel = { key: "loss", title: "Loss", isLossScale: false, curves: [curve("a", [1, undefined, 3]), curve("b", [3, 4, undefined]), curve("c", [9, 9, 9])] };
  const [both, other] = groupPanel(panel, [0, 1, 2], [{ name: "lr=1", members: [0, 1] }, { name: "lr=2", members: [2] }]).curves;
  assert.deepEqual([both!.mean, both!.low, both!.high], [[2, 3, 3], [1, 2, 3], [3, 4, 3]]);
  assert.deepEqual([other!.name, other!.mean], ["lr=2", [9, 9, 9]]);
});
