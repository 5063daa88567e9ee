import assert from "node:assert/strict";
import { test } from "node:test";
import type { ListedJob } from "../../api/types.ts";
import { changedBy, coverage, jobCount, NOTHING, rangeOf, refreshed, selecting, whyNotCompared } from "./selection.ts";

const job = (id: string, state = "queued") => ({ id, state }) as ListedJob;

test("jobs are added to the selection and taken from it", () => {
  const selection = selecting(NOTHING, [job("a"), job("b")], true);
  assert.deepEqual([...selecting(selection, [job("a")], false).keys()], ["b"]);
  assert.equal(NOTHING.size, 0);
});

test("a selected job is known as it was listed last, and keeps its place", () => {
  const selection = selecting(NOTHING, [job("a"), job("b")], true);
  const later = refreshed(selection, [job("a", "cancelled"), job("c")]);
  assert.deepEqual([...later.values()], [job("a", "cancelled"), job("b")]);
  assert.equal(refreshed(selection, [job("c")]), selection);
});

test("a range goes from the row that was clicked last to this one, in both directions", () => {
  const ids = ["a", "b", "c", "d"];
  assert.deepEqual(rangeOf(ids, "b", "d"), ["b", "c", "d"]);
  assert.deepEqual(rangeOf(ids, "d", "b"), ["b", "c", "d"]);
  assert.deepEqual(rangeOf(ids, null, "c"), ["c"]);
  assert.deepEqual(rangeOf(ids, "on another page", "c"), ["c"]);
});

test("the box of the page says whether none, some or all of its jobs are selected", () => {
  const selection = selecting(NOTHING, [job("a"), job("elsewhere")], true);
  assert.equal(coverage(selection, ["b"]), "none");
  assert.equal(coverage(selection, ["a", "b"]), "some");
  assert.equal(coverage(selection, ["a"]), "all");
  assert.equal(coverage(selection, []), "none");
});

test("only unfinished jobs are cancelled, and only ended ones deleted", () => {
  const states = ["queued", "running", "paused", "stopping", "succeeded", "failed", "cancelled"];
  const selection = selecting(NOTHING, states.map((state) => job(state, state)), true);
  assert.deepEqual(changedBy("cancel", selection), ["queued", "running", "paused"]);
  assert.deepEqual(changedBy("delete", selection), ["succeeded", "failed", "cancelled"]);
  assert.equal(changedBy("label", selection).length, states.length);
});

test("two to 100 jobs can be compared", () => {
  const some = (count: number) => selecting(NOTHING, Array.from({ length: count }, (_, index) => job(`${index}`)), true);
  assert.equal(whyNotCompared(some(2)), null);
  assert.equal(whyNotCompared(some(100)), null);
  assert.match(whyNotCompared(some(1)) ?? "", /2 to 100/);
  assert.match(whyNotCompared(some(101)) ?? "", /2 to 100/);
  assert.deepEqual([jobCount(1), jobCount(1200)], ["1 job", "1,200 jobs"]);
});
