import assert from "node:assert/strict";
import { test } from "node:test";
import { createdBounds, dayText } from "./dates.ts";

const NOON = new Date(2026, 2, 15, 12);
const bounds = (created: string, from = "", to = "") => createdBounds({ created, from, to }, NOON);
const local = (month: number, day: number) => new Date(2026, month - 1, day);

test("the last seven days begin at midnight and include today", () => {
  assert.equal(bounds("7d").created_after, new Date(local(3, 9).getTime() - 1).toISOString());
  assert.equal(bounds("1d").created_after, new Date(local(3, 15).getTime() - 1).toISOString());
  assert.equal(bounds("7d").created_before, "");
});

test("the query of a range of days does not change during a day", () => {
  const evening = createdBounds({ created: "30d", from: "", to: "" }, new Date(2026, 2, 15, 23, 59));
  assert.deepEqual(evening, bounds("30d"));
});

test("a list between two days has both of them", () => {
  const { created_after, created_before } = bounds("", "2026-02-01", "2026-02-28");
  assert.equal(created_after, new Date(local(2, 1).getTime() - 1).toISOString());
  assert.equal(created_before, local(3, 1).toISOString());
});

test("what is no day is no filter", () => {
  for (const text of ["", "yesterday", "2026-02-30", "2026-2-1"]) {
    assert.deepEqual(bounds("", text, text), { created_after: "", created_before: "" });
  }
  assert.equal(bounds("0d").created_after, "");
  assert.equal(dayText(local(3, 5)), "2026-03-05");
});
