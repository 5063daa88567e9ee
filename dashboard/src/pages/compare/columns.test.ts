import assert from "node:assert/strict";
import { test } from "node:test";
import type { Comparison } from "../../api/types.ts";
import { parseRoute, routeHref } from "../../router.ts";
import { bestOrder, comparedColumns, groupable, groupsOf, isHigherBetter } from "./columns.ts";
import { compareValues, parseCompareQuery } from "./query.ts";

const comparison = {
  jobs: ["a", "b", "c"].map((id) => ({ job: { id, name: id }, speedup: null, loss_drift: null })),
  spec: [{ pointer: "/name", values: ["a", "b", "c"] }, { pointer: "/optimizer/learning_rate", values: [0.1, 0.01, 0.1] }],
  results: [
    { name: "state", values: ["succeeded", "succeeded", "succeeded"] },
    { name: "last_loss", values: [1, 2, 3] },
    { name: "final_loss", values: [0.5, "NaN", 0.25] },
    { name: "val_accuracy", values: [0.9, 0.95, null] },
    { name: "peak_memory_bytes", values: [null, null, null] },
  ],
} as unknown as Comparison;

test("columns that differ come first, and those without a value are left out", () => {
  const columns = comparedColumns(comparison);
  assert.deepEqual(columns.map(({ title, differs }) => [title, differs]), [
    ["optimizer.learning_rate", true], ["final loss", true], ["validation accuracy", true], ["state", false],
  ]);
  assert.deepEqual(columns[1]!.texts, ["0.5", "NaN", "0.25"]);
  assert.deepEqual(columns[2]!.texts, ["90 %", "95 %", "–"]);
});

test("the best job comes first, and one without a finite value last", () => {
  const [, loss, accuracy] = comparedColumns(comparison);
  assert.deepEqual(bestOrder(loss!, isHigherBetter(loss!.key)), [2, 0, 1]);
  assert.deepEqual(bestOrder(accuracy!, isHigherBetter(accuracy!.key)), [1, 0, 2]);
});

test("jobs are grouped by a column with repeated values", () => {
  const [rate] = groupable(comparedColumns(comparison));
  assert.deepEqual(groupsOf(rate!), [
    { name: "optimizer.learning_rate=0.01 (1)", members: [1] }, { name: "optimizer.learning_rate=0.1 (2)", members: [0, 2] },
  ]);
});

test("what is set comes back from the address", () => {
  const query = parseCompareQuery(new URLSearchParams("jobs=a,b&baseline=b&by=time&view=scatter&group=/seed&best=val_loss&order=highest&axis=/a&axis=b&scatter-x=/a&scatter-y=b&smooth=0.5&log=loss"));
  assert.deepEqual(parseCompareQuery(parseRoute(routeHref(["compare"], compareValues(query))).query), query);
});
