import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

const SRC = import.meta.dirname;
const FILES = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file));

/** The files below src that a file imports, types included. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), "utf8");
  const specifiers = [...text.matchAll(/(?:from|import|import\()\s*"(\.[^"]+\.tsx?)"/g)].map((match) => match[1]!);
  return specifiers.map((specifier) => relative(SRC, join(SRC, dirname(file), specifier)));
}

/** Every chain of imports that leads from a file back to itself. */
function cyclesIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const cycles: string[] = [];
  const done = new Set<string>();
  const visit = (file: string, chain: readonly string[]) => {
    if (chain.includes(file)) {
      cycles.push([...chain.slice(chain.indexOf(file)), file].join(" -> "));
      return;
    }
    if (done.has(file)) return;
    for (const next of graph.get(file) ?? []) visit(next, [...chain, file]);
    done.add(file);
  };
  for (const file of graph.keys()) visit(file, []);
  return cycles;
}

test("no file imports itself through others", () => {
  const graph = new Map(FILES.map((file) => [file, importsOf(file)]));
  assert.ok(graph.get("app.tsx")!.includes(join("pages", "job", "page.tsx")));
  assert.deepEqual(cyclesIn(graph), []);
});

test("a cycle is found", () => {
  const graph = new Map([["page", ["tab"]], ["tab", ["types", "page"]], ["types", []]]);
  assert.deepEqual(cyclesIn(graph), ["page -> tab -> page"]);
});
