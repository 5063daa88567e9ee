// Several jobs in one plot: their curves on one x axis, by step or by time.
import type { ComparedJob } from "../api/types.ts";
import { curvesOf, PANELS, SPEED, speedOf, valuesOf, type Columns, type Panel, type Values } from "./series.ts";

export type By = "step" | "time";

export interface Line {
  x: Values;
  y: Values;
}

export interface Overlay {
  x: number[];
  panels: Panel[];
}

/** A panel for each quantity, with a curve for each job, in the order of the jobs. */
export function overlayOf(jobs: readonly ComparedJob[], by: By): Overlay {
  const names = jobs.map(({ job }, index) => nameOf(job.name, index, jobs));
  const panels = PANELS.map(([key, title]) => ({ key, title, lines: jobs.map((job) => lineOf(job, key, by)) }))
    .filter(({ lines }) => lines.some(({ y }) => y.some((value) => value !== null)));
  const x = axisOf(panels.flatMap(({ lines }) => lines));
  return {
    x,
    panels: panels.map(({ key, title, lines }) => ({
      key,
      title,
      isLog2: key === "loss_scale",
      curves: lines.map((line, index) => ({ name: names[index]!, mean: placed(line, x), low: null, high: null })),
    })),
  };
}

/** Every place at which some line has a value, in order. */
export function axisOf(lines: readonly Line[]): number[] {
  const places = new Set<number>();
  for (const { x } of lines) for (const place of x) if (place !== null) places.add(place);
  return [...places].sort((a, b) => a - b);
}

/** The line's values at the places of a common axis; null where it has none. */
export function placed({ x, y }: Line, axis: readonly number[]): Values {
  const values = new Map(x.map((place, index) => [place, y[index] ?? null]));
  return axis.map((place) => values.get(place) ?? null);
}

function lineOf({ data }: ComparedJob, key: string, by: By): Line {
  const columns = data as Columns;
  const [curve] = key === SPEED ? speedOf(columns) : curvesOf(columns, key);
  return { x: valuesOf(columns[by === "step" ? "step" : "elapsed_s"]), y: curve?.mean ?? [] };
}

/** A job's name; where others are called the same, with the beginning of its id. */
function nameOf(name: string, index: number, jobs: readonly ComparedJob[]): string {
  const isAlone = jobs.every(({ job }, other) => other === index || job.name !== name);
  return isAlone ? name : `${name} ${jobs[index]!.job.id.slice(0, 6)}`;
}
