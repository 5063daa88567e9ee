import assert from "node:assert/strict";
import { test } from "node:test";
import type { JobImage } from "../api/types.ts";
import { imagesAt, imageSteps } from "./run-images.ts";

const image = (name: string, step: number, path = `${name}/${step}`) => ({ name, step, path }) as JobImage;
const IMAGES = [image("b", 0), image("a", 5), image("a", 5, "second"), image("b", 10), image("a", 20)];

test("the steps of the slider are those with pictures, each once", () => {
  assert.deepEqual(imageSteps(IMAGES), [0, 5, 10, 20]);
  assert.deepEqual(imageSteps([]), []);
});

test("each name shows its pictures of the last step up to the chosen one", () => {
  const paths = (step: number) => imagesAt(IMAGES, step).map(([name, shown]) => [name, shown.map((one) => one.path)]);
  assert.deepEqual(paths(0), [["b", ["b/0"]]]);
  assert.deepEqual(paths(7), [["a", ["a/5", "second"]], ["b", ["b/0"]]]);
  assert.deepEqual(paths(20), [["a", ["a/20"]], ["b", ["b/10"]]]);
});
