import assert from "node:assert/strict";
import { test } from "node:test";
import { dataSummary } from "./data-summary.ts";

const STARTED = {
  total_steps: 8,
  data: {
    train: 1600,
    validation: 400,
    validation_rows: "random",
    columns: [
      { name: "wing (cm)", role: "input", dtype: "float64", preparation: "normalize" },
      { name: "ring", role: "left_out", dtype: "int64" },
    ],
    column_count: 300,
    targets: { output: { kind: "class", size: 2, classes: [{ name: "crow", examples: 1600 }, { name: "tit", examples: 0 }] } },
    left_out: [{ name: "rabbit", reason: "an empty folder" }],
    left_out_count: 1,
  },
};

test("a summary says how many rows are trained on, and lists columns, classes and what is left out", () => {
  assert.deepEqual(dataSummary(STARTED as never), {
    sentence: "Trains on 1,600 rows, 400 are for validation (chosen at random).",
    tables: [
      { title: "Columns", heads: ["Column", "Role", "Type", "Preparation"], rows: [["wing (cm)", "input", "float64", "normalize"], ["ring", "not used", "int64", ""]], more: 298 },
      { title: "Classes", heads: ["Class", "Training examples"], rows: [["crow", "1,600"], ["tit", "0"]], more: 0 },
      { title: "Left out", heads: ["Name", "Reason"], rows: [["rabbit", "an empty folder"]], more: 0 },
    ],
  });
});

test("data without columns have a sentence only", () => {
  assert.deepEqual(dataSummary({ data: { train: 10, validation: 0, targets: { output: { kind: "numbers", size: 1 } } } }), {
    sentence: "Trains on 10 rows, none are for validation.",
    tables: [],
  });
});

test("rows without a target are counted", () => {
  const started = { data: { train: 10, validation: 4, validation_rows: "last", train_left_out: 3, validation_left_out: 1 } };
  assert.equal(
    dataSummary(started)?.sentence,
    "Trains on 10 rows, 4 are for validation (the last rows). Rows without a target are left out: 3 to train on, 1 for validation.",
  );
});

test("an event of an older worker, and one of another form, have no summary", () => {
  for (const started of [undefined, {}, { data: 7 }, { data: null }, { data: [] }, { data: { train: "many" } }]) assert.equal(dataSummary(started as never), null);
});
