import assert from "node:assert/strict";
import { test } from "node:test";
import { tickFormatter } from "./tick-texts.ts";

const texts = (ticks: number[], isLossScale = false) => ticks.map(tickFormatter(ticks, isLossScale));

test("ticks are written with the digits that tell them apart", () => {
  assert.deepEqual(texts([0, 2500, 5000, 10_000, 12_500]), ["0", "2,500", "5,000", "10K", "12.5K"]);
  assert.deepEqual(texts([402_100_000, 402_200_000, 402_300_000]), ["402.1M", "402.2M", "402.3M"]);
  assert.deepEqual(texts([1000.5, 1001]), ["1,000.5", "1,001"]);
  assert.deepEqual(texts([0.1, 0.30000000000000004]), ["0.1", "0.3"]);
});

test("powers of two are the ticks of a loss scale", () => {
  assert.deepEqual(texts([1024, 65_536], true), ["2¹⁰", "2¹⁶"]);
});
