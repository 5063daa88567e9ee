import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenIds, columnPx, COLUMNS, columnsOf, DEFAULT_COLUMNS, fittingColumns, moved, nextSort, sortDirection } from "./columns.ts";

const ids = (columns: readonly { id: string }[]) => columns.map(({ id }) => id);
const PAGE_AT_1280_PX = 1216;
const PAGE_AT_375_PX = 351;

test("all columns that are shown at first fit into a window of 1280 pixels", () => {
  const { shown, hidden } = fittingColumns(columnsOf(DEFAULT_COLUMNS, "val_loss"), PAGE_AT_1280_PX);
  assert.deepEqual(hidden, []);
  assert.equal(shown.length, DEFAULT_COLUMNS.length);
});

test("however many columns are chosen, those that are shown fit", () => {
  const all = columnsOf(ids(COLUMNS), "val_loss");
  for (let width = 320; width < 3000; width += 7) {
    const { shown, hidden } = fittingColumns(all, width);
    const used = shown.reduce((sum, column) => sum + columnPx(column, width), 36);
    assert.ok(used <= width, `${used} > ${width}`);
    assert.equal(shown.length + hidden.length, all.length);
  }
});

test("a phone shows the name, the state and the progress", () => {
  const { shown } = fittingColumns(columnsOf(DEFAULT_COLUMNS, "val_loss"), PAGE_AT_375_PX);
  assert.deepEqual(ids(shown), ["name", "state", "progress"]);
});

test("the column of the metric follows the list, and appears once", () => {
  assert.deepEqual(ids(columnsOf(["name", "metric", "val_loss"], "val_loss")), ["name", "val_loss"]);
  assert.deepEqual(ids(columnsOf(["metric", "val_loss"], "val_auc")), ["val_auc", "val_loss"]);
});

test("unknown columns are left out, and the name is always shown", () => {
  assert.deepEqual(chosenIds(["state", "colour", "val_auc", "state"]), ["name", "state", "val_auc"]);
  assert.deepEqual(chosenIds([]), DEFAULT_COLUMNS);
});

test("a column moves by a place and stays at an end", () => {
  assert.deepEqual(moved(["a", "b", "c"], "b", 1), ["a", "c", "b"]);
  assert.deepEqual(moved(["a", "b", "c"], "a", -1), ["a", "b", "c"]);
  assert.deepEqual(moved(["a", "b"], "c", 1), ["a", "b"]);
});

test("a second click on a heading reverses the order", () => {
  const [name, state] = [COLUMNS[0]!, COLUMNS[1]!];
  assert.equal(nextSort(name, "-created_at"), "name");
  assert.equal(nextSort(name, "name"), "-name");
  assert.equal(nextSort(state, "name"), "name");
  const metric = columnsOf(["val_auc"], "val_loss")[0]!;
  assert.equal(nextSort(metric, "name"), "-val_auc");
  assert.equal(nextSort(metric, "-val_auc"), "val_auc");
  assert.equal(sortDirection(metric, "-val_auc"), "descending");
  assert.equal(sortDirection(metric, "name"), undefined);
  const age = COLUMNS.find(({ id }) => id === "age")!;
  assert.equal(sortDirection(age, "-created_at"), "ascending");
  assert.equal(nextSort(age, "-created_at"), "created_at");
});
