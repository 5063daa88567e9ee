import assert from "node:assert/strict";
import { test } from "node:test";
import { isMetric, metricTitle, metricValue } from "./metrics.ts";

test("metrics have a title, and accuracies are percentages", () => {
  assert.equal(metricTitle("val_top-5_error"), "Validation top-5 error");
  assert.deepEqual(["val_loss", "loss"].map(isMetric), [true, false]);
  assert.equal(metricValue("val_accuracy", 0.875), "87.5 %");
  assert.equal(metricValue("val_accuracy", 12), "12");
  assert.equal(metricValue("val_loss", "NaN"), "NaN");
});
