import assert from "node:assert/strict";
import { test } from "node:test";
import { activityReporter } from "./session.ts";

test("what a person does is reported at once, and then at most once a minute", () => {
  let now = 0;
  let reports = 0;
  const report = activityReporter(() => { reports += 1; }, () => now);
  report();
  assert.equal(reports, 1);
  for (now of [1_000, 30_000, 59_999]) report();
  assert.equal(reports, 1);
  now = 60_000;
  report();
  assert.equal(reports, 2);
});
