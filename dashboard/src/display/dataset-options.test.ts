import assert from "node:assert/strict";
import { test } from "node:test";
import { distinctText, optionsText, splitsText } from "./dataset-options.ts";

test("options with usual values are left out", () => {
  const options = { kind: "csv", delimiter: ";", header: true, encoding: "utf-8", quote: '"', thousands: "", dtypes: {}, skip_lines: 0 };
  assert.equal(optionsText(options), 'delimiter ";", header true');
  assert.equal(optionsText(null), "");
});

test("splits have their rows", () => {
  assert.equal(splitsText({ train: 1200, test: 30 }), "train 1,200, test 30");
  assert.equal(splitsText({}), "");
});

test("different values are counted up to a thousand", () => {
  assert.deepEqual([distinctText({ distinct: 3 }), distinctText({ distinct: null }), distinctText(null)], ["3", "over 1,000", ""]);
});
