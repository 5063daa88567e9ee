import assert from "node:assert/strict";
import { test } from "node:test";
import { countsText, finiteText, foldedStart, placeText } from "./explanations.ts";

test("counts name non-finite values only where there are some", () => {
  assert.equal(countsText({ inf: 0, nan: 0, largest: 0.5 }), "largest 0.5");
  assert.equal(countsText({ inf: 3, nan: 1, largest: "Infinity" }), "3 inf, 1 NaN, largest ∞");
});

test("a computation with a non-finite loss is not called finite", () => {
  const row = { dtype: "float16", loss_scale: 1, finite_loss: false, finite_gradients: true };
  assert.equal(finiteText(row), "the loss or an output is not finite");
  assert.equal(finiteText({ ...row, finite_loss: true }), "finite");
});

test("a folded list is shown around the marked row", () => {
  const rows = Array.from({ length: 20 }, (_, index) => ({ is_first: index === 15 }));
  assert.equal(foldedStart(rows, 6), 12);
  assert.equal(foldedStart(rows.slice(0, 4), 6), 0);
  assert.equal(foldedStart(Array.from({ length: 20 }, () => ({})), 6), 0);
});

test("the place of an example names what is known of it", () => {
  const place = { file: null, row: null, character: null };
  assert.equal(placeText({ ...place, file: "birds.csv", row: 812 }), "row 812 of birds.csv");
  assert.equal(placeText({ ...place, row: 3 }), "row 3 of the data");
  assert.equal(placeText({ ...place, file: "a.txt", character: 65 }), "character 65 of a.txt");
  assert.equal(placeText({ ...place, file: "birds.zip/owl/7.png" }), "birds.zip/owl/7.png");
  assert.equal(placeText(null) + placeText(undefined), "");
});
