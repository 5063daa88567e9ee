import assert from "node:assert/strict";
import { test } from "node:test";
import { shortNames } from "./short-names.ts";

const short = (...names: string[]) => shortNames(names.map((name, index) => ({ id: `${index}${index}aaaaaa`, name })));

test("words that all names share are left out", () => {
  assert.deepEqual(short("digits policy=float32", "digits policy=mixed_float16"), ["float32", "mixed_float16"]);
  assert.deepEqual(short("cnn, float32, seed 1", "cnn, bfloat16, seed 1"), ["float32", "bfloat16"]);
  assert.deepEqual(short("mixed_float16", "mixed_bfloat16"), ["mixed_float16", "mixed_bfloat16"]);
  assert.deepEqual(short("lr-1e-3", "lr-1e-4"), ["1e-3", "1e-4"]);
});

test("equal names get the beginning of their ids, and one job keeps its name", () => {
  assert.deepEqual(short("digits run", "digits run"), ["run 00aaaa", "run 11aaaa"]);
  assert.deepEqual(short("digits run"), ["digits run"]);
});

test("no name becomes empty", () => {
  assert.deepEqual(short("digits", "digits float16"), ["digits", "digits float16"]);
});
