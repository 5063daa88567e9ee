import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { age, bytes, duration, factor, integer, number, percent, power, lossScale, scaleHealth } from "./format.ts";

type Example = [value: number | string | null, text: string];
const examples: Record<string, Example[]> = JSON.parse(readFileSync(join(import.meta.dirname, "../../../tests/number_formats.json"), "utf8"));
const WRITE: Record<string, (value: never) => string> = {
  number: (value) => number(value), percent, duration, bytes, factor, integer,
  age: (seconds) => age(new Date(0).toISOString(), 1000 * seconds),
};

test("numbers are written by the rule of ampctl", () => {
  assert.deepEqual(Object.keys(examples).toSorted(), Object.keys(WRITE).toSorted());
  for (const [kind, rows] of Object.entries(examples)) {
    assert.deepEqual(rows.map(([value]) => WRITE[kind]!(value as never)), rows.map(([, text]) => text), kind);
  }
});

test("a narrow number has fewer digits, and never fewer than its integer part", () => {
  assert.deepEqual([number(123.4, 2), number(0.0123, 2), number(9.99, 2)], ["123", "0.012", "10"]);
});

test("the health of a loss scale is a text", () => {
  assert.equal(scaleHealth("pinned at the floor"), "at minimum scale");
  assert.equal(scaleHealth("steady"), "steady");
  assert.equal(scaleHealth(null), "");
});

test("a loss scale that is a power of two is shown as one", () => {
  assert.equal(lossScale(32768), "2¹⁵");
  assert.equal(lossScale(0.5), "2⁻¹");
  assert.equal(lossScale(1000), "1,000");
  assert.equal(lossScale(1.0995116e12), "2⁴⁰");
  assert.equal(power(-96), "2⁻⁹⁶");
});
