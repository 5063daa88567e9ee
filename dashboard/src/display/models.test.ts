import assert from "node:assert/strict";
import { test } from "node:test";
import type { AliasChange, ModelFile, ModelVersion } from "../api/types.ts";
import { changeText, fileNote, lineageRows, metricsText } from "./models.ts";

const version = {
  metrics: { val_accuracy: 0.9125, val_loss: 0.25 },
  lineage: { data: { reference: null, source: { kind: "digits" } }, code: { kind: "mlp" }, precision: { policy: "float32" }, study: null, seeds: { train: 0 } },
} as unknown as ModelVersion;

test("the lineage has what is known, with a seed of 0", () => {
  assert.deepEqual(lineageRows(version), [["Data", "digits"], ["Code", "mlp"], ["Policy", "float32"], ["Training seed", "0"]]);
});

test("metrics are written with their names", () => {
  assert.match(metricsText(version), /^val_accuracy 91\.\d+ ?%, val_loss 0\.25$/);
  assert.equal(metricsText(version, 0), "");
});

test("a format without a file has the reason", () => {
  assert.equal(fileNote({ format: "onnx", state: "failed", reason: "no Erfc" } as ModelFile), "failed: no Erfc");
  assert.equal(fileNote({ format: "onnx", state: "available", checked: "32 rows" } as ModelFile), "32 rows");
});

test("changes of aliases are sentences", () => {
  const change = { alias: "champion", from_number: null, to_number: 2, outcome: "set" } as AliasChange;
  assert.equal(changeText(change), "champion: no version → version 2");
  assert.equal(changeText({ ...change, from_number: 1, outcome: "promoted" }), "champion: version 1 → version 2, promoted");
  assert.equal(changeText({ ...change, outcome: "undecided" }), "promotion of version 2 to champion: undecided");
  assert.equal(changeText({ ...change, from_number: 1, to_number: null, outcome: "removed" }), "champion was removed from version 1");
});
