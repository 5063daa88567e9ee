// The columns of a comparison: what the specs differ in, and the results of the jobs.
import type { Comparison } from "../../api/types.ts";
import { bytes, duration, factor, integer, MISSING, number, numberOf, percent } from "../../display/format.ts";
import { isMetric, metricTitle, metricValue } from "../../display/metrics.ts";

export type Cell = string | number | null;

export interface ComparedColumn {
  key: string;
  title: string;
  /** A field of the spec, or a result. */
  kind: "spec" | "result";
  /** The value of each job. */
  values: readonly Cell[];
  texts: readonly string[];
  /** Whether its values are numbers. */
  isNumeric: boolean;
  differs: boolean;
}

const RESULT_NAMES: Readonly<Record<string, string>> = {
  steps_s: "training time",
  peak_memory_bytes: "peak memory",
  median_examples_per_s: "median examples/s",
  loss_drift: "loss of last tenth of steps vs. baseline",
  speedup: "speed-up",
};
const HIGHER_IS_BETTER = /accuracy|auc|precision|recall|f1|iou|score|r2|per_s|speedup/;

/** All columns, those whose values differ first; the name of a job is no column. */
export function comparedColumns(comparison: Comparison): ComparedColumn[] {
  const spec = comparison.spec.filter(({ pointer }) => pointer !== "/name")
    .map(({ pointer, values }) => column("spec", pointer, pointer.slice(1).replaceAll("/", "."), values.map(specCell), (value) => specText(value)));
  const figures = (["speedup", "loss_drift"] as const).map((name) => ({ name, values: comparison.jobs.map((job) => job[name]) }));
  const results = [...shownResults(comparison), ...figures]
    .map(({ name, values }) => column("result", name, resultTitle(name), values.map((value) => resultCell(name, value)), (value) => resultText(name, value)))
    .filter(({ values }) => values.some((value) => value !== null));
  const all = [...spec, ...results];
  return [...all.filter(({ differs }) => differs), ...all.filter(({ differs }) => !differs)];
}

/** The results that some job has. Once all jobs have ended, the final loss says the same as the last one. */
export function shownResults({ results }: Comparison): { name: string; values: readonly unknown[] }[] {
  const allEnded = results.some(({ name, values }) => name === "final_loss" && !values.includes(null));
  return results.filter(({ name, values }) => values.some((value) => value !== null) && !(name === "last_loss" && allEnded));
}

export function resultTitle(name: string): string {
  return isMetric(name) ? metricTitle(name).toLowerCase() : (RESULT_NAMES[name] ?? name.replaceAll("_", " "));
}

export function resultText(name: string, value: unknown): string {
  if (value === null || value === undefined) return MISSING;
  if (typeof value === "string" && (name === "state" || name === "policy")) return value;
  if (typeof value !== "number") return number(value as string);
  if (isMetric(name)) return metricValue(name, value);
  if (name === "speedup") return factor(value);
  if (name.endsWith("_share") || name === "loss_drift") return percent(value);
  if (name.endsWith("_bytes")) return bytes(value);
  if (name.endsWith("_per_s")) return number(value, 4);
  if (name.endsWith("_s")) return duration(value);
  return Number.isInteger(value) ? integer(value) : number(value);
}

export function specText(value: unknown): string {
  if (value === null) return MISSING;
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Whether a higher value is better, as the name of the column suggests. */
export function isHigherBetter(key: string): boolean {
  return HIGHER_IS_BETTER.test(key);
}

/** The indices of the jobs, the best by a column first; those without a number come last. */
export function bestOrder({ values }: ComparedColumn, higherIsBetter: boolean): number[] {
  const rank = (job: number) => {
    const value = values[job];
    return typeof value === "number" && Number.isFinite(value) ? (higherIsBetter ? -value : value) : Infinity;
  };
  return values.map((_, job) => job).sort((a, b) => rank(a) - rank(b) || a - b);
}

/** The jobs by the value of a column, in the order of its values. */
export function groupsOf(grouping: ComparedColumn): { name: string; members: number[] }[] {
  const groups = new Map<string, { value: Cell; members: number[] }>();
  for (const [job, text] of grouping.texts.entries()) {
    const group = groups.get(text) ?? { value: grouping.values[job]!, members: [] };
    groups.set(text, group);
    group.members.push(job);
  }
  const sorted = [...groups].sort(([one, { value: a }], [other, { value: b }]) =>
    typeof a === "number" && typeof b === "number" ? a - b : one.localeCompare(other));
  return sorted.map(([text, { members }]) => ({ name: `${grouping.title}=${text} (${members.length})`, members }));
}

/** Columns whose values make groups: at least two, and fewer than jobs. */
export function groupable(columns: readonly ComparedColumn[]): ComparedColumn[] {
  return columns.filter(({ texts }) => {
    const count = new Set(texts).size;
    return count > 1 && count < texts.length;
  });
}

function column(kind: ComparedColumn["kind"], key: string, title: string, values: readonly Cell[], text: (value: Cell) => string): ComparedColumn {
  const texts = values.map(text);
  const known = values.filter((value) => value !== null);
  return { key, title, kind, values, texts, isNumeric: known.length > 0 && known.every((value) => typeof value === "number"), differs: texts.some((one) => one !== texts[0]) };
}

function specCell(value: unknown): Cell {
  return value === null || typeof value === "number" || typeof value === "string" ? value : JSON.stringify(value);
}

function resultCell(name: string, value: unknown): Cell {
  if (value === null || value === undefined) return null;
  return name === "state" || name === "policy" ? String(value) : numberOf(value as string);
}

