// The query of the compare page: which jobs, against which baseline, along which x axis.
import type { XAxis } from "../../plots/overlay.ts";

/** The server compares at most this many jobs. */
export const MAX_COMPARED = 10;

export interface CompareQuery {
  jobs: readonly string[];
  baseline: string;
  by: XAxis;
}

export function parseCompareQuery(query: URLSearchParams): CompareQuery {
  const jobs = [...new Set((query.get("jobs") ?? "").split(",").filter((id) => id !== ""))];
  const asked = query.get("baseline") ?? "";
  return { jobs, baseline: jobs.includes(asked) ? asked : (jobs[0] ?? ""), by: query.get("by") === "time" ? "time" : "step" };
}
