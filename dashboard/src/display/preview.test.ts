import assert from "node:assert/strict";
import { test } from "node:test";
import { cellText, pictureUrls, previewTable } from "./preview.ts";

test("rows of objects have a column for each name", () => {
  const table = previewTable([{ x: 1 }, { x: 2, y: [3, null] }], []);
  assert.deepEqual(table, { names: ["x", "y"], rows: [["1", ""], ["2", "[3,null]"]] });
});

test("rows of lists take the names of the columns", () => {
  const table = previewTable([[1, "a"], [2]], [{ name: "id" }]);
  assert.deepEqual(table, { names: ["id", "1"], rows: [["1", "a"], ["2", ""]] });
});

test("rows of single values are one column", () => {
  assert.deepEqual(previewTable(["a", "b"], [{ name: "line" }]), { names: ["line"], rows: [["a"], ["b"]] });
});

test("no rows are an empty table", () => {
  assert.deepEqual(previewTable([], []), { names: [], rows: [] });
});

test("long text is cut", () => {
  assert.equal(cellText("x".repeat(200)).length, 80);
});

test("only base64 becomes a picture", () => {
  const pictures = ["aGk=", "data:image/png;base64,aGk=", "javascript:alert(1)", 7, { png: "aGk=", caption: "cat" }];
  assert.deepEqual(pictureUrls(pictures), [
    { url: "data:image/png;base64,aGk=", caption: "" },
    { url: "data:image/png;base64,aGk=", caption: "" },
    { url: "data:image/png;base64,aGk=", caption: "cat" },
  ]);
});
