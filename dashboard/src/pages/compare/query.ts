// The query of the compare page: which jobs, against which baseline, and how they are drawn.
import type { XAxis } from "../../plots/overlay.ts";
import { parseSettings, settingsQuery, type PlotSettings } from "../../plots/settings/settings.ts";

/** The server compares at most this many jobs. */
export const MAX_COMPARED = 100;
/** More jobs have thin lines without a legend, and a row each in the table. */
export const MAX_SIDE_BY_SIDE = 10;

export const VIEWS = [["", "Plots and table"], ["parallel", "Parallel coordinates"], ["scatter", "Scatter"]] as const;
export type View = (typeof VIEWS)[number][0];

export interface CompareQuery {
  jobs: readonly string[];
  baseline: string;
  by: XAxis;
  view: View;
  /** The key of the column whose values group the jobs; empty without groups. */
  group: string;
  /** The key of the column that orders the jobs; empty without one. */
  best: string;
  /** Whether the lowest or the highest value is the best; empty: as the name of the column suggests. */
  order: "" | "lowest" | "highest";
  /** The keys of the axes of the parallel coordinates; empty: the usual ones. */
  axes: readonly string[];
  scatterX: string;
  scatterY: string;
  plots: PlotSettings;
}

export function parseCompareQuery(query: URLSearchParams): CompareQuery {
  const jobs = [...new Set((query.get("jobs") ?? "").split(",").filter((id) => id !== ""))];
  const asked = query.get("baseline") ?? "";
  const order = query.get("order");
  return {
    jobs,
    baseline: jobs.includes(asked) ? asked : (jobs[0] ?? ""),
    by: query.get("by") === "time" ? "time" : "step",
    view: VIEWS.find(([view]) => view === query.get("view"))?.[0] ?? "",
    group: query.get("group") ?? "",
    best: query.get("best") ?? "",
    order: order === "lowest" || order === "highest" ? order : "",
    axes: query.getAll("axis"),
    scatterX: query.get("scatter-x") ?? "",
    scatterY: query.get("scatter-y") ?? "",
    plots: parseSettings(query),
  };
}

/** The values of the address; what says nothing is left out by `routeHref`. */
export function compareValues({ jobs, baseline, by, axes, scatterX, scatterY, plots, ...others }: CompareQuery) {
  const { x, ...settings } = settingsQuery(plots);
  return {
    jobs: jobs.join(","),
    baseline,
    by: by === "time" ? "time" : "",
    ...others,
    axis: axes,
    "scatter-x": scatterX,
    "scatter-y": scatterY,
    ...settings,
  };
}
