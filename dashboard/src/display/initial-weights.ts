// The weights that a job starts from: their source, and which of them the model has taken.
import type { Job, JsonObject } from "../api/types.ts";

/** The source that the spec names, and the id of the job if it is one; null without a source. */
export function weightsSource(job: Pick<Job, "spec">): { text: string; job: string | null } | null {
  const init = (job.spec as JsonObject | null | undefined)?.["init"] as JsonObject | null | undefined;
  if (typeof init?.["job"] === "string") return { text: `job ${init["job"]}`, job: init["job"] };
  if (typeof init?.["weights"] === "string") return { text: `${init["weights"].slice(0, 19)}…`, job: null };
  return null;
}

const GROUPS = [
  ["unmatched_in_model", "Not in the source"],
  ["shape_differs", "Of another shape in the source"],
  ["unused_in_source", "In the source, not used"],
] as const;

/** The lists of a report that have entries, each with its title. */
export function weightsGroups(report: JsonObject): { title: string; names: string[] }[] {
  const counts = (report["counts"] ?? {}) as Record<string, number>;
  return GROUPS.map(([key, title]) => {
    const entries = (report[key] ?? []) as unknown[];
    const names = entries.map(nameOf);
    const more = (counts[key] ?? names.length) - names.length;
    return { title, names: more > 0 ? [...names, `and ${more} more`] : names };
  }).filter(({ names }) => names.length > 0);
}

function nameOf(entry: unknown): string {
  if (typeof entry === "string") return entry;
  const { name, model, source } = entry as { name: string; model: number[]; source: number[] };
  return `${name}: [${model.join(", ")}], in the source [${source.join(", ")}]`;
}
