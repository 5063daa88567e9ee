// The selected jobs: by id, with what is known of each, so that they stay selected on other pages.
import type { ListedJob } from "../../api/types.ts";
import { integer } from "../../display/format.ts";
import { hasEnded } from "../../display/jobs.ts";
import { MAX_COMPARED } from "../compare/query.ts";

export type Selection = ReadonlyMap<string, ListedJob>;

export const NOTHING: Selection = new Map();

/** The selection with these jobs, or without them. */
export function selecting(selection: Selection, jobs: readonly ListedJob[], isOn: boolean): Selection {
  const next = new Map(selection);
  for (const job of jobs) {
    if (isOn) next.set(job.id, job);
    else next.delete(job.id);
  }
  return next;
}

/** The selection with what these jobs are now; the same one if none of them is selected. */
export function refreshed(selection: Selection, jobs: readonly ListedJob[]): Selection {
  const changed = jobs.filter((job) => selection.has(job.id) && selection.get(job.id) !== job);
  return changed.length === 0 ? selection : selecting(selection, changed, true);
}

/** The ids from one row to another, in the order of the rows; the second alone if the first is not listed. */
export function rangeOf(ids: readonly string[], anchor: string | null, target: string): readonly string[] {
  const [start, end] = [anchor === null ? -1 : ids.indexOf(anchor), ids.indexOf(target)];
  if (start < 0 || end < 0) return [target];
  return ids.slice(Math.min(start, end), Math.max(start, end) + 1);
}

/** Whether none, some or all of the listed jobs are selected. */
export function coverage(selection: Selection, ids: readonly string[]): "none" | "some" | "all" {
  const count = ids.filter((id) => selection.has(id)).length;
  if (count === 0) return "none";
  return count === ids.length ? "all" : "some";
}

/** The ids of the selected jobs that an action changes: only unfinished jobs are cancelled, only ended ones deleted. */
export function changedBy(action: "cancel" | "delete" | "label", selection: Selection): string[] {
  const jobs = [...selection.values()];
  const isChanged = {
    cancel: (job: ListedJob) => !hasEnded(job.state) && job.state !== "stopping",
    delete: (job: ListedJob) => hasEnded(job.state),
    label: () => true,
  }[action];
  return jobs.filter(isChanged).map(({ id }) => id);
}

/** Why the selected jobs cannot be compared; null if they can. */
export function whyNotCompared(selection: Selection): string | null {
  const isComparable = selection.size >= 2 && selection.size <= MAX_COMPARED;
  return isComparable ? null : `Select 2 to ${MAX_COMPARED} jobs to compare them.`;
}

/** "1 job", "1,200 jobs". */
export function jobCount(count: number): string {
  return count === 1 ? "1 job" : `${integer(count)} jobs`;
}
