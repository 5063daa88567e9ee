import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChangedJobs } from "../../../api/types.ts";
import { changeJobs, changeText, parseLabels } from "./changes.ts";

const idsIn = (path: string) => path.split("id=")[1]!.split(",");

test("many jobs are changed with a request for each hundred", async () => {
  const sizes: number[] = [];
  const ids = Array.from({ length: 250 }, (_, index) => `${index}`);
  const changed = await changeJobs("cancel", ids, undefined, async (_method, path) => {
    sizes.push(idsIn(path).length);
    return { ids: idsIn(path), more: false };
  });
  assert.deepEqual(sizes, [100, 100, 50]);
  assert.deepEqual(changed, ids);
});

test("a deletion that ended early is sent again, and not for ever", async () => {
  const responses: ChangedJobs[] = [{ ids: ["a"], more: true }, { ids: ["b"], more: true }, { ids: [], more: true }];
  let count = 0;
  const changed = await changeJobs("delete", ["a", "b", "c"], undefined, async () => responses[count++]!);
  assert.deepEqual(changed, ["a", "b"]);
  assert.equal(count, 3);
});

test("labels are sent with the jobs", async () => {
  const bodies: unknown[] = [];
  await changeJobs("label", ["a"], { team: "vision", draft: null }, async (_method, path, body) => {
    bodies.push(path, body);
    return { ids: ["a"], more: false };
  });
  assert.deepEqual(bodies, ["/jobs/label?id=a", { labels: { team: "vision", draft: null } }]);
});

test("labels are read from a text, which may have equals signs in a value", () => {
  assert.deepEqual(parseLabels("team=vision, draft,  query=a=b,"), { team: "vision", draft: "", query: "a=b" });
  assert.deepEqual(parseLabels(" "), {});
  assert.match(parseLabels("=x") as string, /received “=x”/);
  assert.match(parseLabels("k".repeat(65)) as string, /1 to 64/);
});

test("what is said afterwards has the number of jobs, and why others stayed", () => {
  assert.equal(changeText("cancel", 1, 1), "1 job is being cancelled.");
  assert.equal(changeText("label", 3, 3), "3 jobs are labelled.");
  assert.match(changeText("delete", 2, 3), /^2 of 3 jobs are deleted; .*needs them\.$/);
});
