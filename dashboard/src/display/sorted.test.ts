import assert from "node:assert/strict";
import { test } from "node:test";
import { sortedBy } from "./sorted.ts";

test("rows are sorted by numbers and by texts, and empty values come last", () => {
  const rows = [{ a: 2, b: "x" }, { a: 10, b: null }, { a: 1, b: "y" }];
  assert.deepEqual(sortedBy(rows, "a", true).map((row) => row.a), [10, 2, 1]);
  assert.deepEqual(sortedBy(rows, "b", true).map((row) => row.b), ["y", "x", null]);
  assert.deepEqual(sortedBy(rows, "b", false).map((row) => row.b), ["x", "y", null]);
});
