import assert from "node:assert/strict";
import { test } from "node:test";
import { placeOf } from "../../address.ts";
import { addressOf, filtersOf, isNarrowed, listingOf } from "./filters.ts";

const ADDRESS = "#/jobs?state=running&state=queued&label=team%3Dvision&q=a+b&policy=O2";

test("filters survive the way into an address and back", () => {
  const filters = filtersOf(placeOf(ADDRESS).query);
  assert.deepEqual(filters.states, ["running", "queued"]);
  assert.equal(filters.q, "a b");
  assert.deepEqual(filtersOf(placeOf(addressOf(filters)).query), filters);
});

test("another filter leads back to the first page", () => {
  const filters = filtersOf(placeOf(`${ADDRESS}&cursor=abc`).query);
  assert.equal(filters.cursor, "abc");
  assert.ok(!addressOf(filters, { q: "c" }).includes("cursor"));
});

test("the API is asked for what the address says", () => {
  assert.equal(listingOf(filtersOf(new URLSearchParams(""))), "/jobs?limit=50&sort=-created_at");
  assert.ok(listingOf(filtersOf(placeOf(ADDRESS).query)).includes("label=team%3Dvision"));
  assert.ok(isNarrowed(filtersOf(placeOf(ADDRESS).query)));
});
