import assert from "node:assert/strict";
import { test } from "node:test";
import { parseRoute } from "../../router.ts";
import { parseFilters } from "./filters.ts";
import { differsFromView, hrefWithColumns, parseViews, viewHref, viewQuery, withView } from "./views.ts";

const filters = (query: string) => parseFilters(new URLSearchParams(query));

test("a view keeps filters, order and columns, but not the page", () => {
  const query = viewQuery(filters("state=failed&sort=name&columns=name%2Cage&cursor=abc&view=old"));
  assert.equal(query, "state=failed&sort=name&columns=name%2Cage");
});

test("the address of a view names it, and leads to the same list", () => {
  const view = { name: "failed & new", query: "state=failed&created=7d" };
  const opened = parseFilters(parseRoute(viewHref(view)).query);
  assert.equal(opened.view, "failed & new");
  assert.equal(viewQuery(opened), view.query);
  assert.equal(differsFromView(opened, [view]), false);
  assert.equal(differsFromView({ ...opened, q: "x" }, [view]), true);
});

test("the name of a view of another browser is no change", () => {
  assert.equal(differsFromView(filters("state=failed&view=theirs"), []), false);
});

test("a view replaces one of the same name", () => {
  const all = withView(withView([], { name: "b", query: "q=1" }), { name: "a", query: "q=2" });
  assert.deepEqual(withView(all, { name: "b", query: "q=3" }), [{ name: "a", query: "q=2" }, { name: "b", query: "q=3" }]);
});

test("what another version or program has stored is left out", () => {
  for (const text of [null, "", "{", "{}", "null", "3", '[{"name": 1}, null, {"query": ""}]']) assert.deepEqual(parseViews(text), []);
  assert.deepEqual(parseViews('[{"name": "a", "query": "q=1"}, 7]'), [{ name: "a", query: "q=1" }]);
});

test("an address without columns gets those that were chosen last", () => {
  assert.equal(hrefWithColumns("#/jobs?q=x", ["name", "age"]), "#/jobs?q=x&columns=name%2Cage");
  assert.equal(hrefWithColumns("#/jobs?columns=name", ["name", "age"]), null);
  assert.equal(hrefWithColumns("#/jobs?q=x", []), null);
});
