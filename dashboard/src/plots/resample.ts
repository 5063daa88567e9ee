// Many lines on one x axis: few enough x for all of them, and lines between their points.
import type { Values } from "./curves.ts";

export const MAX_X = 1500;
const GRID_POINTS = 500;

/** The x in order; where they are too many, as many at equal distances. */
export function thinned(x: readonly number[]): number[] {
  const [first, last] = [x[0], x.at(-1)];
  if (x.length <= MAX_X || first === undefined || last === undefined) return [...x];
  return Array.from({ length: GRID_POINTS }, (_, index) => first + (index / (GRID_POINTS - 1)) * (last - first));
}

/** The index of the x that is nearest to a value. */
export function nearestIndex(x: readonly number[], value: number): number {
  let [low, high] = [0, x.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (x[middle]! <= value) low = middle;
    else high = middle;
  }
  return Math.abs(x[high]! - value) < Math.abs(x[low]! - value) ? high : low;
}

/** A line at each x of an axis, straight between its points; undefined before the first and after the last one. */
export function resample(lineX: Values, lineY: Values, axis: readonly number[]): Values {
  const points: (readonly [number, number | null])[] = [];
  for (const [index, x] of lineX.entries()) {
    const y = lineY[index];
    if (typeof x === "number" && y !== undefined) points.push([x, y]);
  }
  let next = 0;
  return axis.map((x) => {
    while (next < points.length && points[next]![0] < x) next += 1;
    const [after, before] = [points[next], points[next - 1]];
    if (after === undefined) return undefined;
    if (after[0] === x) return after[1];
    if (before === undefined) return undefined;
    if (before[1] === null || after[1] === null) return null;
    return before[1] + ((x - before[0]) / (after[0] - before[0])) * (after[1] - before[1]);
  });
}
