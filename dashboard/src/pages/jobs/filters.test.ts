import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRoute } from "../../router.ts";
import { filterCount, filtersHref, parseFilters, hasFilters, jobsPath, listedMetric, studyJobsPath, withoutFilters } from "./filters.ts";

const ADDRESS = "#/jobs?state=running&state=queued&label=team%3Dvision&metric=val_auc%3C0.5&q=a+b&policy=O2";

test("filters are the same after a round trip through the address", () => {
  const filters = parseFilters(parseRoute(ADDRESS).query);
  assert.deepEqual(filters.states, ["running", "queued"]);
  assert.equal(filters.q, "a b");
  assert.deepEqual(parseFilters(parseRoute(filtersHref(filters)).query), filters);
});

test("a changed filter goes back to the first page", () => {
  const filters = parseFilters(parseRoute(`${ADDRESS}&cursor=abc`).query);
  assert.equal(filters.cursor, "abc");
  assert.ok(!filtersHref(filters, { q: "c" }).includes("cursor"));
});

test("the API path has the filters of the address", () => {
  assert.equal(jobsPath(parseFilters(new URLSearchParams(""))), "/jobs?limit=50&fold_studies=true&sort=-created_at");
  assert.ok(jobsPath(parseFilters(parseRoute(ADDRESS).query)).includes("label=team%3Dvision"));
  assert.ok(hasFilters(parseFilters(parseRoute(ADDRESS).query)));
});

test("a change of columns stays on the page, and they are no part of the API's query", () => {
  const filters = parseFilters(parseRoute(`${ADDRESS}&cursor=abc`).query);
  const href = filtersHref(filters, { columns: ["name", "age"] });
  assert.ok(href.includes("cursor=abc") && href.includes("columns=name%2Cage"));
  const shown = parseFilters(parseRoute(href).query);
  assert.equal(jobsPath(shown), jobsPath(filters));
  assert.equal(withoutFilters(shown), "#/jobs?columns=name%2Cage");
});

test("a range of days is sent as times", () => {
  const noon = new Date(2026, 2, 15, 12);
  const path = jobsPath(parseFilters(new URLSearchParams("from=2026-03-01&to=2026-03-02")), noon);
  const query = new URLSearchParams(path.split("?")[1]);
  assert.equal(Date.parse(query.get("created_before")!) - Date.parse(query.get("created_after")!), 2 * 86_400_000 + 1);
  assert.equal(filterCount(parseFilters(new URLSearchParams("from=2026-03-01&to=2026-03-02&state=failed"))), 2);
});

test("explanations are listed only on request", () => {
  const shown = parseFilters(parseRoute(filtersHref(parseFilters(parseRoute(ADDRESS).query), { explanations: true })).query);
  assert.ok(shown.explanations);
  assert.ok(jobsPath(shown).includes("explanations=true"));
  assert.ok(!filtersHref(shown, { explanations: false }).includes("explanations"));
});

test("a list shows the metric that it is sorted or filtered by", () => {
  const shown = (query: string) => listedMetric(parseFilters(new URLSearchParams(query)));
  assert.equal(shown(""), "val_loss");
  assert.equal(shown("sort=-val_accuracy&metric=val_auc%3C1"), "val_accuracy");
  assert.equal(shown("sort=name&metric=val_auc%20%3E%3D%201"), "val_auc");
});

test("studies are folded unless their jobs are asked for", () => {
  const path = (query: string) => jobsPath(parseFilters(new URLSearchParams(query)));
  assert.ok(path("state=failed").includes("fold_studies=true"));
  assert.ok(!path("all_jobs=true").includes("fold_studies"));
  assert.ok(!path("study=abc").includes("fold_studies"));
  const folded = parseFilters(new URLSearchParams("state=failed&cursor=x"));
  const jobs = studyJobsPath(folded, "abc");
  assert.ok(jobs.includes("study=abc") && jobs.includes("state=failed") && !jobs.includes("cursor"));
});
