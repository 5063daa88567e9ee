import assert from "node:assert/strict";
import { test } from "node:test";
import type { Curve } from "./curves.ts";
import { smooth, smoothPanel } from "./smoothing.ts";

test("smoothing keeps a constant, gaps and the first value, and follows a jump by its weight", () => {
  assert.deepEqual(smooth([3, null, 3, undefined, 3], 0.9).map((value) => value && Math.round(value * 1e9) / 1e9), [3, null, 3, undefined, 3]);
  assert.deepEqual(smooth([1, 2, 3], 0), [1, 2, 3]);
  const [first, second] = smooth([0, 1], 0.5);
  assert.equal(first, 0);
  assert.ok(Math.abs(second! - 2 / 3) < 1e-12);
});

test("a smoothed curve has its raw values, and what is exact stays so", () => {
  const curve: Curve = { name: "loss", mean: [0, 1], low: [0, 0], high: [1, 1], nonFinite: new Map() };
  const panel = { key: "loss", title: "Loss", isLossScale: false, curves: [curve, { ...curve, hasPoints: true }] };
  const [line, points] = smoothPanel(panel, 0.5).curves;
  assert.deepEqual([line!.raw, line!.low], [[0, 1], null]);
  assert.deepEqual(points, panel.curves[1]);
  assert.equal(smoothPanel({ ...panel, isLossScale: true }, 0.5).curves[0], curve);
});
