import assert from "node:assert/strict";
import { test } from "node:test";
import { cellWidth, heatMap, opacity, scaleRange, ticks, type Sample } from "./exponents.ts";

const WINDOW = { min_subnormal: -24, min_normal: -14, max: 15 };
const sample = {
  step: 3,
  scales: { model: 1024 },
  layers: [
    {
      network: "model",
      layer: "hot",
      activations: { first_exponent: 14, counts: [1, 0, 3], zeros: 4 },
      weight_gradients: { first_exponent: -37, counts: [1, 1, 0, 0, 0, 2], zeros: 0 },
    },
    { network: "model", layer: "plain", activations: { first_exponent: 0, counts: [2], zeros: 0 } },
  ],
} as unknown as Sample;

test("a heat map has the share of every exponent, and whether the format has it", () => {
  const found = heatMap(sample, "activations", WINDOW);
  assert.deepEqual(found?.rows.map((row) => row.layer), ["hot", "plain"]);
  assert.deepEqual(found?.rows[0]?.cells, [
    { exponent: 14, share: 0.25, fit: "normal" },
    { exponent: 16, share: 0.75, fit: "outside" },
  ]);
  assert.equal(found?.rows[0]?.zeros, 0.5);
  assert.deepEqual(found?.window, { smallest: -24, normal: -14, largest: 15 });
});

test("the loss scale moves the window of gradients", () => {
  const found = heatMap(sample, "weight_gradients", WINDOW);
  assert.deepEqual(found?.window, { smallest: -34, normal: -24, largest: 5 });
  assert.deepEqual(found?.rows.map((row) => row.cells.map((cell) => cell.fit)), [["outside", "outside", "subnormal"]]);
});

test("a sample without such tensors has no heat map", () => {
  assert.equal(heatMap(sample, "activation_gradients", WINDOW), null);
});

test("cells, ticks and scales", () => {
  assert.ok(opacity(1e-6) > 0.1 && opacity(1) === 1);
  assert.deepEqual(ticks(-25, 16), [-24, -20, -16, -12, -8, -4, 0, 4, 8, 12, 16]);
  assert.deepEqual([scaleRange(null, null), scaleRange(3, 3), scaleRange(-2, 24)], ["none", "2³", "2⁻² to 2²⁴"]);
});

test("cells become narrower until all columns fit, and never too narrow to be seen", () => {
  assert.equal(cellWidth(20, 960), 16);
  assert.equal(cellWidth(100, 960), 9.6);
  assert.ok(cellWidth(277, 960) * 277 <= 960); // the exponents of float32
  assert.equal(cellWidth(277, 300), 3);
});
