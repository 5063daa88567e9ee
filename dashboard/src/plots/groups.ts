// Groups of jobs in one plot, such as the seeds of one setting: the mean of their curves, and a band from
// the smallest to the largest.
import type { Curve, Panel, Values } from "./curves.ts";
import { resample } from "./resample.ts";

export interface JobGroup {
  name: string;
  /** The indices of its jobs. */
  members: readonly number[];
}

/** The panel with a curve for each group, where it had one for each job. */
export function groupPanel(panel: Panel, x: readonly number[], groups: readonly JobGroup[]): Panel {
  return { ...panel, curves: groups.map(({ name, members }) => groupCurve(name, members.map((job) => panel.curves[job]!), x)) };
}

function groupCurve(name: string, curves: readonly Curve[], x: readonly number[]): Curve {
  const rows = curves.map(({ mean }) => resample([...x], mean, x));
  const at = (pick: (values: number[]) => number): Values =>
    x.map((_, index) => {
      const cells = rows.map((row) => row[index]);
      const values = cells.filter((value) => typeof value === "number");
      if (values.length > 0) return pick(values);
      return cells.includes(null) ? null : undefined;
    });
  const nonFinite = new Map(curves.flatMap((curve) => [...curve.nonFinite]));
  return {
    name,
    mean: at((values) => values.reduce((sum, value) => sum + value, 0) / values.length),
    low: at((values) => Math.min(...values)),
    high: at((values) => Math.max(...values)),
    nonFinite,
  };
}
